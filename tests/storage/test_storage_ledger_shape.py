"""A DLedger group's members and kind of store are what a node began with, or it does not start."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from actors.config import DLedgerGroup
from actors.config.members import MemberNode
from actors.errors import ConfigError
from actors.log_types import Membership
from actors.sim.disk import SimDisk
from actors.storage.node.identity import (
    LedgerShape,
    NodeDirectory,
    identity_path,
    open_directory,
    read_identity,
)

DIRECTORY = "/data/n2"
THREE, ALONE = ("n0", "n1", "n2"), ("n2",)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(1))


def opened(disk: SimDisk, *groups: DLedgerGroup) -> NodeDirectory:
    return open_directory(
        disk,
        DIRECTORY,
        cluster="demo",
        node="n2",
        groups=tuple(group.name for group in groups),
        settings={},
        ledgers=groups,
        source="/c.toml",
    )


def group(members: tuple[str | MemberNode, ...] = THREE, **keys: Any) -> DLedgerGroup:
    return DLedgerGroup(name="ledger", members=members, **keys)


def begun(disk: SimDisk, began_with: DLedgerGroup) -> None:
    """A first start, as far as the group's own files."""
    directory = opened(disk, began_with)
    directory.note_member("ledger", Membership.FULL)
    directory.close()


def refused(disk: SimDisk, found: DLedgerGroup) -> str:
    before = read_identity(disk, DIRECTORY)
    for _ in range(2):  # a refusal changes nothing
        with pytest.raises(ConfigError) as error:
            opened(disk, found)
    assert read_identity(disk, DIRECTORY) == before
    line = str(error.value)
    assert "\n" not in line
    return line


def test_what_a_group_began_with_is_kept(disk: SimDisk) -> None:
    begun(disk, group(store="memory"))
    identity = read_identity(disk, DIRECTORY)
    assert identity is not None
    assert identity.ledgers == {"ledger": LedgerShape(members=THREE, store="memory")}


@pytest.mark.parametrize("store", ["file", "memory"])
@pytest.mark.parametrize("other", [ALONE, ("n1", "n2"), ("n0", "n2", "n3"), (*THREE, "n3")])
def test_other_members_are_refused(disk: SimDisk, store: str, other: tuple[str, ...]) -> None:
    begun(disk, group(store=store))
    line = refused(disk, group(other, store=store))
    assert line.startswith(
        "/c.toml: key groups.ledger.members: expected n0, n1, n2, with which this node began"
        f" ({identity_path(DIRECTORY)}), found {', '.join(other)}: "
    )
    by_one = len(set(other) ^ set(THREE)) == 1
    assert ('members_before = ["n0", "n1", "n2"]' in line) is by_one
    assert ("one at a time" in line) is not by_one
    opened(disk, group(store=store))


def test_a_list_that_was_wrong_at_first_is_not_put_right_without_a_word(disk: SimDisk) -> None:
    """What it has acknowledged alone would end the others."""
    begun(disk, group(ALONE))
    line = refused(disk, group())
    assert "expected n2, with which" in line
    assert "found n0, n1, n2: " in line


def test_the_order_and_the_kind_of_members_may_change(disk: SimDisk) -> None:
    begun(disk, group())
    opened(disk, group(("n2", "n0", MemberNode("n1", kind="java")))).close()
    opened(disk, group((MemberNode("n0", candidate=False), "n1", "n2"))).close()


def test_a_member_joins_and_leaves_where_the_file_says_so(disk: SimDisk) -> None:
    begun(disk, group())
    four = (*THREE, "n3")
    opened(disk, group(four, members_before=("n2", "n1", "n0"))).close()
    assert "expected n0, n1, n2, n3, " in refused(disk, group())
    opened(disk, group(four, members_before=THREE)).close()
    opened(disk, group(four)).close()
    opened(disk, group(THREE, members_before=four)).close()
    opened(disk, group(THREE)).close()


def test_members_before_that_were_not_help_nobody(disk: SimDisk) -> None:
    begun(disk, group())
    four = (*THREE, "n3")
    refused(disk, group((*four, "n4"), members_before=four))


@pytest.mark.parametrize(("was", "now"), [("file", "memory"), ("memory", "file")])
def test_another_kind_of_store_is_refused(disk: SimDisk, was: str, now: str) -> None:
    begun(disk, group(store=was))
    assert refused(disk, group(store=now)) == (
        f'/c.toml: key groups.ledger.store: expected "{was}", with which this node began'
        f' ({identity_path(DIRECTORY)}), found "{now}": it would forget what it has acknowledged;'
        " put it back, or name the group anew"
    )


def test_all_that_differs_is_reported_at_once(disk: SimDisk) -> None:
    begun(disk, group())
    with pytest.raises(ConfigError) as error:
        opened(disk, group(ALONE, store="memory"))
    assert len(error.value.problems) == 2


def test_a_start_that_came_to_no_vote_binds_nobody(disk: SimDisk) -> None:
    """A mistake that the first start has reported may be mended."""
    opened(disk, group(ALONE, store="memory")).close()
    opened(disk, group()).close()
    identity = read_identity(disk, DIRECTORY)
    assert identity is not None
    assert identity.ledgers["ledger"].members == THREE


def test_a_group_that_the_file_leaves_out_for_a_while_is_not_forgotten(disk: SimDisk) -> None:
    begun(disk, group())
    opened(disk).close()
    refused(disk, group(ALONE))


def test_an_identity_of_before_takes_what_the_next_start_says(disk: SimDisk) -> None:
    begun(disk, group())
    rewrite(disk, lambda found: found.pop("ledgers"))
    opened(disk, group((*THREE, "n3"))).close()
    refused(disk, group())


@pytest.mark.parametrize("shape", [[], {"members": 3, "store": "file"}, {"store": "file"}, None])
def test_an_identity_that_says_nonsense_of_a_group_is_refused(disk: SimDisk, shape: object) -> None:
    begun(disk, group())
    rewrite(disk, lambda found: found.update(ledgers={"ledger": shape}))
    with pytest.raises(ConfigError, match="expected a node's identity"):
        opened(disk, group())


def rewrite(disk: SimDisk, change: Any) -> None:
    file = disk.open(identity_path(DIRECTORY), "w")
    found = json.loads(file.pread(0, 1 << 16))
    change(found)
    data = json.dumps(found).encode()
    file.resize(0)
    file.pwrite(data, 0)
    file.close()
