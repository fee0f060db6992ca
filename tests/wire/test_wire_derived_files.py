"""Hosts and message ids, consume-queue units, index files, checkpoints, file names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.files.checkpoint import CHECKPOINT_BYTES, Checkpoint, decode_checkpoint, encode_checkpoint
from wire.files.commit_log import segment_name, segment_offset
from wire.files.consume_queue import (
    FILLER_UNIT,
    UNIT_BYTES,
    decode_unit,
    decode_units,
    encode_unit,
    is_filler,
    is_used,
)
from wire.files.hosts import Host, decode_host, decode_message_id, encode_host, encode_message_id
from wire.files.index_file import (
    IndexHeader,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    decode_slot,
    encode_index_header,
    encode_index_unit,
    encode_slot,
    index_file_bytes,
    index_keys,
    key_hash,
    seconds_since,
    slot_position,
    unit_position,
)

longs = st.integers(-(2**63), 2**63 - 1)
naturals = st.integers(0, 2**63 - 1)
natural_ints = st.integers(0, 2**31 - 1)

# --- hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "data"),
    [
        (("127.0.0.1", 10911), "7f00000100002a9f"),
        (("255.255.255.255", 0), "ffffffff00000000"),
        (("::1", 65535), "000000000000000000000000000000010000ffff"),
    ],
)
def test_hosts(host: Host, data: str) -> None:
    assert encode_host(host).hex() == data
    assert decode_host(bytes.fromhex(data)) == host


@pytest.mark.parametrize(
    "host", [("localhost", 1), ("", 1), ("1.2.3", 1), ("fe80::1%eth0", 1), ("1.2.3.4", 2**31)]
)
def test_hosts_that_cannot_be_stored(host: Host) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be stored"):
        encode_host(host)


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 21])
def test_hosts_of_another_length(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"not {size}"):
        decode_host(bytes(size))


@given(
    st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str),
    st.integers(-(2**31), 2**31 - 1),
    naturals,
)
def test_message_ids_round_trip(address: str, port: int, offset: int) -> None:
    message_id = encode_message_id((address, port), offset)
    assert len(message_id) == (56 if ":" in address else 32)
    assert message_id == message_id.upper()
    assert decode_message_id(message_id) == ((address, port), offset)


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_message_ids_of_no_offset(offset: int) -> None:
    with pytest.raises(LocalProtocolError, match="physical offset"):
        encode_message_id(("1.2.3.4", 5), offset)


@pytest.mark.parametrize(
    "text", ["", "7F", "x" * 32, "0" * 31, "0" * 40, "0" * 57, "F" * 32, "00 " * 10 + "00"]
)
def test_what_is_no_message_id(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="message id"):
        decode_message_id(text)


# --- consume queue --------------------------------------------------------------------------------


@given(naturals, st.integers(1, 2**31 - 1), longs)
def test_units_round_trip(offset: int, size: int, code: int) -> None:
    data = encode_unit(offset, size, code)
    assert len(data) == UNIT_BYTES
    assert decode_unit(b"before" + data, 6) == (offset, size, code)
    assert list(decode_units(data * 3)) == [(offset, size, code)] * 3
    assert is_used(offset, size)


@pytest.mark.parametrize(
    ("offset", "size", "code"),
    [(-1, 1, 0), (0, 0, 0), (0, -1, 0), (2**63, 1, 0), (0, 2**31, 0), (0, 1, 2**63)],
)
def test_units_out_of_range(offset: int, size: int, code: int) -> None:
    with pytest.raises(LocalProtocolError, match="unit"):
        encode_unit(offset, size, code)


def test_fillers_and_unused_units() -> None:
    assert FILLER_UNIT.hex() == "00000000000000007fffffff0000000000000000"
    filler = decode_unit(FILLER_UNIT)
    assert is_filler(*filler)
    assert is_used(*filler[:2])
    assert not is_filler(0, 100, 0)
    assert not is_used(0, 0)
    assert not is_used(-1, 100)


@pytest.mark.parametrize(("size", "position"), [(19, 0), (20, 1), (20, -1), (0, 0)])
def test_cut_units(size: int, position: int) -> None:
    with pytest.raises(RemoteProtocolError, match="no unit"):
        decode_unit(bytes(size), position)


def test_no_whole_number_of_units() -> None:
    with pytest.raises(RemoteProtocolError, match="21 bytes"):
        decode_units(bytes(21))


# --- index ----------------------------------------------------------------------------------------


def test_the_default_files_size_and_positions() -> None:
    assert index_file_bytes() == 420_000_040
    assert slot_position(0) == 40
    assert slot_position(7) == 68
    assert unit_position(0) == 20_000_040
    assert unit_position(1, slots=50) == 260
    assert unit_position(200, slots=50) == index_file_bytes(50, 200)


def test_index_keys_in_upstreams_order() -> None:
    assert list(index_keys("T", " a  b ", "u")) == ["T#u", "T#a", "T#b"]
    assert list(index_keys("T", "", "")) == []


def test_key_hash_is_never_negative() -> None:
    assert key_hash("a") == 97
    assert key_hash("TopicTest") == 1902610879
    assert key_hash("polygenelubricants") == 0


@pytest.mark.parametrize(
    ("begin", "stored", "wanted"),
    [
        (1000, 1000, 0), (1000, 1999, 0), (1000, 2000, 1), (1000, 500, 0), (0, 5000, 0),
        (-1, 5000, 0), (1, 2**31 * 1000, 2**31 - 1), (1, 2**31 * 1000 + 1, 2**31 - 1),
    ],
)  # fmt: skip
def test_seconds_since(begin: int, stored: int, wanted: int) -> None:
    assert seconds_since(begin, stored) == wanted


@given(naturals, naturals, naturals, naturals, natural_ints, st.integers(1, 2**31 - 1))
def test_index_headers_round_trip(a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    header = IndexHeader(
        begin_ts=a, end_ts=b, begin_offset=c, end_offset=d, slots_used=e, units_next=f
    )
    data = encode_index_header(header)
    assert len(data) == 40
    assert decode_index_header(data + b"slots") == header


@pytest.mark.parametrize("ts", [-(2**63), -1, 2**63 - 1])
def test_index_headers_hold_any_time(ts: int) -> None:
    header = IndexHeader(begin_ts=ts, end_ts=ts)
    assert decode_index_header(encode_index_header(header)) == header
    for field in ("begin_ts", "end_ts"):
        with pytest.raises(LocalProtocolError, match="a field of"):
            encode_index_header(IndexHeader(**{field: 2**63}))


def test_an_index_header_of_zeros_has_no_units() -> None:
    assert decode_index_header(bytes(40)) == IndexHeader()


@pytest.mark.parametrize("field", ["begin_offset", "end_offset", "slots_used", "units_next"])
@pytest.mark.parametrize("value", [-1, 2**63])
def test_index_headers_out_of_range(field: str, value: int) -> None:
    with pytest.raises(LocalProtocolError, match="a field of"):
        encode_index_header(IndexHeader(**{field: value}))


@pytest.mark.parametrize("at", [16, 24, 32, 36])
def test_damaged_index_headers(at: int) -> None:
    data = bytearray(encode_index_header(IndexHeader()))
    data[at] = 0x80
    with pytest.raises(RemoteProtocolError, match="negative"):
        decode_index_header(data)
    with pytest.raises(RemoteProtocolError, match="not 39"):
        decode_index_header(bytes(39))


@given(natural_ints, naturals, natural_ints, natural_ints)
def test_index_units_round_trip(a: int, b: int, c: int, d: int) -> None:
    unit = IndexUnit(a, b, c, d)
    data = encode_index_unit(unit)
    assert len(data) == 20
    assert decode_index_unit(b"x" + data, 1) == unit


def test_index_units_and_slots_out_of_range() -> None:
    for unit in (IndexUnit(-1, 0, 0, 0), IndexUnit(0, 2**63, 0, 0), IndexUnit(0, 0, 2**31, 0)):
        with pytest.raises(LocalProtocolError, match="a field of"):
            encode_index_unit(unit)
    for slot in (-1, 2**31):
        with pytest.raises(LocalProtocolError, match="slot value"):
            encode_slot(slot)
    with pytest.raises(RemoteProtocolError, match="no index unit"):
        decode_index_unit(bytes(20), 1)
    with pytest.raises(RemoteProtocolError, match="no slot"):
        decode_slot(bytes(4), 1)


def test_slots() -> None:
    assert decode_slot(b"xx" + encode_slot(2**31 - 1), 2) == 2**31 - 1
    assert decode_slot(b"\xff\xff\xff\xff") == 0


# --- checkpoint and names -------------------------------------------------------------------------


@given(longs, longs, longs, longs, longs)
def test_checkpoints_round_trip(a: int, b: int, c: int, d: int, e: int) -> None:
    checkpoint = Checkpoint(
        log_ts=a, queue_ts=b, index_ts=c, master_flushed_offset=d, confirm_offset=e
    )
    data = encode_checkpoint(checkpoint)
    assert len(data) == CHECKPOINT_BYTES == 4096
    assert data[16:24] == c.to_bytes(8, "big", signed=True)
    assert decode_checkpoint(data) == checkpoint


def test_checkpoints_out_of_range_or_cut() -> None:
    with pytest.raises(LocalProtocolError, match="out of range"):
        encode_checkpoint(Checkpoint(log_ts=2**63))
    with pytest.raises(RemoteProtocolError, match="not 39"):
        decode_checkpoint(bytes(39))


@pytest.mark.parametrize(
    ("offset", "name"),
    [(0, "0" * 20), (1 << 30, "00000000001073741824"), (2**63 - 1, "09223372036854775807")],
)
def test_file_names(offset: int, name: str) -> None:
    assert segment_name(offset) == name
    assert segment_offset(name) == offset


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_files_that_cannot_begin_there(offset: int) -> None:
    with pytest.raises(LocalProtocolError, match="cannot begin"):
        segment_name(offset)


@pytest.mark.parametrize(
    "name", ["", "0", "0" * 19, "0" * 21, "0" * 19 + "x", "-" + "0" * 19, "²" * 20, "9" * 20]
)
def test_other_names_are_no_files_of_the_log(name: str) -> None:
    assert segment_offset(name) is None
