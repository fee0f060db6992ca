"""Records that the golden stores do not hold, checked against bytes laid out by hand."""

import struct
import zlib

import attrs
import pytest

from wire.errors import IncompleteData, LocalProtocolError, RemoteProtocolError
from wire.files.hosts import Host
from wire.files.message_record import (
    BODY_BYTES_MAX,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MAX,
    RECORD_BYTES_MIN,
    Record,
    body_crc,
    decode_record,
    encode_record,
    has_queue_unit,
)
from wire.files.properties import encode_properties
from wire.files.record_encoder import RecordEncoder
from wire.files.record_scan import scan, scan_heads
from wire.files.scanned import Stop

V4: Host = ("10.1.2.3", 10911)
V4_BYTES = bytes((10, 1, 2, 3, 0, 0, 0x2A, 0x9F))
V6: Host = ("2001:db8::1", 443)
V6_BYTES = bytes.fromhex("20010db8000000000000000000000001000001bb")


def encode(
    body: bytes = b"body",
    topic: str = "T",
    born: Host = V4,
    store: Host = V4,
    properties: bytes = b"",
    physical_offset: int = 0,
) -> bytes:
    out = bytearray()
    RecordEncoder(topic, born, store).encode_into(
        out,
        body,
        queue_id=1,
        queue_offset=2,
        physical_offset=physical_offset,
        store_ts=4,
        born_ts=5,
        properties=properties,
        flag=6,
    )
    return bytes(out)


def by_hand(
    magic: int,
    sys_flag: int,
    born: bytes,
    store: bytes,
    body: bytes,
    topic: bytes,
    properties: bytes,
    physical_offset: int = 0,
) -> bytes:
    rest = b"".join(
        (
            struct.pack(">i", zlib.crc32(body) & 0x7FFFFFFF),
            struct.pack(">iiqqiq", 1, 6, 2, physical_offset, sys_flag, 5),
            born,
            struct.pack(">q", 4),
            store,
            struct.pack(">iq", 0, 0),
            struct.pack(">i", len(body)),
            body,
            struct.pack(">B" if magic == 0xDAA320A7 else ">H", len(topic)),
            topic,
            struct.pack(">H", len(properties)),
            properties,
        )
    )
    return struct.pack(">iI", len(rest) + 8, magic) + rest


# --- checklist 37: every layout -------------------------------------------------------------------

BLOCK = encode_properties({"TAGS": "Grüße", "鍵": "値"})
LAYOUTS = {
    "v1 IPv4": (V4, V4, b"body", "topic", BLOCK),
    "v1 IPv6 born": (V6, V4, b"body", "topic", BLOCK),
    "v1 IPv6 store": (V4, V6, b"body", "topic", BLOCK),
    "v1 IPv6 both": (V6, V6, b"body", "topic", BLOCK),
    "empty body": (V4, V4, b"", "topic", BLOCK),
    "no properties": (V4, V4, b"body", "topic", b""),
    "nothing at all": (V4, V4, b"", "", b""),
    "topic of 127": (V4, V4, b"body", "t" * 127, BLOCK),
    "v2, topic of 128": (V4, V4, b"body", "t" * 128, BLOCK),
    "v2, IPv6 both, no body": (V6, V6, b"", "t" * 300, b""),
    "unicode topic of 127 bytes": (V4, V4, b"body", "名" * 42 + "x", BLOCK),
    "v2, unicode topic of 128 bytes": (V4, V4, b"body", "名" * 42 + "xy", BLOCK),
    "longest topic": (V4, V4, b"body", "t" * 32767, BLOCK),
    "longest properties": (V4, V4, b"body", "topic", b"k\x01" + b"v" * 32764 + b"\x02"),
    "no final separator": (V4, V4, b"body", "topic", BLOCK[:-1]),
}


@pytest.mark.checklist(37)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_both_ways(name: str) -> None:
    born, store, body, topic, properties = LAYOUTS[name]
    version = 2 if len(topic.encode()) > 127 else 1
    sys_flag = (0x10 if born is V6 else 0) | (0x20 if store is V6 else 0)
    wanted = by_hand(
        MAGIC_V1 if version == 1 else MAGIC_V2,
        sys_flag,
        V6_BYTES if born is V6 else V4_BYTES,
        V6_BYTES if store is V6 else V4_BYTES,
        body,
        topic.encode(),
        properties,
    )
    assert encode(body, topic, born, store, properties) == wanted
    record = decode_record(wanted)
    assert record == Record(
        version=version,
        body_crc=zlib.crc32(body) & 0x7FFFFFFF,
        queue_id=1,
        flag=6,
        queue_offset=2,
        physical_offset=0,
        sys_flag=sys_flag,
        born_ts=5,
        born_host=born,
        store_ts=4,
        store_host=store,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        topic=topic,
        properties=properties,
        size=len(wanted),
    )
    assert encode_record(record) == wanted
    assert scan(wanted, physical_offset=0)[0] == [(0, len(wanted))]
    (head,), _ = scan_heads(wanted, physical_offset=0)
    assert (head.topic, head.store_ts, head.sys_flag) == (topic, 4, sys_flag)


def test_the_smallest_record() -> None:
    assert len(encode(b"", "")) == RECORD_BYTES_MIN


def test_a_short_topic_may_be_stored_as_version_2() -> None:
    data = by_hand(MAGIC_V2, 0, V4_BYTES, V4_BYTES, b"body", b"T", b"")
    record = decode_record(data)
    assert (record.version, record.topic) == (2, "T")
    assert encode_record(record) == data
    assert scan_heads(data)[0][0].topic == "T"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_record_is_found_inside_a_larger_buffer(kind: type) -> None:
    data = encode(properties=BLOCK, physical_offset=7)
    buf = kind(b"before!" + data + b"behind")
    record = decode_record(buf, 7, end=7 + len(data))
    assert record.body == b"body"
    assert isinstance(record.body, bytes)
    assert scan(buf, 7, 7 + len(data), physical_offset=7)[0] == [(7, len(data))]
    assert scan_heads(buf, 7, 7 + len(data), physical_offset=7)[0][0].topic == "T"


def test_text_that_is_no_utf_8_is_replaced() -> None:
    data = by_hand(MAGIC_V1, 0, V4_BYTES, V4_BYTES, b"", b"a\xffb", b"TAGS\x01\xfe\x02")
    record = decode_record(data)
    assert record.topic == "a\ufffdb"
    assert record.properties_map == {"TAGS": "\ufffd"}
    (head,), _ = scan_heads(data)
    assert (head.topic, head.tags_code) == ("a\ufffdb", 0xFFFD)


@pytest.mark.parametrize(
    ("sys_flag", "wanted"), [(0, True), (1, True), (4, False), (8, True), (12, False), (0x30, True)]
)
def test_prepared_and_rolled_back_records_get_no_unit(sys_flag: int, wanted: bool) -> None:
    assert has_queue_unit(sys_flag) is wanted


# --- CRCs -----------------------------------------------------------------------------------------


def test_a_wrong_body_crc_is_corrupt_when_asked() -> None:
    data = bytearray(encode())
    data[88] ^= 1
    with pytest.raises(RemoteProtocolError, match="body CRC"):
        decode_record(data)
    assert scan(data)[1].stop is Stop.CORRUPT
    assert decode_record(data, check_crc=False).body == b"cody"
    assert scan(data, check_crc=False)[1].stop is Stop.END


def test_an_empty_body_has_no_crc_to_compare() -> None:
    data = bytearray(encode(b""))
    data[8:12] = b"\0\0\0\1"
    assert decode_record(data).body_crc == 1
    assert scan(data)[1].stop is Stop.END
    assert body_crc(b"") == 0


# --- corrupt lengths ------------------------------------------------------------------------------

SIZE = len(encode())


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, struct.pack(">i", 90), "record size 90"),
        (0, struct.pack(">i", -5), "record size -5"),
        (0, struct.pack(">i", RECORD_BYTES_MAX + 1), "record size"),
        (0, struct.pack(">i", 0), "record size 0"),
        (0, struct.pack(">i", SIZE - 1), "properties|topic length|add up|does not fit"),
        (4, struct.pack(">I", 0xDAA320A8), "magic DAA320A8"),
        (4, bytes(4), "magic 00000000"),
        (36, struct.pack(">i", 0x30), "below its fixed fields|does not fit"),
        (84, struct.pack(">i", -1), "body length -1"),
        (84, struct.pack(">i", 1 << 30), "body length"),
        (84, struct.pack(">i", 3), "topic length"),
        (92, b"\x80", "topic length 128"),
        (92, b"\x02", "add up|does not fit"),
        (94, b"\xff\xff", "add up"),
        (94, b"\x00\x01", "add up"),
    ],
)
def test_corrupt_lengths(at: int, value: bytes, reason: str) -> None:
    data = bytearray(encode())
    data[at : at + len(value)] = value
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        decode_record(data)
    assert not isinstance(caught.value, IncompleteData)
    for found, scanned in (scan(data), scan_heads(data)):
        assert found == []
        assert (scanned.stop, scanned.end) == (Stop.CORRUPT, 0)
        assert scanned.reason == str(caught.value)


@pytest.mark.parametrize("sys_flag", [0x10, 0x20, 0x30])
def test_host_bits_in_a_record_too_small_for_them(sys_flag: int) -> None:
    data = bytearray(encode(b"", ""))
    data[36:40] = struct.pack(">i", sys_flag)
    with pytest.raises(RemoteProtocolError, match="below its fixed fields"):
        decode_record(data)
    assert scan(data)[1].stop is Stop.CORRUPT
    assert scan_heads(data)[1].stop is Stop.CORRUPT


@pytest.mark.parametrize(("topic_length", "properties_length"), [(0x8001, 0), (0xFFFF, 0), (1, -1)])
def test_negative_lengths_of_version_2(topic_length: int, properties_length: int) -> None:
    data = bytearray(by_hand(MAGIC_V2, 0, V4_BYTES, V4_BYTES, b"", b"T", b""))
    data[88:90] = struct.pack(">H", topic_length)
    data[91:93] = struct.pack(">h", properties_length)
    with pytest.raises(RemoteProtocolError):
        decode_record(data)
    assert scan(data)[1].stop is Stop.CORRUPT


@pytest.mark.parametrize(
    ("magic", "topic_bytes", "properties_bytes"),
    [
        (MAGIC_V1, 128, 0),
        (MAGIC_V1, 255, 0),
        (MAGIC_V2, 32768, 0),
        (MAGIC_V2, 65535, 0),
        (MAGIC_V1, 1, 32768),
        (MAGIC_V2, 1, 65535),
    ],
)
def test_lengths_that_add_up_only_without_a_sign(
    magic: int, topic_bytes: int, properties_bytes: int
) -> None:
    topic, properties = b"t" * topic_bytes, b"p" * properties_bytes
    data = by_hand(magic, 0, V4_BYTES, V4_BYTES, b"body", topic, properties)
    with pytest.raises(RemoteProtocolError, match=r"topic length|add up"):
        decode_record(data)
    assert scan(data)[1].stop is Stop.CORRUPT
    assert scan_heads(data)[1].stop is Stop.CORRUPT


def test_a_larger_limit_is_taken() -> None:
    out = bytearray()
    encoder = RecordEncoder("T", V4, V4, body_bytes_max=2 * BODY_BYTES_MAX)
    encoder.encode_into(
        out, bytes(2 * BODY_BYTES_MAX), queue_id=0, queue_offset=0, physical_offset=0, store_ts=0,
        born_ts=0,
    )  # fmt: skip
    with pytest.raises(RemoteProtocolError, match="record size"):
        decode_record(out)
    assert scan(out)[1].stop is Stop.CORRUPT
    assert decode_record(out, size_max=len(out)).size == len(out)
    assert scan(out, size_max=len(out))[1].stop is Stop.END
    assert scan_heads(out, size_max=len(out))[1].stop is Stop.END


# --- encode_record refuses what does not fit ------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": 5}, "size says 5"),
        ({"version": 3}, "version 3"),
        ({"sys_flag": 0x10}, "host bits"),
        ({"born_host": V6}, "host bits"),
        ({"topic": "t" * 128}, "topic of 128"),
        ({"version": 2, "topic": "t" * 32768}, "topic of 32768"),
        ({"topic": "\ud800"}, "not Unicode"),
        ({"properties": bytes(32768)}, "32768 bytes of properties"),
        ({"queue_id": 2**31}, "out of range"),
        ({"physical_offset": 2**63}, "out of range"),
        ({"store_host": ("localhost", 1)}, "cannot be stored"),
    ],
)
def test_encode_record_refuses(change: dict[str, object], reason: str) -> None:
    record = decode_record(encode())
    with pytest.raises(LocalProtocolError, match=reason):
        encode_record(attrs.evolve(record, **change))  # type: ignore[arg-type]
