"""What is wanted of the ledger's figures: for each table the pairs that are compared, and how.

Only contenders with the same client leg are compared: callers inside the leader's process, or one
client over one connection. Java syncs behind its answers, so `written` is what it is equal to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

Ratio = tuple[str, str, str, str]
"""Row, other row, column, what is wanted ("": nothing is)."""
Floor = tuple[str, str, str]
PIPELINED: Final = (128, 1024)
"""So many outstanding, for which our pipelined client has a goal."""
WIRE: Final = "at least 2 at each window"
BEST: Final = "at least 10: Java's best {leg}"
PIPELINED_FLOOR: Final = "at least 250"
BARE: Final = "at most 2"
CATCH_UP: Final = "at least 5"
KILL: Final = "below 1"
DEFAULT_HEARTBEAT_S: Final = 2.0
"""Ours and Java's."""
JAVA: Final = ("Java", "Java, batch")


@attrs.frozen
class Legs:
    """The rows of one table by where their load comes from.

    Attributes:
        inside: from callers inside the leader's process.
        wire: from a client over one connection.
    """

    inside: tuple[str, ...]
    wire: tuple[str, ...]

    @classmethod
    def of(cls, rows: Iterable[str], is_inside: Callable[[str], bool]) -> Legs:
        rows = list(rows)
        inside = tuple(row for row in rows if is_inside(row))
        return cls(inside, tuple(row for row in rows if row not in inside))


def is_ours(row: str) -> bool:
    return row.split(",")[0] == "ours"


def is_java(row: str) -> bool:
    return row.split(",")[0] == "Java"


def best_java(rows: Iterable[str], rate: Callable[[str], float | None]) -> str | None:
    """The Java row with the highest median; None: there is none."""
    found = [(rate(row) or 0.0, row) for row in rows if is_java(row)]
    return max(found)[1] if found else None


def of_appends(
    legs: Legs, count: int, how: str, rate: Callable[[str], float | None]
) -> tuple[list[Ratio], list[Floor]]:
    """Of a table with so many outstanding.

    Args:
        how: "synced" or "written".
        rate: the median of a row's appends.
    """
    ratios: list[Ratio] = []
    for rows in (legs.inside, legs.wire):
        for row in filter(is_ours, rows):
            for other in (each for each in rows if not is_ours(each) and each != "bare"):
                equal = row == "ours, wire" and other in JAVA and how == "written"
                ratios.append((row, other, "k_per_s", WIRE if equal else ""))
    floors: list[Floor] = []
    goal = count in PIPELINED and how == "synced"
    if goal and "ours, pipelined" in legs.inside:
        for leg, rows in (("over the wire", legs.wire), ("inside its leader", legs.inside)):
            if best := best_java(rows, rate):
                pair = ("ours, pipelined", best, "k_per_s")
                ratios = [each for each in ratios if each[:3] != pair]
                ratios.append((*pair, BEST.format(leg=leg)))
        if count == max(PIPELINED):
            floors.append(("ours, pipelined", "k_per_s", PIPELINED_FLOOR))
    if count == 1:
        ours = [row for row in (*legs.inside, *legs.wire) if is_ours(row)]
        ratios += [(row, "bare", "p50_ms", BARE if how == "synced" else "") for row in ours]
    return ratios, floors


def of_catch_up() -> list[Ratio]:
    return [("ours", other, "MB_per_s", CATCH_UP) for other in JAVA]


def of_kills(heartbeat_s: float) -> list[Ratio]:
    wanted = KILL if heartbeat_s == DEFAULT_HEARTBEAT_S else ""
    return [("ours", other, "seconds", wanted) for other in JAVA]
