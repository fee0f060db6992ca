"""Scans bytes of a commit log: which records they hold, where these stop, and why.

Upstream: apache/rocketmq, store/.../CommitLog.java, checkMessageAndReturnSize, as recovery and
dispatch use it, 5.3.3. Layout: `wire.files.message_record`.

One pass, no object per record but one tuple. `scan` is for recovery and for acknowledging what was
received; `scan_heads` also gives what a dispatcher needs for consume queue and index. Both accept
exactly the records that `decode_record` accepts.

Differs: a physical offset that is not the record's position stops the scan (stale or displaced
bytes), where the caller says what the position is. Upstream takes the field as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from wire.crc import crc32
from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.message_record import (
    BLANK_MAGIC,
    CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MAX,
    RECORD_BYTES_MIN,
    TOPIC_BYTES_MAX_V1,
    Buffer,
    decode_record,
    topic_text,
)
from wire.files.properties import (
    DELAY,
    DELAY_LEVELS_MS,
    INNER_BASE,
    INNER_NUM,
    KEYS,
    MULTI_DISPATCH,
    MULTI_QUEUE_OFFSET,
    NAME_END,
    SCHEDULE_TOPIC,
    TAGS,
    UNIQ_KEY,
    VALUE_END,
    delivery_time,
    find_value,
    inner_batch,
    light_queues,
    tags_code_of_bytes,
)
from wire.files.record_encoder import BLANK_BYTES
from wire.files.scanned import Scanned, Stop


class RecordHead(NamedTuple):
    """The fields of one record that a dispatcher needs.

    Attributes:
        physical_offset: its position in the log, in bytes.
        size: the size of the record in bytes.
        topic, queue_id, queue_offset: its queue, and its number in the queue.
        sys_flag: the record's flags, see `has_queue_unit`.
        store_ts: the store timestamp in ms since 1970.
        tags_code: the consume queue's tags code: the hash of the tags, or the delivery time.
        keys: the KEYS property, with blanks between keys, or "".
        uniq_key: the UNIQ_KEY property or "".
        tags: the TAGS property or "".
        light_queues: the names of its light message queues, and its queue offset in each.
        batch: the first queue offset and the number of messages of a batch; None for other
            records.
    """

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_ts: int
    tags_code: int
    keys: str
    uniq_key: str
    tags: str = ""
    light_queues: tuple[tuple[str, int], ...] = ()
    batch: tuple[int, int] | None = None


# Up to and with bodyLength for two IPv4 hosts: size, magic, queueId, queueOffset, physicalOffset,
# sysFlag, storeTimestamp, bodyLength. With IPv6 the last two lie further behind.
_HEAD_BYTES: Final = 88
_SCAN = struct.Struct(">iI20xqi44xi")
_HEADS = struct.Struct(">iI4xi4xqqi16xq20xi")
_WALK = struct.Struct(">iI20xq")
_SIZE_MAGIC = struct.Struct(">iI")
_PLAIN_TAIL_MAX: Final = 1 + TOPIC_BYTES_MAX_V1 + 2
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_CRC_AT: Final = 8
_IPV6_MORE: Final = (0, 12, 12, 24)  # by sysFlag >> 4 & 3

_TAGS_START: Final = VALUE_END + TAGS.encode() + NAME_END
_KEYS_START: Final = VALUE_END + KEYS.encode() + NAME_END
_UNIQ_KEY_START: Final = VALUE_END + UNIQ_KEY.encode() + NAME_END
_DELAY_START: Final = VALUE_END + DELAY.encode() + NAME_END
_INNER_START: Final = VALUE_END + b"INNER_"
_INNER_STARTS: Final = tuple(
    VALUE_END + name.encode() + NAME_END
    for name in (MULTI_DISPATCH, MULTI_QUEUE_OFFSET, INNER_BASE, INNER_NUM)
)

_FromProperties: TypeAlias = tuple[
    int, str, str, str, tuple[tuple[str, int], ...], tuple[int, int] | None
]
_NO_PROPERTIES: Final[_FromProperties] = (0, "", "", "", (), None)


def scan(
    buf: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    physical_offset: int | None = None,
    check_crc: bool = True,
    size_max: int = RECORD_BYTES_MAX,
) -> tuple[list[tuple[int, int]], Scanned]:
    """Return position and size of each good record from `start` on, and why there are no more.

    It never raises for what the bytes are.

    Args:
        buf: bytes of one commit-log file.
        start: where a record begins in it.
        end: the end of the bytes that are read; None for the end of `buf`.
        physical_offset: the offset in the log of the byte at `start`; None: it is not checked.
        check_crc: whether the CRC of each body is compared.
        size_max: a larger total size counts as corrupt, so that no reader waits for its end.
    """
    limit = len(buf) if end is None else end
    assert 0 <= start <= limit <= len(buf)
    shift = None if physical_offset is None else physical_offset - start
    found: list[tuple[int, int]] = []
    unpack = _SCAN.unpack_from
    pos = start
    while limit - pos >= RECORD_BYTES_MIN:
        size, magic, physical, sys_flag, body_length = unpack(buf, pos)
        if not RECORD_BYTES_MIN <= size <= size_max or size > limit - pos:
            break
        body_at = pos + _HEAD_BYTES
        if sys_flag & 0x30:
            if size < RECORD_BYTES_MIN + _IPV6_MORE[sys_flag >> 4 & 3]:
                break
            body_at += _IPV6_MORE[sys_flag >> 4 & 3]
            (body_length,) = _INT.unpack_from(buf, body_at - 4)
        record_end = pos + size
        if _properties_at(buf, magic, body_at, body_length, record_end) < 0:
            break
        if shift is not None and physical != pos + shift:
            break
        if check_crc and body_length and not _body_crc_fits(buf, pos, body_at, body_length):
            break
        found.append((pos, size))
        pos = record_end
    return found, _why(buf, pos, limit, shift, check_crc, size_max)


def walk(buf: Buffer, *, physical_offset: int, size_max: int = RECORD_BYTES_MAX) -> Scanned:
    """Return where the records that follow each other from the first byte on end, and why.

    This is for a caller whose receiver decodes the records. It checks only size, magic and offset
    of each, a tenth of the work of `scan`. It never raises for what the bytes are.

    Args:
        physical_offset: the offset in the log of the first byte.
        size_max: as for `scan`.
    """
    limit, unpack, pos = len(buf), _WALK.unpack_from, 0
    while limit - pos >= RECORD_BYTES_MIN:
        size, magic, physical = unpack(buf, pos)
        if physical != physical_offset + pos or (magic != MAGIC_V1 and magic != MAGIC_V2):
            break
        if not RECORD_BYTES_MIN <= size <= size_max or size > limit - pos:
            break
        pos += size
    return _why(buf, pos, limit, physical_offset, False, size_max)


def begins_record(head: bytes, offset: int) -> bool:
    """Return whether a record or a BLANK may begin here, by its first 36 bytes or all there are.

    Only size, magic and the record's own offset are looked at. A BLANK has no offset.

    Args:
        offset: the physical offset of the first byte.
    """
    if len(head) >= _WALK.size:
        size, magic, physical = _WALK.unpack_from(head)
        if magic in (MAGIC_V1, MAGIC_V2) and physical == offset and size >= RECORD_BYTES_MIN:
            return True
    if len(head) < _SIZE_MAGIC.size:
        return False
    size, magic = _SIZE_MAGIC.unpack_from(head)
    return bool(magic == BLANK_MAGIC and size >= BLANK_BYTES)


def scan_heads(
    buf: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    physical_offset: int | None = None,
    size_max: int = RECORD_BYTES_MAX,
    delay_levels_ms: Sequence[int] = DELAY_LEVELS_MS,
) -> tuple[list[RecordHead], Scanned]:
    """Return the head of each good record from `start` on, and why there are no more.

    It checks no CRC, and never raises for what the bytes are.

    Args:
        buf, start, end, physical_offset, size_max: as for `scan`.
        delay_levels_ms: the delays of SCHEDULE_TOPIC's levels (upstream: messageDelayLevel).
    """
    limit = len(buf) if end is None else end
    assert 0 <= start <= limit <= len(buf)
    shift = None if physical_offset is None else physical_offset - start
    found: list[RecordHead] = []
    unpack = _HEADS.unpack_from
    topics: dict[bytes, str] = {}
    plain: dict[bytes, str] = {}  # topics by all that follows the body of a record without more
    new = tuple.__new__  # half the time of calling RecordHead, for the same object
    pos = start
    while limit - pos >= RECORD_BYTES_MIN:
        (
            size, magic, queue_id, queue_offset, physical, sys_flag, store_ts, body_length,
        ) = unpack(buf, pos)  # fmt: skip
        if not RECORD_BYTES_MIN <= size <= size_max or size > limit - pos:
            break
        body_at = pos + _HEAD_BYTES
        tail_bytes = size - _HEAD_BYTES - body_length
        is_plain = not sys_flag & 0x30 and magic == MAGIC_V1 and body_length >= 0
        if is_plain and 0 < tail_bytes <= _PLAIN_TAIL_MAX:
            known = plain.get(bytes(buf[pos + size - tail_bytes : pos + size]))
            if known is not None and (shift is None or physical == pos + shift):
                found.append(new(RecordHead, (
                    physical, size, known, queue_id, queue_offset, sys_flag, store_ts, 0, "", "",
                    "", (), None,
                )))  # fmt: skip
                pos += size
                continue
        if sys_flag & 0x30:
            if size < RECORD_BYTES_MIN + _IPV6_MORE[sys_flag >> 4 & 3]:
                break
            body_at += _IPV6_MORE[sys_flag >> 4 & 3]
            (body_length,) = _INT.unpack_from(buf, body_at - 4)
            (store_ts,) = _LONG.unpack_from(buf, pos + (68 if sys_flag & 0x10 else 56))
        record_end = pos + size
        properties_at = _properties_at(buf, magic, body_at, body_length, record_end)
        if properties_at < 0 or (shift is not None and physical != pos + shift):
            break
        topic_at = body_at + body_length + (1 if magic == MAGIC_V1 else 2)
        topic_bytes = bytes(buf[topic_at : properties_at - 2])
        topic = topics.get(topic_bytes)
        if topic is None:
            topic = topics[topic_bytes] = topic_text(topic_bytes)
        more = _NO_PROPERTIES
        if properties_at < record_end:
            framed = b"\2" + buf[properties_at:record_end]
            more = _from_properties(framed, topic, store_ts, delay_levels_ms)
        elif is_plain:
            plain[bytes(buf[topic_at - 1 : record_end])] = topic
        head = (physical, size, topic, queue_id, queue_offset, sys_flag, store_ts, *more)
        found.append(new(RecordHead, head))
        pos = record_end
    return found, _why(buf, pos, limit, shift, False, size_max)


def _properties_at(buf: Buffer, magic: int, body_at: int, body_length: int, record_end: int) -> int:
    """Return where the properties begin; -1 if magic or lengths are not those of a good record."""
    topic_length_at = body_at + body_length
    if magic == MAGIC_V1:
        if body_length < 0 or topic_length_at + 3 > record_end:
            return -1
        topic_length = buf[topic_length_at]
        if topic_length > TOPIC_BYTES_MAX_V1:
            return -1
        at = topic_length_at + topic_length + 3
    elif magic == MAGIC_V2:
        if body_length < 0 or topic_length_at + 4 > record_end or buf[topic_length_at] > 127:
            return -1
        at = topic_length_at + (buf[topic_length_at] << 8 | buf[topic_length_at + 1]) + 4
    else:
        return -1
    # The length is a signed short, so a first byte above 127 is negative.
    if at > record_end or buf[at - 2] > 127:
        return -1
    return at if at + (buf[at - 2] << 8 | buf[at - 1]) == record_end else -1


def _body_crc_fits(buf: Buffer, pos: int, body_at: int, body_length: int) -> bool:
    (crc,) = _INT.unpack_from(buf, pos + _CRC_AT)
    body = buf[body_at : body_at + body_length]
    return bool(crc32(body) & CRC_MASK == crc)


def _from_properties(
    framed: bytes, topic: str, store_ts: int, delay_levels_ms: Sequence[int]
) -> _FromProperties:
    """Return the head's fields from the tags code on."""
    tags = find_value(framed, _TAGS_START)
    keys = find_value(framed, _KEYS_START)
    uniq_key = find_value(framed, _UNIQ_KEY_START)
    code = tags_code_of_bytes(tags) if tags else 0
    if topic == SCHEDULE_TOPIC:
        code = _schedule_code(framed, store_ts, delay_levels_ms, code)
    return (
        code,
        keys.decode("utf-8", "replace") if keys else "",
        uniq_key.decode("utf-8", "replace") if uniq_key else "",
        tags.decode("utf-8", "replace") if tags else "",
        *(_inner(framed, topic) if _INNER_START in framed else ((), None)),
    )


def _inner(framed: bytes, topic: str) -> tuple[tuple[tuple[str, int], ...], tuple[int, int] | None]:
    """Return the light queues and the batch of the head."""
    names, offsets, base, count = (
        (find_value(framed, start) or b"").decode("utf-8", "replace") for start in _INNER_STARTS
    )
    queues = light_queues(topic, names, offsets) if names and offsets else ()
    return queues, inner_batch(base, count) if base and count else None


def _schedule_code(framed: bytes, store_ts: int, delay_levels_ms: Sequence[int], code: int) -> int:
    delay = find_value(framed, _DELAY_START)
    if delay is None:
        return code
    due = delivery_time(delay.decode("utf-8", "replace"), store_ts, delay_levels_ms)
    return code if due is None else due


def _why(
    buf: Buffer,
    pos: int,
    limit: int,
    shift: int | None,
    check_crc: bool,
    size_max: int,
) -> Scanned:
    """Return why the scan stops at `pos`, where the fast loop stopped, by a slow, exact reading."""
    rest = limit - pos
    if not rest:
        return Scanned(end=pos, stop=Stop.END)
    if rest >= _SIZE_MAGIC.size:
        size, magic = _SIZE_MAGIC.unpack_from(buf, pos)
        if magic == BLANK_MAGIC and size >= BLANK_BYTES:
            return Scanned(end=pos, stop=Stop.BLANK, blank_bytes=size)
        if size == magic == 0:
            return Scanned(end=pos, stop=Stop.UNWRITTEN)
    try:
        record = decode_record(
            buf,
            pos,
            end=limit,
            check_crc=check_crc,
            size_max=size_max,
        )
    except IncompleteData as error:
        return Scanned(end=pos, stop=Stop.INCOMPLETE, missing_bytes=error.missing_bytes)
    except RemoteProtocolError as error:
        return Scanned(end=pos, stop=Stop.CORRUPT, reason=str(error))
    # ScanAgreesWithDecode: only the position can be wrong with a record that decodes.
    assert shift is not None
    assert record.physical_offset != pos + shift
    reason = f"physical offset {record.physical_offset} in a record at {pos + shift}"
    return Scanned(end=pos, stop=Stop.CORRUPT, reason=reason)
