"""When the dispatcher stands at damage, and when it only waits for a comparison."""

from __future__ import annotations

from typing import Any

from actors.runtime import ActorDown
from actors.storage.approval import HOLDS_S
from actors.storage.dispatch_checks import ASK_AGAIN_S, DispatchChecks
from actors.storage.scrubber_messages import Checked

END = 20 << 20
MIB = 1 << 20


def checks() -> DispatchChecks:
    scrubber: Any = object()  # it is not asked here
    found = DispatchChecks(scrubber=scrubber)
    found.grew(END, 0.0)
    return found


def answer(at: DispatchChecks, start: int, until: int, now_s: float, *, rotten: bool) -> None:
    assert at.begin_ask(start, now_s) == start
    at.answered(start, Checked(until_bytes=until, rotten=rotten, compared_s=now_s), now_s)


def test_it_stands_at_damage_once() -> None:
    looks = checks()
    answer(looks, 0, 3 * MIB, 5.0, rotten=True)
    assert looks.limit(0, END, 5.0) == 3 * MIB
    assert looks.stands(3 * MIB) == 3 * MIB
    assert looks.stands(3 * MIB) is None
    assert not looks.goes_on(3 * MIB)
    assert looks.goes_on(3 * MIB + 1)
    assert not looks.goes_on(3 * MIB + 1)


def test_in_front_of_damage_it_may_wait_for_a_comparison() -> None:
    looks = checks()
    answer(looks, 0, 3 * MIB, 5.0, rotten=True)
    late_s = 5.0 + HOLDS_S
    assert looks.limit(MIB, END, late_s) == MIB
    assert looks.stands(MIB) is None
    answer(looks, MIB, 3 * MIB, late_s, rotten=True)
    assert looks.stands(looks.limit(MIB, END, late_s)) == 3 * MIB


def test_behind_mended_damage_it_tells_of_the_next() -> None:
    looks = checks()
    answer(looks, 0, 3 * MIB, 5.0, rotten=True)
    assert looks.stands(3 * MIB) == 3 * MIB
    looks.look_again()  # mended, but more is damaged behind it
    late_s = 5.0 + HOLDS_S
    answer(looks, 3 * MIB, 4 * MIB, late_s, rotten=True)
    assert looks.goes_on(4 * MIB)
    assert looks.stands(4 * MIB) == 4 * MIB
    assert looks.goes_on(5 * MIB)


def test_without_an_answer_it_asks_again_in_a_moment() -> None:
    looks = checks()
    assert looks.begin_ask(0, 5.0) == 0
    assert looks.answered(0, ActorDown("/n0/orders/scrubber"), 5.0) == ASK_AGAIN_S
    assert looks.limit(0, END, 5.0) == 0
    assert looks.stands(0) is None  # nobody has said that anything is damaged
    assert looks.begin_ask(0, 5.0 + ASK_AGAIN_S / 2) is None
    answer(looks, 0, 3 * MIB, 5.0 + ASK_AGAIN_S, rotten=False)
    assert looks.limit(0, END, 5.0 + ASK_AGAIN_S) == 3 * MIB


def test_at_its_end_it_asks_at_once_for_what_is_old_alone() -> None:
    looks = checks()
    assert looks.begin_ask(0, 5.0) == 0
    looks.grew(END + MIB, 5.0)
    looks.end()  # the scrubber has gone with its answer
    assert looks.begin_ask(0, 5.0) == 0
    assert looks.begin_ask(END, 5.0) is None
    assert looks.limit(END, END + MIB, 50.0) == END + MIB
