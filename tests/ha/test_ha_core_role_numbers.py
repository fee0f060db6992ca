"""A promotion's number that comes from outside follows what is known, or is refused."""

from __future__ import annotations

import pytest
from roles_kit import claim, rules, said, start

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
