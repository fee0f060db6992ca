"""How much a leader sends a follower at once: as the way to it carries, for heartbeats share it."""

from __future__ import annotations

import math

import trio
from dispatch_kit import Kit
from group_kit import opened

from actors.dledger.core.push_window import HOLD_S, PushWindow, UnderWay
from actors.dledger.core.settings import PushSettings
from actors.events.dledger import RoleChanged
from actors.sim.network import NetworkOptions
from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode

ENTRY = 1 << 10
LEAST = 16 * ENTRY
MOST = 32 * LEAST
SLOW = NetworkOptions(bandwidth_bytes_per_s=200_000.0)
FAST_TIMERS = {
    "heartbeat_interval_s": 0.15,
    "vote_interval_min_s": 0.05,
    "vote_interval_max_s": 0.2,
}


def window(least: int | None = LEAST) -> PushWindow:
    return PushWindow(PushSettings(in_flight_bytes_max=MOST, in_flight_bytes_least=least))


def flight(given: PushWindow, now_s: float = 0.0) -> int:
    """As many pushes of one entry as may leave, all acknowledged. Gives their bytes over LEAST."""
    first = last = int(now_s * 1000)
    while not given.full:
        given.add(UnderWay(first=last, last=last, size_bytes=ENTRY, sent_s=now_s))
        last += 1
    given.acknowledged(now_s, last - 1)
    assert given.due_s == math.inf
    return (last - first) * ENTRY // LEAST


def refused(given: PushWindow, now_s: float, times: int) -> None:
    for number in range(times):
        given.refused(now_s, number + 1)
        given.clear()


def test_one_refusal_changes_nothing() -> None:
    """The peer may have begun a new session."""
    given = window()
    refused(given, 0.0, 1)
    assert flight(given) == 32


def test_a_refusal_that_a_comparison_did_not_help_against_quarters_it() -> None:
    sizes = []
    for times in (2, 3, 4, 5):
        given = window()
        refused(given, 0.0, times)
        sizes.append(flight(given))
    assert sizes == [8, 2, 1, 1]


def test_what_went_well_for_a_while_is_doubled() -> None:
    given = window()
    refused(given, 0.0, 3)
    times_s = (1.0, HOLD_S - 1.0, HOLD_S, HOLD_S + 1.0, 2 * HOLD_S, 3 * HOLD_S, 4 * HOLD_S, 999.0)
    assert [flight(given, now_s) for now_s in times_s] == [2, 2, 2, 4, 4, 8, 16, 32]


def test_the_while_begins_anew_with_each_refusal() -> None:
    given = window()
    refused(given, 0.0, 3)
    refused(given, HOLD_S - 1.0, 1)
    assert [flight(given, now_s) for now_s in (HOLD_S, HOLD_S + 1.0)] == [2, 2]


def test_upstreams_is_never_less_than_what_may_be_in_flight() -> None:
    given = window(None)
    refused(given, 0.0, 9)
    assert flight(given) == 32


def far_behind_kit() -> Kit:
    """More than its way carries lies before n1, which has the entries up to 9."""
    kit = Kit(
        entry_bytes=ENTRY,
        batch=True,
        batch_bytes_max=MOST,
        in_flight_bytes_max=MOST,
        in_flight_bytes_least=LEAST,
    )
    kit.append_state()
    kit.grow(2000)
    return kit


def test_a_peer_that_refuses_the_same_again_is_sent_small_batches() -> None:
    kit, sizes = far_behind_kit(), []
    for _ in range(4):
        push = kit.take(P.APPEND)[0]
        sizes.append((push.last - push.first + 1) * ENTRY // LEAST)
        kit.answer(push, ResponseCode.INCONSISTENT_STATE)
        if not kit.sent:
            kit.tick()
        while (probe := kit.take(P.COMPARE)[0]).first > 9:
            kit.answer(probe, ResponseCode.INCONSISTENT_STATE, end=9)
        kit.answer(probe)
    assert sizes == [32, 32, 8, 2]


def appended(kit: Kit) -> int:
    """The bytes over LEAST of the one append that was sent."""
    push = kit.take(P.APPEND)[0]
    assert push.first == 10
    return (push.last - push.first + 1) * ENTRY // LEAST


def unanswered(kit: Kit) -> None:
    """It is resent until the leader compares: the peer has still no more."""
    while not any(push.type is P.COMPARE for push in kit.sent):
        kit.tick()
    probe = kit.sent[-1]
    kit.sent.clear()
    while probe.first > 9:
        kit.answer(probe, ResponseCode.INCONSISTENT_STATE, end=9)
        probe = kit.take(P.COMPARE)[0]
    kit.answer(probe)


def test_a_peer_that_again_answers_nothing_is_sent_less_of_what_it_was_sent() -> None:
    """All groups of two nodes share a way: behind all of them, each peer would stay silent."""
    kit, sizes = far_behind_kit(), []
    for _ in range(5):
        sizes.append(appended(kit))
        unanswered(kit)
    assert sizes == [32, 32, 8, 2, 1]


def test_a_peer_that_answers_nothing_of_little_is_not_sent_less() -> None:
    """It has stopped: what is under way is not too much for its way."""
    given = window()
    for times in range(1, 9):
        given.add(UnderWay(first=0, last=15, size_bytes=LEAST, sent_s=0.0))
        given.unanswered(0.0, times)
        given.clear()
    assert flight(given) == 32


def test_upstreams_silent_peer_is_sent_as_much() -> None:
    given = window(None)
    for times in range(1, 9):
        given.add(UnderWay(first=0, last=15, size_bytes=MOST, sent_s=0.0))
        given.unanswered(0.0, times)
        given.clear()
    assert flight(given) == 32


async def test_appends_are_answered_though_the_only_followers_disk_is_slow(
    autojump_clock: object,
) -> None:
    """How long an answer takes is no word of how much its way carries."""
    async with opened() as group:
        leader = await group.leader()
        gone, slow = (name for name in group.names if name != leader)
        for _ in range(20):
            await group.append(leader, bytes(1000))
        await group.kill(gone)
        group.world.node(slow).disk.faults.slow_syncs(0.6, 100.0)
        answered = 0

        async def append() -> None:
            nonlocal answered
            await group.append(leader, *[bytes(1000)] * 64, timeout_s=2.5)
            answered += 1

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(append)
                await trio.sleep(0.1)
        assert answered == 200


async def test_a_follower_far_behind_catches_up_over_a_slow_way(autojump_clock: object) -> None:
    """All that is to be sent takes ten times as long as a follower waits for a heartbeat."""
    async with opened(network=SLOW, **FAST_TIMERS) as group:
        leader = await group.leader()
        behind = next(name for name in group.names if name != leader)
        await group.kill(behind)
        for _ in range(100):
            last = (await group.append(leader, *[bytes(1000)] * 10)).last_index
        before = len(group.events(RoleChanged))
        await group.start(behind)
        await group.until_shown(last, behind)
        assert await group.leader() == leader
        changes = group.events(RoleChanged)[before:]
        assert len(changes) < 20, "what was too much was not tried at once again"
