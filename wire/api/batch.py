"""What the API socket answers to a read, and what it pushes to a tail.

Two forms of the same. `batch` has every record taken apart, for text and for clients of versions 1
and 2. `stored`, from version 3 on and in binary alone, has the bytes as the log's files hold them
(`wire.files.message_record`, `wire.dledger.entry`), for the client to take apart and to check: a
node would spend some 20 us on each record of a batch, and half a microsecond on one of these.
"""

from __future__ import annotations

from msgspec import Struct

from wire.api.base import Count, Frame, Id, Pairs, Position

VERSION_STORED = 3
"""The version of the protocol before which a client knows `batch` alone."""


class StoredRecord(Struct, frozen=True, array_like=True):
    """A record as read: array in this order, see `actors.log_types.Record`."""

    position: Position
    next_position: Position
    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    tags: str
    keys: tuple[str, ...]
    properties: Pairs
    store_timestamp_ms: int
    born_timestamp_ms: int


class ReadAnswer(Frame, frozen=True, kw_only=True):
    """Either form."""


class Batch(ReadAnswer, frozen=True, kw_only=True, tag="batch"):
    """`cost_bytes`: what it takes from a tail's credit; 0 in the answer to a read."""

    id: Id
    records: tuple[StoredRecord, ...]
    next: Position
    acknowledged: Position
    end: Position
    lag_bytes: Count
    cost_bytes: Count = 0


class Stored(ReadAnswer, frozen=True, kw_only=True, tag="stored"):
    """Whole records as they are stored, one after the other.

    Fields: `start`: the log position of the first byte of `data` (an index for entries). `entries`:
    they are DLedger entries, otherwise messages of a commit log. `skips_empty`: an entry without a
    body is no record. `cost_bytes`: what it takes from a tail's credit; 0 in the answer to a read.
    """

    id: Id
    start: Position
    data: bytes
    entries: bool
    skips_empty: bool
    next: Position
    acknowledged: Position
    end: Position
    lag_bytes: Count
    cost_bytes: Count = 0
