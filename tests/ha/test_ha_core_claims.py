"""Claims: one coordinator at a time, and what is left of one that went away."""

from __future__ import annotations

import attrs
from group_states import slave

from actors.ha.core.claims import CLAIM_LEASE_S, Claims
from actors.log_types import Claim

A = Claim(number=1, token=11, by="n1", master="n2")
B = Claim(number=1, token=22, by="n2", master="n1")
AGAIN = attrs.evolve(A, again=True)
KEPT = attrs.evolve(A, kept=True)


def test_the_second_is_refused_and_learns_of_the_first() -> None:
    claims = Claims()
    assert claims.take(A, 10.0) == ""
    assert claims.take(AGAIN, 12.0) == "", "its coordinator is at it"
    expected = "promotion 1 makes n2 master, by n1, since 4 s: wait for its end"
    assert claims.take(B, 14.0) == expected
    assert (claims.live, claims.number) == (A, 1)
    claims.drop(B.token)
    assert claims.live == A, "a stranger's word ends nothing"
    claims.drop(A.token)
    assert (claims.live, claims.number, claims.deadline_s) == (None, 0, None)
    assert claims.take(B, 15.0) == ""


def test_what_is_announced_ends_when_its_coordinator_is_silent() -> None:
    claims = Claims()
    claims.take(A, 10.0)
    claims.take(AGAIN, 12.0)
    assert claims.deadline_s == 12.0 + CLAIM_LEASE_S
    claims.pass_time(12.0 + CLAIM_LEASE_S - 0.1)
    assert claims.live == A
    claims.pass_time(12.0 + CLAIM_LEASE_S)
    assert (claims.live, claims.abandoned, claims.number) == (None, None, 0)


def test_what_has_ended_cannot_be_held_again() -> None:
    claims = Claims()
    claims.take(A, 0.0)
    expected = "promotion 1 by n1 is not claimed here any more"
    assert claims.take(KEPT, CLAIM_LEASE_S) == expected
    assert claims.take(AGAIN, CLAIM_LEASE_S) == expected
    assert claims.live is None
    assert claims.take(B, 6.0) == ""
    assert claims.take(KEPT, 6.0) == expected


def test_what_is_confirmed_stays_and_makes_room_for_a_higher_number() -> None:
    claims = Claims()
    claims.take(A, 0.0)
    assert claims.take(KEPT, 1.0) == ""
    assert claims.take(AGAIN, 2.0) == ""
    assert claims.live == KEPT, "news of the coordinator do not take it back"
    assert "wait for its end" in claims.take(attrs.evolve(B, number=2), 6.9)
    claims.pass_time(7.0)
    assert (claims.live, claims.abandoned, claims.number) == (None, KEPT, 1)
    assert claims.take(B, 7.0) == "promotion 1 may have taken place: ask again"
    assert claims.take(attrs.evolve(B, number=2), 7.0) == ""
    assert claims.number == 2
    claims.drop(B.token)
    assert (claims.abandoned, claims.number) == (KEPT, 1), "it may have taken place all the same"
    claims.drop(A.token)
    assert claims.abandoned is None, "its own coordinator knows that it has not"


def test_force_puts_a_living_coordinator_aside() -> None:
    claims = Claims()
    claims.take(A, 0.0)
    forced = attrs.evolve(B, force=True)
    assert claims.take(forced, 1.0) == ""
    assert "not claimed here any more" in claims.take(KEPT, 1.1)
    claims.drop(B.token)
    claims.take(A, 2.0)
    claims.take(KEPT, 2.1)
    assert claims.take(forced, 3.0) == "promotion 1 may have taken place: ask again"
    assert claims.live == KEPT, "who is refused puts nobody aside"
    assert claims.take(attrs.evolve(forced, number=2), 3.0) == ""
    assert claims.abandoned == KEPT


def test_a_promotion_settles_what_was_claimed_up_to_it() -> None:
    claims = Claims()
    claims.take(A, 0.0)
    claims.take(KEPT, 0.1)
    claims.pass_time(10.0)
    later = attrs.evolve(B, number=3)
    claims.take(later, 10.0)
    claims.recorded(2)
    assert (claims.abandoned, claims.live) == (None, later)
    claims.recorded(3)
    assert (claims.live, claims.number) == (None, 0)


def test_what_force_puts_aside_stays_open_beside_what_comes_after_it() -> None:
    """Two chosen ones may have recorded it: each answers for itself."""
    claims = Claims("n0")
    claims.take(A, 0.0)
    claims.take(KEPT, 0.1)
    later = attrs.evolve(B, number=2, force=True)
    assert claims.take(later, 1.0) == ""
    assert claims.take(attrs.evolve(later, kept=True), 1.1) == ""
    claims.pass_time(1.1 + CLAIM_LEASE_S)
    assert claims.number == 2
    assert claims.questions(7.0, 40) == (("n2", 41), ("n1", 42))
    void = claims.heard("n1", slave("n1"), 42, 7.1)
    assert void is not None
    assert void.token == B.token
    assert claims.abandoned == KEPT
    assert claims.heard("n2", slave("n2"), 40, 7.2) is None, "asked before it was abandoned"
    assert claims.heard("n2", slave("n2"), 42, 7.3) == KEPT
    assert (claims.abandoned, claims.deadline_s) == (None, None)
