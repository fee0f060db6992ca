"""Text for people, in which everything is seen.

What a node says, or what stands in a log, may have come over the wire from anybody. Printed as it
is, it may begin a line of its own, control a terminal, or show text in another order.
Every place that prints passes its text through one of these.

What is not seen is shown as JSON escapes it, so that a line of JSON stays one, with the same
meaning.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories: controls, directions, halves of pairs, nothing at all."""
_BEYOND_16_BITS = 0x10000
DEPTH_MAX = 100
"""Levels of values within values: far above what any node says, and below what Python recurses."""


def with_article(word: str) -> str:
    """`a classic`, `an autoswitch`."""
    return f"an {word}" if word[0] in "aeio" else f"a {word}"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `1,234 rows`; `many` is for what has no plain s at its end."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def readable(text: str, length_max: int | None = None) -> str:
    """Text with the codes of what is not seen, cut at some length; one line."""
    shown = text if length_max is None else text[: length_max + 1]
    if not shown.isprintable():  # which is fast, and false for some that are seen
        shown = "".join(
            _escaped(each) if unicodedata.category(each) in _UNSEEN else each for each in shown
        )
    if length_max is not None and len(shown) > length_max:
        return shown[: length_max - 1] + "…"
    return shown


def readable_lines(text: str) -> str:
    """As `readable`, for text of several lines, and with its tabs."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(readable, line.split("\t"))) for line in text.split("\n"))


def readable_json(line: bytes) -> bytes:
    """JSON as `json` and `msgspec` write it, which leaves much in strings as it is."""
    return readable_lines(line.decode("utf-8", "backslashreplace")).encode()


def readable_values(value: T, depth: int = 0) -> T:
    """What another program said, as JSON has it, with every string in it `readable`."""
    found: Any = value
    match value:
        case str():
            found = readable(value)
        case Mapping() | list() | tuple() if depth >= DEPTH_MAX:
            found = "..."
        case Mapping():
            deeper = depth + 1
            items = value.items()
            found = {readable_values(k, deeper): readable_values(v, deeper) for k, v in items}
        case list() | tuple():
            found = type(value)(readable_values(each, depth + 1) for each in value)
    shown: T = found
    return shown


def _escaped(character: str) -> str:
    code = ord(character)
    if code < _BEYOND_16_BITS:
        return f"\\u{code:04x}"
    high, low = divmod(code - _BEYOND_16_BITS, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(count_bytes: int) -> str:
    """Bytes for people: `64 MiB`, `1.5 GiB`, `300 bytes`."""
    for unit, name in _UNITS:
        if count_bytes >= unit:
            return f"{count_bytes / unit:.4g} {name}"
    return f"{count_bytes} bytes"


def duration(count_ms: int) -> str:
    """A time for people, in whole seconds: `0:00:07`, `12:00:00`, `3 d 0:15:00`."""
    days, rest = divmod(max(0, count_ms) // 1000, 86_400)
    clock = f"{rest // 3600}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock
