"""Bytes of a log -> the records that a reader gets."""

from __future__ import annotations

from actors.errors import CorruptLog
from actors.log_types import Batch, Found, Properties, Record, StoredBatch
from wire.dledger.entry import decode_entries
from wire.errors import IncompleteData, RemoteProtocolError
from wire.files.properties import KEYS, TAGS, decode_properties
from wire.files.record_scan import scan
from wire.files.shown_record import decode_shown


def decoded(batch: Found) -> Batch:
    """The batch with its records as a reader gets them.

    It ends before a record that fails its CRC; `next` is that record's position then.

    Raises: CorruptLog if that is the first one (the fault of the disk that it was read from, or of
        the node that sent it).
    """
    if isinstance(batch, Batch):
        return batch
    following = batch.next
    if batch.entries:
        records = _from_entries(batch)
    else:
        records, good_end = _from_messages(batch.data, batch.start)
        if good_end < batch.start + len(batch.data):
            following = good_end
    return Batch(
        records=records,
        next=following,
        acknowledged=batch.acknowledged,
        end=batch.end,
        lag_bytes=batch.lag_bytes,
    )


def _from_messages(data: bytes, position: int) -> tuple[tuple[Record, ...], int]:
    """The good messages from the first on, and where they end in the log."""
    found, stopped = scan(data, physical_offset=position, check_crc=False, size_max=len(data))
    records: list[Record] = []
    end = 0
    try:
        for at, size in found:
            records.append(_to_record(data, at, size))
            end = at + size
        if stopped.end < len(data):
            raise RemoteProtocolError(f"no record begins at {position + stopped.end}")
    except RemoteProtocolError as error:
        if not records:
            raise CorruptLog(f"the record at {position} cannot be shown: {error}") from error
    return tuple(records), position + end


def _to_record(data: bytes, at: int, size: int) -> Record:
    """One whose lengths were looked at."""
    shown = decode_shown(data, at, size)
    tags = ""
    keys: tuple[str, ...] = ()
    properties: Properties = ()
    if shown.properties:
        others = dict(decode_properties(shown.properties))
        tags = others.pop(TAGS, "")
        keys = tuple(others.pop(KEYS, "").split())
        properties = tuple(others.items())
    return Record(
        position=shown.physical_offset,
        next_position=shown.physical_offset + size,
        topic=shown.topic,
        queue_id=shown.queue_id,
        queue_offset=shown.queue_offset,
        body=shown.body,
        tags=tags,
        keys=keys,
        properties=properties,
        store_timestamp_ms=shown.store_ts,
        born_timestamp_ms=shown.born_ts,
    )


def _from_entries(batch: StoredBatch) -> tuple[Record, ...]:
    try:
        entries = decode_entries(batch.data)
    except (IncompleteData, RemoteProtocolError) as error:
        raise CorruptLog(f"the entries from {batch.start} on cannot be shown: {error}") from error
    return tuple(
        Record(
            position=entry.index,
            next_position=entry.index + 1,
            topic="",
            queue_id=0,
            queue_offset=0,
            body=entry.body,
            tags="",
            keys=(),
            properties=(),
            store_timestamp_ms=0,
            born_timestamp_ms=0,
        )
        for entry in entries
        if entry.body or not batch.skips_empty
    )
