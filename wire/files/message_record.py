"""The message record of the commit log: its layout, and how one record is encoded and decoded.

Upstream: apache/rocketmq, store/.../CommitLog.java and MessageExtEncoder.java, common/.../message/
MessageDecoder.java and MessageVersion.java, 5.3.3.

Big-endian, signed. h, g: 8 for an IPv4 host, 20 for IPv6, as the sysFlag says; offsets below are
for two IPv4 hosts. B, T, P: lengths of body, topic, properties. t: 1 in version 1, 2 in version 2.

| Offset   | Width | Type  | Field                     | Meaning                       | Range     |
|----------|-------|-------|---------------------------|-------------------------------|-----------|
| 0        | 4     | int   | totalSize                 | the whole record              | 91 ..     |
| 4        | 4     | int   | magic                     | version 1 or 2                |           |
| 8        | 4     | int   | bodyCRC                   | CRC-32 of the body & 2^31-1   | 31 bits   |
| 12       | 4     | int   | queueId                   |                               |           |
| 16       | 4     | int   | flag                      | the application's             |           |
| 20       | 8     | long  | queueOffset               | number in its consume queue   |           |
| 28       | 8     | long  | physicalOffset            | its own position in the log   | 0 ..      |
| 36       | 4     | int   | sysFlag                   | SYS_FLAG_... below            |           |
| 40       | 8     | long  | bornTimestamp             | ms, the producer's clock      |           |
| 48       | h     | host  | bornHost                  | the producer                  |           |
| 56       | 8     | long  | storeTimestamp            | ms, the master's clock        |           |
| 64       | g     | host  | storeHost                 | the master                    |           |
| 72       | 4     | int   | reconsumeTimes            |                               |           |
| 76       | 8     | long  | preparedTransactionOffset | of a commit: its half message |           |
| 84       | 4     | int   | bodyLength                | B                             | 0 ..      |
| 88       | B     | raw   | body                      |                               |           |
| 88+B     | t     | t     | topicLength               | T                             | 0 .. 127* |
| 88+B+t   | T     | UTF-8 | topic                     |                               |           |
| 88+B+t+T | 2     | short | propertiesLength          | P                             | 15 bits   |
| 90+B+t+T | P     | UTF-8 | properties                | `properties`                  |           |

Size: 90 + (h - 8) + (g - 8) + B + t + T + P. bodyCRC is 0 if B is 0. *: 0 .. 32767 in version 2.

Differs: version 2 is written for topics above 127 *bytes*; upstream counts characters and so
writes a topic of 100 three-byte characters with a length byte that nobody can read. Negative
lengths are corrupt here; upstream takes some of them as 0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import attrs

from wire.crc import crc32
from wire.errors import IncompleteData, LocalProtocolError, RemoteProtocolError
from wire.files.hosts import HOST_BYTES_IPV4, Host, decode_host, encode_host, encode_message_id
from wire.files.properties import (
    PROPERTIES_BYTES_MAX,
    decode_properties,
)

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB  # from 5.1.0 on; older brokers and clients cannot read it
BLANK_MAGIC: Final = 0xCBD43194

# maxMessageSize's default, and what upstream allows for the rest of a record.
SIZE_BYTES: Final = 4
"""The size of the field with the record's size, with which a record begins."""
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
RECORD_OVERHEAD_MAX: Final = 64 * 1024
RECORD_BYTES_MAX: Final = BODY_BYTES_MAX + RECORD_OVERHEAD_MAX
TOPIC_BYTES_MAX_V1: Final = 127  # a signed byte
TOPIC_BYTES_MAX: Final = 2**15 - 1  # a signed short
RECORD_BYTES_MIN: Final = 91  # version 1, IPv4, nothing in it

SYS_FLAG_COMPRESSED: Final = 0x1
SYS_FLAG_MULTI_TAGS: Final = 0x2
SYS_FLAG_TRANSACTION: Final = 0xC  # mask of the four values below
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4  # on disk only before 4.3: since then a half message has none
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
SYS_FLAG_BORN_HOST_IPV6: Final = 0x10
SYS_FLAG_STORE_HOST_IPV6: Final = 0x20
SYS_FLAG_HOSTS: Final = SYS_FLAG_BORN_HOST_IPV6 | SYS_FLAG_STORE_HOST_IPV6
SYS_FLAG_NEED_UNWRAP: Final = 0x40
SYS_FLAG_INNER_BATCH: Final = 0x80
SYS_FLAG_COMPRESSION_TYPE: Final = 0x700  # 0x100 LZ4, 0x200 ZSTD, 0x300 ZLIB

CRC_MASK: Final = 0x7FFFFFFF
SYS_FLAG_AT: Final = 36

# All up to and with bodyLength, by sysFlag >> 4 & 3.
HEAD_STRUCTS: Final = tuple(
    struct.Struct(f">iIiiiqqiq{born}sq{store}siqi")
    for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)
_SIZE_MAGIC = struct.Struct(">iI")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")


def has_queue_unit(sys_flag: int) -> bool:
    """Return whether a record gets a consume-queue unit: all but prepared and rolled-back ones."""
    return not sys_flag & TRANSACTION_PREPARED


def body_crc(body: bytes) -> int:
    """Return the bodyCRC field for `body`."""
    return crc32(body) & CRC_MASK


@attrs.frozen(kw_only=True)
class Record:
    """One message record with every field that is stored.

    Attributes:
        version: 1 or 2, as the magic shows.
        body_crc: the body's checksum, as stored.
        queue_id, queue_offset: its queue, and its number in the queue.
        flag: the application's flag.
        physical_offset: its own offset in the log, in bytes.
        sys_flag: SYS_FLAG_... bits; the two host bits agree with the hosts.
        born_ts, store_ts: ms since 1970, of the producer's and the master's clock.
        born_host, store_host: (IP address, port) of producer and master.
        reconsume_times: how often it was delivered again.
        prepared_transaction_offset: for a committed message, the offset of its half message.
        body: the body as stored, perhaps compressed.
        topic: the topic; bytes that are no UTF-8 were replaced by U+FFFD.
        properties: the block as stored; `properties_map` decodes it.
        size: the size of the whole record in bytes.
    """

    version: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_ts: int
    born_host: Host
    store_ts: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties: bytes
    size: int

    @property
    def properties_map(self) -> Mapping[str, str]:
        """The decoded properties, by name. Bytes that are no properties are ignored."""
        return decode_properties(self.properties)

    @property
    def message_id(self) -> str:
        """The record's offset message id: its store host and physical offset in hex."""
        return encode_message_id(self.store_host, self.physical_offset)


@lru_cache(maxsize=4096)  # topics repeat; the bound is for a hostile log
def topic_text(topic: bytes) -> str:
    """Decode a topic as stored; replace bytes that are no UTF-8 by U+FFFD."""
    return topic.decode("utf-8", "replace")


def check_bounds(
    buf: Buffer, pos: int, end: int, *, size_max: int = RECORD_BYTES_MAX
) -> tuple[int, int]:
    """Return size and magic of the record at `pos`, after a check that it ends before `end`.

    Raises:
        IncompleteData: the bytes up to `end` are the beginning of a record.
        RemoteProtocolError: the magic is unknown (BLANK_MAGIC is, too), or no record has that size.
    """
    assert 0 <= pos <= end <= len(buf)
    have = end - pos
    if have < _SIZE_MAGIC.size:
        raise IncompleteData(f"{have} bytes of a record", _SIZE_MAGIC.size - have)
    size, magic = _SIZE_MAGIC.unpack_from(buf, pos)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RemoteProtocolError(f"magic {magic:08X} is no record's")
    if not RECORD_BYTES_MIN <= size <= size_max:
        raise RemoteProtocolError(
            f"record size {size}: expected {RECORD_BYTES_MIN} to {size_max} bytes"
        )
    if have < size:
        raise IncompleteData(f"{have} of {size} bytes of a record", size - have)
    return size, magic


def _split(data: bytes, version: int) -> tuple[struct.Struct, int, int, int]:
    """Find the parts of a whole record.

    Returns: its head's layout, and in bytes from its start, the end of the body, the start of the
        topic, and the start of the properties.

    Raises:
        RemoteProtocolError: the lengths in it do not add up to its size.
    """
    size = len(data)
    (sys_flag,) = _INT.unpack_from(data, SYS_FLAG_AT)
    layout = HEAD_STRUCTS[sys_flag >> 4 & 3]
    if layout.size + version + 2 > size:
        raise RemoteProtocolError(f"record size {size} is below its fixed fields")
    (body_length,) = _INT.unpack_from(data, layout.size - 4)
    body_end: int = layout.size + body_length
    topic_at = body_end + version
    if body_length < 0 or topic_at + 2 > size:
        raise RemoteProtocolError(
            f"body length {body_length}: it does not fit a record of {size} bytes"
        )
    topic_length = int.from_bytes(data[body_end:topic_at], "big")
    if topic_length > (TOPIC_BYTES_MAX_V1 if version == 1 else TOPIC_BYTES_MAX):
        raise RemoteProtocolError(f"topic length {topic_length} is too large for its version")
    properties_at = topic_at + topic_length + 2
    if properties_at > size:
        raise RemoteProtocolError(f"topic length {topic_length} does not fit a record of {size}")
    properties_length = int.from_bytes(data[properties_at - 2 : properties_at], "big")
    if properties_length > PROPERTIES_BYTES_MAX or properties_at + properties_length != size:
        raise RemoteProtocolError(f"the fields of a record of {size} bytes do not add up to it")
    return layout, body_end, topic_at, properties_at


def decode_record(
    buf: Buffer,
    pos: int = 0,
    *,
    end: int | None = None,
    check_crc: bool = True,
    size_max: int = RECORD_BYTES_MAX,
) -> Record:
    """Decode the record that begins at `pos`.

    Args:
        buf: bytes of a commit log.
        pos: where the record begins in it.
        end: the end of the bytes that are read; None for the end of `buf`.
        check_crc: whether the CRC of the body is compared; an empty body has none.
        size_max: a larger total size counts as corrupt, so that no reader waits for its end.

    Raises:
        IncompleteData: the record is not complete before `end`, but correct so far.
        RemoteProtocolError: it is corrupt, or no record (a BLANK for example).
    """
    size, magic = check_bounds(buf, pos, len(buf) if end is None else end, size_max=size_max)
    data = bytes(buf[pos : pos + size])
    layout, body_end, topic_at, properties_at = _split(data, 1 if magic == MAGIC_V1 else 2)
    (
        _, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ts, born, store_ts,
        store, reconsume_times, prepared, _,
    ) = layout.unpack_from(data)  # fmt: skip
    body = data[layout.size : body_end]
    if check_crc and body and crc32(body) & CRC_MASK != crc:
        raise RemoteProtocolError(f"body CRC is not {crc}, which the record says")
    return Record(
        version=topic_at - body_end,
        body_crc=crc,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_ts=born_ts,
        born_host=decode_host(born),
        store_ts=store_ts,
        store_host=decode_host(store),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        body=body,
        topic=topic_text(data[topic_at : properties_at - 2]),
        properties=data[properties_at:],
        size=size,
    )


def encode_topic(topic: str, version: int | None = None) -> tuple[int, bytes]:
    """Return the record's version, and the topic's length and name as they follow the body.

    Args:
        topic: at most 127 bytes of UTF-8 in version 1, 32767 in version 2.
        version: 1 or 2; None: 1 if the topic fits, else 2.

    Raises:
        LocalProtocolError: the topic is too long, or no Unicode text.
    """
    try:
        name = topic.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"topic {topic!r} is not Unicode text: {error}") from None
    if version is None:
        version = 1 if len(name) <= TOPIC_BYTES_MAX_V1 else 2
    longest = TOPIC_BYTES_MAX_V1 if version == 1 else TOPIC_BYTES_MAX
    if len(name) > longest:
        raise LocalProtocolError(f"topic of {len(name)} bytes, at most {longest}")
    return version, len(name).to_bytes(version, "big") + name


def encode_record(record: Record) -> bytes:
    """Encode one record, the inverse of `decode_record`.

    For batches use `wire.files.record_encoder`.

    Raises:
        LocalProtocolError: a field is out of range, or `size` or the host bits do not fit the
            other fields.
    """
    born, store = encode_host(record.born_host), encode_host(record.store_host)
    which = (len(born) > HOST_BYTES_IPV4) + 2 * (len(store) > HOST_BYTES_IPV4)
    if record.sys_flag >> 4 & 3 != which:
        raise LocalProtocolError(f"host bits of sysFlag {record.sys_flag:#x} do not fit the hosts")
    if record.version not in (1, 2):
        raise LocalProtocolError(f"record version {record.version} is unknown")
    _, topic = encode_topic(record.topic, record.version)
    if len(record.properties) > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(f"{len(record.properties)} bytes of properties")
    layout = HEAD_STRUCTS[which]
    try:
        head = layout.pack(
            record.size, MAGIC_V1 if record.version == 1 else MAGIC_V2, record.body_crc,
            record.queue_id, record.flag, record.queue_offset, record.physical_offset,
            record.sys_flag, record.born_ts, born, record.store_ts, store, record.reconsume_times,
            record.prepared_transaction_offset, len(record.body),
        )  # fmt: skip
    except struct.error as error:
        raise LocalProtocolError(f"a field is out of range: {error}") from None
    properties_length = _SHORT.pack(len(record.properties))
    data = b"".join((head, record.body, topic, properties_length, record.properties))
    if len(data) != record.size:
        raise LocalProtocolError(f"size says {record.size}, the fields need {len(data)}")
    return data
