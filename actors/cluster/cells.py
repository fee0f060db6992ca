"""What the parts of the live view share: one line of text, positions, times, colours of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.text import Text

STYLES: Final[Mapping[str, str]] = {
    "running": "green",
    "starting": "yellow",
    "stopping": "yellow",
    "away": "bold red",
}
"""Of a node's state."""
STATE_WIDE_CHARS, STATE_NARROW_CHARS = 40, 24
"""Words give way to numbers."""
_LETTERS = "KMGT"


def line(words: str, style: str = "") -> Text:
    """Never more than one line; cut at the edge."""
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")


def clock(seconds: float) -> str:
    """`0:01:12`."""
    whole = int(seconds)
    return f"{whole // 3600:d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def offset(count_bytes: int | None, wide: bool) -> str:
    """A position in bytes, to the byte where there is room."""
    if count_bytes is None:
        return ""
    if wide or count_bytes < 1 << 10:
        return str(count_bytes)
    power = min(len(_LETTERS), (count_bytes.bit_length() - 1) // 10)
    return f"{count_bytes / (1 << 10 * power):.1f}{_LETTERS[power - 1]}"
