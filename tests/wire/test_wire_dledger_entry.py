"""Entries, index records and BLANKs: golden bytes both ways, positions, limits, scans, damage."""

import hashlib
import struct
from typing import Any

import golden_dledger as golden
import msgspec
import pytest
from entry_kit import encode_entries, encode_entry, encode_index, new_entry

from wire.dledger.entry import (
    BLANK_BYTES,
    BLANK_MAGIC,
    BODY_BYTES_MAX,
    DATA_FILE_BYTES,
    ENTRY_BYTES_MAX,
    ENTRY_HEAD_BYTES,
    INDEX_BYTES,
    INDEX_FILE_BYTES,
    Entry,
    IndexRecord,
    decode_entry,
    decode_index,
    encode_blank,
    encode_index_records,
    entry_bytes_max,
    entry_problem,
    fits_in_file,
    position,
)
from wire.dledger.scan import EntryHead, index_record, scan
from wire.errors import IncompleteData, LocalProtocolError, RemoteProtocolError
from wire.files.scanned import Stop

VECTOR = bytes.fromhex(
    "00000001 00000034 0000000000000000 0000000000000001 0000000000000000"
    "00000000 00000000 00000000 00000004 6d736730"
)
INDEX_VECTOR = bytes.fromhex("00000001 0000000000000000 00000034 0000000000000000 0000000000000001")
FIRST = Entry(body=b"msg0", index=0, magic=1, pos=0, size=52, term=1)


def chain(count: int, *, index: int = 0, term: int = 1, pos: int = 0) -> tuple[Entry, ...]:
    entries = []
    for number in range(index, index + count):
        entries.append(new_entry(index=number, term=term, pos=pos, body=b"%d" % number))
        pos += entries[-1].size
    return tuple(entries)


def changed(entry: Entry, **fields: Any) -> Entry:
    return msgspec.structs.replace(entry, **fields)


# --- vectors and golden stores --------------------------------------------------------------------


@pytest.mark.checklist(2, of="dledger")
def test_bytes_of_the_specification() -> None:
    assert new_entry(index=0, term=1, pos=0, body=b"msg0") == FIRST
    assert encode_entry(FIRST) == VECTOR
    assert decode_entry(VECTOR) == FIRST
    assert encode_index((FIRST,)) == INDEX_VECTOR
    assert decode_index(INDEX_VECTOR) == [IndexRecord(1, 0, 52, 0, 1)]
    assert position(FIRST.size, 52, DATA_FILE_BYTES) == 52
    assert encode_blank(213) == bytes.fromhex("ffffffff 000000d5")
    assert (ENTRY_HEAD_BYTES, INDEX_BYTES, BLANK_BYTES) == (48, 32, 8)
    assert (ENTRY_BYTES_MAX, BODY_BYTES_MAX) == (4_194_304, 4_194_256)
    assert (DATA_FILE_BYTES, INDEX_FILE_BYTES) == (1_073_741_824, 167_772_160)


def read_store(store: str) -> tuple[list[Entry], list[dict[str, int]]]:
    """All entries of a golden store, with every promise of the scan checked, and its blanks."""
    entries: list[Entry] = []
    blanks = []
    for start, data in golden.files(store, "data").items():
        heads, scanned = scan(data, pos=start, index=len(entries))
        for head in heads:
            entry = decode_entry(data, head.at)
            entries.append(entry)
            assert head == EntryHead(head.at, entry.size, entry.index, entry.term, entry.pos)
            assert data[head.at : head.at + head.size] == encode_entry(entry)
        if scanned.stop is Stop.BLANK:
            assert scanned.end + scanned.blank_bytes == golden.DATA_FILE_BYTES
            blank = encode_blank(scanned.blank_bytes)
            assert data[scanned.end :] == blank.ljust(scanned.blank_bytes, b"\0")
            blanks.append({"pos": start + scanned.end, "size": scanned.blank_bytes})
        else:
            assert scanned.stop is Stop.UNWRITTEN
            assert not any(data[scanned.end :])
    return entries, blanks


@pytest.mark.checklist(2, of="dledger")
@pytest.mark.parametrize("store", golden.STORES)
def test_data_files_of_java_are_the_manifests(store: str) -> None:
    entries, blanks = read_store(store)
    wanted = golden.manifest()[store]
    assert blanks == wanted["blanks"]
    assert [
        {
            "index": entry.index,
            "term": entry.term,
            "pos": entry.pos,
            "size": entry.size,
            "magic": entry.magic,
            "body_sha256": hashlib.sha256(entry.body).hexdigest(),
        }
        for entry in entries
    ] == wanted["entries"]


@pytest.mark.checklist(2, of="dledger")
@pytest.mark.parametrize("store", golden.STORES)
def test_index_files_of_java_are_what_the_data_says(store: str) -> None:
    entries, _ = read_store(store)
    data = b"".join(golden.files(store, "index").values())
    written = encode_index(entries)
    assert data == written.ljust(len(data), b"\0")
    records = decode_index(data, 0, len(written))
    assert encode_index_records(records) == written
    assert [record.index for record in records] == list(range(len(entries)))


@pytest.mark.parametrize("store", golden.STORES)
def test_java_placed_every_entry_by_the_same_rule(store: str) -> None:
    end = 0
    for entry in read_store(store)[0]:
        assert entry.pos == position(end, entry.size, golden.DATA_FILE_BYTES)
        end = entry.pos + entry.size


# --- positions and limits -----------------------------------------------------------------------


def test_an_entry_keeps_eight_bytes_for_the_blank() -> None:
    assert fits_in_file(92, 100)
    assert not fits_in_file(93, 100)
    assert position(4096 - 100, 92, 4096) == 4096 - 100
    assert position(4096 - 100, 93, 4096) == 4096
    assert position(0, 4088, 4096) == 0
    assert position(4096, 4088, 4096) == 4096
    assert position(8191, 48, 4096) == 8192  # fewer than 8 bytes left: not even a BLANK fits
    with pytest.raises(LocalProtocolError, match="entry of 4089 bytes, at most 4088"):
        position(0, 4089, 4096)
    assert entry_bytes_max(4096) == 4088
    assert entry_bytes_max(DATA_FILE_BYTES) == ENTRY_BYTES_MAX
    with pytest.raises(LocalProtocolError, match="at most 4194304"):
        position(0, ENTRY_BYTES_MAX + 1, DATA_FILE_BYTES)


@pytest.mark.parametrize("rest", [7, 0, -1, 2**31])
def test_a_blank_stands_eight_bytes_before_the_end(rest: int) -> None:
    with pytest.raises(LocalProtocolError, match="a BLANK cannot fill"):
        encode_blank(rest)


def test_the_largest_body_passes_and_one_byte_more_does_not() -> None:
    largest = new_entry(index=0, term=0, pos=0, body=bytes(BODY_BYTES_MAX))
    assert decode_entry(encode_entry(largest)) == largest
    more = new_entry(index=0, term=0, pos=0, body=bytes(BODY_BYTES_MAX + 1))
    assert entry_problem(more) == "entry 0 of 4194305 bytes, at most 4194304"
    head = encode_entry(largest)[:4] + (ENTRY_BYTES_MAX + 1).to_bytes(4)
    with pytest.raises(RemoteProtocolError, match="size 4194305"):
        decode_entry(head + bytes(36) + (BODY_BYTES_MAX + 1).to_bytes(4))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 0}, "magic 0"),
        ({"magic": 2}, "magic 2"),
        ({"magic": BLANK_MAGIC}, "magic -1"),
        ({"size": 51}, "says size 51"),
        ({"size": 53}, "says size 53"),
        ({"body": b""}, "of 0 body bytes says size 52"),
    ],
)
def test_entries_that_recovery_would_end_at_are_not_written(
    fields: dict[str, Any], reason: str
) -> None:
    bad = changed(FIRST, **fields)
    assert entry_problem(FIRST) is None
    problem = entry_problem(bad)
    assert problem is not None
    assert reason in problem


# --- decoding and scanning ------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(len(VECTOR)))
def test_a_cut_entry_says_how_much_is_missing(size: int) -> None:
    with pytest.raises(IncompleteData) as caught:
        decode_entry(VECTOR[:size])
    needed = ENTRY_HEAD_BYTES if size < ENTRY_HEAD_BYTES else len(VECTOR)
    assert caught.value.missing_bytes == needed - size
    second = encode_entry(new_entry(index=1, term=1, pos=52, body=b"msg1"))
    heads, scanned = scan(VECTOR + second[:size])
    assert len(heads) == 1
    if size:
        assert scanned.stop is Stop.INCOMPLETE
        assert scanned.missing_bytes == needed - size
    else:
        assert scanned.stop is Stop.END


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, "00000002", "magic 2"),
        (0, "ffffffff", "magic -1"),
        (4, "0000002f", "size 47"),
        (4, "00000035", "size 53 with 4"),
        (4, "ffffffff", "size -1"),
        (44, "00000005", "size 52 with 5"),
        (44, "ffffffff", "size 52 with -1"),
        (8, "ffffffffffffffff", "index -1"),
        (16, "ffffffffffffffff", "term -1"),
        (24, "8000000000000000", "pos -9223372036854775808"),
    ],
)
def test_a_damaged_head_is_no_entry(at: int, value: str, reason: str) -> None:
    damaged = bytearray(VECTOR)
    damaged[at : at + len(value) // 2] = bytes.fromhex(value)
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        decode_entry(damaged)
    assert not isinstance(caught.value, IncompleteData)
    heads, scanned = scan(damaged)
    assert heads == []
    if value != "ffffffff" or at:  # that makes it a BLANK of 52 bytes
        assert (scanned.stop, scanned.end) == (Stop.CORRUPT, 0)
        assert reason in scanned.reason
    else:
        assert (scanned.stop, scanned.blank_bytes) == (Stop.BLANK, 52)


@pytest.mark.parametrize("size", [47, 40, -1, ENTRY_BYTES_MAX + 1])
def test_sizes_that_agree_can_still_be_wrong(size: int) -> None:
    head = struct.pack(">iiqqqiiii", 1, size, 0, 0, 0, 0, 0, 0, size - ENTRY_HEAD_BYTES)
    data = head + bytes(max(0, size))
    with pytest.raises(RemoteProtocolError, match=f"size {size} with"):
        decode_entry(data)
    heads, scanned = scan(data)
    assert (heads, scanned.stop) == ([], Stop.CORRUPT)


def test_a_scan_stops_where_the_chain_does() -> None:
    entries = chain(3, index=5, term=4, pos=100)
    data = encode_entries(entries)
    assert len(scan(data, pos=100, index=5, term=4)[0]) == 3
    assert len(scan(data)[0]) == 3
    for wanted, options in (
        ("index 5 where 6 belongs", {"index": 6}),
        ("term 4 behind term 5", {"term": 5}),
        ("pos 100 in an entry at 99", {"pos": 99}),
    ):
        heads, scanned = scan(data, **options)
        assert (heads, scanned.stop, scanned.reason) == ([], Stop.CORRUPT, wanted)
    broken = data[:-49] + encode_entry(changed(entries[2], index=8))
    heads, scanned = scan(broken)
    assert len(heads) == 2
    assert scanned.reason == "index 8 where 7 belongs"
    older = data[:-49] + encode_entry(changed(entries[2], term=3))
    assert scan(older)[1].reason == "term 3 behind term 4"
    moved = data[:-49] + encode_entry(changed(entries[2], pos=5))
    assert scan(moved)[1].stop is Stop.END
    assert scan(moved, pos=100)[1].reason == "pos 5 in an entry at 198"


def test_a_scan_knows_blank_and_unwritten() -> None:
    data = encode_entries(chain(2))
    for behind, stop, blank_bytes in (
        (encode_blank(100), Stop.BLANK, 100),
        (encode_blank(100).ljust(100, b"\0"), Stop.BLANK, 100),
        (bytes(100), Stop.UNWRITTEN, 0),
        (bytes(8), Stop.UNWRITTEN, 0),
        (bytes(7), Stop.INCOMPLETE, 0),
        (b"\xff" * 4 + b"\0\0\0\7" + bytes(60), Stop.CORRUPT, 0),
        (b"\0\0\0\0\0\0\0\x30" + bytes(60), Stop.CORRUPT, 0),
        (b"\0\0\0\1\0\0\0\0" + bytes(60), Stop.CORRUPT, 0),
        (b"", Stop.END, 0),
    ):
        heads, scanned = scan(data + behind)
        assert len(heads) == 2
        assert scanned.end == len(data)
        assert (scanned.stop, scanned.blank_bytes) == (stop, blank_bytes)


def test_an_index_is_made_again_from_a_scan() -> None:
    entries = chain(5, index=3, pos=500)
    heads, _ = scan(encode_entries(entries))
    assert encode_index_records([index_record(head) for head in heads]) == encode_index(entries)


def test_a_piece_of_an_index_record_is_none() -> None:
    assert decode_index(INDEX_VECTOR + INDEX_VECTOR[:31]) == decode_index(INDEX_VECTOR)
    assert decode_index(b"x" + INDEX_VECTOR, 1) == decode_index(INDEX_VECTOR)
    assert decode_index(bytes(INDEX_BYTES)) == [IndexRecord(0, 0, 0, 0, 0)]
