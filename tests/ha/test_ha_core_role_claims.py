"""What a claim does to a master, and to a slave."""

from __future__ import annotations

import pytest
from roles_kit import claim, fenced, opened, promoted, rules, said, slave, start

from actors.events import roles as events
from actors.ha.core.claims import ASK_CHOSEN_S, CLAIM_LEASE_S
from actors.ha.core.role_effects import Effects, Fence, Role
from actors.ha.core.role_rules import RoleRules
from actors.log_types import GroupState, Promotion


def test_a_hand_over_closes_and_opens_again_in_the_same_epoch() -> None:
    one = rules(members=("n1",))
    start(one)
    one.heard("n1", said("n1"), 0.5)
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
    one = rules(members=("n1",))
    start(one)
    one.heard("n1", said("n1"), 0.5)
    one.fence(claim(), on=True, now_s=1.0)
    assert not opened(one.tick(1.0 + CLAIM_LEASE_S - 0.1))
    assert opened(one.tick(1.0 + CLAIM_LEASE_S))


def abandoned(at_s: float = 1.1 + CLAIM_LEASE_S) -> tuple[RoleRules, Effects]:
    """n0, whose coordinator n2 confirmed at 1.1 s that it makes n1 master, and has died since."""
    one = rules(members=("n1",))
    start(one)
    one.heard("n1", said("n1"), 0.5)
    one.fence(claim(), on=True, now_s=1.0)
    one.fence(claim(kept=True), on=True, now_s=1.1)
    return one, one.tick(at_s)


def test_a_hand_over_whose_coordinator_died_after_it_was_confirmed_stays() -> None:
    """The chosen one may be master, and silent."""
    one, effects = abandoned()
    assert (opened(effects), fenced(one)) == (False, Fence.ABANDONED)
    assert one.view().reason.endswith(
        "n2 went away while it made n1 master by promotion 1; n1 knows whether it is, and has not"
        " answered: start n1, or type `promote orders`"
    )
    (reported,) = effects.events
    assert isinstance(reported, events.MasterFenced)
    assert not opened(one.heard("n1", said("n1"), 1000.0)), "an old word: it may hear of it later"
    assert start(one, now_s=1001.0).gate is not None
    assert fenced(one) is Fence.ABANDONED, "also behind a restart of the tree"
    assert promoted(one, Promotion(2, "n0"), 1002.0).restart
    start(one, now_s=1002.0)
    assert opened(one.heard("n1", said("n1", number=2), 1003.0))


def test_the_chosen_one_s_word_ends_it() -> None:
    one, effects = abandoned()
    ((chosen, number),) = effects.ask
    assert chosen == "n1"
    history = one.record.history
    effects = one.heard("n1", said("n1"), 7.0, asked=number)
    assert (opened(effects), fenced(one), one.view().claimed) == (True, None, 0)
    assert effects.events == (events.PromotionVoid(number=1, master="n1", by="n2"),)
    assert one.record.history == history, "the same epoch goes on"


@pytest.mark.parametrize("state", [said("n1", claimed=1), said("n1", claimed=2)])
def test_a_chosen_one_that_still_holds_it_is_asked_again(state: GroupState) -> None:
    one, effects = abandoned()
    ((_, number),) = effects.ask
    effects = one.heard("n1", state, 7.0, asked=number)
    assert (opened(effects), effects.ask) == (False, ())
    assert effects.deadline_s == 1.1 + CLAIM_LEASE_S + ASK_CHOSEN_S
    assert one.tick(effects.deadline_s).ask == (("n1", number + 1),)
    assert opened(one.heard("n1", said("n1"), 12.0, asked=number)), "asked since, too"


def test_a_chosen_one_that_is_back_is_asked_at_once() -> None:
    one, effects = abandoned()
    ((_, number),) = effects.ask
    effects = one.heard("n1", said("n1", boot=2), 7.0)
    assert (opened(effects), effects.ask) == (False, (("n1", number + 1),))
    assert opened(one.heard("n1", said("n1", boot=2), 7.1, asked=number + 1))


def test_a_chosen_one_that_is_master_is_followed() -> None:
    one, effects = abandoned()
    ((_, number),) = effects.ask
    effects = one.heard("n1", said("n1", number=1, master="n1"), 7.0, asked=number)
    assert (effects.restart, effects.events[0]) == (
        True,
        events.PromotionRecorded(number=1, master="n1", before="n0"),
    )


def test_another_member_s_word_ends_nothing() -> None:
    one = rules(members=("n1", "n2"))
    start(one)
    one.fence(claim(), on=True, now_s=1.0)
    one.fence(claim(kept=True), on=True, now_s=1.1)
    one.tick(1.1 + CLAIM_LEASE_S)
    one.heard("n2", said("n2"), 7.0, asked=99)
    assert fenced(one) is Fence.ABANDONED


def test_of_what_the_chosen_one_held_itself_nothing_is_left() -> None:
    """So it says that it is not master, and never will be by that."""
    one = slave(0)
    one.fence(claim(), on=True, now_s=1.0)
    one.fence(claim(kept=True), on=True, now_s=1.1)
    assert one.view().claimed == 1
    assert one.tick(1.1 + CLAIM_LEASE_S).ask == ()
    assert one.view().claimed == 0


def test_a_promotion_that_is_known_and_not_acted_by_yet_counts_as_claimed() -> None:
    """Until then the view shows the older part: nobody may take it for a word that ends a claim."""
    one = slave(0)
    promoted(one, Promotion(1, "n1"), 1.0)
    assert (one.view().number, one.view().claimed) == (0, 1)
    start(one, now_s=2.0)
    assert (one.view().number, one.view().claimed) == (1, 0)


def test_a_claim_for_a_stranger_is_refused() -> None:
    one = slave(0)
    effects = one.fence(claim(master="x"), on=True, now_s=1.0)
    assert effects.refused == "x is no Python member of the group"


def test_a_slave_holds_a_claim_too() -> None:
    one = slave(0)
    assert one.fence(claim(), on=True, now_s=1.0).deadline_s == 1.0 + CLAIM_LEASE_S
    assert one.view().claimed == 1
    assert "by n2" in one.fence(claim(token=78), on=True, now_s=2.0).refused
    one.tick(1.0 + CLAIM_LEASE_S)
    assert one.view().claimed == 0


def test_the_chosen_one_takes_a_promotion_from_whose_claim_it_has_confirmed() -> None:
    one = slave(0)
    one.fence(claim(), on=True, now_s=1.0)
    gone = "promotion 1 is not claimed here any more"
    assert one.recorded(Promotion(1, "n1"), 1.1, token=77).refused == gone, "not confirmed"
    one.fence(claim(kept=True), on=True, now_s=1.2)
    refused = one.recorded(Promotion(1, "n1"), 1.3, token=78).refused
    assert refused == "promotion 1 of n1 is under way", "another coordinator's"
    assert one.recorded(Promotion(1, "n1"), 1.4, token=77, force=True).restart
    start(one, now_s=3.0)
    assert one.view().claimed == 0


def test_the_chosen_one_refuses_who_stood_still_for_too_long() -> None:
    """Somebody else may have been made master by the same number meanwhile, without this node."""
    one = slave(0)
    one.fence(claim(), on=True, now_s=1.0)
    one.fence(claim(kept=True), on=True, now_s=1.2)
    effects = one.recorded(Promotion(1, "n1"), 1.2 + CLAIM_LEASE_S, token=77)
    assert effects.refused == "promotion 1 is not claimed here any more"
    assert (effects.record, one.promotion.number) == (None, 0)


def test_the_chosen_one_that_started_anew_has_lost_the_claim_and_refuses() -> None:
    one = slave(0)
    one.fence(claim(), on=True, now_s=1.0)
    one.fence(claim(kept=True), on=True, now_s=1.2)
    anew = slave(0)  # the same node, from what it remembers: nothing
    effects = anew.recorded(Promotion(1, "n1"), 1.3, token=77, force=True)
    assert effects.refused == "promotion 1 is not claimed here any more"
    start(anew, now_s=1.4)
    assert anew.view().role is Role.SLAVE


def test_any_other_member_takes_what_the_chosen_one_has_taken_without_its_claim() -> None:
    """It was away while it was claimed, or has started anew."""
    one = slave(0)
    assert one.recorded(Promotion(1, "n2"), 1.0, token=77).restart


def test_an_older_promotion_is_refused_while_a_later_one_is_under_way() -> None:
    one = slave(0)
    one.fence(claim(2), on=True, now_s=1.0)
    refused = one.recorded(Promotion(1, "n2"), 2.0, token=78).refused
    assert refused == "promotion 2 of n1 is under way"
    assert promoted(one, Promotion(2, "n1"), 2.0).restart
    start(one, now_s=3.0)
    assert one.view().claimed == 0


def test_of_two_promotions_of_one_number_a_member_takes_the_one_that_is_claimed_there() -> None:
    """Also if both make the same node master: one coordinator's word, not two."""
    for other in ("n1", "n2"):
        one = rules(members=("n1", "n2"))
        start(one)
        one.fence(claim(), on=True, now_s=1.0)
        refused = one.recorded(Promotion(1, other), 1.5, token=78).refused
        assert refused == "promotion 1 of n1 is under way"
        assert one.recorded(Promotion(1, "n1"), 1.5, token=77).restart


def test_a_promotion_by_a_higher_number_than_is_claimed_is_a_fact() -> None:
    one = rules(members=("n1", "n2"))
    start(one)
    one.fence(claim(), on=True, now_s=1.0)
    assert one.recorded(Promotion(2, "n2"), 1.5, token=78).restart
    start(one, now_s=3.0)
    assert one.view().claimed == 0
