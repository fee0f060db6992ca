"""Bodies of PUSH in dialect L and of INSTALL_SNAPSHOT. See `wire.dledger.rpc`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar

import msgspec
from msgspec import Raw
from msgspec.structs import force_setattr

from wire.dledger.codes import BaseFields, Body, PushType
from wire.dledger.entry import Entry
from wire.remoting.tolerant_json import Int, Long, always

_size = attrgetter("size")
_encode = msgspec.json.Encoder().encode


class PushEntryRequest(Body, frozen=True, kw_only=True):
    """What the leader pushes. COMPARE and TRUNCATE carry `entry`, COMMIT none, APPEND either.

    Attributes:
        batch_entry: entries that follow each other; not empty: this is a batch.
        commit_index: up to here the leader's log is committed, -1: nothing.
        entry: the one entry of what is no batch.
        pre_log_index, pre_log_term: dialect N's, None in this one: who sends them speaks that.
        type: None for a name that is no PushType of this dialect.
        batch, count, first_entry_index, last_entry_index, total_size: what Java writes of the
            entries, and ignores when it reads; here they are always made from the entries.
            total_size counts a batch's bytes, 0 for a single entry.
    """

    UNREAD: ClassVar[frozenset[str]] = frozenset(
        {"batch", "count", "firstEntryIndex", "lastEntryIndex", "totalSize"}
    )

    batch: bool = always(False)
    batch_entry: tuple[Entry, ...] = always(())
    code: Int = always(200)
    commit_index: Long = always(-1)
    count: Int = always(0)
    entry: Entry | None = None
    first_entry_index: Long = always(-1)
    group: str | None = None
    last_entry_index: Long = always(-1)
    leader_id: str | None = None
    local_id: str | None = None
    pre_log_index: Long | None = None
    pre_log_term: Long | None = None
    remote_id: str | None = None
    term: Long = always(-1)
    total_size: Long = always(0)
    type: PushType | None = always(PushType.APPEND)

    def __post_init__(self) -> None:
        batch, entry = self.batch_entry, self.entry
        if batch:
            first, last, count = batch[0].index, batch[-1].index, len(batch)
        elif entry is not None:
            first = last = entry.index
            count = 1
        else:
            first = last = -1
            count = 0
        force_setattr(self, "batch", bool(batch))
        force_setattr(self, "count", count)
        force_setattr(self, "first_entry_index", first)
        force_setattr(self, "last_entry_index", last)
        force_setattr(self, "total_size", sum(map(_size, batch)))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries that it carries: the batch, or the one, or none."""
        if self.batch_entry:
            return self.batch_entry
        return () if self.entry is None else (self.entry,)


class _EncodedPush(Body, frozen=True, kw_only=True):
    """`PushEntryRequest` of a batch whose entries are JSON already."""

    batch: bool = always(True)
    batch_entry: Raw
    code: Int = always(200)
    commit_index: Long = always(-1)
    count: Int = always(0)
    first_entry_index: Long = always(-1)
    group: str | None = None
    last_entry_index: Long = always(-1)
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)
    total_size: Long = always(0)
    type: PushType | None = always(PushType.APPEND)


def encode_batch(entries: Sequence[Entry]) -> Raw:
    """The JSON of a push's `batch_entry`, for several pushes of it. See `with_batch`."""
    return Raw(_encode(entries))


def with_batch(request: PushEntryRequest, batch: Raw) -> Body:
    """What is encoded in the place of `request`, to the same bytes; `batch`: of its entries."""
    assert request.batch
    return _EncodedPush(
        batch_entry=batch,
        code=request.code,
        commit_index=request.commit_index,
        count=request.count,
        first_entry_index=request.first_entry_index,
        group=request.group,
        last_entry_index=request.last_entry_index,
        leader_id=request.leader_id,
        local_id=request.local_id,
        remote_id=request.remote_id,
        term=request.term,
        total_size=request.total_size,
        type=request.type,
    )


class PushEntryResponse(Body, frozen=True, kw_only=True):
    """A follower's answer.

    Attributes:
        begin_index, end_index: the follower's range, -1 for an empty log; 0 where upstream refused
            by an exception (411).
        count: entries answered for; versions up to 0.2.5 leave it out.
        index: the first of them; with versions up to 0.2.5 the last. None in answer to a COMMIT.
        refusal: why the follower's store takes no entries, for people. Not upstream's, whose leader
            skips it; written where there is one only.
        x_index, x_term: dialect N's, None in this one: who sends them speaks that.
    """

    begin_index: Long = always(0)
    code: Int = always(200)
    count: Int = always(0)
    end_index: Long = always(0)
    group: str | None = None
    index: Long | None = None
    leader_id: str | None = None
    local_id: str | None = None
    refusal: str | None = None
    remote_id: str | None = None
    term: Long = always(-1)
    x_index: Long | None = None
    x_term: Long | None = None


class InstallSnapshotRequest(Body, frozen=True, kw_only=True):
    """Dialect N's; sent here between our own nodes only. A small snapshot goes as 0.4.0 writes it,
    in `data`; a larger one in several requests, one piece each, by keys that 0.4.0 does not know:
    without `data` it refuses them (411), so that it never takes a piece for the whole.

    Attributes:
        data: the whole snapshot, not empty. In JSON it takes 4/3 of its bytes, in one frame.
        last_included_index, last_included_term: the index and term of the last entry that the
            snapshot replaces.
        piece, piece_at: bytes of it, and where they belong; pieces come one after the other.
        total_bytes, total_crc: the size and the CRC-32 of the whole snapshot, in every piece.
    """

    code: Int = always(200)
    data: bytes | None = None
    group: str | None = None
    last_included_index: Long = always(0)
    last_included_term: Long = always(0)
    leader_id: str | None = None
    local_id: str | None = None
    piece: bytes | None = None
    piece_at: Long | None = None
    remote_id: str | None = None
    term: Long = always(-1)
    total_bytes: Long | None = None
    total_crc: Long | None = None


class InstallSnapshotResponse(BaseFields, frozen=True, kw_only=True):
    """The outcome is `code`."""
