"""Batches of entries: a leader's bodies or a leader's entries, made into what the files take.

Upstream: openmessaging/dledger, store/file/DLedgerMmapFileStore.java, appendAsLeader and
appendAsFollower (0.3.1.2), one entry at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from actors.errors import TooLarge
from actors.storage.ledger.ledger import AppendedEntries, EntryRefused, NotInSequence, WrongPlace
from actors.storage.ledger.sums import CHECK_MASK, SUM_RECORD
from wire.crc import crc32
from wire.dledger.entry import (
    BLANK_BYTES,
    ENTRY_HEAD,
    ENTRY_HEAD_BYTES,
    INDEX_RECORD,
    MAGIC_NORMAL,
    Entry,
    entry_bytes_max,
    entry_problem,
    fits_in_file,
)

GRANULE_BYTES = 512
"""The smallest piece of a file that a power loss keeps or loses as a whole."""
_ZERO_RUN = bytes(GRANULE_BYTES - ENTRY_HEAD_BYTES)
"""Every whole granule of zeros in an entry holds so many zeros of its body."""


@attrs.frozen(kw_only=True)
class Batch:
    """Entries ready to be written.

    Attributes:
        first_index: of the first one.
        term: of the last one.
        positions: of each, in bytes.
        runs: (first position, bytes) for each file that takes some.
        records: their index records.
        sums: the records of their checksums.
        risky: a granule of one of them may be all zeros. What a power loss has left of it may then
            look whole, or the whole look torn.
    """

    first_index: int
    term: int
    positions: tuple[int, ...]
    runs: tuple[tuple[int, bytes], ...]
    records: bytes
    sums: bytes
    risky: bool

    @property
    def last_index(self) -> int:
        return self.first_index + len(self.positions) - 1

    @property
    def end_bytes(self) -> int:
        start, data = self.runs[-1]
        return start + len(data)

    def appended(self) -> AppendedEntries:
        """What the caller of the store is told."""
        return AppendedEntries(
            first_index=self.first_index,
            last_index=self.last_index,
            term=self.term,
            positions=self.positions,
            runs=tuple(data for _, data in self.runs),
        )


@attrs.define
class _Builder:
    """Collects the parts of a batch; a new run begins where a file does.

    The two functions that fill it append to its lists themselves: a call for each entry costs as
    much as the entry.
    """

    start: int
    parts: list[bytes] = attrs.field(factory=list)
    runs: list[tuple[int, bytes]] = attrs.field(factory=list)
    positions: list[int] = attrs.field(factory=list)
    records: list[bytes] = attrs.field(factory=list)
    sums: list[bytes] = attrs.field(factory=list)
    risky: bool = False

    def roll(self, pos: int) -> None:
        if self.parts:
            self._end_run()
        self.start = pos

    def _end_run(self) -> None:
        data = b"".join(self.parts)
        self.parts.clear()
        self.risky = self.risky or _ZERO_RUN in data
        self.runs.append((self.start, data))

    def batch(self, first_index: int, term: int) -> Batch:
        self._end_run()
        return Batch(
            first_index=first_index,
            term=term,
            positions=tuple(self.positions),
            runs=tuple(self.runs),
            records=b"".join(self.records),
            sums=b"".join(self.sums),
            risky=self.risky,
        )


def of_bodies(
    bodies: Sequence[bytes], *, index: int, term: int, end_bytes: int, file_bytes: int
) -> Batch:
    """What a leader appends at `end_bytes`.

    Raises: TooLarge.
    """
    assert bodies
    out = _Builder(end_bytes)
    size_max = entry_bytes_max(file_bytes)
    pos, file_end = end_bytes, end_bytes - end_bytes % file_bytes + file_bytes
    add_part, add_record, add_sum = out.parts.append, out.records.append, out.sums.append
    add_position = out.positions.append
    pack, pack_record, pack_sum = ENTRY_HEAD.pack, INDEX_RECORD.pack, SUM_RECORD.pack
    first_index = index
    for body in bodies:
        body_bytes = len(body)
        size = ENTRY_HEAD_BYTES + body_bytes
        if size > size_max:
            raise TooLarge(f"an entry of {size} bytes, at most {size_max}")
        if not fits_in_file(size, file_end - pos):
            pos, file_end = file_end, file_end + file_bytes
            out.roll(pos)
        head = pack(MAGIC_NORMAL, size, index, term, pos, 0, 0, 0, body_bytes)
        add_part(head)
        add_part(body)
        crc = crc32(body, crc32(head))
        add_sum(pack_sum(crc, crc ^ CHECK_MASK))
        add_record(pack_record(MAGIC_NORMAL, pos, size, index, term))
        add_position(pos)
        if body_bytes and not body[-1]:
            out.risky = True
        pos += size
        index += 1
    return out.batch(first_index, term)


def of_entries(
    entries: Sequence[Entry], *, index: int, term: int, end_bytes: int, file_bytes: int
) -> Batch:
    """What a follower appends: each entry where its leader has it.

    Args:
        index: the first one's must be this.
        term: no entry's is lower, nor lower than the one before.
        end_bytes: the log's end. An entry lies there, or at the start of the next file: also if it
            would have fitted, for a leader that crashed behind a BLANK goes on there.

    Raises: NotInSequence, WrongPlace, EntryRefused.
    """
    assert entries
    out = _Builder(end_bytes)
    size_max = entry_bytes_max(file_bytes)
    pos, file_end = end_bytes, end_bytes - end_bytes % file_bytes + file_bytes
    add_part, add_record, add_sum = out.parts.append, out.records.append, out.sums.append
    add_position = out.positions.append
    pack, pack_record, pack_sum = ENTRY_HEAD.pack, INDEX_RECORD.pack, SUM_RECORD.pack
    first_index = index
    for entry in entries:
        body, size = entry.body, entry.size
        body_bytes = len(body)
        if entry.magic != MAGIC_NORMAL or size != ENTRY_HEAD_BYTES + body_bytes or size > size_max:
            raise EntryRefused(
                entry_problem(entry) or f"entry {entry.index} of {size} bytes, at most {size_max}"
            )
        if entry.index != index:
            raise NotInSequence(f"entry {entry.index} where {index} belongs")
        if entry.term < term:
            raise NotInSequence(f"entry {index} of term {entry.term} behind term {term}")
        if entry.pos != pos or size + BLANK_BYTES > file_end - pos:
            if entry.pos != file_end:
                raise WrongPlace(
                    f"entry {index} at {entry.pos}, our log goes on at {pos} in files of"
                    f" {file_bytes} bytes"
                )
            pos, file_end = file_end, file_end + file_bytes
            out.roll(pos)
        term = entry.term
        head = pack(
            MAGIC_NORMAL, size, index, term, pos,
            entry.channel, entry.chain_crc, entry.body_crc, body_bytes,
        )  # fmt: skip
        add_part(head)
        add_part(body)
        crc = crc32(body, crc32(head))
        add_sum(pack_sum(crc, crc ^ CHECK_MASK))
        add_record(pack_record(MAGIC_NORMAL, pos, size, index, term))
        add_position(pos)
        if body_bytes and not body[-1]:
            out.risky = True
        pos += size
        index += 1
    return out.batch(first_index, term)


def may_be_torn(data: bytes | memoryview, pos: int) -> bool:
    """Whether a piece of this whole entry at `pos` may never have come: a granule's part is zeros,
    or the last byte of its body is.

    What a power loss takes reads as zeros, and comes and goes by granules. A write that the system
    broke off may end at any byte, and zeros follow. The head says by itself whether it is there.
    """
    size = len(data)
    if size > ENTRY_HEAD_BYTES and data[-1] == 0:
        return True
    start = GRANULE_BYTES - pos % GRANULE_BYTES
    piece_start = 0
    while piece_start < size:
        piece_end = min(start, size)
        piece = bytes(data[piece_start:piece_end])
        if piece_end > ENTRY_HEAD_BYTES and piece.count(0) == len(piece):
            return True
        piece_start, start = piece_end, start + GRANULE_BYTES
    return False
