"""Encodes many records of one topic into one buffer, for the master's write path.

Layout and upstream: `message_record`. What stays the same from record to record (hosts, magic,
topic) is prepared once; each record then costs one `pack`, one CRC and four appends.

Differs: upstream encodes each message in the producer's thread and stamps it again under the lock.
"""

from __future__ import annotations

import struct
from typing import Final

from wire.crc import crc32
from wire.errors import LocalProtocolError
from wire.files.hosts import HOST_BYTES_IPV4, Host, encode_host
from wire.files.message_record import (
    BLANK_MAGIC,
    BODY_BYTES_MAX,
    CRC_MASK,
    HEAD_STRUCTS,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_OVERHEAD_MAX,
    SYS_FLAG_HOSTS,
    encode_topic,
)
from wire.files.properties import (
    PROPERTIES_BYTES_MAX,
)

# int rest of the file, int BLANK_MAGIC. A file keeps room for it behind every record.
BLANK_BYTES: Final = 8
_BLANK = struct.Struct(">iI")


def fits_in_segment(record_bytes: int, rest_bytes: int) -> bool:
    """Return whether a record may be written where `rest_bytes` of the file are left.

    A BLANK of 8 bytes must still fit behind it.
    """
    return record_bytes + BLANK_BYTES <= rest_bytes


def encode_blank(rest_bytes: int) -> bytes:
    """Encode the filler for the last `rest_bytes` of a file: 8 bytes.

    The bytes behind it, up to the file's end, are left as they are: zeros in a fresh file.

    Raises:
        LocalProtocolError: `rest_bytes` is below 8, or above an int.
    """
    if not BLANK_BYTES <= rest_bytes < 2**31:
        raise LocalProtocolError(f"a BLANK cannot fill the last {rest_bytes} bytes of a file")
    return _BLANK.pack(rest_bytes, BLANK_MAGIC)


class RecordEncoder:
    """Encodes records of one topic from one producer on one master.

    Args:
        topic: at most 32767 bytes of UTF-8; above 127 bytes the records are of version 2.
        born_host, store_host: (IP address, port) of producer and master; IPv4 or IPv6 each.
        body_bytes_max: the largest body (upstream: maxMessageSize).

        Raises:
            LocalProtocolError: the topic or a host cannot be stored.
    """

    __slots__ = (
        "_body_bytes_max", "_born", "_fixed_bytes", "_host_bits", "_magic",
        "_pack", "_record_bytes_max", "_store", "_topic", "_topic_alone", "topic", "version",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        born_host: Host,
        store_host: Host,
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        assert 0 < body_bytes_max < 2**31 - RECORD_OVERHEAD_MAX
        self.topic = topic
        self.version, self._topic = encode_topic(topic)
        self._topic_alone = self._topic + bytes(2)  # and no properties behind it
        self._magic = MAGIC_V1 if self.version == 1 else MAGIC_V2
        self._born, self._store = encode_host(born_host), encode_host(store_host)
        which = (len(self._born) > HOST_BYTES_IPV4) + 2 * (len(self._store) > HOST_BYTES_IPV4)
        self._host_bits = which << 4
        self._pack = HEAD_STRUCTS[which].pack
        self._fixed_bytes = HEAD_STRUCTS[which].size + len(self._topic) + 2
        self._body_bytes_max = body_bytes_max
        self._record_bytes_max = body_bytes_max + RECORD_OVERHEAD_MAX

    def record_size(self, body_bytes: int, properties: bytes = b"") -> int:
        """Return the size of the record for a body of `body_bytes` with this property block."""
        return self._fixed_bytes + body_bytes + len(properties)

    def encode_into(
        self,
        out: bytearray,
        body: bytes,
        *,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        store_ts: int,
        born_ts: int,
        properties: bytes = b"",
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> int:
        """Append one record to `out` and return its size in bytes.

        Args:
            out: the batch; an error leaves it unchanged.
            body: at most `body_bytes_max` bytes.
            queue_id, queue_offset: the queue, and the record's number in it.
            physical_offset: the record's offset in the log.
            store_ts, born_ts: ms since 1970.
            properties: a block from `encode_properties`.
            sys_flag: the flags without the two host bits, which are set here.

        Raises:
            LocalProtocolError: a field, the body, the properties or the record is out of range.
        """
        body_bytes, properties_bytes = len(body), len(properties)
        size = self._fixed_bytes + body_bytes + properties_bytes
        if (
            body_bytes > self._body_bytes_max
            or properties_bytes > PROPERTIES_BYTES_MAX
            or size > self._record_bytes_max
            or sys_flag & SYS_FLAG_HOSTS
            or physical_offset < 0
            or queue_offset < 0
        ):
            raise LocalProtocolError(self._problem(body_bytes, properties_bytes, size, sys_flag))
        try:
            head = self._pack(
                size, self._magic, crc32(body) & CRC_MASK, queue_id, flag, queue_offset,
                physical_offset, sys_flag | self._host_bits, born_ts, self._born, store_ts,
                self._store, reconsume_times, prepared_transaction_offset, body_bytes,
            )  # fmt: skip
        except struct.error as error:
            raise LocalProtocolError(f"a field is out of range: {error}") from None
        out += head
        out += body
        if not properties_bytes:
            out += self._topic_alone
            return size
        out += self._topic
        out += properties_bytes.to_bytes(2, "big")
        out += properties
        return size

    def _problem(self, body_bytes: int, properties_bytes: int, size: int, sys_flag: int) -> str:
        if body_bytes > self._body_bytes_max:
            return f"body of {body_bytes} bytes, at most {self._body_bytes_max}"
        if properties_bytes > PROPERTIES_BYTES_MAX:
            return f"{properties_bytes} bytes of properties, at most {PROPERTIES_BYTES_MAX}"
        if size > self._record_bytes_max:
            return f"record of {size} bytes, at most {self._record_bytes_max}"
        if sys_flag & SYS_FLAG_HOSTS:
            return f"sysFlag {sys_flag:#x} may not set the host bits"
        return "a negative physical or queue offset"
