"""Entries of any content round trip; damaged or arbitrary bytes decode or are refused."""

from typing import Any

import msgspec
from entry_kit import encode_entries, encode_entry, encode_index, new_entry
from hypothesis import given
from hypothesis import strategies as st

from wire.dledger.entry import (
    INDEX_BYTES,
    Entry,
    IndexRecord,
    decode_entry,
    decode_index,
)
from wire.dledger.scan import EntryHead, scan
from wire.files.scanned import Stop


def chain(count: int, *, index: int = 0, term: int = 1, pos: int = 0) -> tuple[Entry, ...]:
    entries = []
    for number in range(index, index + count):
        entries.append(new_entry(index=number, term=term, pos=pos, body=b"%d" % number))
        pos += entries[-1].size
    return tuple(entries)


def changed(entry: Entry, **fields: Any) -> Entry:
    return msgspec.structs.replace(entry, **fields)


longs = st.integers(0, 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)


@st.composite
def entries_strategy(draw: st.DrawFn) -> Entry:
    body = draw(st.binary(max_size=100))
    made = new_entry(index=draw(longs), term=draw(longs), pos=draw(longs), body=body)
    return changed(made, channel=draw(ints), chain_crc=draw(ints), body_crc=draw(ints))


@given(entries_strategy(), st.binary(max_size=60))
def test_entries_round_trip_with_anything_behind(entry: Entry, behind: bytes) -> None:
    data = encode_entry(entry)
    assert decode_entry(data + behind) == entry
    assert decode_entry(behind + data, len(behind)) == entry
    assert scan(data + behind)[0][0] == EntryHead(0, entry.size, entry.index, entry.term, entry.pos)
    (record,) = decode_index(encode_index((entry,)))
    assert record == IndexRecord(1, entry.pos, entry.size, entry.index, entry.term)


@given(st.integers(1, 4), st.data())
def test_damaged_entries_decode_or_are_refused(count: int, data: st.DataObject) -> None:
    damaged = bytearray(encode_entries(chain(count)))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    heads, scanned = scan(damaged, pos=0, index=0)
    at = 0
    for number, head in enumerate(heads):
        entry = decode_entry(damaged, at)
        assert (head.at, entry.index, entry.pos) == (at, number, at)
        at += entry.size
    assert scanned.end == at
    assert (scanned.stop is Stop.CORRUPT) == bool(scanned.reason)
    assert len(scan(damaged)[0]) >= len(heads)


@given(st.binary(max_size=200))
def test_any_bytes_scan(data: bytes) -> None:
    heads, scanned = scan(data)
    assert scanned.end == sum(head.size for head in heads)
    assert scanned.end <= len(data)
    assert len(decode_index(data)) == len(data) // INDEX_BYTES
