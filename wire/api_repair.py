"""Frames by which damaged bytes of one member's log are mended with another's; `wire.api` has them
in its tables.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from wire.api_base import Frame, Id, Name, Position

RANGE_BYTES_MAX: Final = 4 << 20
"""Of the log, in one answer: the largest entry of a DLedger group. A range of a classic group has
64 KiB, and one digest."""


class GetRange(Frame, frozen=True, kw_only=True, tag="get_range"):
    """The range of a classic group's log that holds byte `start`, or what is synced of it; the
    DLedger entry `start`.
    """

    id: Id
    group: Name
    start: Position


class Range(Frame, frozen=True, kw_only=True, tag="range"):
    """`start`: of the range. `digest`: CRC-32 of `data`, as it was when that was written, or its
    records were parsed.
    """

    id: Id
    start: Position
    data: Annotated[bytes, Meta(min_length=1, max_length=RANGE_BYTES_MAX)]
    digest: Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Repair(Frame, frozen=True, kw_only=True, tag="repair"):
    """`source`: the member that is to give the bytes; null: any that has them."""

    id: Id
    group: Name
    source: Name | None = None


class Repaired(Frame, frozen=True, kw_only=True, tag="repaired"):
    id: Id
    value: dict[str, Any]
