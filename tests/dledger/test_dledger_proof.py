"""Whether a member still leads: a round of heartbeats that began after the question says it."""

from __future__ import annotations

from election_kit import Kit

from actors.dledger.core.election_effects import Effects
from actors.dledger.core.leader_proof import Proven
from actors.dledger.core.member_state import TERM_NONE, Role
from wire.dledger.codes import ResponseCode

OK = ResponseCode.SUCCESS
TERM = 5
"""In which a kit is elected."""


def leader(members: int = 3) -> Kit:
    kit = Kit(members)
    kit.lead()
    return kit


def ask(kit: Kit, token: int) -> Effects:
    kit.last = kit.election.proof_requested(kit.now_s, token)
    return kit.last


def answer(kit: Kit, number: int, peer: str, code: ResponseCode = OK, term: int = -1) -> Effects:
    kit.last = kit.election.heartbeat_answered(kit.now_s, number, peer, code, term)
    return kit.last


def round_of(effects: Effects) -> int:
    assert effects.send_heartbeats is not None
    return effects.send_heartbeats.number


def test_a_round_from_before_the_question_proves_nothing() -> None:
    kit = leader()
    assert kit.election.beats is not None
    first = kit.election.beats.number  # sent when it was elected
    own = round_of(ask(kit, 1))
    assert own > first
    assert answer(kit, first, "n1").proven == ()
    assert answer(kit, own, "n1").proven == (Proven(1, TERM),)


def test_a_minority_proves_nothing() -> None:
    kit = leader(5)
    own = round_of(ask(kit, 1))
    assert answer(kit, own, "n1").proven == ()
    assert answer(kit, own, "n2", ResponseCode.NETWORK_ERROR).proven == ()
    assert answer(kit, own, "n3").proven == (Proven(1, TERM),)


def test_all_who_ask_meanwhile_share_the_next_round() -> None:
    kit = leader()
    first = round_of(ask(kit, 1))
    assert ask(kit, 2).send_heartbeats is None
    assert ask(kit, 3).send_heartbeats is None
    effects = answer(kit, first, "n1")
    assert effects.proven == (Proven(1, TERM),)
    second = round_of(effects)
    assert answer(kit, first, "n2").proven == ()
    assert answer(kit, second, "n2").proven == (Proven(2, TERM), Proven(3, TERM))


def test_a_later_round_by_the_clock_proves_it_too() -> None:
    kit = leader()
    own = round_of(ask(kit, 1))
    later = round_of(kit.tick())
    assert answer(kit, own, "n1").proven == ()  # of an older round: not counted any more
    assert answer(kit, later, "n1").proven == (Proven(1, TERM),)


def test_a_deposed_leader_says_so() -> None:
    kit = leader()
    own = round_of(ask(kit, 1))
    ask(kit, 2)
    effects = answer(kit, own, "n1", ResponseCode.EXPIRED_TERM, kit.state.term + 1)
    assert effects.proven == (Proven(1, TERM_NONE), Proven(2, TERM_NONE))


def test_a_leader_that_hears_nobody_says_so_when_it_steps_down() -> None:
    kit = leader()
    ask(kit, 1)
    proven: tuple[Proven, ...] = ()
    while not proven:
        proven = kit.tick().proven
    assert proven == (Proven(1, TERM_NONE),)
    assert kit.now_s <= 10


def test_whoever_does_not_lead_says_so_at_once() -> None:
    assert ask(Kit(), 7).proven == (Proven(7, TERM_NONE),)


def test_a_group_of_one_leads_for_itself() -> None:
    kit = Kit(1)
    while kit.state.role is not Role.LEADER:
        kit.tick()
    kit.fence()
    assert ask(kit, 1).proven == (Proven(1, TERM),)
    assert ask(kit, 2).proven == (Proven(2, TERM),)
