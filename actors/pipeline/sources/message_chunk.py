"""Finds all message records in bytes of a commit log, and their fields as columns.

Layout: `wire.files.message_record`. What is accepted is what `wire.files.record_scan.scan` accepts,
which also says why there are no more; a test holds the two together. A body whose CRC is wrong does
not end the stretch here: its record is marked, for its size is right and the next one follows it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from actors.pipeline.sources.cells import (
    TEXT_BY_NAME,
    TEXTS,
    TIME,
    Numbers,
    binary_cells,
    crc_cells,
    first_false,
    numbers,
    same_cells,
    steps,
    text_cells,
    time_cells,
    told_cells,
)
from wire.crc import crc32
from wire.files.commit_log import scan
from wire.files.hosts import decode_host
from wire.files.message_record import (
    CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX_V1,
)
from wire.files.properties import (
    KEYS,
    NAME_END,
    PROPERTIES_BYTES_MAX,
    TAGS,
    VALUE_END,
    decode_properties,
    find_value,
)
from wire.files.scanned import Scanned

_SIZE = struct.Struct(">i").unpack_from
_BODY_AT: Final = 88  # with two IPv4 hosts
_MORE: Final = np.array((0, 12, 12, 24))  # bytes that IPv6 hosts add, by sysFlag >> 4 & 3
_MAGICS: Final = re.compile(
    b"|".join(re.escape(m.to_bytes(4, "big")) for m in (MAGIC_V1, MAGIC_V2))
)
_MAGIC_AT: Final = 4
WRONG_CRC: Final = "body CRC is wrong"


@attrs.frozen(eq=False, kw_only=True)
class Messages:
    """Whole records that follow each other from the first byte of `buf` on.

    Attributes:
        buf: the bytes.
        position: the offset in the log of its first byte.
        starts, sizes: each record's position in `buf`, and its size in bytes.
        flags: each record's sysFlag.
        body_at, body_bytes, topic_at, topic_bytes, properties_at, properties_bytes: their parts.
        wrong: true where the body's CRC is wrong; None if no CRC was checked, or all are right.
        scanned: why there are no more records; its `end` is a position in `buf`.
    """

    buf: bytes
    position: int
    starts: Numbers
    sizes: Numbers
    flags: Numbers
    body_at: Numbers
    body_bytes: Numbers
    topic_at: Numbers
    topic_bytes: Numbers
    properties_at: Numbers
    properties_bytes: Numbers
    wrong: Numbers | None
    scanned: Scanned

    @property
    def times(self) -> Numbers:
        """The records' store times in ms since 1970, by which several logs are aligned."""
        return numbers(self.buf, ">i8", _behind_born_host(self))


def find_messages(buf: bytes, position: int, *, crc: bool, size_max: int) -> Messages:
    """Find the records from the first byte of `buf` on.

    It never raises for what the bytes are.

    Args:
        position: the offset in the log of that byte, where a record begins.
        crc: whether the CRC of each body is compared.
        size_max: the size of the largest record.
    """
    starts, sizes = steps(buf, _SIZE, RECORD_BYTES_MIN, size_max)
    ends = starts + sizes
    parts = _parts(buf, position, starts, sizes, ends)
    count = len(parts[-1])
    starts, sizes = starts[:count], sizes[:count]
    flags, body_at, body_bytes, topic_at, topic_bytes, properties_at, properties_bytes = (
        part[:count] for part in parts
    )
    stop = int(starts[-1] + sizes[-1]) if count else 0
    more, scanned = scan(
        buf, stop, physical_offset=position + stop, check_crc=False, size_max=size_max
    )
    assert not more  # ChunkAgreesWithScan
    wrong = _wrong_crcs(buf, starts, body_at, body_bytes) if crc else None
    return Messages(
        buf=buf, position=position, starts=starts, sizes=sizes, flags=flags, body_at=body_at,
        body_bytes=body_bytes, topic_at=topic_at, topic_bytes=topic_bytes,
        properties_at=properties_at, properties_bytes=properties_bytes, wrong=wrong,
        scanned=scanned,
    )  # fmt: skip


def _parts(
    buf: bytes, position: int, starts: Numbers, sizes: Numbers, ends: Numbers
) -> tuple[Numbers, ...]:
    """Return the flags, and where the parts of each record are; the later arrays may be shorter.

    Each step cuts its result at the first record that is not good, so that no position is outside.
    """
    magic = numbers(buf, ">u4", starts + _MAGIC_AT)
    flags = numbers(buf, ">i4", starts + 36)
    more = _MORE[flags >> 4 & 3]
    two = magic == MAGIC_V2
    good = two | (magic == MAGIC_V1)
    good &= (numbers(buf, ">i8", starts + 28) == starts + position) & (
        sizes >= RECORD_BYTES_MIN + more
    )
    n = first_false(good)
    body_at = (starts + _BODY_AT + more)[:n]
    body_bytes = numbers(buf, ">i4", body_at - 4).astype(np.int64)
    topic_at = body_at + body_bytes + np.where(two[:n], 2, 1)
    n = first_false((body_bytes >= 0) & (topic_at + 2 <= ends[:n]))
    topic_at, two = topic_at[:n], two[:n]
    topic_bytes = np.where(
        two, numbers(buf, ">u2", topic_at - 2), numbers(buf, "u1", topic_at - 1)
    ).astype(np.int64)
    properties_at = topic_at + topic_bytes + 2
    longest = np.where(two, TOPIC_BYTES_MAX, TOPIC_BYTES_MAX_V1)
    n = first_false((topic_bytes <= longest) & (properties_at <= ends[:n]))
    properties_at = properties_at[:n]
    properties_bytes = numbers(buf, ">u2", properties_at - 2).astype(np.int64)
    good = (properties_bytes <= PROPERTIES_BYTES_MAX) & (
        properties_at + properties_bytes == ends[:n]
    )
    properties_bytes = properties_bytes[: first_false(good)]
    return flags, body_at, body_bytes, topic_at, topic_bytes, properties_at, properties_bytes


def _wrong_crcs(
    buf: bytes, starts: Numbers, body_at: Numbers, body_bytes: Numbers
) -> Numbers | None:
    view = memoryview(buf)
    edges = zip(body_at.tolist(), (body_at + body_bytes).tolist(), strict=True)
    found = np.array([crc32(view[start:end]) for start, end in edges], np.int64) & CRC_MASK
    wrong: Numbers = (found != numbers(buf, ">i4", starts + 8)) & (body_bytes > 0)
    return wrong if bool(wrong.any()) else None


def message_candidates(buf: bytes, position: int) -> list[int]:
    """Return the positions in `buf` at which a record may begin, by its magic and own position."""
    starts = np.array([match.start() - _MAGIC_AT for match in _MAGICS.finditer(buf)], np.int64)
    starts = starts[(starts >= 0) & (starts + RECORD_BYTES_MIN <= len(buf))]
    own = numbers(buf, ">i8", starts + 28) == starts + position
    return [int(start) for start in starts[own]]


# ---- columns ----


def _behind_born_host(m: Messages) -> Numbers:
    at: Numbers = m.starts + np.where(m.flags & 0x10, 68, 56)
    return at


def _hosts(m: Messages, at: Numbers, bit: int) -> pa.Array:
    sizes = np.where(m.flags & bit, 20, 8)
    return told_cells(binary_cells(m.buf, at, sizes), _host_text)


def _host_text(host: bytes) -> str:
    address, port = decode_host(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _damage(m: Messages) -> pa.Array:
    if m.wrong is None:
        return pa.nulls(len(m.starts), pa.string())
    return pa.array(np.where(m.wrong, WRONG_CRC, ""), pa.string(), mask=~m.wrong)


def _numbers(m: Messages, kind: str, at: Numbers) -> pa.Array:
    return pa.array(numbers(m.buf, kind, at))


def _property_blocks(m: Messages) -> list[bytes]:
    blocks: list[bytes] = binary_cells(m.buf, m.properties_at, m.properties_bytes).to_pylist()
    return blocks


def _property(m: Messages, name: str) -> list[str | None]:
    """Return the value of one property of each record; None if it is missing."""
    start = VALUE_END + name.encode() + NAME_END
    found = (find_value(VALUE_END + block, start) for block in _property_blocks(m))
    return [None if value is None else value.decode("utf-8", "replace") for value in found]


def _keys(m: Messages) -> pa.Array:
    found = _property(m, KEYS)
    return pa.array([value and [key for key in value.split(" ") if key] for value in found], TEXTS)


def _properties_by_name(m: Messages) -> pa.Array:
    found = [list(decode_properties(block).items()) for block in _property_blocks(m)]
    return pa.array(found, TEXT_BY_NAME)


def _int(at: int) -> Callable[[Messages, str], pa.Array]:
    return lambda m, _: _numbers(m, ">i4", m.starts + at)


MESSAGE_COLUMNS: Final[Mapping[str, tuple[pa.DataType, Callable[[Messages, str], pa.Array]]]] = {
    "node": (pa.string(), lambda m, node: same_cells(node, len(m.starts))),
    "offset": (pa.int64(), lambda m, _: pa.array(m.starts + m.position, pa.int64())),
    "size": (pa.int64(), lambda m, _: pa.array(m.sizes, pa.int64())),
    "damage": (pa.string(), lambda m, _: _damage(m)),
    "topic": (pa.string(), lambda m, _: text_cells(m.buf, m.topic_at, m.topic_bytes)),
    "queue_id": (pa.int32(), _int(12)),
    "queue_offset": (pa.int64(), lambda m, _: _numbers(m, ">i8", m.starts + 20)),
    "store_time": (TIME, lambda m, _: time_cells(m.times)),
    "born_time": (TIME, lambda m, _: time_cells(numbers(m.buf, ">i8", m.starts + 40))),
    "born_host": (pa.string(), lambda m, _: _hosts(m, m.starts + 48, 0x10)),
    "store_host": (pa.string(), lambda m, _: _hosts(m, _behind_born_host(m) + 8, 0x20)),
    "flag": (pa.int32(), _int(16)),
    "sys_flag": (pa.int32(), lambda m, _: pa.array(m.flags, pa.int32())),
    "reconsume_times": (pa.int32(), lambda m, _: _numbers(m, ">i4", m.body_at - 16)),
    "prepared_offset": (pa.int64(), lambda m, _: _numbers(m, ">i8", m.body_at - 12)),
    "body_crc": (pa.int32(), _int(8)),
    "properties": (
        pa.string(),
        lambda m, _: text_cells(m.buf, m.properties_at, m.properties_bytes),
    ),
    "property_map": (TEXT_BY_NAME, lambda m, _: _properties_by_name(m)),
    "keys": (TEXTS, lambda m, _: _keys(m)),
    "tags": (pa.string(), lambda m, _: pa.array(_property(m, TAGS), pa.string())),
    "body": (pa.binary(), lambda m, _: binary_cells(m.buf, m.body_at, m.body_bytes)),
    "record": (pa.binary(), lambda m, _: binary_cells(m.buf, m.starts, m.sizes)),
    "record_crc": (pa.int64(), lambda m, _: crc_cells(m.buf, m.starts, m.sizes)),
}
"""The type and the maker of each column. The maker's second argument is the log's name.

| Column | Meaning |
|---|---|
| node | the log's name |
| offset, size | where the record is in the log, and its bytes; of damage, where and how much |
| damage | null, or what is wrong; with a wrong CRC the other columns are as stored, else null |
| topic, queue_id, queue_offset | its queue, and its number there |
| store_time, born_time | the master's clock and the producer's, of ms |
| born_host, store_host | producer and master, ADDRESS:PORT |
| flag, sys_flag, reconsume_times, prepared_offset, body_crc | as stored |
| properties | the block as stored: name, chr(1), value, chr(2), and so on |
| property_map | the properties by name, without those that have no value |
| keys | the keys by which the message can be looked up; null without any |
| tags | the message's tag; null without one |
| body | as stored, perhaps compressed |
| record, record_crc | all its bytes; their CRC-32, by which replicas are compared |
"""
MESSAGE_DEFAULT: Final = (
    "node", "offset", "size", "damage", "topic", "queue_id", "queue_offset", "store_time",
    "properties", "keys", "tags", "body",
)  # fmt: skip
"""The default columns. Small records cost by the column, mostly in Java; all columns would take
half as much time again."""
