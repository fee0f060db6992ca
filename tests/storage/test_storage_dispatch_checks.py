"""When the dispatcher stands at damage, and when it only waits for a comparison."""

from __future__ import annotations

from typing import Any

from mending_kit import END, Held
from storage_kit import finish

from actors.runtime import ActorDown
from actors.storage.dispatch.dispatch_checks import ASK_AGAIN_S, DispatchChecks, compared_alone
from actors.storage.log.digests import RANGE_BYTES
from actors.storage.scrub.approval import HOLDS_S
from actors.storage.scrub.scrubber_messages import Checked

LIMIT = 20 << 20
MIB = 1 << 20


def checks() -> DispatchChecks:
    scrubber: Any = object()  # it is not asked here
    found = DispatchChecks(scrubber=scrubber)
    found.grew(LIMIT, 0.0)
    return found


def answer(at: DispatchChecks, start: int, until: int, now_s: float, *, rotten: bool) -> None:
    assert at.begin_ask(start, now_s) == start
    at.answered(start, Checked(until_bytes=until, rotten=rotten, compared_s=now_s), now_s)


def test_it_stands_at_damage_once() -> None:
    looks = checks()
    answer(looks, 0, 3 * MIB, 5.0, rotten=True)
    assert looks.limit(0, LIMIT, 5.0) == 3 * MIB
    assert looks.stands(3 * MIB) == 3 * MIB
    assert looks.stands(3 * MIB) is None
    assert not looks.goes_on(3 * MIB)
    assert looks.goes_on(3 * MIB + 1)
    assert not looks.goes_on(3 * MIB + 1)


def test_in_front_of_damage_it_may_wait_for_a_comparison() -> None:
    looks = checks()
    answer(looks, 0, 3 * MIB, 5.0, rotten=True)
    late_s = 5.0 + HOLDS_S
    assert looks.limit(MIB, LIMIT, late_s) == MIB
    assert looks.stands(MIB) is None
    answer(looks, MIB, 3 * MIB, late_s, rotten=True)
    assert looks.stands(looks.limit(MIB, LIMIT, late_s)) == 3 * MIB


def test_behind_mended_damage_it_reports_the_next() -> None:
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
    assert looks.limit(0, LIMIT, 5.0) == 0
    assert looks.stands(0) is None  # nobody has said that anything is damaged
    assert looks.begin_ask(0, 5.0 + ASK_AGAIN_S / 2) is None
    answer(looks, 0, 3 * MIB, 5.0 + ASK_AGAIN_S, rotten=False)
    assert looks.limit(0, LIMIT, 5.0 + ASK_AGAIN_S) == 3 * MIB


def test_at_its_end_it_asks_at_once_for_what_is_old_alone() -> None:
    looks = checks()
    assert looks.begin_ask(0, 5.0) == 0
    looks.grew(LIMIT + MIB, 5.0)
    looks.end()  # the scrubber has gone with its answer
    assert looks.begin_ask(0, 5.0) == 0
    assert looks.begin_ask(LIMIT, 5.0) is None
    assert looks.limit(LIMIT, LIMIT + MIB, 50.0) == LIMIT + MIB


def test_alone_it_parses_what_has_no_digest_until_it_is_late() -> None:
    held = Held.made()
    for start in range(0, END, RANGE_BYTES):
        held.check.digests.forget(start)
    asked = iter([False, False])
    assert finish(compared_alone(held.check, 0, END, lambda: next(asked, True))) < END
    assert finish(compared_alone(held.check, 0, END, lambda: False)) == END


def test_alone_it_stops_at_damage() -> None:
    held = Held.made()
    held.spoil(held.places[0][0] + 200)
    assert finish(compared_alone(held.check, 0, END, lambda: False)) == 0
    for start in range(0, END, RANGE_BYTES):
        held.check.digests.forget(start)
    assert finish(compared_alone(held.check, 0, END, lambda: False)) == 0
