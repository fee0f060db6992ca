"""Index files: from a message key to the records that have it.

Upstream: apache/rocketmq, store/.../index/IndexFile.java, IndexHeader.java, IndexService.java,
5.3.3 and 5.5.0. The file's name is its creation time, local, yyyyMMddHHmmssSSS.

Header (HEADER_BYTES = 40), then the slots (int each: number of the newest unit, 0 for none), then
the units. Unit 0 is never used.

| Offset | Width | Type | Field            | Meaning                                | Range |
|--------|-------|------|------------------|----------------------------------------|-------|
| 0      | 8     | long | begin_ts         | store time of the first record, ms     |       |
| 8      | 8     | long | end_ts           | store time of the last record, ms      |       |
| 16     | 8     | long | begin_offset     | physical offset of the first record    | 0 ..  |
| 24     | 8     | long | end_offset       | physical offset of the last record     | 0 ..  |
| 32     | 4     | int  | slots_used       | slots that are not 0                   | 0 ..  |
| 36     | 4     | int  | units_next       | number of the next unit to be written  | 1 ..  |

Unit (INDEX_UNIT_BYTES = 20):

| Offset | Width | Type | Field            | Meaning                                | Range |
|--------|-------|------|------------------|----------------------------------------|-------|
| 0      | 4     | int  | key_hash         | `key_hash` of `topic#key`              | 0 ..  |
| 4      | 8     | long | physical_offset  | of the record                          | 0 ..  |
| 12     | 4     | int  | seconds          | store time since begin_ts              | 0 ..  |
| 16     | 4     | int  | previous         | the slot's unit before this one        | 0 ..  |

Size of a file: 40 + 4 * slots + 20 * units.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import attrs

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.message_record import Buffer
from wire.files.properties import java_string_hash

HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
INDEX_UNIT_BYTES: Final = 20
SLOTS: Final = 5_000_000  # maxHashSlotNum's default
UNITS: Final = 20_000_000  # maxIndexNum's default
NO_UNIT: Final = 0
SECONDS_MAX: Final = 2**31 - 1

_HEADER = struct.Struct(">qqqqii")
_SLOT = struct.Struct(">i")
_UNIT = struct.Struct(">iqii")


@attrs.frozen(kw_only=True)
class IndexHeader:
    """The header's fields; defaults are those of a file without units.

    Attributes:
        begin_ts, end_ts: store timestamps of the first and the last record, ms.
        begin_offset, end_offset: physical offsets of the first and the last record.
        slots_used: how many slots are not 0.
        units_next: number of the next unit to be written; 1 in a file without units.
    """

    begin_ts: int = 0
    end_ts: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    units_next: int = 1


class IndexUnit(NamedTuple):
    """One entry: hash of the key, where the record is, seconds since begin_ts, the slot's entry
    before this one (0 for none)."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


def index_file_bytes(slots: int = SLOTS, units: int = UNITS) -> int:
    """Size of a file with so many slots and units."""
    return HEADER_BYTES + SLOT_BYTES * slots + INDEX_UNIT_BYTES * units


def slot_position(slot: int) -> int:
    """Byte position of slot `slot` (from 0) in the file."""
    return HEADER_BYTES + SLOT_BYTES * slot


def unit_position(unit: int, slots: int = SLOTS) -> int:
    """Byte position of unit `unit` (the first used one is 1) in a file with `slots` slots."""
    return HEADER_BYTES + SLOT_BYTES * slots + INDEX_UNIT_BYTES * unit


def index_key(topic: str, key: str) -> str:
    """What is hashed for a key of a topic."""
    return f"{topic}#{key}"


def tag_key(topic: str, tags: str) -> str:
    """What is hashed for the tags of a record of a topic."""
    return f"{topic}#T#{tags}"


def index_keys(topic: str, keys: str, uniq_key: str, tags: str = "") -> Iterator[str]:
    """All index keys of one record in upstream's order: the unique key, each of KEYS, then, since
    5.4.0, its tags.

    Args:
        topic: the record's topic.
        keys: its KEYS property, several with blanks between, or "".
        uniq_key: its UNIQ_KEY property, or "".
        tags: its TAGS property, or "" where the index has none for them.
    """
    if uniq_key:
        yield index_key(topic, uniq_key)
    for key in keys.split(" "):
        if key:
            yield index_key(topic, key)
    if tags:
        yield tag_key(topic, tags)


def key_hash(key: str) -> int:
    """Hash of an `index_key`: its Java hash without the sign; 0 where that overflows an int."""
    value = abs(java_string_hash(key))
    return 0 if value == 2**31 else value


def seconds_since(begin_ts: int, store_ts: int) -> int:
    """The `seconds` field of a record stored at `store_ts` in a file that begins at `begin_ts`.

    Both in ms. Never negative, never above an int; 0 in a file that has no begin yet.
    """
    if begin_ts <= 0 or store_ts <= begin_ts:
        return 0
    return min((store_ts - begin_ts) // 1000, SECONDS_MAX)


def encode_index_header(header: IndexHeader) -> bytes:
    """The 40 bytes of a header. Its timestamps are records', and may be anything.

    Raises:
        LocalProtocolError: a field is out of range.
    """
    fields = attrs.astuple(header)
    if min(header.begin_offset, header.end_offset, header.slots_used, header.units_next) < 0:
        raise LocalProtocolError(f"a field of {header} is negative")
    try:
        return _HEADER.pack(*fields)
    except struct.error as error:
        raise LocalProtocolError(f"a field of {header} is out of range: {error}") from None


def decode_index_header(data: Buffer) -> IndexHeader:
    """The header that a file begins with. Fewer than one unit counts as none, as upstream does.

    Raises:
        RemoteProtocolError: fewer than 40 bytes, or a negative offset or count.
    """
    if len(data) < HEADER_BYTES:
        raise RemoteProtocolError(f"an index header has {HEADER_BYTES} bytes, not {len(data)}")
    begin_ts, end_ts, begin_offset, end_offset, slots_used, units_next = _HEADER.unpack_from(data)
    if min(begin_offset, end_offset, slots_used, units_next) < 0:
        raise RemoteProtocolError("an index header holds a negative offset or count")
    return IndexHeader(
        begin_ts=begin_ts,
        end_ts=end_ts,
        begin_offset=begin_offset,
        end_offset=end_offset,
        slots_used=slots_used,
        units_next=max(units_next, 1),
    )


def encode_slot(unit: int) -> bytes:
    """A slot that points at `unit`.

    Raises:
        LocalProtocolError: `unit` is no int >= 0.
    """
    if not 0 <= unit < 2**31:
        raise LocalProtocolError(f"slot value {unit} is not in 0..2^31-1")
    return _SLOT.pack(unit)


def decode_slot(data: Buffer, position: int = 0) -> int:
    """The unit that the slot at byte `position` points at; a negative value counts as NO_UNIT.

    Raises:
        RemoteProtocolError: fewer than 4 bytes are there.
    """
    if not 0 <= position <= len(data) - SLOT_BYTES:
        raise RemoteProtocolError(f"no slot at byte {position} of {len(data)}")
    (unit,) = _SLOT.unpack_from(data, position)
    return max(int(unit), NO_UNIT)


def encode_index_unit(unit: IndexUnit) -> bytes:
    """The 20 bytes of a unit.

    Raises:
        LocalProtocolError: a field is out of range.
    """
    if min(unit) < 0:
        raise LocalProtocolError(f"a field of {unit} is negative")
    try:
        return _UNIT.pack(*unit)
    except struct.error as error:
        raise LocalProtocolError(f"a field of {unit} is out of range: {error}") from None


def decode_index_unit(data: Buffer, position: int = 0) -> IndexUnit:
    """The unit at byte `position`, whatever it holds.

    Raises:
        RemoteProtocolError: fewer than 20 bytes are there.
    """
    if not 0 <= position <= len(data) - INDEX_UNIT_BYTES:
        raise RemoteProtocolError(f"no index unit at byte {position} of {len(data)}")
    return IndexUnit._make(_UNIT.unpack_from(data, position))
