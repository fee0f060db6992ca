"""dledger.md 6.1 and 6.2: what a leader sends to one peer once the search is over, and when."""

from __future__ import annotations

import pytest
from dispatch_kit import MIB, Kit

from actors.dledger.core.push_effects import DispatchEffects, DispatcherState, PushAnswer
from actors.dledger.replication.push_bodies import push_answer
from wire.dledger.codes import PushType as P
from wire.dledger.codes import RequestCode
from wire.dledger.codes import ResponseCode as C
from wire.dledger.rpc import decode_response

COMPARE, APPEND = (
    DispatcherState.COMPARE,
    DispatcherState.APPEND,
)


# ---- APPEND ----


def test_the_log_is_pushed_as_it_grows_with_the_committed_index() -> None:
    kit = Kit()
    kit.append_state()
    kit.did(kit.dispatch.committed(0.0, 9))
    kit.grow(2)
    pushes = kit.take(P.APPEND, P.APPEND)
    assert [(push.first, push.last, push.commit_index) for push in pushes] == [
        (10, 10, 9),
        (11, 11, 9),
    ]


@pytest.mark.checklist(14, of="dledger")
def test_at_most_1000_pushes_are_not_answered() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow(1500)
    pushes = kit.take(*[P.APPEND] * 1000)
    effects = kit.answer(pushes[499])
    assert effects.matched == pushes[499].last
    assert len(kit.take(*[P.APPEND] * 500)) == 500


def test_bytes_in_flight_are_bounded() -> None:
    kit = Kit(entry_bytes=MIB)
    kit.append_state()
    kit.grow(20)
    pushes = kit.take(*[P.APPEND] * 4)
    kit.answer(pushes[0])
    kit.take(P.APPEND)


@pytest.mark.checklist(16, of="dledger")
def test_the_push_after_the_watermark_is_sent_again_after_a_second() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow(3)
    pushes = kit.take(*[P.APPEND] * 3)
    kit.now_s = 0.2
    kit.answer(pushes[0])
    kit.tick()
    assert kit.now_s == pytest.approx(1.0)
    kit.one(P.APPEND, 11)


def test_three_resends_without_progress_lead_back_to_compare() -> None:
    """Bug V2: the refusal that should do it was lost, and every resend is answered 413."""
    kit = Kit()
    kit.append_state()
    kit.grow(2)
    kit.take(P.APPEND, P.APPEND)
    for _ in range(3):
        kit.tick()
        kit.answer(kit.one(P.APPEND, 10), C.REPEATED_PUSH, end=9)
    kit.tick()
    assert kit.now_s == pytest.approx(4.0)
    kit.one(P.COMPARE, 11)


def test_progress_starts_the_count_of_resends_again() -> None:
    kit = Kit()
    kit.append_state()
    for first in range(10, 15):
        kit.grow()
        kit.one(P.APPEND, first)
        for _ in range(2):
            kit.tick()
            push = kit.one(P.APPEND, first)
        kit.answer(push)
    assert kit.state is APPEND


@pytest.mark.parametrize("code", [C.REPEATED_PUSH, C.NETWORK_ERROR, C.NOT_FOLLOWER, C.UNKNOWN])
def test_other_answers_say_nothing(code: C) -> None:
    kit = Kit()
    kit.append_state()
    kit.grow()
    effects = kit.answer(kit.one(P.APPEND, 10), code, end=9)
    assert (effects.matched, kit.state) == (None, APPEND)


@pytest.mark.checklist(18, of="dledger")
def test_a_refused_push_leads_to_compare() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow(2)
    first, second = kit.take(P.APPEND, P.APPEND)
    kit.answer(first, C.INCONSISTENT_STATE, end=7)
    push = kit.one(P.COMPARE, 11)
    kit.answer(push, C.INCONSISTENT_STATE, end=7)
    kit.answer(kit.one(P.COMPARE, 7))
    assert [push.first for push in kit.take(*[P.APPEND] * 4)] == [8, 9, 10, 11]
    kit.answer(second, C.INCONSISTENT_STATE, end=7)
    assert kit.state is APPEND, "a refusal from before the COMPARE"


def test_what_is_refused_again_after_a_comparison_is_not_sent_at_once() -> None:
    """A peer whose files have another size would be asked as fast as it answers, for ever."""
    kit = Kit()
    kit.append_state()
    kit.grow()
    kit.answer(kit.one(P.APPEND, 10), C.INCONSISTENT_STATE, end=9)
    for _ in range(3):
        kit.answer(kit.one(P.COMPARE, 10), C.INCONSISTENT_STATE, end=9)
        kit.answer(kit.one(P.COMPARE, 9))
        refused_s = kit.now_s
        kit.answer(kit.one(P.APPEND, 10), C.INCONSISTENT_STATE, end=9)
        kit.take()
        kit.tick()
        assert kit.now_s == pytest.approx(refused_s + 0.5)
    kit.answer(kit.one(P.COMPARE, 10))
    kit.grow()
    kit.answer(kit.one(P.APPEND, 11), C.INCONSISTENT_STATE, end=10)
    kit.one(P.COMPARE, 11)


def test_an_acknowledgement_from_before_the_compare_is_not_counted() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow()
    old = kit.one(P.APPEND, 10)
    kit.did(kit.dispatch.unreadable(0.0, old))
    push = kit.one(P.COMPARE, 10)
    kit.answer(push, C.INCONSISTENT_STATE, end=9)
    kit.answer(kit.one(P.COMPARE, 9))
    kit.one(P.APPEND, 10)
    assert kit.answer(old).matched is None


def test_what_was_never_sent_cannot_be_acknowledged() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow()
    push = kit.one(P.APPEND, 10)
    assert kit.answer(push, count=5).matched is None


@pytest.mark.checklist(35, of="dledger")
def test_an_old_answer_to_a_batch_names_its_last_entry() -> None:
    kit = Kit(batch=True)
    kit.append_state()
    kit.grow(5)
    (push,) = kit.take(P.APPEND)
    assert (push.first, push.last) == (10, 14)
    old = PushAnswer(code=C.SUCCESS, term=5, index=14, begin=0, end=14)
    assert kit.did(kit.dispatch.answered(0.0, push, old)).matched == 14


@pytest.mark.checklist(35, of="dledger")
@pytest.mark.parametrize(
    ("data", "last"),
    [
        (b'{"index":7,"count":3}', 9),  # 0.2.6 and later: the first, and how many
        (b'{"index":7,"count":1}', 7),
        (b'{"index":7}', 7),  # up to 0.2.5: the last
        (b'{"index":7,"count":0}', 7),
        (b'{"index":7,"count":-1}', 7),
        (b'{"index":null,"count":0}', -1),
        (b"{}", -1),  # to a COMMIT
    ],
)
def test_which_entry_a_reply_names_as_the_last(data: bytes, last: int) -> None:
    found, loose = decode_response(RequestCode.PUSH, data)
    answer = push_answer(found)
    assert answer is not None
    assert (answer.last, loose) == (last, False)


def test_batches_have_a_size() -> None:
    kit = Kit(batch=True, batch_bytes_max=300)
    kit.append_state()
    kit.grow(7)
    pushes = kit.take(*[P.APPEND] * 3)
    assert [(push.first, push.last) for push in pushes] == [(10, 12), (13, 15), (16, 16)]
    kit.tick()
    assert kit.one(P.APPEND, 10).last == 12, "a batch is sent again as it was"


def test_an_expired_entry_leads_to_compare() -> None:
    kit = Kit()
    kit.append_state()
    kit.now_s = 0.5
    kit.grow(1500)
    kit.take(*[P.APPEND] * 1000)
    kit.did(kit.dispatch.grew(0.5, 1200, 1509))
    kit.sent.clear()
    kit.wait(4.0)
    assert kit.sent[-1].type is P.COMPARE
    kit = Kit()
    kit.append_state()
    kit.grow()
    kit.did(kit.dispatch.unreadable(0.0, kit.one(P.APPEND, 10)))
    kit.one(P.COMPARE, 10)


# ---- COMMIT ----


@pytest.mark.checklist(15, of="dledger")
def test_a_caught_up_peer_hears_of_commits_each_second() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow()
    kit.now_s = 0.1
    kit.answer(kit.one(P.APPEND, 10))
    kit.did(kit.dispatch.committed(0.1, 10))
    kit.take()
    kit.tick()
    assert kit.now_s == pytest.approx(1.0)
    push = kit.one(P.COMMIT, -1)
    assert (push.last, push.commit_index) == (-1, 10)
    kit.tick()
    assert kit.now_s == pytest.approx(2.0)
    kit.one(P.COMMIT, -1)


def test_news_of_a_commit_waits_only_shortly_for_a_push_to_carry_it() -> None:
    kit = Kit(commit_news_s=0.01)
    kit.append_state()
    kit.grow()
    kit.now_s = 0.005
    kit.answer(kit.one(P.APPEND, 10))
    kit.did(kit.dispatch.committed(0.005, 10))
    kit.take()
    kit.tick()
    assert kit.now_s == pytest.approx(0.01)
    assert kit.one(P.COMMIT, -1).commit_index == 10
    kit.tick()
    assert kit.now_s == pytest.approx(1.01)  # nothing new since
    kit.one(P.COMMIT, -1)


def test_a_push_that_follows_carries_the_news() -> None:
    kit = Kit(commit_news_s=0.01)
    kit.append_state()
    kit.grow()
    kit.answer(kit.one(P.APPEND, 10))
    kit.did(kit.dispatch.committed(0.0, 10))
    kit.grow()
    assert kit.one(P.APPEND, 11).commit_index == 10
    kit.tick()
    assert kit.now_s == pytest.approx(1.0)


def test_overdue_news_of_a_commit_goes_with_the_entries_that_it_comes_with() -> None:
    kit = Kit(commit_news_s=0.01)
    kit.append_state()
    kit.grow()
    kit.answer(kit.one(P.APPEND, 10))
    kit.now_s = 0.5
    for end, known in ((11, 10), (12, 9)):
        kit.sizes.end = end
        kit.did(kit.dispatch.grew(0.5, 0, end, known))
        assert kit.one(P.APPEND, end).commit_index == 10


def test_a_full_window_does_not_keep_commits_back_and_never_spins() -> None:
    kit = Kit(pending_max=2, push_timeout_s=5.0)
    kit.append_state()
    kit.grow(10)
    kit.take(P.APPEND, P.APPEND)
    kit.wait(3.0)
    kit.take(P.COMMIT, P.COMMIT, P.COMMIT)


def test_a_follower_that_lost_its_log_is_found_while_idle() -> None:
    """Bug V8. What it acknowledged before is not counted for a quorum any more."""
    kit = Kit()
    kit.append_state()
    kit.tick()
    effects = kit.answer(kit.one(P.COMMIT, -1), end=4)
    assert effects.matched == -1
    assert kit.state is COMPARE
    kit.one(P.COMPARE, 9)


def test_an_answer_that_was_overtaken_is_no_loss() -> None:
    kit = Kit()
    kit.append_state()
    kit.tick()
    commit = kit.one(P.COMMIT, -1)
    kit.grow()
    kit.answer(kit.one(P.APPEND, 10))
    effects = kit.answer(commit, end=9)
    assert (effects.matched, kit.state) == (None, APPEND)


def test_a_follower_that_has_compared_nothing_says_so_to_a_commit() -> None:
    """It followed anew without the leader's noticing."""
    kit = Kit()
    kit.append_state()
    kit.tick()
    kit.answer(kit.one(P.COMMIT, -1), C.INCONSISTENT_STATE, end=9)
    kit.one(P.COMPARE, 9)


# ---- sessions ----


def test_a_new_session_knows_nothing_of_the_peer() -> None:
    kit = Kit()
    kit.append_state()
    kit.grow()
    push = kit.one(P.APPEND, 10)
    kit.dispatch.rest()
    assert kit.dispatch.grew(1.0, 0, 12) == DispatchEffects()
    assert kit.answer(push) == DispatchEffects()
    kit.sizes.end = 12
    kit.did(kit.dispatch.lead(2.0, term=6, begin=0, end=12, committed=5))
    assert kit.dispatch.matched == -1
    assert kit.one(P.COMPARE, 12).commit_index == 5


def test_an_answer_to_a_push_of_an_earlier_session_counts_for_nothing() -> None:
    kit = Kit()
    compared = kit.one(P.COMPARE, 9)
    kit.answer(compared)
    kit.grow()
    pushed = kit.one(P.APPEND, 10)
    kit.did(kit.dispatch.rest())
    kit.did(kit.dispatch.lead(kit.now_s, term=5, begin=0, end=10, committed=-1))
    kit.one(P.COMPARE, 10)
    for old in (pushed, compared):
        kit.answer(old)
        assert (kit.state, kit.dispatch.matched) == (COMPARE, -1)


def test_a_larger_term_is_reported() -> None:
    kit = Kit()
    effects = kit.answer(kit.one(P.COMPARE, 9), C.EXPIRED_TERM, term=8)
    assert effects.larger_term == 8
    assert kit.state is COMPARE
