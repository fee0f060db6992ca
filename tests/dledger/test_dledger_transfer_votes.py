"""Who could not be elected takes no leadership over: a member that joins, or where too many others
are down, or join."""

from __future__ import annotations

import pytest
from election_kit import END, Kit

from actors.dledger.core.election_effects import Effects, TransferAnswer
from actors.dledger.core.member_state import LedgerEnd, Role
from actors.dledger.core.settings import TRANSFER_TIMEOUT_S, ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from actors.log_types import Membership
from wire.dledger.codes import ResponseCode as C
from wire.dledger.codes import VoteResult as V


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


def five(*joining: str, end: LedgerEnd = END, dead: tuple[str, ...] = ()) -> Kit:
    """The leader of n0 to n4, and what its first heartbeats found."""
    kit = Kit(members=5, settings=ElectionSettings(preferred_leaders=("n1",)), end=end)
    beats = kit.lead().send_heartbeats
    assert beats is not None
    answer(kit, beats.number, joining=joining, dead=dead)
    return kit


def answer(
    kit: Kit, number: int, joining: tuple[str, ...] = (), dead: tuple[str, ...] = ()
) -> None:
    """Of all peers to a round of heartbeats."""
    for name in kit.state.peers:
        code = C.NETWORK_ERROR if name in dead else C.SUCCESS
        kit.last = kit.election.heartbeat_answered(
            kit.now_s, number, name, code, -1, joins=name in joining
        )


def to_n1(kit: Kit, marks: dict[str, int]) -> Effects:
    asked = TransferAsked(token=1, transferer="n0", transferee="n1", term=kit.state.term)
    return kit.election.transfer_requested(kit.now_s, asked, marks)


MARKS = {"n1": 7, "n2": 7, "n3": 7, "n4": 7}
NOTHING = dict.fromkeys(MARKS, -1)
EMPTY = LedgerEnd(index=-1, term=-1)


@pytest.mark.parametrize(
    ("joining", "dead", "end", "may"),
    [
        ((), ("n2", "n3"), END, True),
        (("n4",), (), END, True),
        (("n4",), ("n2",), END, True),
        (("n4",), ("n2", "n3"), END, False),
        (("n2", "n3", "n4"), (), END, True),  # with the votes of all, theirs count
        (("n2", "n3", "n4"), ("n2",), END, False),
        (("n1",), ("n2", "n3"), END, True),  # it waits until its vote counts
        (("n1", "n2", "n3", "n4"), (), EMPTY, True),
        (("n1", "n2", "n3", "n4"), ("n4",), EMPTY, False),
    ],
)
def test_nobody_takes_over_whom_too_few_can_elect(
    joining: tuple[str, ...], dead: tuple[str, ...], end: LedgerEnd, may: bool
) -> None:
    """The vote of one that joins would not count, and without a leader it never would; however much
    it had acknowledged before it lost that."""
    marks = MARKS if end is END else NOTHING
    effects = to_n1(five(*joining, dead=dead, end=end), marks)
    refused = [each.code for each in effects.transfers]
    assert refused == ([] if may else [C.FALL_BEHIND_TOO_MUCH])
    assert (effects.hold_appends is True) is may
    kit = five(*joining, dead=dead, end=end)
    assert (kit.election.look_for_preferred(kit.now_s, marks).hold_appends is True) is may


def test_who_may_elect_the_transferee_is_asked_once_more_before_its_request() -> None:
    """Since its last heartbeat a member may have come back on an empty disk."""
    kit = five(dead=("n2", "n3"))
    began = to_n1(kit, MARKS)
    assert began.send_heartbeats is not None
    held = kit.election.held(kit.now_s, kit.state.session, END)
    assert held.send_transfer is None
    answer(kit, began.send_heartbeats.number, joining=("n4",), dead=("n2", "n3"))
    assert kit.last.send_transfer is None
    kit.last = kit.election.tick(kit.now_s + TRANSFER_TIMEOUT_S)
    assert [each.code for each in kit.last.transfers] == [C.TIMEOUT]
    assert kit.last.hold_appends is False
    assert kit.state.role is Role.LEADER


@pytest.mark.parametrize("is_held_first", [True, False])
def test_the_transferee_is_asked_once_the_log_rests_and_enough_follow(is_held_first: bool) -> None:
    kit = five(dead=("n2", "n3"))
    beats = to_n1(kit, MARKS).send_heartbeats
    assert beats is not None
    sent = []
    for is_held in (is_held_first, not is_held_first):
        if is_held:
            kit.last = kit.election.held(kit.now_s, kit.state.session, END)
            sent.append(kit.last.send_transfer)
            continue
        for name in ("n1", "n4"):
            kit.last = kit.election.heartbeat_answered(kit.now_s, beats.number, name, C.SUCCESS, -1)
            sent.append(kit.last.send_transfer)
    assert [each is None for each in sent] == [True, True, False]


def test_a_follower_says_with_its_heartbeats_that_its_vote_counts_only_with_all() -> None:
    kit = Kit(membership=Membership.FORGOT)
    for index, joins in ((3, True), (9, False)):
        kit.election.grew(0.2, kit.state.session, LedgerEnd(index=index, term=5))
        if not joins:
            kit.election.caught_up(0.3, kit.state.session)
        said = kit.hear("n1", 5).heartbeat
        assert said is not None
        assert (said.code, said.joins) == (C.SUCCESS, joins)
    other = kit.hear("n2", 5).heartbeat
    assert other is not None
    assert other.joins is False, "what is no success says nothing else"
