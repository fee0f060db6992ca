"""A promotion's number that comes from outside follows what is known, or is refused."""

from __future__ import annotations

import attrs
import pytest
from group_states import WISH, master, slave
from promotion_kit import planned
from roles_kit import claim, rules, said, start

from actors.ha.core.promotion import PromotionRefusal, decide
from actors.ha.core.role_part import LEAP_MAX
from actors.log_types import Promotion


@pytest.mark.parametrize("number", [LEAP_MAX + 1, 2**62])
def test_a_number_that_follows_nothing_is_neither_claimed_nor_recorded_nor_heard(
    number: int,
) -> None:
    one = rules()
    start(one)
    refused = f"promotion {number} does not follow 0, the last known here"
    assert one.fence(claim(number), on=True, now_s=1.0).refused == refused
    assert one.recorded(Promotion(number, "n1"), 1.0, token=77).refused == refused
    assert one.heard("n1", said("n1", number=number, master="n1"), 1.0).record is None
    assert one.heard("n1", said("n1", claimed=number), 1.0).record is None
    assert (one.promotion, one.view().claimed) == (Promotion(0, "n0"), 0)


def test_a_node_that_was_away_for_long_takes_the_newest() -> None:
    one = rules()
    start(one)
    assert one.heard("n1", said("n1", number=LEAP_MAX, master="n1"), 1.0).record is not None
    assert one.promotion == Promotion(LEAP_MAX, "n1")


STRAY = (
    "n2 knows of promotion 4611686018427387904, which does not follow 3: stop it, take orders out"
    " of `records` in its identity.json, and start it"
)


@pytest.mark.parametrize("field", ["number", "claimed"])
def test_a_member_with_such_a_number_is_named_and_left_out_by_force(field: str) -> None:
    """It took the number from an older version, and left none for any promotion, forced or not."""
    stray = attrs.evolve(slave("n2", 100), **{field: 2**62})
    states = {"n0": master(100, number=3), "n1": slave("n1", 100, number=3), "n2": stray}
    wish = attrs.evolve(WISH, node="n1")
    assert decide(wish, states, {}) == PromotionRefusal((STRAY,), by_force=True)
    found = planned(decide(attrs.evolve(wish, force=True), states, {}))
    assert (found.number, found.chosen, found.strays, found.losses) == (4, "n1", ("n2",), (STRAY,))
    with_two = decide(attrs.evolve(wish, node="n2", force=True), states, {})
    assert with_two == PromotionRefusal(
        ("n2 does not answer: its promotion follows nothing that others know",)
    )


def test_where_most_have_it_the_next_one_follows() -> None:
    """All have taken it from an older version, whose last number it was."""
    states = {name: slave(name, 100, number=2**62) for name in ("n1", "n2")}
    found = planned(decide(WISH, states, {"n0": "off"}))
    assert found.number == 2**62 + 1
    one = rules(promotion_number=2**62, promotion_master="n1")
    start(one)
    assert one.heard("n1", said("n1", number=found.number, master="n2"), 1.0).record is not None
