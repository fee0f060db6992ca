"""Text for people, in which everything is seen.

What stands in an event log may have come over the wire. Printed as it is, it may begin a line of
its own, or tell a terminal what to do.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories: controls, directions, halves of pairs, nothing at all."""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `1,234 rows`; `many` is for what has no plain s at its end."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def readable(text: str, length_max: int | None = None) -> str:
    """Text with the codes of what is not seen, cut at some length; one line."""
    shown = "".join(
        f"\\u{{{ord(each):x}}}" if unicodedata.category(each) in _UNSEEN else each
        for each in (text if length_max is None else text[: length_max + 1])
    )
    if length_max is not None and len(shown) > length_max:
        return shown[: length_max - 1] + "…"
    return shown
