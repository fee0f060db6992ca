"""The part of a message record that a reader gets; a client decodes every record that it reads.

`decode_record` gives every field, and finds out where they lie by itself; this takes a third of the
time. Layout: see `wire.files.message_record`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from wire.crc import crc32
from wire.errors import RemoteProtocolError
from wire.files.message_record import CRC_MASK, MAGIC_V1, topic_text

# magic, bodyCRC, queueId, queueOffset, physicalOffset, bornTimestamp, storeTimestamp, bodyLength,
# by sysFlag >> 4 & 3: which hosts have 20 bytes, the born host's (1), the store host's (2).
_HEADS: Final = tuple(
    struct.Struct(f">4xIIi4xqq4xq{born}xq{store + 12}xi")
    for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)
_FLAGS_AT: Final = 39
"""The position of the byte of sysFlag that tells which hosts are IPv6."""


class ShownRecord(NamedTuple):
    """A record with fewer fields, which are those of `wire.files.message_record.Record`."""

    physical_offset: int
    queue_id: int
    queue_offset: int
    born_ts: int
    store_ts: int
    body: bytes
    topic: str
    properties: bytes


def decode_shown(data: bytes, at: int, size: int) -> ShownRecord:
    """Decode the record of `size` bytes at `at`, which `scan` has found, so its lengths are right.

    Raises: RemoteProtocolError: its body does not fit its CRC.
    """
    head = _HEADS[data[at + _FLAGS_AT] >> 4 & 3]
    (
        magic, crc, queue_id, queue_offset, physical_offset, born_ts, store_ts, body_bytes,
    ) = head.unpack_from(data, at)  # fmt: skip
    body_at = at + head.size
    body_end = body_at + body_bytes
    body = data[body_at:body_end]
    if body and crc32(body) & CRC_MASK != crc:
        raise RemoteProtocolError(f"the CRC of the body is not {crc}, as the record says")
    if magic == MAGIC_V1:
        topic_at = body_end + 1
        topic_end = topic_at + data[body_end]
    else:
        topic_at = body_end + 2
        topic_end = topic_at + (data[body_end] << 8 | data[body_end + 1])
    return ShownRecord(
        physical_offset,
        queue_id,
        queue_offset,
        born_ts,
        store_ts,
        body,
        topic_text(data[topic_at:topic_end]),
        data[topic_end + 2 : at + size],
    )
