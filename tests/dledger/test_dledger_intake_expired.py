"""A leader that asks for what has expired here: nothing differs, and it compares anew."""

from __future__ import annotations

import pytest
from intake_kit import Kit, entries, entry

from wire.dledger.codes import PushType as P
from wire.dledger.codes import ResponseCode as C


def a_kit() -> Kit:
    """It holds 60 to 99, all of it committed."""
    return Kit(*entries(60, 99, term=4), committed=99)


def goes_on(kit: Kit) -> None:
    """The leader compares from the end of its log on."""
    assert kit.alarm == ""
    assert kit.changes == []
    assert kit.code(kit.compare(entry(99, 4))) is C.SUCCESS
    kit.append(entry(100))
    assert kit.changes == [(None, False, [100])]


@pytest.mark.parametrize("begin", [0, 40, 59])
def test_a_search_that_goes_on_where_it_stopped_long_ago_is_no_contradiction(begin: int) -> None:
    """Upstream's leader keeps its place from an earlier term; what is there has expired here.

    It sees a log that begins behind, and wants it to begin where its own does.
    """
    kit = a_kit()
    refused = kit.answers[kit.compare(entry(59, 4))]
    assert (refused.code, refused.begin) == (C.INCONSISTENT_STATE, 60)
    assert kit.code(kit.truncate(entry(begin, 4), commit_index=99)) is C.INCONSISTENT_STATE
    goes_on(kit)


@pytest.mark.parametrize("reported", [True, False])
def test_what_expires_during_a_search_is_no_contradiction(reported: bool) -> None:
    """`reported`: the store has said so before the leader's request came."""
    kit = Kit(*entries(0, 99, term=4), committed=99)
    assert kit.code(kit.compare(entry(20, 4))) is C.SUCCESS
    kit.ledger.gone = 60
    if reported:
        kit.did(kit.intake.expired(60))
    assert kit.code(kit.compare(entry(40, 4))) is C.INCONSISTENT_STATE
    assert kit.code(kit.truncate(entry(40, 4))) is C.INCONSISTENT_STATE
    goes_on(kit)


@pytest.mark.parametrize("reported", [True, False])
def test_an_append_of_what_has_expired_meanwhile_is_compared_for(reported: bool) -> None:
    """A longer follower that was compared in the middle of its log."""
    kit = Kit(*entries(0, 99, term=4), committed=99)
    assert kit.code(kit.truncate(entry(40, 4))) is C.SUCCESS
    assert kit.code(kit.append(entry(41, 4))) is C.SUCCESS
    kit.ledger.gone = 60
    if reported:
        kit.did(kit.intake.expired(60))
    assert kit.code(kit.append(entry(42, 4))) is C.INCONSISTENT_STATE
    goes_on(kit)


def test_what_differs_was_seen_in_this_session_only() -> None:
    kit = a_kit()
    kit.compare(entry(70, 3))
    kit.did(kit.intake.rest(session=2, term=6))
    kit.follow(session=3, term=6, committed=99)
    assert kit.code(kit.push(P.TRUNCATE, entry(50, 4), term=6)) is C.INCONSISTENT_STATE
    assert kit.alarm == ""


def test_a_log_without_anything_committed_begins_anew_before_its_begin() -> None:
    """An earlier leader's log began later."""
    kit = Kit(*entries(60, 99, term=4))
    kit.truncate(entry(40, 5))
    assert kit.changes == [(None, True, [40])]
