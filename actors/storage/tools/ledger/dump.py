"""Prints the entries of a DLedger log as JSON lines.

| Key | Type | Meaning |
|---|---|---|
| index, term | int | the entry's number, and the term of the leader that appended it |
| position, size_bytes | int | the entry's position in the log, and its length with its head |
| body | str | the payload: text, or Base64 where it is not UTF-8; empty where a term opens |
| body_encoding | str | "utf-8" or "base64": which of the two |

It only reads, and does not stop at damage: entries behind the damage are printed too. An entry that
its checksum contradicts is reported, and not printed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import attrs
import msgspec

from actors.env.protocols import Disk
from actors.errors import ConfigError, CorruptLog
from actors.readable import readable_json
from actors.storage.files.stepping import Step, Work
from actors.storage.ledger import recovery
from actors.storage.ledger.per_index import contradicted, sums_of
from actors.storage.ledger.recovery import BAD_SUM, FileEnd, Piece, read_file
from actors.storage.log.commit_log import segment_path
from actors.storage.tools.commitlog.dump import Dumped, Wanted, body_fields
from actors.storage.tools.ledger.files import LedgerFiles, known_sums
from actors.storage.tools.stores import GroupLedger, bytes_to_read
from wire.dledger.entry import ENTRY_HEAD_BYTES
from wire.dledger.scan import EntryHead


def dump_ledger(
    disk: Disk,
    ledger: GroupLedger,
    wanted: Wanted,
    write: Callable[[bytes], object],
    limit: int | None = None,
) -> Work[Dumped]:
    """Call `write` with lines of the wanted entries, many at a time.

    Args:
        wanted: `start` is an index; topic, queue and key have to be None.
        limit: no entry above this index is read.

    Raises: ConfigError: a topic, queue or key is wanted, or the start is outside of the log.
        CorruptLog: the mark cannot be read. OSError, also from `write`.
    """
    for option, value in (("topic", wanted.topic), ("queue", wanted.queue_id), ("key", wanted.key)):
        if value is not None:
            raise ConfigError(
                f"--{option}: expected only for a classic group, found {ledger.name}, a dledger"
                " group, whose entries have none"
            )
    with closing(LedgerFiles.look(disk, ledger)) as files:
        dumping = _Dump(disk, ledger, wanted, write, limit, files)
        return (yield from dumping.run())


@attrs.define
class _Dump:
    _disk: Disk
    _ledger: GroupLedger
    _wanted: Wanted
    _write: Callable[[bytes], object]
    _limit: int | None
    _files: LedgerFiles
    _done: Dumped = attrs.field(factory=Dumped, init=False)
    _last: EntryHead | None = attrs.field(default=None, init=False)
    # the index of the last entry that was read
    _end_index: int = attrs.field(default=-1, init=False)

    def run(self) -> Work[Dumped]:
        done, log = self._done, self._files.log
        bases = list(log.bases())
        start = self._first_base(bases)
        wanted = [each for each in bases if each >= start]
        total = bytes_to_read(self._disk, self._ledger, wanted, self._files.clean_end_bytes)
        for base in wanted:
            reading = read_file(
                self._disk,
                log.folder,
                base,
                log.segment_bytes,
                is_first=base == bases[0],
                after=self._last,
            )
            try:
                while self._goes_on:
                    piece = next(reading)
                    self._take(piece)
                    ends = (head.at + head.size for head in piece.heads[-1:])
                    at = piece.offset + next(ends, 0) - start
                    yield Step(f"{self._ledger.name}: dump", at, max(at, total))
            except FileNotFoundError:
                done.expired += 1
            except CorruptLog as error:
                self._problem(str(error))
            except StopIteration as stop:
                self._ended(base, stop.value)
            finally:
                reading.close()
            if not self._goes_on:
                break
        self._check_start()
        return done

    @property
    def _goes_on(self) -> bool:
        count, last = self._wanted.count_max, self._last
        if count is not None and self._done.records >= count:
            return False
        return self._limit is None or last is None or last.index < self._limit

    def _first_base(self, bases: list[int]) -> int:
        """Return the offset of the file to begin with: the last one that begins at or before the
        wanted index.
        """
        first, wanted = bases[0] if bases else 0, self._wanted.start
        for base in bases[1:] if wanted is not None else ():
            try:
                head = recovery.first_entry(self._disk, self._files.log, base)
            except FileNotFoundError:
                continue
            if head is not None and head.index <= (wanted or 0):
                first = base
        return first

    def _check_start(self) -> None:
        """Check that the log reaches the wanted index. Raises: ConfigError: it does not."""
        start, end = self._wanted.start, self._end_index
        if start is None or self._done.problems or self._done.records:
            return
        if start > end + 1:
            raise ConfigError(
                f"--from: expected an index up to {end + 1}, where the log ends, found {start}"
            )

    def _take(self, piece: Piece) -> None:
        heads = piece.heads
        if self._limit is not None:
            heads = [head for head in heads if head.index <= self._limit]
            if piece.heads and not heads:
                self._last = piece.heads[-1]
        if not heads:
            return
        self._last = piece.heads[-1]
        self._end_index = heads[-1].index
        bad = self._contradicted(piece.data, heads)
        out = []
        for head in heads:
            if self._done.records == self._wanted.count_max:
                break
            if self._wanted.start is not None and head.index < self._wanted.start:
                continue
            if head.index in bad:
                path = segment_path(self._files.log.folder, self._base_of(head.pos))
                self._problem(f"{path}: entry {head.index} (offset {head.pos}): {BAD_SUM}")
                continue
            out.append(readable_json(msgspec.json.encode(_fields(piece.data, head))))
            self._done.records += 1
        self._write(b"\n".join([*out, b""]))

    def _contradicted(self, data: bytes, heads: list[EntryHead]) -> set[int]:
        """Return the indexes of the entries that their checksums contradict."""
        if self._files.mark is None:
            return set()
        known = known_sums(self._files.sums, heads[0].index, len(heads))
        return {heads[number].index for number in contradicted(known, sums_of(data, heads))}

    def _ended(self, base: int, end: FileEnd) -> None:
        """Report where a file's entries end. It is unknown then which entry the next file begins
        with.
        """
        if end.reason is None:
            return
        self._last = None
        if end.reason:
            path = segment_path(self._files.log.folder, base)
            self._problem(
                f"{path}: offset {end.at_bytes}: {end.reason}: damage, or a torn end (check says"
                " which)"
            )

    def _base_of(self, offset: int) -> int:
        return offset - offset % self._files.log.segment_bytes

    def _problem(self, text: str) -> None:
        self._done.problems.append(text)


def _fields(data: bytes, head: EntryHead) -> dict[str, object]:
    return {
        "index": head.index,
        "term": head.term,
        "position": head.pos,
        "size_bytes": head.size,
        **body_fields(data[head.at + ENTRY_HEAD_BYTES : head.at + head.size]),
    }
