"""dledger.md 7 and 11.4: what a follower makes of each push, and what it answers."""

from __future__ import annotations

import pytest
from intake_kit import Kit, entries, entry, matched

from actors.events import dledger as events
from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode as C
from wire.dledger.entry import Entry

TYPES = [P.APPEND, P.COMPARE, P.TRUNCATE, P.COMMIT]


def payload(type_: P) -> tuple[Entry, ...]:
    return () if type_ is P.COMMIT else (entry(10),)


# ---- who may push ----


@pytest.mark.checklist(20, of="dledger")
@pytest.mark.parametrize("type_", TYPES)
def test_an_older_term_changes_nothing(type_: P) -> None:
    kit = matched()
    token = kit.push(type_, *payload(type_), term=4, commit_index=9)
    answer = kit.answers[token]
    assert (answer.code, answer.term) == (C.EXPIRED_TERM, 5)
    assert (kit.changes, kit.intake.committed, kit.intake.matched) == ([], -1, 9)


@pytest.mark.parametrize("type_", TYPES)
def test_a_larger_term_is_reported_and_changes_nothing_here(type_: P) -> None:
    kit = matched()
    token = kit.push(type_, *payload(type_), term=6, commit_index=9)
    assert kit.last.larger_term == 6
    assert kit.code(token) is C.NOT_FOLLOWER
    assert (kit.changes, kit.intake.committed, kit.intake.matched) == ([], -1, 9)


@pytest.mark.parametrize("type_", TYPES)
def test_another_leader_of_the_term_changes_nothing(type_: P) -> None:
    kit = matched()
    token = kit.push(type_, *payload(type_), leader="n2", commit_index=9)
    assert kit.code(token) is C.INCONSISTENT_LEADER
    assert (kit.changes, kit.intake.committed, kit.intake.matched) == ([], -1, 9)


@pytest.mark.checklist(11, of="dledger")
@pytest.mark.parametrize("type_", TYPES)
def test_who_does_not_follow_yet_says_so(type_: P) -> None:
    kit = matched()
    kit.did(kit.intake.rest(session=2, term=5))
    assert kit.code(kit.push(type_, *payload(type_))) is C.NOT_FOLLOWER
    assert kit.last.larger_term is None


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        (P.COMMIT, (entry(10),)),
        (P.APPEND, ()),
        (P.COMPARE, ()),
        (P.TRUNCATE, entries(10, 11)),
        (P.APPEND, (entry(10), entry(12))),
        (P.APPEND, (entry(10), entry(11, 4))),
        (P.APPEND, (entry(10, 6),)),
    ],
)
def test_what_no_leader_sends_is_refused(type_: P, given: tuple[Entry, ...]) -> None:
    kit = matched()
    assert kit.code(kit.push(type_, *given)) is C.UNEXPECTED_ARGUMENT
    assert kit.changes == []


# ---- APPEND ----


def test_appends_are_stored_and_acknowledged_after_the_sync() -> None:
    kit = matched()
    token = kit.append(entry(10), commit_index=9)
    assert kit.changes == [(None, False, [10])]
    assert kit.code(token) is None
    assert (kit.intake.matched, kit.intake.committed) == (10, 9)
    kit.sync()
    answer = kit.answers[token]
    assert (answer.code, answer.index, answer.count, answer.begin, answer.end) == (
        C.SUCCESS,
        10,
        1,
        0,
        10,
    )


def test_a_sync_acknowledges_what_it_covers_only() -> None:
    kit = matched()
    tokens = [kit.append(entry(index)) for index in (10, 11, 12)]
    kit.sync(11)
    assert [kit.code(token) for token in tokens] == [C.SUCCESS, C.SUCCESS, None]
    kit.did(kit.intake.stored_to(0, 9, 12))
    assert kit.code(tokens[2]) is None, "of another session"


def test_nothing_is_appended_before_something_was_compared() -> None:
    kit = Kit(*entries(0, 9))
    assert kit.code(kit.append(entry(10))) is C.INCONSISTENT_STATE
    assert kit.code(kit.append(entry(9))) is C.INCONSISTENT_STATE


@pytest.mark.checklist(16, of="dledger")
def test_a_duplicate_of_what_is_stored_is_answered_at_once() -> None:
    kit = matched()
    kit.append(*entries(10, 12))
    kit.sync()
    changes = list(kit.changes)
    assert kit.code(kit.append(entry(11))) is C.SUCCESS
    assert kit.code(kit.append(*entries(10, 12))) is C.SUCCESS
    assert kit.changes == changes
    assert kit.intake.matched == 12


def test_a_duplicate_of_what_is_not_synced_waits_as_well() -> None:
    kit = matched()
    first = kit.append(entry(10))
    second = kit.append(entry(10))
    assert (kit.code(first), kit.code(second)) == (None, None)
    kit.sync()
    assert (kit.code(first), kit.code(second)) == (C.SUCCESS, C.SUCCESS)
    assert kit.changes == [(None, False, [10])]


def test_a_batch_that_is_held_in_part_is_stored_in_part() -> None:
    kit = matched()
    kit.append(*entries(10, 12))
    kit.append(*entries(11, 14))
    assert kit.changes[-1] == (None, False, [13, 14])


@pytest.mark.checklist(17, of="dledger")
def test_reordered_appends_are_stored_in_order() -> None:
    kit = matched()
    tokens = [kit.append(entry(index)) for index in (12, 10, 11)]
    assert [indexes for _, _, indexes in kit.changes] == [[10], [11], [12]]
    kit.sync()
    assert all(kit.code(token) is C.SUCCESS for token in tokens)


@pytest.mark.checklist(18, of="dledger")
def test_a_gap_is_refused_after_a_second_and_forgotten() -> None:
    kit = matched()
    kit.now_s = 7.0
    token = kit.append(entry(11))
    assert kit.last.deadline_s == pytest.approx(8.0)
    kit.now_s = 7.5
    late = kit.append(entry(12))
    kit.did(kit.intake.tick(7.9))
    assert kit.code(token) is None
    kit.did(kit.intake.tick(8.0))
    assert (kit.code(token), kit.code(late)) == (C.INCONSISTENT_STATE, None)
    assert kit.last.deadline_s == pytest.approx(8.5)
    again = kit.append(entry(11))
    assert kit.code(again) is None, "not a duplicate of what was refused (bug V2)"
    kit.append(entry(10))
    kit.sync()
    assert kit.code(again) is C.SUCCESS


def test_a_newer_duplicate_of_what_waits_takes_its_place() -> None:
    kit = matched()
    old, new = kit.append(entry(11)), kit.append(entry(11))
    assert (kit.code(old), kit.code(new)) == (C.REPEATED_PUSH, None)
    kit.append(entry(10))
    kit.sync()
    assert kit.code(new) is C.SUCCESS


def test_what_waits_is_bounded() -> None:
    kit = matched(waiting_max=2)
    kit.append(entry(11))
    kit.append(entry(12))
    assert kit.code(kit.append(entry(13))) is C.PUSH_REQUEST_IS_FULL
    kit = matched(waiting_max=2)
    tokens = [kit.append(entry(index)) for index in (10, 11, 12)]
    assert [kit.code(token) for token in tokens] == [None, None, C.PUSH_REQUEST_IS_FULL]


def test_two_different_entries_of_one_leader_are_not_believed() -> None:
    kit = matched()
    kit.append(entry(10, body="one"))
    assert kit.code(kit.append(entry(10, body="two"))) is C.INCONSISTENT_STATE
    assert len(kit.changes) == 1


# ---- COMPARE ----


def test_compare_says_the_range_and_sets_the_match() -> None:
    kit = Kit(*entries(3, 9))
    answer = kit.answers[kit.compare(entry(8))]
    assert (answer.code, answer.begin, answer.end) == (C.SUCCESS, 3, 9)
    assert kit.intake.matched == 8


@pytest.mark.parametrize("index", [2, 9, 10])
def test_compare_of_what_is_not_held_takes_the_match_back(index: int) -> None:
    kit = Kit(*entries(3, 9, term=4))
    kit.compare(entry(9, 4))
    answer = kit.answers[kit.compare(entry(index, 5))]
    assert (answer.code, answer.begin, answer.end) == (C.INCONSISTENT_STATE, 3, 9)
    assert kit.intake.matched is None


def test_an_empty_log_compares_with_nothing() -> None:
    kit = Kit()
    answer = kit.answers[kit.compare(entry(0))]
    assert (answer.code, answer.begin, answer.end) == (C.INCONSISTENT_STATE, -1, -1)


def test_compare_drops_what_waits() -> None:
    kit = matched()
    token = kit.append(entry(12))
    kit.compare(entry(9, 4))
    assert kit.code(token) is C.INCONSISTENT_STATE
    assert kit.last.deadline_s is None


def test_compare_of_what_is_not_synced_yet_is_answered_after_the_sync() -> None:
    kit = matched()
    kit.append(entry(10))
    token = kit.compare(entry(10))
    assert kit.code(token) is None
    kit.sync()
    assert kit.code(token) is C.SUCCESS


# ---- TRUNCATE ----


@pytest.mark.checklist(22, 23, of="dledger")
def test_truncate_to_what_is_held_cuts_nothing() -> None:
    """A new leader that dies after its first TRUNCATE has taken nothing from anybody."""
    kit = Kit(*entries(0, 9, term=4))
    kit.compare(entry(5, 4))
    answer = kit.answers[kit.truncate(entry(5, 4))]
    assert (answer.code, answer.end) == (C.SUCCESS, 5), "as if it were cut"
    assert kit.changes == []
    assert (kit.intake.matched, kit.intake.end) == (5, 9)
    assert kit.answers[kit.commit(9)].end == 5
    assert kit.answers[kit.compare(entry(5, 4))].end == 9, "COMPARE says the real range"


def test_entries_after_a_truncate_leave_when_one_differs() -> None:
    kit = Kit(*entries(0, 9, term=4))
    kit.truncate(entry(5, 4))
    assert kit.code(kit.append(entry(6, 4))) is C.SUCCESS
    assert kit.changes == []
    token = kit.append(entry(7, 5))
    assert kit.changes == [(7, False, [7])]
    assert kit.last.events[0] == events.LedgerTruncated(session=1, index=7, end=9, next=7)
    assert kit.code(token) is None
    assert kit.terms() == [4] * 7 + [5]
    kit.sync()
    assert kit.code(token) is C.SUCCESS


def test_the_first_entry_of_all_comes_by_truncate() -> None:
    kit = Kit()
    token = kit.truncate(entry(0), commit_index=0)
    assert kit.changes == [(None, True, [0])]
    assert kit.intake.committed == 0
    kit.sync()
    assert kit.code(token) is C.SUCCESS
    kit.append(entry(1))
    assert kit.changes[-1] == (None, False, [1])


@pytest.mark.parametrize("index", [5, 10, 50])
def test_truncate_to_what_is_not_held_begins_the_log_anew(index: int) -> None:
    """What comes before it may differ from what the leader has let go of.

    Also right behind the end: the last entry here need not be the leader's.
    """
    kit = Kit(*entries(0, 9, term=4))
    kit.truncate(entry(index, 5))
    assert kit.changes == [(None, True, [index])]
    assert (kit.intake.begin, kit.intake.end, kit.intake.matched) == (index, index, index)
    reported = events.LedgerTruncated(session=1, index=0, end=9, next=index)
    assert kit.last.events[0] == reported
    kit.append(entry(index + 1))
    assert kit.changes[-1] == (None, False, [index + 1])


@pytest.mark.parametrize("behind", [False, True])
def test_what_is_committed_is_never_cut_but_alarms(behind: bool) -> None:
    """Behind: the leader has seen that all differs, down to where the log begins here."""
    kit = Kit(*entries(3, 9, term=4), committed=6)
    if behind:
        for index in (9, 6, 3):
            kit.compare(entry(index, 5))
        assert kit.alarm == ""
        token = kit.truncate(entry(2, 5))
    else:
        kit.truncate(entry(5, 4))
        token = kit.append(entry(6, 5), commit_index=6)
    assert kit.alarm == f"entry {3 if behind else 6} is committed and differs from the leader's"
    assert kit.changes == []
    assert kit.code(token) is None
    assert kit.intake.matched in (None, 5)


def test_a_sync_from_before_a_cut_says_nothing_of_what_took_its_place() -> None:
    kit = matched()
    kit.append(*entries(10, 14, term=4))
    before = kit.numbers[-1]
    kit.truncate(entry(9, 4))
    token = kit.append(entry(10, 5))
    assert kit.changes[-1] == (10, False, [10])
    kit.sync(14, before)
    assert kit.code(token) is None
    kit.sync(10)
    assert kit.code(token) is C.SUCCESS


def test_nobody_is_notified_that_entries_are_held_which_leave() -> None:
    kit = matched()
    token = kit.append(entry(10, 4))
    kit.truncate(entry(9, 4))
    kit.append(entry(10, 5))
    assert kit.code(token) is C.INCONSISTENT_STATE


# ---- COMMIT ----


@pytest.mark.checklist(25, of="dledger")
def test_the_committed_index_never_passes_the_match() -> None:
    kit = Kit(*entries(0, 9, term=4))
    kit.compare(entry(5, 4))
    kit.commit(9)
    assert (kit.intake.committed, kit.last.committed) == (5, 5)
    assert kit.last.events == (events.CommittedRose(session=1, index=5),)
    kit.append(entry(6, 4), commit_index=9)
    assert kit.last.committed == 6
    assert kit.code(kit.commit(3)) is C.SUCCESS
    assert kit.last.committed is None


@pytest.mark.checklist(25, of="dledger")
def test_a_commit_before_a_compare_is_refused() -> None:
    kit = Kit(*entries(0, 9))
    assert kit.code(kit.commit(9)) is C.INCONSISTENT_STATE
    assert kit.intake.committed == -1


def test_what_was_learned_as_a_leader_counts() -> None:
    kit = matched()
    kit.follow(session=2, committed=7)
    assert kit.intake.committed == 7
    kit.follow(session=3, committed=3)
    assert kit.intake.committed == 7


# ---- sessions and the store ----


def test_a_new_session_answers_everything_and_matches_nothing() -> None:
    kit = matched()
    gap, unsynced = kit.append(entry(12)), kit.append(entry(10))
    kit.follow(session=2)
    assert (kit.code(gap), kit.code(unsynced)) == (C.NOT_FOLLOWER, C.NOT_FOLLOWER)
    assert kit.intake.matched is None
    kit.did(kit.intake.stored_to(1, 99, 10))
    assert kit.code(kit.append(entry(11))) is C.INCONSISTENT_STATE


def test_a_store_that_refuses_leads_back_to_compare() -> None:
    kit = matched()
    token = kit.append(entry(10))
    gap = kit.append(entry(12))
    kit.did(kit.intake.refused(1, 0, 9))
    assert (kit.code(token), kit.code(gap)) == (C.INCONSISTENT_STATE, C.INCONSISTENT_STATE)
    assert (kit.intake.end, kit.intake.matched) == (9, None)
    kit.did(kit.intake.refused(0, 0, 3))
    assert kit.intake.end == 9, "of another session"


def test_a_log_that_let_go_of_its_head_says_so() -> None:
    kit = matched()
    kit.did(kit.intake.expired(4))
    assert kit.answers[kit.compare(entry(9, 4))].begin == 4
    assert kit.code(kit.compare(entry(3, 4))) is C.INCONSISTENT_STATE
