"""The body of REGISTER_BROKER as any broker sends it; ours send it uncompressed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

import msgspec

from wire.broker import registration
from wire.broker.java_json import encode
from wire.broker.registration import VERSION_WITH_BODY, VERSION_WITH_MAPPINGS
from wire.broker.topics import TopicConfig, TopicTable

_INT = struct.Struct(">i")


def encode_registration(table: TopicTable, *, compressed: bool = False, version: int) -> bytes:
    """The body for a request with this version in its header, VERSION_WITH_BODY or later."""
    assert version >= VERSION_WITH_BODY
    if compressed:
        return zlib.compress(b"".join(_compressed_parts(table, version)), 9)
    return registration.encode_registration(table)


def _compressed_parts(table: TopicTable, version: int) -> Iterable[bytes]:
    topics = table.topic_config_table
    yield _text(encode(table.data_version))
    yield _INT.pack(len(topics))
    for each in topics.values():
        yield _text(_topic_text(each))
    yield _text(b"[]")
    if version >= VERSION_WITH_MAPPINGS:
        yield _INT.pack(0)


def _topic_text(topic: TopicConfig) -> bytes:
    parts = [
        topic.topic_name,
        str(topic.read_queue_nums),
        str(topic.write_queue_nums),
        str(topic.perm),
        topic.topic_filter_type,
    ]
    if topic.attributes:
        parts.append(msgspec.json.encode(topic.attributes).decode())
    return " ".join(parts).encode()


def _text(encoded: bytes) -> bytes:
    return _INT.pack(len(encoded)) + encoded
