"""Between the values of `actors.log_types` and the frames of `wire.api.frames`."""

from __future__ import annotations

import attrs

from actors import log_types
from actors.api.failures import RequestRefused
from actors.errors import CorruptLog, TooLarge
from actors.log_types import Message, NewRecord
from actors.records import decoded
from wire.api import frames
from wire.errors import LocalProtocolError

RECORD_COST_BYTES = 64
"""What a record takes of a tail's credit beside its body."""
STORED_BYTES_MAX = frames.FRAME_BYTES_MAX - 1024
"""Records as they are stored that find room in one frame, beside its other fields."""


def to_new_records(records: tuple[bytes | frames.NewMessage, ...]) -> tuple[NewRecord, ...]:
    return tuple(
        record
        if isinstance(record, bytes)
        else Message(
            record.topic,
            record.body,
            record.tags,
            record.keys,
            record.properties,
            record.queue_id,
        )
        for record in records
    )


def from_new_records(records: tuple[NewRecord, ...]) -> tuple[bytes | frames.NewMessage, ...]:
    return tuple(
        record
        if isinstance(record, bytes)
        else frames.NewMessage(
            record.body,
            record.topic,
            record.tags,
            record.keys,
            record.properties,
            record.queue_id,
        )
        for record in records
    )


def from_receipt(request: int, receipt: log_types.Receipt) -> frames.Appended:
    return frames.Appended(
        id=request,
        first=receipt.first,
        last=receipt.last,
        next=receipt.next,
        count=receipt.count,
        copies=receipt.copies,
        durability=receipt.durability,
    )


def to_receipt(frame: frames.Appended) -> log_types.Receipt:
    return log_types.Receipt(
        first=frame.first,
        last=frame.last,
        next=frame.next,
        count=frame.count,
        copies=frame.copies,
        durability=frame.durability,
    )


def from_offsets(request: int, offsets: log_types.Offsets) -> frames.Offsets:
    return frames.Offsets(
        id=request,
        min=offsets.min,
        written=offsets.written,
        synced=offsets.synced,
        acknowledged=offsets.acknowledged,
        master=offsets.master,
    )


def to_offsets(frame: frames.Offsets) -> log_types.Offsets:
    return log_types.Offsets(
        min=frame.min,
        written=frame.written,
        synced=frame.synced,
        acknowledged=frame.acknowledged,
        master=frame.master,
    )


def to_batch(frame: frames.ReadAnswer) -> log_types.Found:
    """What a node has read, as it came: `actors.records` decodes what is stored."""
    if isinstance(frame, frames.Stored):
        return log_types.StoredBatch(
            start=frame.start,
            data=frame.data,
            entries=frame.entries,
            skips_empty=frame.skips_empty,
            next=frame.next,
            acknowledged=frame.acknowledged,
            end=frame.end,
            lag_bytes=frame.lag_bytes,
        )
    assert isinstance(frame, frames.Batch)
    return log_types.Batch(
        records=tuple(_to_record(record) for record in frame.records),
        next=frame.next,
        acknowledged=frame.acknowledged,
        end=frame.end,
        lag_bytes=frame.lag_bytes,
    )


@attrs.frozen(kw_only=True)
class BatchForm:
    """How a client takes what is read for it.

    Attributes:
        text: as JSON.
        stored: it takes records as they are stored, where the node has them so.
    """

    text: bool
    stored: bool


def encode_batch(
    request: int,
    batch: log_types.Found,
    form: BatchForm,
    *,
    costs: bool,
) -> tuple[bytes | str, frames.Batch | frames.Stored]:
    """The batch as one message, and what of it found room: records that do not fit come next time.

    Args:
        costs: whether the batch takes from a tail's credit.

    Raises: TooLarge if even one record does not fit into a frame; RequestRefused if the first one
        is damaged.
    """
    as_stored = form.stored and not form.text
    # What is larger is a single record: nobody may ask for so much at once.
    if (
        isinstance(batch, log_types.StoredBatch)
        and as_stored
        and len(batch.data) <= STORED_BYTES_MAX
    ):
        frame = _from_stored(request, batch, costs=costs)
        return frames.encode(frame), frame
    try:
        return _encode_records(request, decoded(batch), text=form.text, costs=costs)
    except CorruptLog as error:
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, str(error)) from error


def _from_stored(request: int, batch: log_types.StoredBatch, *, costs: bool) -> frames.Stored:
    return frames.Stored(
        id=request,
        start=batch.start,
        data=batch.data,
        entries=batch.entries,
        skips_empty=batch.skips_empty,
        next=batch.next,
        acknowledged=batch.acknowledged,
        end=batch.end,
        lag_bytes=batch.lag_bytes,
        cost_bytes=len(batch.data) if costs else 0,
    )


def _encode_records(
    request: int, batch: log_types.Batch, *, text: bool, costs: bool
) -> tuple[bytes | str, frames.Batch]:
    while True:  # ends: every turn has half the records of the one before
        frame = _from_batch(request, batch, costs=costs)
        try:
            return frames.encode(frame, text=text), frame
        except LocalProtocolError:
            half = len(batch.records) // 2
            if half == 0:
                raise _too_large(batch) from None
            batch = log_types.Batch(
                records=batch.records[:half],
                next=batch.records[half].position,
                acknowledged=batch.acknowledged,
                end=batch.end,
                lag_bytes=batch.lag_bytes,
            )


def _from_batch(request: int, batch: log_types.Batch, *, costs: bool) -> frames.Batch:
    bodies_bytes = sum(len(record.body) for record in batch.records)
    cost_bytes = bodies_bytes + RECORD_COST_BYTES * len(batch.records)
    return frames.Batch(
        id=request,
        records=tuple(_from_record(record) for record in batch.records),
        next=batch.next,
        acknowledged=batch.acknowledged,
        end=batch.end,
        lag_bytes=batch.lag_bytes,
        cost_bytes=cost_bytes if costs else 0,
    )


def _too_large(batch: log_types.Batch) -> TooLarge:
    """What a reader is told of a record that a program in the node's own process has appended."""
    (record,) = batch.records
    return TooLarge(
        f"the record at {record.position} has {len(record.body)} bytes: too large for the API,"
        f" whose frames hold {frames.FRAME_BYTES_MAX}; the next one begins at"
        f" {record.next_position}"
    )


def _from_record(record: log_types.Record) -> frames.StoredRecord:
    return frames.StoredRecord(
        record.position,
        record.next_position,
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.body,
        record.tags,
        record.keys,
        record.properties,
        record.store_timestamp_ms,
        record.born_timestamp_ms,
    )


def _to_record(record: frames.StoredRecord) -> log_types.Record:
    return log_types.Record(
        position=record.position,
        next_position=record.next_position,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        body=record.body,
        tags=record.tags,
        keys=record.keys,
        properties=record.properties,
        store_timestamp_ms=record.store_timestamp_ms,
        born_timestamp_ms=record.born_timestamp_ms,
    )
