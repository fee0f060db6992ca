"""Between the values of `actors.log_types` and the frames of `wire.api.frames`.

What both have has the same name in both, but for an epoch's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TypeVar

import attrs

from actors import log_types
from actors.api.failures import RequestRefused
from actors.epochs import Epoch
from actors.errors import CorruptLog, TooLarge
from actors.log_types import Claim, GroupState, Message, NewRecord
from actors.records import decoded
from wire.api import frames
from wire.errors import LocalProtocolError

RECORD_COST_BYTES = 64
"""The bytes of a tail's credit that a record takes beside its body."""
STORED_BYTES_MAX = frames.FRAME_BYTES_MAX - 1024
"""The most bytes of stored records that fit into one frame beside its other fields."""

T = TypeVar("T")


def _fields(kind: type[attrs.AttrsInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))


def _same(kind: Callable[..., T], names: Iterable[str]) -> Callable[..., T]:
    """Return a function that makes a `kind` of another value's fields of these names.

    The function's keyword arguments are passed to `kind` too.
    """
    names = tuple(names)
    read = attrgetter(*names)

    def made(source: object, **more: object) -> T:
        return kind(**dict(zip(names, read(source), strict=True)), **more)

    return made


_RECEIPT = tuple(name for name in _fields(log_types.Receipt) if name != "results")
_OFFSETS = _fields(log_types.Offsets)
_PROGRESS = ("next", "acknowledged", "end", "lag_bytes")
_STORED = _fields(log_types.StoredBatch)

from_receipt = _same(frames.Appended, _RECEIPT)
to_receipt = _same(log_types.Receipt, _RECEIPT)
from_offsets = _same(frames.Offsets, _OFFSETS)
to_offsets = _same(log_types.Offsets, _OFFSETS)
_from_stored = _same(frames.Stored, _STORED)
_to_stored = _same(log_types.StoredBatch, _STORED)
_from_batch = _same(frames.Batch, _PROGRESS)
_to_batch = _same(log_types.Batch, _PROGRESS)
_from_record = _same(frames.StoredRecord, _fields(log_types.Record))
_to_record = _same(log_types.Record, _fields(log_types.Record))
_from_message = _same(frames.NewMessage, _fields(Message))
_to_message = _same(Message, _fields(Message))
from_claim = _same(frames.Fence, _fields(Claim))
to_claim = _same(Claim, _fields(Claim))
_STATE = tuple(name for name in _fields(GroupState) if name != "history")
_from_state = _same(frames.Group, _STATE)
_to_state = _same(GroupState, _STATE)


def to_new_records(records: tuple[bytes | frames.NewMessage, ...]) -> tuple[NewRecord, ...]:
    return tuple(each if isinstance(each, bytes) else _to_message(each) for each in records)


def from_new_records(records: tuple[NewRecord, ...]) -> tuple[bytes | frames.NewMessage, ...]:
    return tuple(each if isinstance(each, bytes) else _from_message(each) for each in records)


def from_group_state(request: int, state: GroupState) -> frames.Group:
    history = tuple(frames.Epoch(*attrs.astuple(epoch)) for epoch in state.history)
    return _from_state(state, id=request, history=history)


def to_group_state(frame: frames.Group) -> GroupState:
    history = tuple(
        Epoch(epoch.number, epoch.token, epoch.master, epoch.start) for epoch in frame.history
    )
    return _to_state(frame, history=history)


def to_batch(frame: frames.ReadAnswer) -> log_types.Found:
    """Return the result of a read. Stored records stay encoded; `actors.records` decodes them."""
    if isinstance(frame, frames.Stored):
        return _to_stored(frame)
    assert isinstance(frame, frames.Batch)
    return _to_batch(frame, records=tuple(map(_to_record, frame.records)))


@attrs.frozen(kw_only=True)
class BatchForm:
    """The form in which a client takes batches.

    Attributes:
        text: whether it takes them as JSON.
        stored: whether it takes records as they are stored, if the node has them so.
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
    """Encode a batch as one message.

    Args:
        costs: whether the batch takes from a tail's credit.

    Returns: the message and the frame in it, whose records are as many as fit. The caller reads on
        behind them.

    Raises: TooLarge: even one record does not fit into a frame. RequestRefused: the first record is
        damaged.
    """
    as_stored = form.stored and not form.text
    # What is larger is a single record: nobody may ask for so much at once.
    if (
        isinstance(batch, log_types.StoredBatch)
        and as_stored
        and len(batch.data) <= STORED_BYTES_MAX
    ):
        frame = _from_stored(batch, id=request, cost_bytes=len(batch.data) if costs else 0)
        return frames.encode(frame), frame
    try:
        return _encode_records(request, decoded(batch), text=form.text, costs=costs)
    except CorruptLog as error:
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, str(error)) from error


def _encode_records(
    request: int, batch: log_types.Batch, *, text: bool, costs: bool
) -> tuple[bytes | str, frames.Batch]:
    while True:  # ends: every turn has half the records of the one before
        cost_bytes = sum(len(each.body) + RECORD_COST_BYTES for each in batch.records)
        frame = _from_batch(
            batch,
            id=request,
            records=tuple(map(_from_record, batch.records)),
            cost_bytes=cost_bytes if costs else 0,
        )
        try:
            return frames.encode(frame, text=text), frame
        except LocalProtocolError:
            half = len(batch.records) // 2
            if half == 0:
                raise _too_large(batch) from None
            after = batch.records[half].position
            batch = attrs.evolve(batch, records=batch.records[:half], next=after)


def _too_large(batch: log_types.Batch) -> TooLarge:
    """Return the error for a record above the API's limit.

    Only a program in the node's process can have appended such a record.
    """
    (record,) = batch.records
    return TooLarge(
        f"the record at {record.position} has {len(record.body)} bytes: too large for the API,"
        f" whose frames hold {frames.FRAME_BYTES_MAX}; the next one begins at"
        f" {record.next_position}"
    )
