import pytest

from wire.errors import LocalProtocolError
from wire.files.hosts import Host
from wire.files.message_record import BODY_BYTES_MAX, RECORD_BYTES_MAX, decode_record
from wire.files.record_encoder import BLANK_BYTES, RecordEncoder, encode_blank, fits_in_segment
from wire.files.record_scan import scan

V4: Host = ("127.0.0.1", 10911)
FIELDS = {"queue_id": 0, "queue_offset": 0, "physical_offset": 0, "store_ts": 0, "born_ts": 0}


# --- checklist 38, encoding part ------------------------------------------------------------------


@pytest.mark.checklist(38)
def test_a_record_that_leaves_exactly_a_blank_fits() -> None:
    size = RecordEncoder("T", V4, V4).record_size(100)
    assert fits_in_segment(size, size + BLANK_BYTES)
    assert not fits_in_segment(size, size + BLANK_BYTES - 1)


@pytest.mark.checklist(38)
def test_a_file_filled_to_the_last_byte_reads_back() -> None:
    encoder = RecordEncoder("T", V4, V4)
    out = bytearray()
    size = encoder.encode_into(out, b"x" * 100, **FIELDS)
    out += encode_blank(8)
    spans, scanned = scan(out, physical_offset=0)
    assert spans == [(0, size)]
    assert scanned.end + scanned.blank_bytes == len(out) == size + 8


def test_the_blanks_bytes() -> None:
    assert encode_blank(65536) == bytes.fromhex("00010000cbd43194")


@pytest.mark.parametrize("rest", [7, 0, -1, 2**31])
def test_no_blank_without_room(rest: int) -> None:
    with pytest.raises(LocalProtocolError, match="BLANK"):
        encode_blank(rest)


# --- limits ---------------------------------------------------------------------------------------


def test_the_largest_body_passes_and_one_byte_more_does_not() -> None:
    encoder = RecordEncoder("T", V4, V4)
    out = bytearray()
    size = encoder.encode_into(out, bytes(BODY_BYTES_MAX), **FIELDS)
    assert decode_record(out).size == size <= RECORD_BYTES_MAX
    with pytest.raises(LocalProtocolError, match="body of 4194305 bytes, at most 4194304"):
        encoder.encode_into(out, bytes(BODY_BYTES_MAX + 1), **FIELDS)
    assert len(out) == size


def test_the_longest_properties_pass_and_one_byte_more_does_not() -> None:
    encoder = RecordEncoder("T", V4, V4)
    out = bytearray()
    encoder.encode_into(out, b"", properties=bytes(32767), **FIELDS)
    with pytest.raises(LocalProtocolError, match="32768 bytes of properties"):
        encoder.encode_into(out, b"", properties=bytes(32768), **FIELDS)


def test_the_record_as_a_whole_is_limited_too() -> None:
    encoder = RecordEncoder("t" * 32767, V4, V4)
    body = bytes(BODY_BYTES_MAX)
    room = RECORD_BYTES_MAX - encoder.record_size(len(body))
    assert 0 < room < 32767
    out = bytearray()
    assert encoder.encode_into(out, body, properties=bytes(room), **FIELDS) == RECORD_BYTES_MAX
    assert decode_record(out).size == RECORD_BYTES_MAX
    with pytest.raises(LocalProtocolError, match="record of 4259841 bytes"):
        encoder.encode_into(out, body, properties=bytes(room + 1), **FIELDS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"queue_id": 2**31}, "out of range"),
        ({"store_ts": 2**63}, "out of range"),
        ({"flag": -(2**31) - 1}, "out of range"),
        ({"sys_flag": 2**31}, "out of range"),
        ({"sys_flag": 0x10}, "host bits"),
        ({"sys_flag": 0x20}, "host bits"),
        ({"physical_offset": -1}, "negative"),
        ({"queue_offset": -1}, "negative"),
    ],
)
def test_a_refused_record_leaves_the_batch_as_it_was(change: dict[str, int], reason: str) -> None:
    out = bytearray(b"batch")
    with pytest.raises(LocalProtocolError, match=reason):
        RecordEncoder("T", V4, V4).encode_into(out, b"x", **{**FIELDS, **change})
    assert out == b"batch"


@pytest.mark.parametrize(
    ("topic", "born", "reason"),
    [
        ("t" * 32768, V4, "topic of 32768"),
        ("\udc00", V4, "not Unicode"),
        ("T", ("localhost", 1), "cannot be stored"),
    ],
)
def test_an_encoder_for_what_cannot_be_stored(topic: str, born: Host, reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=reason):
        RecordEncoder(topic, born, V4)


def test_a_batch_is_records_one_after_another() -> None:
    encoder = RecordEncoder("T", V4, ("::1", 1))
    out = bytearray()
    sizes = [
        encoder.encode_into(
            out,
            b"b" * number,
            queue_id=3,
            queue_offset=10 + number,
            physical_offset=1000 + len(out),
            store_ts=5,
            born_ts=4,
            sys_flag=8,
            reconsume_times=2,
            prepared_transaction_offset=77,
        )
        for number in range(4)
    ]
    spans, _ = scan(out, physical_offset=1000)
    assert [size for _, size in spans] == sizes
    records = [decode_record(out, pos) for pos, _ in spans]
    assert [record.queue_offset for record in records] == [10, 11, 12, 13]
    assert {(r.sys_flag, r.reconsume_times, r.prepared_transaction_offset) for r in records} == {
        (0x28, 2, 77)
    }
    assert (encoder.topic, encoder.version) == ("T", 1)
