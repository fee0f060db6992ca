"""How long it holds that bytes of the log may be sent."""

from __future__ import annotations

import pytest

from actors.storage.scrub.approval import HOLDS_S, RENEW_S, Approval

AHEAD = 1000
LONG_S = HOLDS_S * 10


def approval(leaves: int) -> Approval:
    """Of a log that was there before the connection."""
    made = Approval(ahead_bytes=AHEAD)
    made.grew(leaves, 0.0)
    return made


def test_nothing_that_was_there_before_is_sent_unasked() -> None:
    made = approval(5000)
    assert made.limit(0, 0.0)[0] == 0
    assert made.ask_from(0, 0.0) == 0


def test_what_was_compared_is_sent_until_that_is_too_long_ago() -> None:
    made = approval(5000)
    made.answered(0, 3000, 1.0)
    assert made.limit(0, 1.0) == (3000, 1.0 + HOLDS_S)
    assert made.limit(2000, 0.9 + HOLDS_S)[0] == 3000
    assert made.limit(2000, 1.0 + HOLDS_S)[0] == 2000
    assert made.ask_from(2000, 1.0 + HOLDS_S) == 2000
    made.answered(2000, 5000, 3.0)
    assert made.limit(2000, 3.0)[0] == 5000


def test_the_next_is_asked_for_ahead_and_the_oldest_answer_says_how_long_all_holds() -> None:
    made = approval(9000)
    made.answered(0, 3000, 1.0)
    assert made.ask_from(1000, 1.0) is None
    assert made.ask_from(2000, 1.0) == 3000
    made.answered(3000, 6000, 1.2)
    assert made.limit(2500, 1.3) == (6000, 1.0 + HOLDS_S)
    assert made.limit(3000, 1.3) == (6000, 1.2 + HOLDS_S)


def test_a_slow_link_has_its_answer_renewed_before_it_ends() -> None:
    made = approval(9000)
    made.answered(0, 9000, 1.0)
    assert made.ask_from(100, 1.0 + RENEW_S / 2) is None
    assert made.ask_from(100, 1.0 + RENEW_S) == 100
    made.answered(100, 9000, 1.0 + RENEW_S)
    assert made.limit(200, 1.0 + RENEW_S) == (9000, 1.0 + RENEW_S + HOLDS_S)


def test_an_answer_about_later_bytes_does_not_stand_for_those_in_front_of_it() -> None:
    made = approval(9000)
    made.answered(0, 3000, 1.0)
    assert made.ask_from(2900, 1.4) == 3000
    assert made.limit(2900, 1.0 + HOLDS_S)[0] == 2900
    made.answered(3000, 6000, 1.0 + HOLDS_S)
    assert made.limit(2900, 1.0 + HOLDS_S)[0] == 2900
    assert made.ask_from(2900, 1.0 + HOLDS_S) == 2900


def test_a_slave_that_keeps_up_is_sent_what_was_just_written_and_nobody_is_asked() -> None:
    made, end = approval(5000), 5000
    for number in range(300):
        now_s = 10.0 + number * HOLDS_S / 7
        made.grew(end + 100, now_s)
        assert made.limit(end, now_s)[0] == end + 100
        assert made.ask_from(end, now_s) is None
        end += 100
        assert made.ask_from(end, now_s) is None


@pytest.mark.parametrize("late_s", [0.0, LONG_S])
def test_what_was_written_is_sent_unasked_for_a_while_only(late_s: float) -> None:
    made = approval(5000)
    made.grew(6000, 10.0)
    after_s = 10.0 + late_s
    assert made.limit(5000, after_s)[0] == (6000 if late_s < HOLDS_S else 5000)
    assert made.ask_from(5000, after_s) == (None if late_s < HOLDS_S else 5000)


def test_what_grew_while_nobody_looked_may_have_been_written_long_ago() -> None:
    made = approval(5000)
    made.grew(6000, 10.0)  # it is taken in at 10 + LONG_S, after one long send
    assert made.ask_from(5000, 10.0 + LONG_S) == 5000


def test_one_that_catches_up_joins_what_was_just_written() -> None:
    made = approval(5000)
    made.grew(6000, 10.0)
    made.answered(4000, 4500, 10.0)
    assert made.limit(4000, 10.1)[0] == 4500
    made.answered(4500, 5200, 10.1)
    assert made.limit(4000, 10.1)[0] == 6000


def test_damage_is_not_asked_about_again_at_once_but_what_lies_before_it_is() -> None:
    made = approval(9000)
    made.answered(0, 3000, 1.0)
    made.is_bad(3000, 6.0)
    assert made.ask_from(2500, 1.1) is None
    assert made.ask_from(2500, 1.0 + RENEW_S) == 2500
    made.answered(2500, 3000, 1.6)
    assert made.ask_from(3000, 1.7) is None
    assert made.limit(3000, 1.7)[0] == 3000
    assert made.ask_from(3000, 6.0) == 3000
