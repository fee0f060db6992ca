"""dledger.md 6.2, doCompare and doTruncate: the search for where two logs part."""

from __future__ import annotations

import itertools

import pytest
from dispatch_kit import Kit

from actors.dledger.core.push_effects import DispatcherState
from actors.events import dledger as events
from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode as C

COMPARE, TRUNCATE, APPEND = (
    DispatcherState.COMPARE,
    DispatcherState.TRUNCATE,
    DispatcherState.APPEND,
)


def test_a_session_begins_with_compare_at_the_end() -> None:
    kit = Kit()
    kit.one(P.COMPARE, 9)
    assert kit.last.deadline_s == pytest.approx(3.0)
    (said,) = kit.last.events
    assert said == events.DispatcherChanged(
        peer="n1", term=5, state="COMPARE", detail="a new session"
    )


@pytest.mark.checklist(12, of="dledger")
def test_the_same_end_leads_to_append() -> None:
    kit = Kit()
    effects = kit.answer(kit.one(P.COMPARE, 9))
    assert effects.matched == 9
    assert kit.state is APPEND
    kit.take()


@pytest.mark.checklist(12, 22, of="dledger")
def test_a_longer_follower_is_truncated_to_what_was_compared() -> None:
    """Not below what both hold, in a first session either."""
    kit = Kit()
    effects = kit.answer(kit.one(P.COMPARE, 9), end=12)
    assert effects.matched is None
    assert kit.state is TRUNCATE
    effects = kit.answer(kit.one(P.TRUNCATE, 9))
    assert effects.matched == 9
    assert kit.state is APPEND


def test_an_empty_follower_gets_the_first_entry_by_truncate_and_the_rest_by_append() -> None:
    kit = Kit()
    push = kit.one(P.COMPARE, 9)
    kit.answer(push, C.INCONSISTENT_STATE, begin=-1, end=-1)
    kit.answer(kit.one(P.TRUNCATE, 0))
    assert [push.first for push in kit.take(*[P.APPEND] * 9)] == list(range(1, 10))


def test_the_search_goes_on_at_once() -> None:
    kit = Kit()
    kit.answer(kit.one(P.COMPARE, 9), C.INCONSISTENT_STATE, end=6)
    kit.answer(kit.one(P.COMPARE, 6), C.INCONSISTENT_STATE, end=6)
    kit.answer(kit.one(P.COMPARE, 5), end=6)
    kit.answer(kit.one(P.TRUNCATE, 5))
    assert [push.first for push in kit.take(*[P.APPEND] * 4)] == [6, 7, 8, 9]


@pytest.mark.checklist(11, of="dledger")
@pytest.mark.parametrize("code", [C.NOT_FOLLOWER, C.NETWORK_ERROR, C.INCONSISTENT_LEADER])
@pytest.mark.parametrize("by_one", [False, True])
def test_a_refused_compare_is_repeated_after_a_pause(code: C, by_one: bool) -> None:
    """From the end, for another life may answer; upstream's goes on where it was."""
    kit = Kit()
    kit.dispatch.search_by_one = by_one
    kit.answer(kit.one(P.COMPARE, 9), C.INCONSISTENT_STATE, end=6)
    kit.answer(kit.one(P.COMPARE, 6), code)
    kit.grow()
    kit.take()
    kit.tick()
    assert kit.now_s == pytest.approx(0.5)
    kit.one(P.COMPARE, 6 if by_one else 10)


@pytest.mark.parametrize(("code", "pause_s"), [(C.NOT_FOLLOWER, 0.02), (C.DISK_ERROR, 0.5)])
def test_a_peer_that_is_about_to_follow_is_asked_again_soon(code: C, pause_s: float) -> None:
    """A new leader's COMPARE may come before the peer's store has said where its log ends."""
    kit = Kit(follower_pause_s=0.02)
    kit.answer(kit.one(P.COMPARE, 9), code)
    kit.tick()
    assert kit.now_s == pytest.approx(pause_s)
    kit.answer(kit.one(P.COMPARE, 9), end=9)
    assert kit.state is DispatcherState.APPEND


NOT_YET = "answered NOT_FOLLOWER"


def refused_for(kit: Kit, seconds: float) -> tuple[list[float], list[str]]:
    """When a peer that does not follow for long is asked, and what is reported of it."""
    times: list[float] = []
    reported: list[str] = []
    end_s = kit.now_s + seconds
    while kit.now_s < end_s:
        kit.answer(kit.one(P.COMPARE, 9), C.NOT_FOLLOWER)
        reported += [event.detail for event in kit.last.events]  # type: ignore[attr-defined]
        kit.tick()
        times.append(round(kit.now_s, 3))
    return times, reported


def test_a_peer_that_follows_nobody_for_long_is_asked_less_often_and_reported_once() -> None:
    """Its disk takes no vote, or its log is being opened: each question carries a whole entry."""
    kit = Kit(follower_pause_s=0.02)
    times, reported = refused_for(kit, 2000.0)
    assert times[:7] == [0.02, 0.06, 0.14, 0.3, 0.62, 1.12, 1.62]
    assert max(b - a for a, b in itertools.pairwise(times)) == pytest.approx(0.5)
    assert reported == [NOT_YET]


@pytest.mark.parametrize("code", [C.DISK_ERROR, None])
def test_after_another_answer_or_none_it_is_asked_soon_again(code: C | None) -> None:
    """Another life of it may be about to follow."""
    kit = Kit(follower_pause_s=0.02)
    refused_for(kit, 3.0)
    push = kit.one(P.COMPARE, 9)
    kit.silence(push) if code is None else kit.answer(push, code)
    kit.tick()
    begin_s = kit.now_s
    times, reported = refused_for(kit, 0.05)
    assert [round(each - begin_s, 3) for each in times] == [0.02, 0.06]
    assert reported == [NOT_YET]


def test_after_it_has_compared_it_is_asked_soon_again() -> None:
    kit = Kit(follower_pause_s=0.02)
    refused_for(kit, 3.0)
    kit.answer(kit.one(P.COMPARE, 9), C.INCONSISTENT_STATE, end=9)
    begin_s = kit.now_s
    kit.answer(kit.one(P.COMPARE, 8), C.NOT_FOLLOWER)
    assert len(kit.last.events) == 1
    kit.tick()
    assert kit.now_s == pytest.approx(begin_s + 0.02)


def test_in_a_new_session_it_is_asked_soon_again() -> None:
    kit = Kit(follower_pause_s=0.02)
    refused_for(kit, 3.0)
    kit.take(P.COMPARE)
    kit.did(kit.dispatch.lead(kit.now_s, term=6, begin=0, end=9, committed=-1))
    begin_s = kit.now_s
    times, reported = refused_for(kit, 0.05)
    assert [round(each - begin_s, 3) for each in times] == [0.02, 0.06]
    assert reported == [NOT_YET]


def test_silence_is_a_refusal_after_three_seconds() -> None:
    kit = Kit()
    push = kit.one(P.COMPARE, 9)
    kit.tick()
    assert kit.now_s == pytest.approx(3.0)
    kit.take()
    kit.answer(push)
    assert kit.state is COMPARE, "it came too late"
    kit.tick()
    assert kit.now_s == pytest.approx(3.5)
    kit.one(P.COMPARE, 9)


def test_a_truncate_that_fails_leads_back_to_compare_at_the_end() -> None:
    kit = Kit()
    kit.answer(kit.one(P.COMPARE, 9), C.INCONSISTENT_STATE, begin=-1, end=-1)
    kit.silence(kit.one(P.TRUNCATE, 0))
    assert kit.state is COMPARE
    kit.tick()
    kit.one(P.COMPARE, 9)


@pytest.mark.checklist(13, of="dledger")
def test_an_empty_leader_sends_nothing_until_its_first_append() -> None:
    kit = Kit(begin=-1, end=-1)
    kit.take()
    assert kit.last.deadline_s is None
    kit.now_s = 60.0
    kit.sizes.end = 0
    kit.did(kit.dispatch.grew(60.0, 0, 0))
    kit.one(P.COMPARE, 0)
