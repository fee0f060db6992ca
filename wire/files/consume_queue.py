"""Consume-queue units: the position in the log of the n-th record of a queue.

Upstream: apache/rocketmq, store/.../ConsumeQueue.java, 5.3.3. File:
`consumequeue/<topic>/<queueId>/<20-digit byte offset>`; unit n lies at byte 20 * n of the queue.

| Offset | Width | Type | Field    | Meaning                                     | Range |
|--------|-------|------|----------|---------------------------------------------|-------|
| 0      | 8     | long | offset   | physical offset of the record               | 0 ..  |
| 8      | 4     | int  | size     | bytes of the record; 0: the unit is unused  | 0 ..  |
| 12     | 8     | long | tagsCode | hash of the tags, or the delivery time (ms) |       |

Size: UNIT_BYTES = 20. A queue that does not begin at unit 0 has FILLER_UNIT before its first one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.message_record import Buffer

UNIT_BYTES: Final = 20
FILLER_SIZE: Final = 0x7FFFFFFF

_UNIT = struct.Struct(">qiq")
FILLER_UNIT: Final = _UNIT.pack(0, FILLER_SIZE, 0)


def encode_unit(physical_offset: int, size: int, tags_code: int) -> bytes:
    """Encode one unit.

    Raises:
        LocalProtocolError: a field is out of range.
    """
    if physical_offset < 0 or size <= 0:
        raise LocalProtocolError(f"no unit for offset {physical_offset}, size {size}")
    try:
        return _UNIT.pack(physical_offset, size, tags_code)
    except struct.error as error:
        raise LocalProtocolError(f"a field of a unit is out of range: {error}") from None


def decode_unit(data: Buffer, position: int = 0) -> tuple[int, int, int]:
    """Return physical offset, size and tags code of the unit at byte `position`.

    Raises:
        RemoteProtocolError: fewer than 20 bytes are there. The values are not checked.
    """
    if not 0 <= position <= len(data) - UNIT_BYTES:
        raise RemoteProtocolError(f"no unit at byte {position} of {len(data)}")
    physical_offset, size, tags_code = _UNIT.unpack_from(data, position)
    return physical_offset, size, tags_code


def decode_units(data: Buffer) -> Iterator[tuple[int, int, int]]:
    """Return an iterator over all units of `data`, with fillers and unused ones.

    Raises:
        RemoteProtocolError: `data` is no multiple of 20 bytes.
    """
    if len(data) % UNIT_BYTES:
        raise RemoteProtocolError(f"{len(data)} bytes are no whole number of units")
    return _UNIT.iter_unpack(data)


def is_used(physical_offset: int, size: int) -> bool:
    """Return whether a unit counts as written for recovery; a filler does."""
    return physical_offset >= 0 and size > 0


def is_filler(physical_offset: int, size: int, tags_code: int) -> bool:
    """Return whether a unit only fills the room before the queue's first record."""
    return (physical_offset, size, tags_code) == (0, FILLER_SIZE, 0)
