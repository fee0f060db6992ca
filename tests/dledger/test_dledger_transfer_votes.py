"""Who could not be elected takes no leadership over: a member that joins, or where too many others
are behind."""

from __future__ import annotations

import pytest
from election_kit import Kit

from actors.dledger.core.election_effects import TransferAnswer
from actors.dledger.core.member_state import LedgerEnd, Role
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from actors.log_types import Membership
from wire.dledger_codes import ResponseCode as C
from wire.dledger_codes import VoteResult as V


def ask(kit: Kit, index: int) -> tuple[TransferAnswer, ...]:
    """The leader n1 asks it to take over, with all up to there."""
    asked = TransferAsked(token=8, transferer="n1", transferee="n0", term=5, index=index)
    kit.last = kit.election.transfer_requested(kit.now_s, asked, {})
    return kit.last.transfers


def test_a_transferee_that_lacks_its_log_campaigns_once_its_vote_counts() -> None:
    """Before, it takes the votes of all: with one member down nobody would lead any more."""
    kit = Kit(membership=Membership.NEW)
    kit.hear("n1", 5)
    ask(kit, 9)
    kit.election.grew(0.2, kit.state.session, LedgerEnd(index=9, term=5))
    assert (kit.state.role, kit.state.term) == (Role.FOLLOWER, 5)
    kit.last = kit.election.caught_up(0.3, kit.state.session)
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 6)
    assert kit.state.membership is Membership.FULL
    kit.now_s = 0.3
    kit.fence()
    number = kit.campaign()
    kit.answers(number, V.ACCEPT, term=6)
    assert kit.state.role is Role.LEADER


def test_where_there_is_no_entry_there_is_nothing_to_wait_for() -> None:
    """A Java leader opens its term without one: nobody would ever take over from it."""
    kit = Kit(membership=Membership.NEW, end=LedgerEnd(index=-1, term=-1))
    kit.hear("n1", 5)
    ask(kit, -1)
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 6)


def test_a_transferee_that_lacks_its_log_for_too_long_leaves_the_leader_alone() -> None:
    kit = Kit(membership=Membership.NEW)
    kit.hear("n1", 5)
    assert ask(kit, 7) == ()
    kit.tick()
    assert [each.code for each in kit.last.transfers] == [C.TAKE_LEADERSHIP_FAILED]
    assert (kit.state.role, kit.state.term) == (Role.FOLLOWER, 5)


MARKS = {"n1": 7, "n2": 7, "n3": 7, "n4": 7 - 1000}


def five() -> Kit:
    kit = Kit(members=5, settings=ElectionSettings(preferred_leaders=("n1",)))
    kit.lead()
    return kit


@pytest.mark.parametrize(
    ("marks", "dead", "may"),
    [
        (MARKS, (), True),
        (MARKS, ("n2",), True),
        (MARKS, ("n2", "n3"), False),  # one that joins may be far behind for long
        (MARKS | {"n2": 7 - 1000, "n3": 7 - 1000}, (), False),
    ],
)
def test_nobody_takes_over_whom_too_few_can_elect(
    marks: dict[str, int], dead: tuple[str, ...], may: bool
) -> None:
    """One of those that are behind may be joining: its vote would not count, and without a leader
    it never would."""
    kit = five()
    for name in dead:
        kit.election.heartbeat_answered(kit.now_s, 0, name, C.NETWORK_ERROR, -1)
    asked = TransferAsked(token=1, transferer="n0", transferee="n1", term=kit.state.term)
    effects = kit.election.transfer_requested(kit.now_s, asked, marks)
    refused = [each.code for each in effects.transfers]
    assert refused == ([] if may else [C.FALL_BEHIND_TOO_MUCH])
    assert (effects.hold_appends is True) is may
    kit = five()
    for name in dead:
        kit.election.heartbeat_answered(kit.now_s, 0, name, C.NETWORK_ERROR, -1)
    assert (kit.election.look_for_preferred(kit.now_s, marks).hold_appends is True) is may
