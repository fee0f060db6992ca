"""Java slaves, which cannot be asked, that report more than their master holds."""

from __future__ import annotations

from typing import Final

import attrs

JAVA_AHEAD_TIMES: Final = 2
"""A Java slave's first report above the end counts when it comes again: one may be a mistake."""
PLAUSIBLE_BYTES: Final = 1 << 40
"""A report further above the end than this says nothing about a log."""


@attrs.define
class AheadReports:
    """What one master was told. At most as many as it has slaves."""

    _told: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def clear(self) -> None:
        self._told.clear()

    def note(self, slave: str, offset_bytes: int, end_bytes: int) -> None:
        """A report above `end_bytes`, where the log ends."""
        if offset_bytes > end_bytes + PLAUSIBLE_BYTES:
            return
        known, times = self._told.get(slave, (offset_bytes, 0))
        self._told[slave] = (offset_bytes, times + 1 if known == offset_bytes else 1)

    def found(self) -> str | None:
        """Who is ahead, in words."""
        for slave, (offset_bytes, times) in self._told.items():
            if times >= JAVA_AHEAD_TIMES:
                return f"{slave} reports {offset_bytes}"
        return None
