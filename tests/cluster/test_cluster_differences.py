"""Running nodes whose cluster files differ: `status` names what, and where."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from cluster_samples import master
from ledger_samples import leader
from status_samples import said

from actors.cluster import commands
from actors.cluster.differences import Difference, differences
from actors.config import ClusterConfig, loads, stated

FILE = """version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", "n2"]
copies = 2
[groups.ledger]
mode = "dledger"
members = ["n0", "n1", "n2"]
"""
NAMES = ("n0", "n1", "n2")
DIFFERS = "differs between the cluster files:"
APART = "(this keeps them apart)"


def config(*changes: tuple[str, str]) -> ClusterConfig:
    text = FILE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return loads(text, "/c.toml")


def answer(found: ClusterConfig, node: str) -> dict[str, Any]:
    return {
        "node": node,
        "settings": {group.name: stated(group) for group in found.groups_of(node)},
    }


def reported(**others: ClusterConfig) -> list[str]:
    """What is reported of three nodes of which these have other files."""
    answers = {node: answer(others.get(node, config()), node) for node in NAMES}
    return lines(differences(config(), answers))


def lines(found: list[Difference]) -> list[str]:
    return [each.line for each in found]


def test_equal_files_have_no_differences() -> None:
    assert reported() == []
    reordered = config(('["n0", "n1", "n2"]', '["n2", "n0", "n1"]'))
    assert reported(n1=reordered) == []
    said_defaults = config(('mode = "dledger"', 'mode = "dledger"\nheartbeat_leaks = 3'))
    assert reported(n2=said_defaults) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            'members = ["n0", "n1", "n2"]',
            'members = ["n2"]',
            f"groups.ledger.members {DIFFERS} [n0, n1, n2] in n0, n1, /c.toml; [n2] in n2 {APART}",
        ),
        (
            'mode = "dledger"',
            'mode = "dledger"\ndurability = "written"',
            f'groups.ledger.durability {DIFFERS} "synced" in n0, n1, /c.toml; "written" in n2',
        ),
        (
            "copies = 2",
            "copies = 3",
            f"groups.orders.copies {DIFFERS} 2 in n0, n1, /c.toml; 3 in n2",
        ),
        (
            'slaves = ["n1", "n2"]',
            'slaves = [{ node = "n1", kind = "java" }, "n2"]',
            f"groups.orders.slaves {DIFFERS} [n1, n2] in n0, n1, /c.toml; [n1 (java), n2] in n2"
            f" {APART}",
        ),
    ],
)
def test_what_differs_is_named_with_who_says_what(before: str, after: str, line: str) -> None:
    assert reported(n2=config((before, after))) == [line]


def test_a_group_that_a_file_leaves_out_is_reported() -> None:
    without = config(('members = ["n0", "n1", "n2"]', 'members = ["n0", "n1"]'))
    assert reported(n2=without) == [
        f"groups.ledger {DIFFERS} there in n0, n1, /c.toml; missing in n2 {APART}"
    ]
    answers = {node: answer(config(), node) for node in NAMES}
    found = differences(config(("groups.ledger", "groups.other")), answers)
    assert lines(found) == [
        f"groups.ledger {DIFFERS} there in n0, n1, n2; missing in /c.toml {APART}",
        f"groups.other {DIFFERS} missing in n0, n1, n2; there in /c.toml {APART}",
    ]
    assert all(each.keeps_apart for each in found)


def test_the_asker_s_own_file_may_be_the_odd_one_and_older_nodes_say_nothing() -> None:
    answers = {node: answer(config(), node) for node in NAMES}
    odd = config(("copies = 2", "copies = 1"))
    (found,) = differences(odd, answers)
    assert not found.keeps_apart
    assert found.line == f"groups.orders.copies {DIFFERS} the default in n0, n1, n2; 1 in /c.toml"
    assert differences(odd, {node: {} for node in NAMES}) == []


@attrs.define
class Api:
    said: dict[str, Any]

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        led = {"orders": said(master()).plain(), "ledger": said(leader()).plain()}
        groups = led if self.said["node"] == "n0" else {}
        return {"state": "running", "groups": groups, **self.said}

    async def tree(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"path": "/n0", "kind": "", "state": "running", "children": []}


async def test_status_shows_them_first(autojump_clock: object) -> None:
    odd = config(("copies = 2", "copies = 3"))
    apis = {node: Api(answer(odd if node == "n1" else config(), node)) for node in NAMES}
    ask = partial(commands.status, config(), NAMES, apis.__getitem__, {}.get)  # type: ignore[arg-type]
    line = f"groups.orders.copies {DIFFERS} 2 in n0, n2, /c.toml; 3 in n1"
    found = await ask(as_json=False)
    head, *_, difference = found.text.split("\n")[:4]
    assert (head, difference) == ("cluster demo", f"  {line}")
    assert found.exit_code == 0
    assert json.loads((await ask(as_json=True)).text)["differences"] == [line]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('members = ["n0", "n1", "n2"]', 'members = ["n1"]'),
        ('mode = "dledger"', 'mode = "dledger"\ndata_file_bytes = 65536'),
        ('mode = "dledger"', 'mode = "dledger"\nport = 20912'),
        (
            'mode = "dledger"\nmembers = ["n0", "n1", "n2"]',
            'mode = "classic"\nmaster = "n1"\nport = 10913',
        ),
        ('slaves = ["n1", "n2"]', 'slaves = ["n1"]'),
        ("copies = 2", "copies = 2\nsegment_bytes = 65536"),
    ],
)
async def test_nodes_that_can_never_join_are_no_success(
    before: str, after: str, autojump_clock: object
) -> None:
    """Each of them runs, and answers; a script that asked saw exit code 0."""
    odd = config((before, after))
    apis = {node: Api(answer(odd if node == "n1" else config(), node)) for node in NAMES}
    ask = partial(commands.status, config(), NAMES, apis.__getitem__, {}.get)  # type: ignore[arg-type]
    for as_json in (False, True):
        found = await ask(as_json=as_json)
        assert found.exit_code == 1
        assert APART in found.text
