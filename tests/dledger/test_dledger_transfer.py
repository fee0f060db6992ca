"""dledger.md 4.5: leadership handed over on request, or to a preferred leader."""

from __future__ import annotations

import itertools

import attrs
import pytest
from election_kit import END, Kit

from actors.dledger.core.election_effects import Effects, SendTransfer, TransferAnswer
from actors.dledger.core.member_state import LedgerEnd, Role
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from wire.dledger.codes import ResponseCode as C
from wire.dledger.codes import VoteResult as V

TO_N1 = TransferAsked(token=7, transferer="n0", transferee="n1", term=5)
TO_US = TransferAsked(token=8, transferer="n1", transferee="n0", term=5, index=9)


def a_leader(settings: ElectionSettings | None = None) -> Kit:
    kit = Kit(settings=settings)
    kit.lead()
    return kit


def ask(kit: Kit, asked: TransferAsked, watermark: int = 7) -> Effects:
    marks = {asked.transferee: watermark}
    kit.last = kit.election.transfer_requested(kit.now_s, asked, marks)
    return kit.last


def code(effects: Effects) -> C | None:
    """Of the one answer."""
    assert len(effects.transfers) <= 1
    return effects.transfers[0].code if effects.transfers else None


def handing_over() -> tuple[Kit, int]:
    """A leader that has asked n1."""
    kit = a_leader()
    assert ask(kit, TO_N1).hold_appends is True
    kit.last = kit.election.held(kit.now_s, kit.state.session, LedgerEnd(index=9, term=5))
    assert kit.last.send_transfer is not None
    return kit, kit.last.send_transfer.number


@pytest.mark.parametrize(
    ("changes", "watermark", "expected"),
    [
        ({"transferee": "n9", "term": 4}, -1, C.UNKNOWN_MEMBER),
        ({"transferee": "n0"}, 7, C.UNKNOWN_MEMBER),
        ({"term": 4}, -1, C.INCONSISTENT_TERM),
        ({}, 7 - 1000, C.FALL_BEHIND_TOO_MUCH),
        ({}, 7 - 999, None),
    ],
)
@pytest.mark.checklist(32, of="dledger")
def test_what_a_leader_refuses(
    changes: dict[str, object], watermark: int, expected: C | None
) -> None:
    kit = a_leader()
    assert code(ask(kit, attrs.evolve(TO_N1, **changes), watermark)) is expected
    assert (kit.election.out is None) == (expected is not None)


def test_who_does_not_lead_refuses() -> None:
    kit = Kit()
    assert code(ask(kit, TO_N1)) is C.NOT_LEADER
    third = attrs.evolve(TO_N1, transferer="n2")
    assert code(ask(kit, third)) is C.UNEXPECTED_ARGUMENT


def test_one_transfer_at_a_time_and_who_lags_hears_that_first() -> None:
    kit, _ = handing_over()
    assert code(ask(kit, TO_N1)) is C.LEADER_TRANSFERRING
    assert code(ask(kit, TO_N1, 7 - 2000)) is C.FALL_BEHIND_TOO_MUCH


@pytest.mark.checklist(32, of="dledger")
def test_appends_are_held_before_the_end_is_named() -> None:
    kit = a_leader()
    effects = ask(kit, TO_N1)
    assert effects.hold_appends is True
    assert effects.send_transfer is None
    stale = kit.election.held(kit.now_s, kit.state.session - 1, END)
    assert stale.send_transfer is None
    effects = kit.election.held(kit.now_s, kit.state.session, LedgerEnd(index=9, term=5))
    assert effects.send_transfer == SendTransfer(
        number=kit.election.number, transferee="n1", term=5, index=9
    )
    again = kit.election.held(kit.now_s, kit.state.session, LedgerEnd(index=9, term=5))
    assert again.send_transfer is None


@pytest.mark.checklist(32, of="dledger")
def test_success_makes_the_old_leader_a_candidate_of_the_next_term() -> None:
    kit, number = handing_over()
    effects = kit.election.transfer_answered(kit.now_s, number, C.SUCCESS, 6)
    assert effects.transfers == (TransferAnswer(token=7, code=C.SUCCESS, term=5),)
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 6)
    assert effects.hold_appends is None, "a role's change says it"
    kit.hear("n1", 6)
    assert kit.state.role is Role.FOLLOWER


@pytest.mark.checklist(32, of="dledger")
@pytest.mark.parametrize("said", [C.TAKE_LEADERSHIP_FAILED, C.NETWORK_ERROR, C.EXPIRED_TERM])
def test_failure_lets_appends_in_again(said: C) -> None:
    kit, number = handing_over()
    assert kit.election.transfer_answered(kit.now_s, number + 1, said, 6).transfers == ()
    effects = kit.election.transfer_answered(kit.now_s, number, said, 6)
    assert code(effects) is said
    assert effects.hold_appends is False
    assert kit.state.role is Role.LEADER
    assert code(ask(kit, TO_N1)) is None


def test_silence_of_the_transferee_ends_the_transfer() -> None:
    kit, number = handing_over()
    begin_s = kit.now_s
    while not kit.last.transfers:
        kit.tick()
        if kit.last.send_heartbeats is not None:
            kit.beat_answers(kit.last.send_heartbeats.number, C.SUCCESS)
    assert code(kit.last) is C.TIMEOUT
    assert kit.now_s == pytest.approx(begin_s + 3.0)
    assert kit.last.hold_appends is False
    assert kit.election.transfer_answered(kit.now_s, number, C.SUCCESS, 6).role is None


def test_a_leader_that_hears_of_the_next_term_first_still_answers() -> None:
    kit, number = handing_over()
    kit.asked_by("n1", 6, LedgerEnd(index=9, term=5))
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 6)
    effects = kit.election.transfer_answered(kit.now_s, number, C.SUCCESS, 6)
    assert code(effects) is C.SUCCESS
    assert kit.state.term == 6


def test_a_leader_that_fails_to_hand_over_and_leads_again_has_answered() -> None:
    kit, _ = handing_over()
    kit.asked_by("n1", 6, LedgerEnd(index=9, term=5))
    kit.fence()
    number = kit.campaign()
    kit.answers(number, V.ACCEPT)
    assert code(kit.last) is C.TAKE_LEADERSHIP_FAILED
    assert kit.election.out is None


# ---- the transferee ----


def a_follower() -> Kit:
    kit = Kit()
    kit.hear("n1", 5)
    return kit


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"transferer": "n2"}, C.INCONSISTENT_LEADER),
        ({"term": 4}, C.INCONSISTENT_TERM),
        ({}, None),
    ],
)
def test_what_a_transferee_refuses(changes: dict[str, object], expected: C | None) -> None:
    assert code(ask(a_follower(), attrs.evolve(TO_US, **changes))) is expected


def test_a_candidate_takes_nothing_over() -> None:
    assert code(ask(Kit(), TO_US)) is C.INCONSISTENT_LEADER


def test_who_cannot_append_does_not_take_over() -> None:
    """Bug V10: its new term would depose a leader that can."""
    kit = a_follower()
    kit.election.lead_allowed(0.0, False)
    assert code(ask(kit, attrs.evolve(TO_US, index=7))) is C.TAKE_LEADERSHIP_FAILED
    assert (kit.state.role, kit.state.term) == (Role.FOLLOWER, 5)


def test_a_disk_that_fills_while_the_log_is_awaited_ends_the_taking_over() -> None:
    kit = a_follower()
    ask(kit, TO_US)
    kit.last = kit.election.lead_allowed(0.1, False)
    assert code(kit.last) is C.TAKE_LEADERSHIP_FAILED
    kit.election.grew(0.3, kit.state.session, LedgerEnd(index=9, term=5))
    assert (kit.state.role, kit.state.term) == (Role.FOLLOWER, 5)


def test_a_transferee_campaigns_once_its_log_is_long_enough() -> None:
    kit = a_follower()
    ask(kit, TO_US)
    assert kit.state.role is Role.FOLLOWER
    effects = kit.election.grew(0.2, kit.state.session, LedgerEnd(index=8, term=5))
    assert effects.role is None
    kit.last = kit.election.grew(0.3, kit.state.session, LedgerEnd(index=9, term=5))
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 6)
    kit.now_s = 0.3
    kit.fence()
    number = kit.campaign()
    assert 0.03 <= kit.now_s - 0.3 <= 0.1
    kit.answers(number, V.ACCEPT)
    assert kit.last.transfers == (TransferAnswer(token=8, code=C.SUCCESS, term=6),)


def test_a_transferee_that_is_long_enough_begins_at_once_and_only_once() -> None:
    kit = a_follower()
    asked = attrs.evolve(TO_US, index=7)
    assert code(ask(kit, asked)) is None
    assert kit.state.term == 6
    kit = a_follower()
    ask(kit, TO_US)
    assert code(ask(kit, attrs.evolve(TO_US, token=9))) is C.LEADER_TRANSFERRING


def test_a_transferee_that_lags_gives_up_after_a_second() -> None:
    kit = a_follower()
    ask(kit, TO_US)
    kit.tick()
    assert kit.now_s == pytest.approx(1.0)
    assert code(kit.last) is C.TAKE_LEADERSHIP_FAILED
    assert kit.state.role is Role.FOLLOWER


@pytest.mark.parametrize(("term", "expected"), [(6, C.TAKE_LEADERSHIP_FAILED), (7, C.EXPIRED_TERM)])
def test_another_leads_instead(term: int, expected: C) -> None:
    kit = a_follower()
    ask(kit, attrs.evolve(TO_US, index=7))
    kit.fence()
    kit.hear("n2", term)
    assert code(kit.last) is expected


def test_who_takes_over_gives_its_vote_to_a_longer_log_only() -> None:
    kit = a_follower()
    ask(kit, attrs.evolve(TO_US, index=7))
    kit.fence()
    effects = kit.asked_by("n2", 6)
    assert effects.vote is not None
    assert effects.vote.result is V.REJECT_TAKING_LEADERSHIP


# ---- preferred leaders ----


def test_leadership_goes_to_the_preferred_leader_that_lags_least() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1", "n2", "n9")))
    effects = kit.election.look_for_preferred(kit.now_s, {"n1": 3, "n2": 5})
    assert effects.hold_appends is True
    effects = kit.election.held(kit.now_s, kit.state.session, END)
    assert effects.send_transfer is not None
    assert effects.send_transfer.transferee == "n2"
    effects = kit.election.transfer_answered(kit.now_s, effects.send_transfer.number, C.SUCCESS, 6)
    assert effects.transfers == (), "nobody asked"


def test_no_preferred_leader_can() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1",)))
    marks = {"n1": 7 - 1000, "n2": 7}
    assert kit.election.look_for_preferred(kit.now_s, marks).hold_appends is None
    kit.election.heartbeat_answered(kit.now_s, 0, "n1", C.NETWORK_ERROR, -1)
    assert kit.election.look_for_preferred(kit.now_s, {"n1": 7, "n2": 7}).hold_appends is None
    kit.election.heartbeat_answered(kit.now_s, 0, "n1", C.SUCCESS, -1)
    assert kit.election.look_for_preferred(kit.now_s, {"n1": 7, "n2": 7}).hold_appends is True
    assert kit.election.look_for_preferred(kit.now_s, {"n1": 7}).hold_appends is None


def asked_at_s(kit: Kit, marks: dict[str, int], name: str, until_s: int) -> list[int]:
    """The seconds at which that preferred leader is asked in vain."""
    seconds = []
    for now_s in range(until_s):
        if kit.election.look_for_preferred(now_s, marks).hold_appends:
            sent = kit.election.held(now_s, kit.state.session, END).send_transfer
            assert sent is not None
            assert sent.transferee == name
            kit.election.transfer_answered(now_s, sent.number, C.TAKE_LEADERSHIP_FAILED, 5)
            seconds.append(now_s)
    return seconds


def test_a_preferred_leader_that_does_not_take_over_is_asked_less_and_less_often() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1",)))
    seconds = asked_at_s(kit, {"n1": 7}, "n1", 250)
    pauses = [after - before for before, after in itertools.pairwise(seconds)]
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_another_preferred_leader_is_asked_meanwhile() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1", "n2")))
    assert asked_at_s(kit, {"n1": 7, "n2": 6}, "n1", 1) == [0]
    assert asked_at_s(kit, {"n1": 7, "n2": 6}, "n2", 1) == [0]
    assert kit.election.look_for_preferred(1.0, {"n1": 7, "n2": 6}).hold_appends is None


def test_one_that_took_over_is_asked_at_once_the_next_time() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1",)))
    kit.election.preferred_pauses.failed("n1", 0.0, 1.0)
    assert kit.election.preferred_pauses.waiting(0.0) == {"n1"}
    assert kit.election.look_for_preferred(2.0, {"n1": 7}).hold_appends is True
    sent = kit.election.held(2.0, kit.state.session, END).send_transfer
    assert sent is not None
    kit.election.transfer_answered(2.0, sent.number, C.SUCCESS, 6)
    assert kit.election.preferred_pauses.waiting(2.0) == set()


def test_what_a_preferred_leader_did_long_ago_is_forgotten() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n1",)))
    pauses = kit.election.preferred_pauses
    for now_s in (0.0, 10.0, 70.0):  # before the minute after its pause is over
        pauses.failed("n1", now_s, 1.0)
    assert pauses.waiting(77.9) == {"n1"}
    assert pauses.waiting(78.0) == set()
    pauses.failed("n1", 78.0 + 60.0, 1.0)
    assert pauses.waiting(78.0 + 60.0 + 1.9) == {"n1"}
    assert pauses.waiting(78.0 + 60.0 + 2.0) == set()


def test_one_that_takes_over_when_a_caller_asks_is_let_alone_no_more() -> None:
    kit, number = handing_over()
    kit.election.preferred_pauses.failed("n1", kit.now_s, 1.0)
    assert code(kit.election.transfer_answered(kit.now_s, number, C.SUCCESS, 6)) is C.SUCCESS
    assert kit.election.preferred_pauses.waiting(kit.now_s) == set()


def test_one_that_does_not_take_over_when_a_caller_asks_is_let_alone_as_before() -> None:
    kit, number = handing_over()
    pauses = kit.election.preferred_pauses
    kit.election.transfer_answered(kit.now_s, number, C.TAKE_LEADERSHIP_FAILED, 5)
    assert pauses.waiting(kit.now_s) == set()
    pauses.failed("n1", kit.now_s, 1.0)
    assert ask(kit, TO_N1).hold_appends is True
    assert pauses.waiting(kit.now_s) == {"n1"}


def test_one_that_leads_by_an_election_is_let_alone_no_more() -> None:
    kit = a_leader()
    for name in ("n1", "n2"):
        kit.election.preferred_pauses.failed(name, kit.now_s, 1.0)
    kit.hear("n1", 6)
    kit.fence()
    kit.hear("n1", 6)
    assert kit.state.leader == "n1"
    assert kit.election.preferred_pauses.waiting(kit.now_s) == {"n2"}


def test_a_preferred_leader_keeps_its_place() -> None:
    kit = a_leader(ElectionSettings(preferred_leaders=("n0", "n1")))
    assert kit.election.look_for_preferred(kit.now_s, {"n1": 7, "n2": 7}).hold_appends is None
    follower = a_follower()
    assert follower.election.look_for_preferred(0.0, {"n1": 7}).hold_appends is None
