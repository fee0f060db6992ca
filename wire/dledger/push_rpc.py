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
        batch_entry: entries that follow each other; () if this is no batch.
        commit_index: the leader's committed index; -1 for none.
        entry: the single entry of a push that is no batch.
        pre_log_index, pre_log_term: of dialect N, None in this one; a sender of them speaks N.
        type: None for a name that is no PushType of this dialect.
        batch, count, first_entry_index, last_entry_index, total_size: Java writes them for the
            entries, and ignores them when it reads; here they are always made from the entries.
            total_size is the size of a batch in bytes, and 0 for a single entry.
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
        """The entries of the push: those of the batch, the single one, or none."""
        if self.batch_entry:
            return self.batch_entry
        return () if self.entry is None else (self.entry,)


class _EncodedPush(Body, frozen=True, kw_only=True):
    """A `PushEntryRequest` of a batch whose entries are encoded as JSON already."""

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
    """Encode a push's `batch_entry` as JSON, for several pushes of it. See `with_batch`."""
    return Raw(_encode(entries))


def with_batch(request: PushEntryRequest, batch: Raw) -> Body:
    """Return a body that is encoded to the same bytes as `request`.

    Args:
        batch: the encoded entries of the request, of `encode_batch`.
    """
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
        begin_index, end_index: the follower's range; -1 for an empty log; 0 if upstream refused
            by an exception (411).
        count: how many entries are answered; versions up to 0.2.5 leave it out.
        index: the first of these entries; with versions up to 0.2.5 the last. None in the answer to
            a COMMIT.
        refusal: why the follower's store takes no entries, for people. It is not upstream's, whose
            leader skips it, and is written only if there is one.
        x_index, x_term: of dialect N, None in this one; a sender of them speaks N.
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
    """A snapshot or a piece of one, of dialect N; sent here only between Python nodes.

    A small snapshot is sent as 0.4.0 writes it, in `data`. A larger one is sent in several
    requests, one piece in each, under keys that 0.4.0 does not know. Without `data` 0.4.0 refuses
    them (411), so it never takes a piece for the whole.

    Attributes:
        data: the whole snapshot, not empty. In JSON it takes 4/3 of its bytes, in one frame.
        last_included_index, last_included_term: the index and term of the last entry that the
            snapshot replaces.
        piece, piece_at: bytes of it, and their offset; pieces are sent one after the other.
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
    """The answer to INSTALL_SNAPSHOT. The outcome is `code`."""
