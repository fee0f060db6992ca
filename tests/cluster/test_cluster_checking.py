"""What `check` finds in the nodes' folders that a start does not refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.cluster.checking import check
from actors.config import ClusterConfig, loads
from actors.config.check import warnings
from actors.env.local_disk import LocalDisk
from actors.log_types import Membership
from actors.readable import counted
from actors.storage.node.identity import open_directory

TEXT = """\
version = 1
name = "demo"
data_dir = "{folder}"
[nodes]
n0 = "{net}.1"
n1 = "{net}.2"
n2 = "{net}.3"
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
port = 20911
"""


def member(config: ClusterConfig, node: str, membership: Membership, *, log: bool = True) -> None:
    """A node's folder, as its member of the group leaves it."""
    path = config.node_dir(node)
    place = {"cluster": "demo", "node": node, "groups": ["ledger"], "settings": {}}
    directory = open_directory(LocalDisk(), path, **place)  # type: ignore[arg-type]
    directory.note_member("ledger", membership)
    directory.close()
    data = Path(path, "groups/ledger/data")
    data.mkdir()
    if log:
        (data / f"{0:020d}").write_bytes(bytes(4096))


def told(config: ClusterConfig) -> list[str]:
    """What `check` tells of lost logs, the same with `--json`."""
    found = json.loads(check(config, LocalDisk(), {}, as_json=True).text)
    lost = [each for each in found["to_know"] if "without a log" in each]
    page = check(config, LocalDisk(), {}, as_json=False).text
    assert all(" ".join(each.split()) in " ".join(page.split()) for each in lost)
    warned = len(warnings(config)) + len(found["loose"]) + len(lost)
    summed_up = counted(warned, "warning") if warned else "nothing wrong"
    assert page.splitlines()[-1].endswith(f", {summed_up}")
    return lost


def test_a_majority_of_empty_members_is_told_before_they_start(tmp_path: Path) -> None:
    config = loads(TEXT.format(folder=tmp_path, net="127.0.0"), "c.toml")
    assert told(config) == [], "a new group"
    member(config, "n0", Membership.FULL)
    lines = [
        "group ledger: n1, n2 begin without a log, and n0 has one: once all run one that has it is"
        " elected, and what was committed on n1, n2 alone is lost: put their folders back, or begin"
        " the group anew on a backup, on all members"
    ]
    assert told(config) == lines
    member(config, "n1", Membership.FULL, log=False)
    assert told(config) == lines
    (tmp_path / "n1/groups/ledger/data" / f"{0:020d}").write_bytes(bytes(4096))
    assert told(config) == [], "n2 alone has lost nothing that the others do not have"


@pytest.mark.parametrize("membership", [Membership.NEW, Membership.FORGOT])
def test_a_member_that_has_not_caught_up_has_no_log_to_count(
    tmp_path: Path, membership: Membership
) -> None:
    config = loads(TEXT.format(folder=tmp_path, net="127.0.0"), "c.toml")
    member(config, "n0", Membership.FULL)
    member(config, "n1", membership)
    (line,) = told(config)
    assert "n1, n2 begin without a log" in line


def test_the_folders_of_other_machines_are_not_missed(tmp_path: Path) -> None:
    config = loads(TEXT.format(folder=tmp_path, net="10.0.0"), "c.toml")
    member(config, "n0", Membership.FULL)
    assert told(config) == []
