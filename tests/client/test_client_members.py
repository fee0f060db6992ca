"""Which member of a group a client finds, of what the members say. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
import pytest
import trio
import trio.testing
from group_states import status_of

from actors.api.handle import NodeIdentity
from actors.client.connection import CONNECT_TIMEOUT_S
from actors.client.members import RETRY_S, MemberFinder
from actors.client.race import STAGGER_S
from actors.client.slot_retries import NoSlot
from actors.errors import Closed, NotMaster, NotStored

NAMES = ("n0", "n1", "n2")
ADVICE = "`promote a` makes another node its master"
Word: TypeAlias = tuple[str | None, int] | None
"""Whom a node takes for the master, and by which promotion; None: it hangs."""


@attrs.define
class Group:
    """Its nodes.

    Attributes:
        said: by each; who is not in it refuses connections.
        open_count: connections that stand.
        full: who has no slot.
        looks: how often they were asked whom they take for the master.
    """

    said: dict[str, Word]
    tried: list[str] = attrs.field(factory=list)
    open_count: int = 0
    full: list[str] = attrs.field(factory=list)
    looks: int = 0

    @asynccontextmanager
    async def connect_to(self, node: str) -> AsyncIterator[Any]:
        self.tried.append(node)
        if node not in self.said:
            raise ConnectionError(f"cannot reach {node}")
        if node in self.full:
            await trio.lowlevel.checkpoint()
            raise NoSlot(f"{node}: all 64 client slots are taken")
        if self.said[node] is None:
            await trio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(f"{node} hangs")
        self.open_count += 1
        try:
            yield Says(node, self.said, self)
        finally:
            self.open_count -= 1

    def members(
        self, wait_s: float = 0.0, note: Callable[[str], None] = pytest.fail
    ) -> MemberFinder:
        return MemberFinder("a", NAMES, self.connect_to, wait_s=wait_s, note=note, advice=ADVICE)


@attrs.frozen
class Says:
    """A client of a node."""

    node: str
    said: dict[str, Word]
    group: Group

    @property
    def identity(self) -> NodeIdentity:
        return NodeIdentity(cluster="demo", node=self.node, boot=1, groups=("a",))

    async def wait_silent(self, silent_s: float) -> None:
        await trio.sleep_forever()  # it owes nothing

    async def status(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        self.group.looks += 1
        if self.node not in self.said:
            raise ConnectionError(f"lost {self.node}")
        word = self.said[self.node]
        assert word is not None
        lacks = () if word[0] else ("disk full",)
        own = status_of(
            leads=False, is_open=False, leader=word[0] or "", epoch=word[1], troubles=lacks
        )
        return {"groups": {"a": own}}


NAMED: dict[str, tuple[dict[str, str | None], list[str], str]] = {
    "the cluster file's": ({"n0": "n0", "n1": "n0", "n2": "n0"}, ["n0"], "n0"),
    "promoted": ({"n0": "n2", "n1": "n2", "n2": "n2"}, ["n0", "n2"], "n2"),
    "promoted, and the first one is dead": ({"n1": "n2", "n2": "n2"}, ["n0", "n1", "n2"], "n2"),
    "named wrongly": ({"n0": "n1", "n1": "n2", "n2": "n2"}, ["n0", "n1", "n2"], "n2"),
    "dead": (
        {"n1": "n0", "n2": "n0"},
        ["n0", "n1", "n2"],
        "n0 led a and does not answer, n1, n2 run; cannot reach n0; `promote a` makes another node",
    ),
    "dead, unlike the first one": (
        {"n0": "n2", "n1": "n2"},
        ["n0", "n2", "n1"],
        "n2 led a and does not answer, n0, n1 run; cannot reach n2; `promote a` makes another node",
    ),
    "without a majority": (
        {"n0": None},
        ["n0", "n1", "n2"],
        "n0 runs, but no node that it knows leads a (disk full); cannot reach n1; cannot reach n2",
    ),
    "all dead": ({}, ["n0", "n1", "n2"], "cannot reach n0; cannot reach n1; cannot reach n2"),
    "a Java node": (
        {"n0": "x", "n1": "x", "n2": "x"},
        ["n0", "n1", "n2"],
        "n0 runs, but x leads a; n1 runs, but x leads a; n2 runs, but x leads a",
    ),
}


@pytest.mark.parametrize(("masters", "tried", "expected"), NAMED.values(), ids=NAMED)
async def test_the_master_of_the_moment_is_found(
    masters: dict[str, str | None],
    tried: list[str],
    expected: str,
    autojump_clock: trio.testing.MockClock,
) -> None:
    group = Group({node: (master, 0) for node, master in masters.items()})
    try:
        async with group.members().leader() as client:
            found = client.identity.node
    except ConnectionError as error:
        found = str(error)
    assert found.startswith(expected)
    assert group.tried == tried
    assert group.open_count == 0


async def test_a_leader_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    notes: list[str] = []
    group = Group({"n0": (None, 0)})
    said = group.said

    async def elect() -> None:
        await trio.sleep(3)
        said.update(n0=("n1", 1), n1=("n1", 1))

    members = group.members(5.0, notes.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(elect)
        async with members.leader() as client:
            assert client.identity.node == "n1"
    assert 3 <= trio.current_time() < 4
    assert notes == ["a: no node leads it now; waits for a leader, 5 s"]
    assert members.heed("n1", NotMaster("n1 follows n0", "n0"))
    said.update(n1=("n0", 2), n0=(None, 2))
    begun_s = trio.current_time()
    nobody = r"n0 runs, but no node that it knows leads a \(disk full\); n1 "
    with pytest.raises(ConnectionError, match=nobody):
        async with members.leader():
            raise AssertionError("not reached")
    assert trio.current_time() - begun_s == pytest.approx(5.0)
    assert not members.heed("n1", NotStored("what no other node mends"))


async def test_the_only_one_that_answers_is_reported_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It runs, and refuses each request, for it knows no leader either."""
    notes: list[str] = []
    group = Group({"n2": (None, 0)})
    members = group.members(5.0, notes.append)
    for _ in range(2):  # what is lost later is reported anew
        for _ in range(4):
            async with members.member() as client:
                assert client.identity.node == "n2"
            assert members.heed("n2", NotMaster("no leader is known"))
        async with members.member():
            members.well()
    reported = ["a: no leader is known; looks for the next leader, for 5 s", "a: goes on with n2"]
    assert notes == reported * 2


async def test_nobody_runs_is_said_at_once(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(ConnectionError, match="cannot reach n0; cannot reach n1; cannot reach n2"):
        async with Group({}).members(5.0).leader():
            raise AssertionError("not reached")
    assert trio.current_time() == 0.0


HANGS: dict[str, tuple[dict[str, Word], str, float]] = {
    "a slave": ({"n0": None, "n1": ("n1", 1), "n2": ("n1", 1)}, "n1", STAGGER_S),
    "the master before": ({"n0": None, "n1": ("n2", 1), "n2": ("n2", 1)}, "n2", STAGGER_S),
    "two of them": ({"n0": None, "n1": None, "n2": ("n2", 1)}, "n2", 2 * STAGGER_S),
}


@pytest.mark.parametrize(("said", "found", "after_s"), HANGS.values(), ids=HANGS)
async def test_one_that_hangs_is_not_waited_for(
    said: dict[str, Word],
    found: str,
    after_s: float,
    autojump_clock: trio.testing.MockClock,
) -> None:
    group = Group(said)
    members = group.members()
    async with members.leader() as client:
        assert client.identity.node == found
        assert trio.current_time() == after_s
        await trio.testing.wait_all_tasks_blocked()
        assert group.open_count == 1
    assert group.open_count == 0
    begun_s, runs = trio.current_time(), [node for node in NAMES if said[node] is not None]
    async with members.member() as client:
        assert client.identity.node == runs[0]
        assert trio.current_time() - begun_s == NAMES.index(runs[0]) * STAGGER_S


async def test_the_newest_epoch_counts(autojump_clock: trio.testing.MockClock) -> None:
    """One that was deposed says for a while that it leads."""
    notes: list[str] = []
    group = Group({"n0": ("n2", 4), "n1": ("n1", 3)})
    members = group.members(wait_s=5.0, note=notes.append)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def come() -> None:
            await trio.sleep(2)
            group.said["n2"] = ("n2", 4)

        async with members.leader() as client:
            assert client.identity.node == "n2"
    assert 2 <= trio.current_time() < 3
    del group.said["n2"]
    members.wait_s = 0.0
    with pytest.raises(ConnectionError, match="n2 led a and does not answer, n0, n1 run; "):
        async with members.leader():
            raise AssertionError("not reached")


async def test_who_is_elected_while_one_hangs_is_found_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    group = Group({"n0": None, "n1": (None, 4), "n2": (None, 4)})
    members = group.members(wait_s=10.0)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def elect() -> None:
            await trio.sleep(2)
            group.said["n1"] = ("n1", 5)

        async with members.leader() as client:
            assert client.identity.node == "n1"
    assert 2 <= trio.current_time() <= 2 + RETRY_S + 0.01


@pytest.mark.parametrize("elected_s", [0.03, 0.13, 0.51])
async def test_who_is_elected_soon_after_a_loss_is_found_soon(
    elected_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    """The pauses between two looks begin short and grow; each was as long as the last."""
    group = Group({"n1": ("n0", 4), "n2": ("n0", 4)})
    members = group.members(10.0, lambda text: None)
    assert members.heed("n0", Closed("n0 ended"))
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def elect() -> None:
            await trio.sleep(elected_s)
            group.said["n1"] = group.said["n2"] = ("n1", 5)

        async with members.leader() as client:
            assert client.identity.node == "n1"
    late_s = trio.current_time() - elected_s
    assert late_s <= max(0.02, 0.25 * elected_s) + 1e-6


async def test_a_long_search_asks_rarely(autojump_clock: trio.testing.MockClock) -> None:
    group = Group({"n1": ("n0", 4)})
    members = group.members(100.0, lambda text: None)
    assert members.heed("n0", Closed("n0 ended"))
    with pytest.raises(ConnectionError):
        async with members.leader():
            raise AssertionError("not reached")
    assert group.looks < 100 / RETRY_S + 20


async def test_a_request_is_sent_again_soon_and_later_rarely(
    autojump_clock: trio.testing.MockClock,
) -> None:
    members = Group({}).members(10.0, lambda text: None)
    assert members.heed("n0", Closed("n0 ended"))
    await members.pause()
    assert trio.current_time() == 0.02
    await trio.sleep(9)
    begun_s = trio.current_time()
    await members.pause()
    assert trio.current_time() - begun_s == pytest.approx(RETRY_S)


async def test_nobody_leads_and_one_hangs(autojump_clock: trio.testing.MockClock) -> None:
    group = Group({"n0": None, "n1": ("n0", 4), "n2": ("n0", 4)})
    with pytest.raises(ConnectionError) as caught:
        async with group.members().leader():
            raise AssertionError("not reached")
    assert str(caught.value) == (f"n0 led a and does not answer, n1, n2 run; n0 hangs; {ADVICE}")
    assert trio.current_time() == CONNECT_TIMEOUT_S
    assert group.open_count == 0


async def test_a_leader_without_a_place_is_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It was the end at once, and "nobody leads it now" beside members that run."""
    notes: list[str] = []
    group = Group({"n0": ("n0", 4), "n1": ("n0", 4)}, full=["n0"])
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def leave() -> None:
            await trio.sleep(3)
            group.full.clear()

        async with group.members(10.0, notes.append).leader() as client:
            assert client.identity.node == "n0"
    assert 3 <= trio.current_time() < 6
    assert "n1" in group.tried
    assert notes == ["a: n0: all 64 client slots are taken; tries again, 10 s"]


async def test_nobody_has_a_place_to_the_end(autojump_clock: trio.testing.MockClock) -> None:
    notes: list[str] = []
    group = Group(dict.fromkeys(NAMES, ("n0", 4)), full=list(NAMES))
    members = group.members(5.0, notes.append)
    taken = "; ".join(f"{node}: all 64 client slots are taken" for node in NAMES)
    with pytest.raises(ConnectionError) as caught:
        async with members.member():
            raise AssertionError("not reached")
    assert str(caught.value) == taken
    assert trio.current_time() == 5.0
    assert notes == [f"a: {taken}; tries again, 5 s"]
    group.full.remove("n1")
    async with members.member() as client:
        assert client.identity.node == "n1"
    assert trio.current_time() == 5.0
