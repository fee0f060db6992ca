"""Where a scan stops and why: enough bytes, too few, a file's end, nothing written, damage."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.files.hosts import Host
from wire.files.properties import encode_properties
from wire.files.record_encoder import RecordEncoder, encode_blank
from wire.files.record_scan import RecordHead, scan, scan_heads, walk
from wire.files.scanned import Scanned, Stop

HOST: Host = ("127.0.0.1", 10911)


def log(count: int, *, start: int = 0, topic: str = "T", properties: bytes = b"") -> bytes:
    out = bytearray()
    encoder = RecordEncoder(topic, HOST, HOST)
    for number in range(count):
        encoder.encode_into(
            out, b"x" * number, queue_id=0, queue_offset=number,
            physical_offset=start + len(out), store_ts=1000, born_ts=0, properties=properties,
        )  # fmt: skip
    return bytes(out)


def stops(data: bytes, **options: int) -> Scanned:
    """How both scans stop; they must agree."""
    found, scanned = scan(data, **options)  # type: ignore[arg-type]
    heads, heads_scanned = scan_heads(data, **options)  # type: ignore[arg-type]
    assert scanned == heads_scanned
    assert [size for _, size in found] == [head.size for head in heads]
    return scanned


def test_nothing_and_whole_records_end() -> None:
    assert stops(b"") == Scanned(end=0, stop=Stop.END)
    data = log(3)
    assert stops(data) == Scanned(end=len(data), stop=Stop.END)


@pytest.mark.parametrize("rest", [8, 9, 65536, 2**31 - 1])
@pytest.mark.parametrize("behind", [b"", b"\0", bytes(100), b"\xff" * 100])
def test_a_blank_is_the_end_of_its_file(rest: int, behind: bytes) -> None:
    data = log(2)
    scanned = stops(data + encode_blank(rest) + behind)
    assert scanned == Scanned(end=len(data), stop=Stop.BLANK, blank_bytes=rest)


@pytest.mark.parametrize("rest", [7, 0, -1])
def test_a_blank_of_fewer_than_8_bytes_is_corrupt(rest: int) -> None:
    scanned = stops(struct.pack(">iI", rest, 0xCBD43194))
    assert (scanned.stop, scanned.end) == (Stop.CORRUPT, 0)
    assert "CBD43194" in scanned.reason


@pytest.mark.parametrize("size", [8, 90, 91, 4096])
def test_zeros_are_unwritten(size: int) -> None:
    data = log(2)
    assert stops(data + bytes(size)) == Scanned(end=len(data), stop=Stop.UNWRITTEN)


@pytest.mark.parametrize("size", range(1, 8))
def test_below_8_bytes_nothing_can_be_said(size: int) -> None:
    for data in (bytes(size), b"\xff" * size, log(1)[:size]):
        assert stops(data) == Scanned(end=0, stop=Stop.INCOMPLETE, missing_bytes=8 - size)


def test_a_torn_record_is_incomplete_and_says_what_is_missing() -> None:
    first, both = log(1), log(2)
    for cut in range(len(first) + 8, len(both)):
        scanned = stops(both[:cut])
        assert scanned == Scanned(
            end=len(first), stop=Stop.INCOMPLETE, missing_bytes=len(both) - cut
        )


def test_a_torn_record_is_completed_by_the_rest() -> None:
    data = log(3)
    at, seen = 0, []
    for end in range(0, len(data) + 1, 5):
        spans, scanned = scan(data, at, end)
        seen += spans
        at = scanned.end
    assert seen == scan(data)[0][: len(seen)]
    assert scan(data, at)[1].stop is Stop.END


@pytest.mark.parametrize("shift", [-1, 1, 65536])
def test_a_record_in_the_wrong_place_is_corrupt(shift: int) -> None:
    data = log(2, start=500)
    assert stops(data, physical_offset=500).stop is Stop.END
    assert stops(b"before" + data, start=6, physical_offset=500).stop is Stop.END
    scanned = stops(data, physical_offset=500 + shift)
    assert (scanned.stop, scanned.end) == (Stop.CORRUPT, 0)
    assert scanned.reason == f"physical offset 500 in a record at {500 + shift}"


def test_the_second_record_in_the_wrong_place_stops_there() -> None:
    data = log(1, start=0)
    scanned = stops(data + data, physical_offset=0)
    assert (scanned.stop, scanned.end) == (Stop.CORRUPT, len(data))


def test_damage_in_the_middle_keeps_what_is_before() -> None:
    data = bytearray(log(5))
    spans, _ = scan(data)
    data[spans[3][0] + 4] ^= 1
    found, scanned = scan(data)
    assert found == spans[:3]
    assert (scanned.end, scanned.stop) == (spans[3][0], Stop.CORRUPT)


def one_by_one(data: bytes) -> tuple[list[RecordHead], Scanned]:
    """Each record by a scan of its own, which can rely on none before it."""
    found: list[RecordHead] = []
    at = 0
    while True:
        heads, scanned = scan_heads(data, at)
        if not heads:
            return found, scanned
        found.append(heads[0])
        at += heads[0].size


def test_what_a_scan_has_seen_before_changes_nothing() -> None:
    tags = encode_properties({"TAGS": "a", "KEYS": "k"})
    mixed = log(3) + log(2, topic="U") + log(2, properties=tags) + log(2, topic="V" * 200) + log(2)
    assert scan_heads(mixed) == one_by_one(mixed)
    assert len(scan_heads(mixed)[0]) == 11
    data = log(6)
    (start, size), (end, _) = scan(data)[0][3:5]
    assert start + size == end
    for at in range(start, end):
        for flip in (1, 0x10, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= flip
            assert scan_heads(damaged) == one_by_one(bytes(damaged)), (at - start, flip)


@given(st.integers(-200, 200), st.integers(-200, 200), st.sampled_from([0, 0x10, 0x20, 0x30]))
def test_no_lengths_deceive_a_scan_that_has_seen_such_a_record(
    more: int, body_more: int, sys_flag: int
) -> None:
    data = bytearray(log(4) + bytes(400))
    (at, size), _ = scan(data)[0][2:4]
    struct.pack_into(">i", data, at, size + more)
    struct.pack_into(">i", data, at + 36, sys_flag)
    struct.pack_into(">i", data, at + 84, 2 + body_more)
    assert scan_heads(data) == one_by_one(bytes(data))


def test_heads_of_delayed_records_have_the_delivery_time() -> None:
    block = encode_properties({"TAGS": "a", "DELAY": "2"})
    data = log(1, topic="SCHEDULE_TOPIC_XXXX", properties=block)
    assert scan_heads(data)[0][0].tags_code == 6000
    assert scan_heads(data, delay_levels_ms=(7, 9))[0][0].tags_code == 1009
    elsewhere = log(1, topic="T", properties=block)
    assert scan_heads(elsewhere)[0][0].tags_code == 97


@pytest.mark.parametrize("delay", [{}, {"DELAY": "0"}, {"DELAY": "x"}])
def test_heads_without_a_delay_have_the_tags(delay: dict[str, str]) -> None:
    block = encode_properties({"TAGS": "a", **delay})
    data = log(1, topic="SCHEDULE_TOPIC_XXXX", properties=block)
    assert scan_heads(data)[0][0].tags_code == 97


@given(st.integers(0, 6), st.integers(0, 300), st.sampled_from(["", "blank", "zeros"]))
def test_one_pass_or_two_find_the_same(count: int, cut: int, tail: str) -> None:
    data = log(count) + {"": b"", "blank": encode_blank(100), "zeros": bytes(50)}[tail]
    cut = min(cut, len(data))
    whole, whole_scanned = scan(data, physical_offset=0)
    first, middle = scan(data, 0, cut, physical_offset=0)
    second, scanned = scan(data, middle.end, physical_offset=middle.end)
    assert first + second == whole
    assert scanned == whole_scanned


@given(st.integers(0, 4), st.integers(0, 500), st.binary(max_size=120))
def test_a_walk_ends_where_a_scan_without_crcs_does(count: int, cut: int, tail: bytes) -> None:
    """Whatever is behind the whole records; in place of a record's own end it is not seen."""
    data = log(count, start=700)
    cut_bytes = cut % (len(data) + 1)
    for each in (data + tail, data[: len(data) - cut_bytes]):
        _, scanned = scan(each, physical_offset=700, check_crc=False)
        assert walk(each, physical_offset=700) == scanned
    each = data[: len(data) - cut_bytes] + tail
    _, scanned = scan(each, physical_offset=700, check_crc=False)
    assert walk(each, physical_offset=700).end >= scanned.end


def test_a_walk_does_not_look_inside_a_record() -> None:
    data = bytearray(log(3))
    data[88] ^= 2  # the topic's length in the first one, which has no body
    assert scan(bytes(data), physical_offset=0)[1].stop is Stop.CORRUPT
    assert walk(bytes(data), physical_offset=0) == Scanned(end=len(data), stop=Stop.END)


def test_a_walk_stops_at_a_record_that_is_elsewhere() -> None:
    data = log(1) + log(1, start=1000)
    walked = walk(data, physical_offset=0)
    assert (walked.end, walked.stop) == (len(log(1)), Stop.CORRUPT)
    assert "physical offset 1000" in walked.reason
