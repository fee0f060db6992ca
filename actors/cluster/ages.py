"""How old the last words of a run's nodes are when it ends: for both kinds of groups."""

from __future__ import annotations

import math
from collections.abc import Iterable

OLDER_S = 1.0
"""Members are asked together: who said something so much earlier than another did not answer."""


def age_before(now_s: float | None, heard_s: float | None) -> float | None:
    """Seconds from when a node was heard to the end; None: one of both is not known."""
    return None if now_s is None or heard_s is None else now_s - heard_s


def usual_age(ages: Iterable[float | None]) -> float:
    """The age that is told of all members of a group; infinity: none is known."""
    return min((age for age in ages if age is not None), default=math.inf)


def before_end(age_s: float) -> str:
    """When something was known, for people."""
    return f"as of {age_s:.1f} s before the end"


def when_text(age_s: float | None, usual_s: float, *, gone: bool) -> str:
    """Behind what a member said last, where that was before the others', for people.

    Args:
        gone: it did not answer any more.
    """
    when = " when last heard" if gone else ""
    if age_s is not None and age_s >= usual_s + OLDER_S:
        when += f", {before_end(age_s)}"
    return when
