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
    """The fields of a header; the defaults are those of a file without units.

    Attributes:
        begin_ts, end_ts: store timestamps of the first and the last record, in ms.
        begin_offset, end_offset: physical offsets of the first and the last record.
        slots_used: how many slots are not 0.
        units_next: the number of the next unit to be written; 1 in a file without units.
    """

    begin_ts: int = 0
    end_ts: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    units_next: int = 1


class IndexUnit(NamedTuple):
    """One unit: the key's hash, the record's offset, seconds since begin_ts, and the number of the
    slot's unit before this one (0 for none)."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


def index_file_bytes(slots: int = SLOTS, units: int = UNITS) -> int:
    """Return the size of a file with these numbers of slots and units."""
    return HEADER_BYTES + SLOT_BYTES * slots + INDEX_UNIT_BYTES * units


def slot_position(slot: int) -> int:
    """Return the byte position of slot `slot` (from 0) in the file."""
    return HEADER_BYTES + SLOT_BYTES * slot


def unit_position(unit: int, slots: int = SLOTS) -> int:
    """Return the byte position of unit `unit` (the first used: 1) in a file of `slots` slots."""
    return HEADER_BYTES + SLOT_BYTES * slots + INDEX_UNIT_BYTES * unit


def index_key(topic: str, key: str) -> str:
    """Return the text that is hashed for a key of a topic."""
    return f"{topic}#{key}"


def tag_key(topic: str, tags: str) -> str:
    """Return the text that is hashed for the tags of a record of a topic."""
    return f"{topic}#T#{tags}"


def index_keys(topic: str, keys: str, uniq_key: str, tags: str = "") -> Iterator[str]:
    """Yield all index keys of one record in upstream's order.

    They are the unique key, each of KEYS and, since 5.4.0, the tags.

    Args:
        topic: the record's topic.
        keys: its KEYS property, with blanks between keys, or "".
        uniq_key: its UNIQ_KEY property, or "".
        tags: its TAGS property, or "" if tags are not indexed.
    """
    if uniq_key:
        yield index_key(topic, uniq_key)
    for key in keys.split(" "):
        if key:
            yield index_key(topic, key)
    if tags:
        yield tag_key(topic, tags)


def key_hash(key: str) -> int:
    """Return the hash of an `index_key`: its Java hash without the sign; 0 if that is no int."""
    value = abs(java_string_hash(key))
    return 0 if value == 2**31 else value


def seconds_since(begin_ts: int, store_ts: int) -> int:
    """Return the `seconds` of a record stored at `store_ts` in a file that begins at `begin_ts`.

    Both times are in ms. The result is an int >= 0, and 0 in a file that has no begin yet.
    """
    if begin_ts <= 0 or store_ts <= begin_ts:
        return 0
    return min((store_ts - begin_ts) // 1000, SECONDS_MAX)


def encode_index_header(header: IndexHeader) -> bytes:
    """Encode the 40 bytes of a header. Its timestamps come from records, and may be anything.

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
    """Decode the header that a file begins with. As upstream, it takes `units_next` 0 as 1.

    Raises:
        RemoteProtocolError: there are fewer than 40 bytes, or an offset or count is negative.
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
    """Encode a slot that points at `unit`.

    Raises:
        LocalProtocolError: `unit` is no int >= 0.
    """
    if not 0 <= unit < 2**31:
        raise LocalProtocolError(f"slot value {unit} is not in 0..2^31-1")
    return _SLOT.pack(unit)


def decode_slot(data: Buffer, position: int = 0) -> int:
    """Return the unit that the slot at byte `position` points at; NO_UNIT for a negative value.

    Raises:
        RemoteProtocolError: fewer than 4 bytes are there.
    """
    if not 0 <= position <= len(data) - SLOT_BYTES:
        raise RemoteProtocolError(f"no slot at byte {position} of {len(data)}")
    (unit,) = _SLOT.unpack_from(data, position)
    return max(int(unit), NO_UNIT)


def encode_index_unit(unit: IndexUnit) -> bytes:
    """Encode the 20 bytes of a unit.

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
    """Decode the unit at byte `position`, whatever it holds.

    Raises:
        RemoteProtocolError: fewer than 20 bytes are there.
    """
    if not 0 <= position <= len(data) - INDEX_UNIT_BYTES:
        raise RemoteProtocolError(f"no index unit at byte {position} of {len(data)}")
    return IndexUnit._make(_UNIT.unpack_from(data, position))
