"""How a broker registers with name servers: the requests 103, 104, 322 and 904.

Upstream: apache/rocketmq, remoting/.../protocol/body/RegisterBrokerBody.java,
header/namesrv/RegisterBrokerRequestHeader.java, common/TopicConfig.java, 5.3.3; broker.md 2.2, 2.3.

| Code | Request            | Fields, and body                 | Answer                            |
|------|--------------------|----------------------------------|-----------------------------------|
| 103  | REGISTER_BROKER    | `RegisterBroker`, `TopicTable`   | `MasterOfGroup`, and order topics |
|      |                    |                                  | as `wire.broker.routes.KVTable`   |
| 104  | UNREGISTER_BROKER  | `BrokerAddress`                  |                                   |
| 322  | QUERY_DATA_VERSION | `BrokerAddress`, `DataVersion`   | `VersionChanged`, `DataVersion`   |
| 904  | BROKER_HEARTBEAT   | `BrokerAddress`                  |                                   |

A registration's body has one of three forms:

- JSON: filterServerList, and the table in topicConfigSerializeWrapper.
- JSON of the table alone, of senders before 3.0.11.
- Compressed, a zlib stream; strings are UTF-8 behind their length, numbers four bytes:

| Width  | Type  | Field                                                             |
|--------|-------|-------------------------------------------------------------------|
| 4 + n  | text  | dataVersion as JSON                                               |
| 4      | int   | how many topics                                                   |
| 4 + n  | texts | each topic: name, readQueueNums, writeQueueNums, perm and         |
|        |       | topicFilterType, a blank between them; then perhaps a blank and   |
|        |       | its attributes as JSON                                            |
| 4 + n  | text  | filterServerList as JSON                                          |
| 4      | int   | from version 5.0.0 on: how many mappings of static topics, which  |
|        |       | follow as JSON                                                    |

4.9.7 refuses a topic with attributes, so none are written where there are none. Order topics are
not told apart in this form, for Java does not either.

Differs:
- A text that is longer than what is left, a count that is no count and bytes behind the end are
  refused. Java ignores bytes behind the end, and reserves memory for any length.
- Filter servers are read and dropped: there are none any more.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import attrs
import msgspec

from wire.broker.dialect import Fields
from wire.broker.java_json import JavaObject, Reader, encode
from wire.broker.topics import DATA_VERSION, TOPIC_TABLE, TopicConfig, TopicTable
from wire.crc import crc32
from wire.errors import RemoteProtocolError
from wire.remoting.tolerant_json import Int, Long, always

MASTER_ID: Final = 0
HEARTBEAT_TIMEOUT_S: Final = 120.0
"""The seconds that a registration is valid if it states no other time. Upstream:
DEFAULT_BROKER_CHANNEL_EXPIRED_TIME."""
PLAIN_BYTES_MAX: Final = 16 << 20
"""The size to which a compressed body may grow, which is that of the largest plain one: 300,000
topics."""
VERSION_WITH_BODY: Final = 37
"""Version 3.0.11, from which on the body is a RegisterBrokerBody."""
VERSION_WITH_MAPPINGS: Final = 413
"""Version 5.0.0, from which on the compressed form ends with mappings of static topics."""
CRC_MASK: Final = 0x7FFFFFFF

_INT = struct.Struct(">i")


class RegisterBroker(Fields, frozen=True, kw_only=True):
    """Fields of REGISTER_BROKER.

    Attributes:
        broker_addr: where clients reach the broker, "host:port".
        ha_server_addr: where its slaves reach it.
        broker_id: 0 for the master, another number for a slave.
        body_crc32: the CRC-32 of the body as it is sent, without the highest bit; 0: unchecked.
        compressed: whether the body is in the compressed form.
        enable_acting_master: whether a slave may stand in for its master; None for a broker before
            5.0, which does not state it.
        heartbeat_timeout_millis: how long the registration is valid without another one; None:
            HEARTBEAT_TIMEOUT_S.
    """

    body_crc32: Int = 0
    broker_addr: str
    broker_id: Long
    broker_name: str
    cluster_name: str
    compressed: bool = False
    enable_acting_master: bool | None = None
    ha_server_addr: str
    heartbeat_timeout_millis: Long | None = None
    zone_name: str | None = None


class BrokerAddress(Fields, frozen=True, kw_only=True):
    """Fields of UNREGISTER_BROKER, QUERY_DATA_VERSION and BROKER_HEARTBEAT, which name a broker.

    The second has no `broker_name` in some versions, and the third no `broker_id`.
    """

    broker_addr: str
    broker_id: Long | None = None
    broker_name: str = ""
    cluster_name: str


class MasterOfGroup(Fields, frozen=True, kw_only=True):
    """Fields of the answer to a slave's registration: its master, if one is registered."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class VersionChanged(Fields, frozen=True, kw_only=True):
    """Fields of the answer to QUERY_DATA_VERSION: whether the name server has another version."""

    changed: bool


class RegisterBrokerBody(JavaObject, frozen=True):
    """The body from version 3.0.11 on, under upstream's name."""

    filter_server_list: tuple[str, ...] = always(())
    topic_config_serialize_wrapper: TopicTable = msgspec.field(default_factory=TopicTable)


_BODY = Reader(RegisterBrokerBody)
_NUMBERS = msgspec.json.Decoder(tuple[Int, Int, Int])
_ATTRIBUTES = msgspec.json.Decoder(dict[str, str])


def encode_registration(table: TopicTable) -> bytes:
    """Encode the body of REGISTER_BROKER, as JSON.

    Raises:
        LocalProtocolError: a value cannot be written.
    """
    return encode(RegisterBrokerBody(topic_config_serialize_wrapper=table))


def decode_registration(body: bytes, *, compressed: bool, version: int) -> TopicTable:
    """Decode the topics in the body of REGISTER_BROKER, often a single one that was changed.

    They are named by their own `topicName`, as in Java, not by the table's key. Without a body
    there are none.

    Args:
        version: the version in the request's header.

    Raises:
        RemoteProtocolError: it is no registration.
    """
    if not body:
        return TopicTable()
    if compressed:
        return _decode_compressed(body, version)
    if version < VERSION_WITH_BODY:
        table = TOPIC_TABLE.decode(body)
    else:
        table = _BODY.decode(body).topic_config_serialize_wrapper
    topics = table.topic_config_table
    if all(topic.topic_name == name for name, topic in topics.items()):
        return table
    named = {topic.topic_name or name: topic for name, topic in topics.items()}
    return msgspec.structs.replace(table, topic_config_table=named)


def _decode_compressed(body: bytes, version: int) -> TopicTable:
    reader = _Reader(_inflated(body))
    data_version = DATA_VERSION.decode(reader.text())
    topics: dict[str, TopicConfig] = {}
    for _ in range(reader.count("topics")):
        topic = _topic_of(reader.text())
        topics[topic.topic_name] = topic
    reader.text()  # filter servers
    if version >= VERSION_WITH_MAPPINGS:
        for _ in range(reader.count("mappings")):
            reader.text()
    reader.end()
    return TopicTable(data_version=data_version, topic_config_table=topics)


def _inflated(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, PLAIN_BYTES_MAX)
    except zlib.error as error:
        raise RemoteProtocolError(f"compressed registration: {error}") from None
    if stream.unconsumed_tail:
        raise RemoteProtocolError(f"compressed registration of more than {PLAIN_BYTES_MAX} bytes")
    if not stream.eof or stream.unused_data:
        raise RemoteProtocolError("compressed registration that does not end with its bytes")
    return plain


@attrs.define
class _Reader:
    _data: bytes
    _at: int = 0

    def number(self) -> int:
        if len(self._data) - self._at < _INT.size:
            raise RemoteProtocolError("compressed registration that ends too early")
        (value,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(value)

    def count(self, what: str) -> int:
        """Read how many texts follow, each of which takes four bytes at least."""
        value = self.number()
        if not 0 <= value <= (len(self._data) - self._at) // _INT.size:
            raise RemoteProtocolError(f"compressed registration of {value} {what}")
        return value

    def text(self) -> bytes:
        size = self.number()
        if not 0 <= size <= len(self._data) - self._at:
            raise RemoteProtocolError(f"compressed registration with a text of {size} bytes")
        self._at += size
        return self._data[self._at - size : self._at]

    def end(self) -> None:
        if self._at != len(self._data):
            left = len(self._data) - self._at
            raise RemoteProtocolError(f"compressed registration with {left} bytes behind its end")


def _topic_of(text: bytes) -> TopicConfig:
    try:
        name, read, write, perm, kind, *attributes = text.decode().split(" ", 5)
        numbers = _NUMBERS.decode(f"[{read},{write},{perm}]".encode())
        found = _ATTRIBUTES.decode(attributes[0]) if attributes else None
    except (ValueError, msgspec.MsgspecError) as error:
        raise RemoteProtocolError(f"topic {text[:100]!r} of a registration: {error}") from None
    if not name:
        raise RemoteProtocolError("a topic of a registration has no name")
    return TopicConfig(
        topic_name=name,
        read_queue_nums=numbers[0],
        write_queue_nums=numbers[1],
        perm=numbers[2],
        topic_filter_type=kind,
        attributes=found,
    )


def registration_crc(body: bytes) -> int:
    """Return the `RegisterBroker.body_crc32` of a body."""
    return crc32(body) & CRC_MASK
