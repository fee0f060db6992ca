"""Stored bytes -> the records that a reader gets: all of them, or the good ones before damage."""

from __future__ import annotations

import pytest
from entry_kit import encode_entry, new_entry

from actors.errors import CorruptLog
from actors.log_types import Batch, Message, NewRecord, StoredBatch
from actors.records import decoded
from actors.storage.commitlog.group_commit import AppendEncoder
from wire.dledger.entry import (
    has_body,
)

START = 5000


def stored(*records: NewRecord) -> StoredBatch:
    encoder = AppendEncoder(
        default_topic="orders",
        host=("127.0.0.1", 10911),
        segment_bytes=1 << 20,
        body_bytes_max=1 << 16,
        next_offsets={},
    )
    batch = encoder.begin(START)
    encoder.add(batch, records, 1000)
    return of(b"".join(map(bytes, batch.parts)), entries=False)


def of(data: bytes, *, entries: bool, start: int = START, skips_empty: bool = False) -> StoredBatch:
    return StoredBatch(
        start=start,
        data=data,
        entries=entries,
        skips_empty=skips_empty,
        next=start + len(data) + 7,  # behind a file's filler
        acknowledged=10_000,
        end=12_000,
        lag_bytes=3,
    )


def changed(batch: StoredBatch, at: int) -> StoredBatch:
    data = bytearray(batch.data)
    data[at] ^= 1
    return of(bytes(data), entries=batch.entries)


def test_messages_are_taken_apart() -> None:
    message = Message("T", b"body", "tag", ("k1", "k2"), (("a", "b"),))
    batch = stored(b"one", message)
    found = decoded(batch)
    one, two = found.records
    assert (one.position, one.topic, one.body) == (START, "orders", b"one")
    assert (two.position, two.next_position) == (one.next_position, START + len(batch.data))
    assert (two.tags, two.keys, two.properties) == ("tag", ("k1", "k2"), (("a", "b"),))
    assert (found.next, found.acknowledged, found.end, found.lag_bytes) == (
        batch.next, 10_000, 12_000, 3,
    )  # fmt: skip


def test_what_is_decoded_stays_as_it_is() -> None:
    batch = Batch(records=(), next=1, acknowledged=2, end=3, lag_bytes=4)
    assert decoded(batch) is batch
    assert batch.is_empty
    assert decoded(of(b"", entries=False)).is_empty


def test_a_batch_ends_before_a_damaged_record() -> None:
    batch = stored(b"one" * 10, b"two" * 10)
    second = decoded(batch).records[1].position
    found = decoded(changed(batch, second - START + 90))  # in its body
    assert [record.body for record in found.records] == [b"one" * 10]
    assert found.next == second


def test_a_batch_ends_before_what_is_no_record() -> None:
    batch = stored(b"one", b"two")
    second = decoded(batch).records[1].position
    found = decoded(changed(batch, second - START + 5))  # in its magic
    assert [record.body for record in found.records] == [b"one"]
    assert found.next == second


@pytest.mark.parametrize("at", [90, 5])
def test_a_damaged_first_record_is_an_error(at: int) -> None:
    with pytest.raises(CorruptLog, match=f"the record at {START} cannot be shown"):
        decoded(changed(stored(b"one"), at))


def test_entries_are_taken_apart_and_those_that_open_terms_passed_over() -> None:
    bodies = [b"", b"one", b"", b"two"]
    data, place = b"", 0
    for number, body in enumerate(bodies):
        entry = new_entry(index=40 + number, term=3, pos=place, body=body)
        data, place = data + encode_entry(entry), place + entry.size
    shown = decoded(of(data, entries=True, start=40, skips_empty=True))
    assert [(record.position, record.body) for record in shown.records] == [
        (41, b"one"), (43, b"two"),
    ]  # fmt: skip
    assert len(decoded(of(data, entries=True, start=40)).records) == 4
    assert has_body(data)
    first = encode_entry(new_entry(index=40, term=3, pos=0, body=b""))
    assert not has_body(first)
    assert not has_body(b"")


def test_damaged_entries_are_an_error() -> None:
    data = encode_entry(new_entry(index=40, term=3, pos=0, body=b"one"))
    with pytest.raises(CorruptLog, match="the entries from 40 on cannot be shown"):
        decoded(of(data[:-1], entries=True, start=40))
