"""Hosts as records store them, and message ids made of a host and an offset.

Upstream: apache/rocketmq, common/.../message/MessageExt.java (socketAddress2ByteBuffer) and
MessageDecoder.java (createMessageId, decodeMessageId), 5.3.3.

| Offset | Width   | Type | Field   | Meaning                                     |
|--------|---------|------|---------|---------------------------------------------|
| 0      | 4 or 16 | raw  | address | IPv4 or IPv6; which one says the sysFlag    |
| 4, 16  | 4       | int  | port    | a whole int, though only 0 .. 65535 is used |
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import Final, TypeAlias

from wire.errors import LocalProtocolError, RemoteProtocolError

Host: TypeAlias = tuple[str, int]  # (IP address as text, port)

HOST_BYTES_IPV4: Final = 8
HOST_BYTES_IPV6: Final = 20

_PORT = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_MESSAGE_ID_DIGITS: Final = (2 * (HOST_BYTES_IPV4 + 8), 2 * (HOST_BYTES_IPV6 + 8))


@lru_cache(maxsize=1024)  # each new topic's encoder asks for the same ones
def encode_host(host: Host) -> bytes:
    """Encode a host: 8 bytes for an IPv4 address, 20 for IPv6.

    Raises:
        LocalProtocolError: it is no IP address, or has a zone, or the port is no int of 4 bytes.
    """
    address, port = host
    try:
        if "%" in address:
            raise ValueError("a zone cannot be stored")
        return ipaddress.ip_address(address).packed + _PORT.pack(port)
    except (ValueError, struct.error) as error:
        raise LocalProtocolError(f"host {host} cannot be stored: {error}") from None


@lru_cache(maxsize=1024)  # a log holds few hosts; the bound is for a hostile one
def decode_host(data: bytes) -> Host:
    """Decode the host in exactly 8 (IPv4) or 20 (IPv6) bytes.

    Raises:
        RemoteProtocolError: there are fewer or more bytes.
    """
    if len(data) not in (HOST_BYTES_IPV4, HOST_BYTES_IPV6):
        raise RemoteProtocolError(f"a host has 8 or 20 bytes, not {len(data)}")
    (port,) = _PORT.unpack_from(data, len(data) - 4)
    return str(ipaddress.ip_address(data[:-4])), port


def encode_message_id(store_host: Host, physical_offset: int) -> str:
    """Return the offset message id: upper-case hex of store host and physical offset (>= 0).

    Raises:
        LocalProtocolError: the host cannot be stored, or the offset is no long >= 0.
    """
    if not 0 <= physical_offset < 2**63:
        raise LocalProtocolError(f"physical offset {physical_offset} is not in 0..2^63-1")
    return (encode_host(store_host) + _OFFSET.pack(physical_offset)).hex().upper()


def decode_message_id(message_id: str) -> tuple[Host, int]:
    """Decode store host and physical offset of an offset message id of 32 or 56 hex digits.

    Raises:
        RemoteProtocolError: it is no such id.
    """
    try:
        data = bytes.fromhex(message_id)
    except ValueError:
        raise RemoteProtocolError(f"message id {message_id!r} is not hex") from None
    if len(message_id) not in _MESSAGE_ID_DIGITS or 2 * len(data) != len(message_id):
        raise RemoteProtocolError(f"message id {message_id!r} has not 32 or 56 digits")
    (offset,) = _OFFSET.unpack_from(data, len(data) - 8)
    if offset < 0:
        raise RemoteProtocolError(f"message id {message_id!r} holds a negative offset")
    return decode_host(data[:-8]), offset
