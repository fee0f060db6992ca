"""A disk that others have filled: how full it is, and that who has found no room finds it again."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio

from actors.events import store
from actors.events.runtime import ActorCrashed, ActorStopped
from actors.sim.disk import SimDisk
from actors.sim.history import NodeLooked, Observation
from actors.sim.judges.failures import NothingFails
from actors.sim.judges.liveness import ROOM_AGAIN_S, RoomIsFoundAgain
from actors.sim.world import SimEvent

STORE = "/n1/orders/storage/store"
TREE = {"path": "/n1", "mailbox": None, "children": []}


def reported(at_s: float, event: Any, path: str = STORE, node: str = "n1") -> SimEvent:
    return SimEvent(at_s=at_s, node=node, boot=1, path=path, incarnation=1, event=event)


def full(at_s: float, *, is_full: bool = True, path: str = STORE) -> SimEvent:
    return reported(at_s, store.DiskUsageChanged(is_full=is_full, used_ratio=1.0), path)


def looked(at_s: float, *, has_room: bool = True, node: str = "n1") -> NodeLooked:
    return NodeLooked(at_s=at_s, node=node, boot=1, status={}, tree=TREE, has_room=has_room)


LATE_S = 2.0 + ROOM_AGAIN_S


@pytest.mark.parametrize(
    ("seen", "count"),
    [
        ([full(1), looked(2), looked(LATE_S)], 1),
        ([full(1), looked(1 + ROOM_AGAIN_S)], 0),
        ([full(1), full(9, is_full=False), looked(LATE_S)], 0),
        ([full(1), looked(9, has_room=False), looked(LATE_S)], 0),
        ([full(1), looked(9, has_room=False), looked(9 + LATE_S)], 1),
        ([full(1), looked(LATE_S, node="n0")], 0),
        ([full(1), attrs.evolve(looked(LATE_S), boot=2)], 0),
        ([full(1), reported(9, ActorStopped(reason="shutdown")), looked(LATE_S)], 0),
        ([full(1), reported(9, ActorCrashed(error="x", starting=False)), looked(LATE_S)], 0),
        ([full(1), full(1, path="/n1/b"), full(9, is_full=False), looked(LATE_S)], 1),
        ([full(1), looked(LATE_S), looked(LATE_S + 1), looked(2 * LATE_S)], 2),
    ],
)
def test_who_has_found_no_room_says_that_there_is_some_again(
    seen: list[Observation], count: int
) -> None:
    checker = RoomIsFoundAgain()
    found = [problem for each in seen for problem in checker.see(each)]
    assert len(found) == count
    assert all("has found no room for" in problem for problem in found)


async def test_a_disk_that_others_fill_is_full_for_a_program(autojump_clock: object) -> None:
    disk = SimDisk(random.Random(1))
    disk.mkdir("/d")
    disk.open("/d/a", "x").pwrite(b"x" * 40_960, 0)
    before = disk.usage("/d")
    assert 0.0 < before < 0.5
    disk.faults.fill(2.0)
    assert disk.usage("/d") == 1.0
    await trio.sleep(2.0)
    assert disk.usage("/d") == before
    disk.faults.use_up_inodes(2.0)
    assert disk.usage("/d") == before


def test_a_slave_without_room_refuses_bytes_and_nothing_else_excuses_it() -> None:
    refused = store.RawAppendRefused(session=1, offset_bytes=5, reason="no room: it is 100% full")
    assert list(NothingFails().see(reported(1.0, refused))) == []
    other = attrs.evolve(refused, reason="expected 3, offered 5")
    assert len(list(NothingFails().see(reported(1.0, other)))) == 1
