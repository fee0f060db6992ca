"""How DLedger's scripts write ends of logs, runs of entries and runs of equal terms."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from actors.dledger.core.member_state import LedgerEnd

TURNS_MAX = 1000
"""So often something may be due within one `wait`."""


def end_of(text: str) -> LedgerEnd:
    """`7/3`: index 7, term 3; `-`: an empty log."""
    if text == "-":
        return LedgerEnd()
    index, term = text.split("/")
    return LedgerEnd(index=int(index), term=int(term))


def end_text(end: LedgerEnd) -> str:
    """What `end_of` reads."""
    return "-" if end.index < 0 else f"{end.index}/{end.term}"


def span(first: int, last: int) -> str:
    """`3` or `3 to 5`; `nothing` before the first."""
    if last < first or last < 0:
        return "nothing"
    return f"{first}" if first == last else f"{first} to {last}"


def terms_text(begin: int, terms: Iterable[int]) -> str:
    """`0 to 3 of term 1, 4 of term 2`."""
    parts, at = [], begin
    for term, same in groupby(terms):
        count = len(list(same))
        parts.append(f"{span(at, at + count - 1)} of term {term}")
        at += count
    return ", ".join(parts) or "empty"


def terms_of(text: str | int) -> list[int]:
    """`1x3,2`: terms 1, 1, 1, 2; `-`: none."""
    terms: list[int] = []
    for part in [] if text == "-" else str(text).split(","):
        term, _, count = part.partition("x")
        terms += [int(term)] * int(count or 1)
    return terms
