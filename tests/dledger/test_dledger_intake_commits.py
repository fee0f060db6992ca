"""What a follower says is committed while its store still holds what the leader's log has not."""

from __future__ import annotations

from intake_kit import Kit, entries, entry, matched

from wire.dledger.codes import PushType
from wire.dledger.codes import ResponseCode as C


def test_what_takes_the_place_of_others_is_committed_once_they_have_left() -> None:
    """Before that, readers would be shown the old entries, and the store would keep them."""
    kit = matched()
    kit.truncate(entry(4, 4))
    kit.append(*entries(5, 9), commit_index=9)
    assert kit.changes[-1] == (5, False, [5, 6, 7, 8, 9])
    assert (kit.last.committed, kit.intake.committed) == (4, 4)
    kit.commit(9)
    assert kit.intake.committed == 4
    kit.sync(9, kit.numbers[-1] - 1)  # of the log before
    assert kit.intake.committed == 4
    kit.sync(7)
    assert (kit.last.committed, kit.intake.committed) == (9, 9)


def test_the_first_entry_of_a_log_begun_anew_is_committed_once_it_has_begun() -> None:
    kit = Kit(*entries(12, 19, term=4))
    kit.truncate(entry(8, 4), commit_index=8)
    assert kit.changes == [(None, True, [8])]
    assert kit.intake.committed == -1
    kit.sync()
    assert kit.intake.committed == 8


def test_a_refused_cut_leaves_nothing_committed_that_was_not() -> None:
    """What the leader sends again is no contradiction."""
    kit = matched(committed=3)
    kit.truncate(entry(4, 4))
    kit.append(*entries(5, 9), commit_index=9)
    kit.did(kit.intake.refused(1, 0, 9))
    kit.sync(9)
    assert kit.intake.committed == 4
    kit.ledger.log.update((each.index, each) for each in entries(0, 9, term=4))
    kit.compare(entry(4, 4))
    kit.append(*entries(5, 9), commit_index=9)
    assert not kit.alarm


def test_a_session_that_ends_before_a_cut_leaves_nothing_committed_that_was_not() -> None:
    kit = matched()
    kit.truncate(entry(4, 4))
    kit.append(*entries(5, 9), commit_index=9)
    kit.ledger.log.update((each.index, each) for each in entries(0, 9, term=4))
    kit.did(kit.intake.rest(session=2, term=6))
    kit.follow(session=3, term=6, committed=4)
    kit.compare(entry(4, 4))
    kit.append(*entries(5, 9), commit_index=9)
    assert not kit.alarm
    assert kit.intake.committed == 4


def test_a_refused_append_of_what_is_committed_does_not_keep_the_log_from_beginning_anew() -> None:
    """The leader has let go of what was refused; nothing that is here is committed and differs."""
    kit = matched()
    kit.append(*entries(10, 14), commit_index=14)
    assert kit.intake.committed == 14
    for index in range(10, 15):
        del kit.ledger.log[index]
    kit.did(kit.intake.refused(1, 0, 9))
    token = kit.truncate(entry(12), commit_index=14)
    assert not kit.alarm
    kit.sync()
    assert kit.code(token) is C.SUCCESS


def test_a_log_that_has_let_go_of_all_that_is_committed_begins_anew_anywhere() -> None:
    """The next leader's begins before, and what follows on the committed part here is not its."""
    kit = matched()
    kit.commit(9)
    kit.truncate(entry(100))
    kit.append(*entries(101, 105))
    kit.did(kit.intake.rest(session=2, term=6))
    kit.follow(session=3, term=6, committed=9)
    assert (kit.intake.begin, kit.intake.end, kit.intake.committed) == (100, 105, 9)
    kit.push(PushType.COMPARE, entry(100, 6), term=6)
    kit.push(PushType.TRUNCATE, entry(4, 4), term=6)
    assert kit.changes[-1] == (None, True, [4])
    assert not kit.alarm


def test_an_emptied_log_that_found_no_room_begins_anew_anywhere() -> None:
    kit = matched()
    kit.commit(9)
    kit.truncate(entry(100))
    kit.ledger.log.clear()
    kit.did(kit.intake.refused(1, -1, -1))
    kit.truncate(entry(4, 4))
    assert kit.changes[-1] == (None, True, [4])
    assert not kit.alarm
