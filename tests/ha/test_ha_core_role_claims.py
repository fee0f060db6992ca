"""What a claim does to a master, and to a slave."""

from __future__ import annotations

from typing import Any

import attrs
from roles_kit import fenced, opened, rules, said, slave, start

from actors.events import roles as events
from actors.ha.core.claims import CLAIM_LEASE_S
from actors.ha.core.role_effects import Fence
from actors.log_types import Claim, Promotion


def claim(number: int = 1, **changes: Any) -> Claim:
    return attrs.evolve(Claim(number=number, token=77, by="n2", master="n1"), **changes)


def test_a_hand_over_closes_and_opens_again_in_the_same_reign() -> None:
    one = rules(members=())
    start(one)
    history = one.record.history
    assert one.fence(claim(0), on=True, now_s=1.0).refused
    effects = one.fence(claim(), on=True, now_s=1.0)
    assert (effects.refused, fenced(one)) == ("", Fence.HANDING_OVER)
    assert effects.gate is not None
    assert not effects.gate.open
    assert one.view().opened, "slaves still get what was written"
    assert (one.view().claimed, effects.deadline_s) == (1, 1.0 + CLAIM_LEASE_S)
    assert one.fence(claim(token=78, by="n1"), on=True, now_s=1.5).refused
    assert not opened(one.fence(claim(token=78), on=False, now_s=1.5))
    assert opened(one.fence(claim(), on=False, now_s=2.0))
    assert (one.record.history, one.view().claimed) == (history, 0)


def test_a_hand_over_whose_coordinator_died_before_it_was_confirmed_ends_by_itself() -> None:
    one = rules(members=())
    start(one)
    one.fence(claim(), on=True, now_s=1.0)
    assert not opened(one.tick(1.0 + CLAIM_LEASE_S - 0.1))
    assert opened(one.tick(1.0 + CLAIM_LEASE_S))


def test_a_hand_over_whose_coordinator_died_after_it_was_confirmed_needs_an_operator() -> None:
    """The chosen one may be master, and silent."""
    one = rules(members=("n1",))
    start(one)
    one.heard("n1", said("n1"), 0.5)
    one.fence(claim(), on=True, now_s=1.0)
    one.fence(claim(kept=True), on=True, now_s=1.1)
    effects = one.tick(1.1 + CLAIM_LEASE_S)
    assert (opened(effects), fenced(one)) == (False, Fence.ABANDONED)
    assert "n2 fell silent making n1 master by number 1: `promote orders`" in one.view().reason
    (told,) = effects.events
    assert isinstance(told, events.MasterFenced)
    assert not opened(one.heard("n1", said("n1"), 1000.0)), "it may hear of it later"
    assert start(one, now_s=1001.0).gate is not None
    assert fenced(one) is Fence.ABANDONED, "also behind a restart of the tree"
    assert one.recorded(Promotion(2, "n0"), 1002.0).restart
    start(one, now_s=1002.0)
    assert opened(one.heard("n1", said("n1", number=2), 1003.0))


def test_a_slave_holds_a_claim_too() -> None:
    one = slave(0)
    assert one.fence(claim(), on=True, now_s=1.0).deadline_s == 1.0 + CLAIM_LEASE_S
    assert one.view().claimed == 1
    assert "by n2" in one.fence(claim(token=78), on=True, now_s=2.0).refused
    one.tick(1.0 + CLAIM_LEASE_S)
    assert one.view().claimed == 0


def test_an_older_promotion_is_refused_while_a_later_one_is_under_way() -> None:
    one = slave(0)
    one.fence(claim(2), on=True, now_s=1.0)
    assert one.recorded(Promotion(1, "n2"), 2.0).refused == "promotion 2 of n1 is under way"
    assert one.recorded(Promotion(2, "n1"), 2.0).restart
    assert one.view().claimed == 0


def test_of_two_promotions_of_one_number_a_member_takes_the_one_that_is_claimed_there() -> None:
    """The other's coordinator stood still while all who held its claim started anew."""
    one = rules(members=("n1", "n2"))
    start(one)
    one.fence(claim(), on=True, now_s=1.0)
    assert "promotion 1 of n1 is under way" in one.recorded(Promotion(1, "n2"), 1.5).refused
    assert one.recorded(Promotion(1, "n1"), 1.5).restart
