"""What a check keeps of each queue while it walks the log, and of what it sums up."""

from __future__ import annotations

import attrs

NEVER = -1


@attrs.define
class QueueRange:
    """What the log says of one queue.

    Attributes:
        is_there: the queue has files.
        first, next: its first and next queue offset.
        gaps: how many queue offsets it leaves out.
        records: how many it has.
        begun_bytes: offset of the record with which it began anew; NEVER.
        differences: what is wrong, as long as it does not begin anew.
        more: differences that were not kept.
    """

    is_there: bool
    first: int
    next: int
    gaps: int = 0
    records: int = 0
    begun_bytes: int = NEVER
    differences: list[str] = attrs.field(factory=list)
    more: int = 0

    def begin_anew(self, offset_bytes: int) -> int:
        """Older records need no units. Gives how many differences are kept no longer."""
        dropped = len(self.differences)
        self.first, self.next, self.gaps = 0, 1, 0
        self.begun_bytes, self.differences, self.more = offset_bytes, [], 0
        return dropped


@attrs.define
class Summed:
    """Of many places: the first, and how many there are."""

    count: int = 0
    first: str = ""

    def add(self, place: str, count: int = 1) -> None:
        self.first = self.first or place
        self.count += count
