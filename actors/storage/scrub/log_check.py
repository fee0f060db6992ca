"""Checks whether a log's bytes are still what was written, range by range.

A range with a digest is read and compared. A range without one (its log was written by an older
version or by another program, or the digest was lost) is parsed from the beginning of its file on,
and each record's CRC is checked. Only then is its digest saved, so unchecked bytes are never taken
to be good. Bytes that a master itself has just written need not be parsed for that, nor those that
the store has just parsed to find the log's end.

The log's last, unfinished range has no digest, perhaps for long. Its bytes are digested as they
come (`LogCheck.begin`), so that what changes before the range is full is damage then. Until then,
if a record is doubted, records are parsed: those without digests (`check_undigested`), or all of a
file (`walk_anew`). Damage that is found so is parsed again, not compared, until it reads well, and
no digest is made of it before.

Upstream has nothing like it: a slave of RocketMQ's copies what it is sent, and a record's CRC is
checked when it is consumed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar

import attrs

from actors.env.protocols import Disk
from actors.storage.commitlog.recovery import file_ending, is_beginning
from actors.storage.files.side_file import VALUES_MAX, SideFile, SideFileDamaged
from actors.storage.log.digests import RANGE_BYTES, Digests
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.scrub.range_reading import (
    RangeRead,
    Reading,
    Span,
    read_changed,
    read_ranges,
)
from wire.files.commit_log import Stop, scan
from wire.files.message_record import SIZE_BYTES

ROTTEN_MAX: Final = VALUES_MAX - 1
"""How many damaged ranges are kept. Of all further ones only the lowest byte is kept; from there on
nothing is shown until a whole round has found room for all (`LogCheck.beyond_bytes`).
"""
PARSE_BYTES: Final = 256 << 10
"""How many bytes are parsed on the loop before other tasks run: 2 ms with small records."""
STEP_BYTES: Final = 1 << 20
"""How many bytes that need not be parsed are read and digested by one call beside the loop, in
0.4 ms.
"""
AT_ONCE_BYTES: Final = 16 << 20
"""How many bytes without digests are parsed at once, and how many damaged bytes are mended at once,
at least (`at_once_bytes`). The walk that makes the digests parses the bytes behind them.
"""
COMPARE_BYTES: Final = 8 << 20
"""How many bytes are read and digested by one call beside the loop, in 3 ms."""

T = TypeVar("T")
Steps: TypeAlias = Generator[Reading, list[RangeRead], T]
"""Work that has to read: it yields each read, which is run beside the loop, and is sent its result.
"""


@attrs.frozen
class Rot:
    """Log bytes [start, end) that differ from what was written there."""

    start: int
    end: int
    reason: str


@attrs.define
class Walk:
    """Goes through one file from its beginning, range by range, parsing its records if asked to.

    Attributes:
        base, end: the file's first byte, and the one after its last.
        at: the first byte of the next range.
        parses: whether every record is checked; if not, only ranges that have a digest are.
        record_at: where the first record begins that is not checked yet.
        rest: the bytes from there on.
        broken: whether no record begins where one should, so that the rest cannot be parsed.
        begun: the end of the bytes from `at` on that were digested before their range was complete;
            `at` or below if there are none.
        begun_digest: the digest of these bytes.
    """

    base: int
    end: int
    at: int
    parses: bool
    record_at: int = attrs.field(default=attrs.Factory(lambda self: self.base, takes_self=True))
    broken: bool = attrs.field(default=False, init=False)
    rest: bytes = attrs.field(default=b"", init=False)
    begun: int = attrs.field(default=0, init=False)
    begun_digest: int = attrs.field(default=0, init=False)
    _wanted: int = attrs.field(default=0, init=False)
    _pending: list[tuple[int, int, int]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        assert not self.parses or self.at in (self.base, self.record_at)
        assert self.base <= self.record_at <= self.end

    @property
    def is_done(self) -> bool:
        return self.at >= self.end

    def parse(self, data: bytes, size_max: int) -> str:
        """Parse the bytes at `at`. Returns: what is wrong with the record at `record_at`; or ""."""
        end = self.end
        if self.record_at == end:
            return ""  # behind the file's filler
        self.rest += data[max(0, self.record_at - self.at) :]
        if len(self.rest) < self._wanted and self.at + len(data) < end:
            return ""
        _, stopped = scan(self.rest, physical_offset=self.record_at, size_max=size_max)
        self.record_at += stopped.end
        self.rest, self._wanted = self.rest[stopped.end :], 0
        is_last = self.at + len(data) == end
        match stopped.stop:
            case Stop.BLANK if self.record_at + stopped.blank_bytes == end:
                self.record_at, self.rest = end, b""
                return ""
            case Stop.INCOMPLETE if not is_last:
                self._wanted = len(self.rest) + stopped.missing_bytes
                return ""
            case Stop.END:
                return ""
            case Stop.UNWRITTEN:
                return "nothing is written there"
            case _:
                return file_ending(stopped, self.base, self.record_at, end - self.base).reason

    def reach(self, size_max: int) -> int:
        """Return where the record at `record_at` ends, or where its impossible size ends."""
        size = int.from_bytes(self.rest[:SIZE_BYTES], "big")
        if SIZE_BYTES < size <= min(size_max, self.end - self.record_at):
            return self.record_at + size
        return min(self.record_at + SIZE_BYTES, self.end)

    def add(self, start: int, end: int, digest: int) -> None:
        """Add the digest that was made of a range which had none."""
        self._pending.append((start, end, digest))

    def sure(self) -> list[tuple[int, int]]:
        """Remove and return the (start, digest) of ranges whose digests may be saved.

        If the walk parses, these are the ranges whose records have been checked to their ends.
        """
        if not self._pending:
            return []
        found = [each for each in self._pending if not self.parses or each[1] <= self.record_at]
        del self._pending[: len(found)]
        return [(start, digest) for start, _, digest in found]


@attrs.define(kw_only=True)
class LogCheck:
    """Checks one log, and keeps its damaged ranges.

    Attributes:
        rotten: the damaged ranges by their first bytes, in the order in which they were found.
        healed: those of them that read well again. They count as damaged until what was read has
            been synced, see `confirm`.
        beyond_bytes: the first byte of damage for which `rotten` had no room; None if it has all.
        by_records: the damage that no digest shows: by its first byte, where the bad record begins.
        limit_bytes: nothing from there on is checked: it may still change, or be lost.
        own_from_bytes: bytes from there on were written by this process from memory, and are not
            parsed; None: all are parsed.
        parsed: log bytes [start, end) whose records the store has just checked as it opened; a file
            begins at the start, a record at the end.
    """

    reader: LogReader
    digests: Digests
    record_bytes_max: int
    limit_bytes: int
    own_from_bytes: int | None
    parsed: tuple[int, int] = (0, 0)
    rotten: dict[int, Rot] = attrs.field(factory=dict)
    healed: set[int] = attrs.field(factory=set)
    by_records: dict[int, int] = attrs.field(factory=dict)
    beyond_bytes: int | None = None

    @property
    def at_once_bytes(self) -> int:
        """The size of as many whole ranges as the largest record needs, at least AT_ONCE_BYTES."""
        of_record = self.record_bytes_max // RANGE_BYTES + 2  # with both its ends
        return max(AT_ONCE_BYTES, of_record * RANGE_BYTES)

    def walk_from(self, base: int) -> Walk:
        """Return a walk through the file at `base`, just written or found when the store opened.

        It parses only bytes that neither this process nor the store has checked.
        """
        end = base + self.digests.segment_bytes
        first, behind = self.parsed
        trusts = first <= base and not any(base <= each < end for each in self.rotten)
        record_at = min(max(base, behind), end) if trusts else base
        at = self.first_unknown(base)
        parses = not self._is_own(base) and record_at < end and at < end
        return Walk(base, end, base if parses else at, parses=parses, record_at=record_at)

    def walk_all(self, base: int) -> Walk:
        """Return a walk through the whole file, also through ranges that have digests."""
        end = base + self.digests.segment_bytes
        parses = not self._is_own(base) and self.first_unknown(base) < end
        return Walk(base, end, base, parses=parses)

    def _is_own(self, base: int) -> bool:
        return self.own_from_bytes is not None and base >= self.own_from_bytes

    def step(self, walk: Walk, until: int | None = None) -> Steps[int]:
        """Check the next ranges of a walk. Returns: their size; 0 if none is complete, or it ended.

        Args:
            until: no range that begins there or behind it is checked; None: up to the file's end.

        Raises: OffsetGone.
        """
        keeps = walk.parses and not walk.broken
        size = PARSE_BYTES if keeps else STEP_BYTES
        end = walk.end if until is None else min(walk.end, until)
        spans = self._complete(walk.at, min(walk.at + size, end))
        if not spans:
            return 0
        known = self._known(spans)
        begun = None
        if walk.begun > walk.at and known[0] is None:
            begun = yield from self._begun(walk, spans[0][1])
        for found, digest in zip((yield from self._read(spans, keeps=keeps)), known, strict=True):
            if found.start == spans[0][0] and begun not in (None, found.digest):
                self.digests.put(found.start, digest := begun)  # it has changed since it came
            self._take(walk, found, digest)
            walk.at = found.end
        return spans[-1][1] - spans[0][0]

    def begin(self, walk: Walk) -> Steps[None]:
        """Digest the written part of the range that a walk comes to next, while it is not complete.

        Raises: OffsetGone.
        """
        at, end = walk.at, min(self.limit_bytes, self.digests.range_at(walk.at)[1])
        is_rotten = any(rot.start < end and at < rot.end for rot in self.rotten.values())
        if walk.is_done or walk.broken or is_rotten or max(at, walk.begun) >= end:
            return
        digest = yield from self._begun(walk, end)
        if digest is not None:
            walk.begun, walk.begun_digest = end, digest

    def _begun(self, walk: Walk, end: int) -> Steps[int | None]:
        """Return the digest of a walk's next range up to `end`.

        The bytes up to `begun` count as they were when they were digested, the others as they are
        now.

        Returns: None if the bytes cannot be read.
        """
        start, before = walk.at, 0
        if walk.begun > walk.at:
            start, before = walk.begun, walk.begun_digest
        if start == end:
            return before
        (found,) = yield from self._read([(start, end)], before=before)
        return found.digest

    def _take(self, walk: Walk, found: RangeRead, known: int | None) -> None:
        """Advance a walk by its next range, which was read: judge it, parse it, add its digest."""
        start, end, digest = found.start, found.end, found.digest
        if digest is None:
            self.note(Rot(start, end, found.problem))
            walk.broken = walk.broken or walk.parses or known is None  # its records have a gap
            return
        if known is not None:
            self._compared(start, end, known == digest)
        if walk.parses and not walk.broken:
            self._parse(walk, found.data)
        if walk.broken:
            return
        if known is None and not self._is_in_rot(start):
            walk.add(start, end, digest)
        for position, sure in walk.sure():
            self.digests.put(position, sure)
            self._reads_well(position)

    def _is_in_rot(self, start: int) -> bool:
        found = (self.rotten[each] for each in self.by_records)
        return any(rot.start <= start < rot.end for rot in found)

    def walk_anew(self, base: int) -> Walk:
        """Return a walk that parses a whole file, to check digests that may be of damaged bytes."""
        return Walk(base, base + self.digests.segment_bytes, base, parses=True)

    def digest_file(self, base: int) -> Steps[None]:
        """Make digests of all complete ranges of a file, as far as its records are good."""
        walk = self.walk_anew(base)
        while not walk.broken and (yield from self.step(walk)):
            pass

    def is_unknown(self, offset: int) -> bool:
        """Return whether the range that holds `offset` is complete and has no digest."""
        start, end = self.digests.range_at(offset)
        return end <= self.limit_bytes and self.digests.get(start) is None

    def check(self, start: int, end: int) -> Steps[int]:
        """Return the end of the bytes from `start` on that are what was written; `end` at most.

        Bytes of a range that `is_unknown` are never among them.

        Raises: OffsetGone.
        """
        at, end = self.digests.range_at(start)[0], self.undamaged(start, end)
        while spans := self._complete(at, min(end, at + COMPARE_BYTES)):
            known = self._known(spans)
            if None in known:
                spans = spans[: known.index(None)]
            if not spans:
                return max(start, at)
            found = yield from self._read(spans, known=known[: len(spans)])
            changed = {each.start: each for each in found}
            for first, behind in spans if changed or self.rotten else ():
                if first in changed:
                    self._judge(changed[first], None)
                    return max(start, first)
                if first in self.rotten:
                    self._compared(first, behind, is_same=True)
                    return max(start, first)
            at = spans[-1][1]
        return end

    def undamaged(self, start: int, end: int) -> int:
        """Return the end of the bytes from `start` on that hold no damage of `by_records`.

        It is `end` at most.
        """
        for first in self.by_records:
            if start < self.rotten[first].end:
                end = min(end, max(start, first))
        return end

    def look_again(self, start: int = 0, end: int | None = None) -> Steps[None]:
        """Read the damaged ranges that begin in [start, end) again, as they may be mended now."""
        found = yield from self.compare_again(self.digests.segment_bytes, start, end)
        for base in found:
            with suppress(OffsetGone):
                yield from self.digest_file(base)

    def look_beyond(self) -> Steps[None]:
        """Read the log from `beyond_bytes` on, as far as `rotten` has room for the damage found.

        Then `rotten` has all damage, or `beyond_bytes` is the first byte for which it had no room.
        """
        size = self.digests.segment_bytes
        if self.beyond_bytes is None:
            return
        for base in range(self.beyond_bytes - self.beyond_bytes % size, self.limit_bytes, size):
            walk = self.walk_all(base)
            with suppress(OffsetGone):
                while len(self.rotten) < ROTTEN_MAX and (yield from self.step(walk)):
                    pass
        if len(self.rotten) < ROTTEN_MAX:
            self.beyond_bytes = None

    def compare_again(
        self, parsed_max: int = 0, start: int = 0, end: int | None = None
    ) -> Steps[list[int]]:
        """Do what `look_again` does, for damaged ranges that have digests.

        Args:
            parsed_max: how many bytes are parsed of each damage that no digest shows, at least
                `at_once_bytes`; the next call continues there.
            start, end: only damage that begins within is checked; None: up to the log's end.

        Returns: the files that have to be parsed for the other ranges.
        """
        unknown: dict[int, None] = {}
        for rot in tuple(self.rotten.values()):
            if rot.start < start or (end is not None and rot.start >= end):
                continue
            if rot.start in self.by_records:
                yield from self._parse_again(rot, parsed_max)
                continue
            known = self.digests.get(rot.start)
            if known is None:
                unknown[rot.start - rot.start % self.digests.segment_bytes] = None
            try:
                (found,) = yield from self._read([(rot.start, rot.end)])
            except OffsetGone:
                self.forget(rot.start)
            else:
                if known is not None:
                    self._judge(found, known)
        return list(unknown)

    def check_undigested(self, at: int) -> Steps[int]:
        """Parse synced bytes from `at` on, where a record begins, whether they have digests or not.

        Returns: the end of what is good, or was checked: `at_once_bytes` from its range on.

        Raises: OffsetGone.
        """
        first, limit = self.digests.range_at(at)[0], self.limit_bytes
        if limit - first > self.at_once_bytes:
            limit = self.digests.range_at(first + self.at_once_bytes)[0]
        while at < limit:
            end = min(limit, at - at % self.digests.segment_bytes + self.digests.segment_bytes)
            position, reach, reason = yield from self._first_bad(at, end)
            if reason:
                start, behind = self.digests.range_at(position)
                rot = Rot(start, behind, f"offset {position}: {reason}")
                while start < reach and self.digests.get(start) is not None:
                    start = self.digests.range_at(start)[1]
                known_end = min(start, reach)  # so much of the record has digests
                if start == rot.start:
                    self._note_record(attrs.evolve(rot, end=end), position)
                elif (yield from self.check(position, known_end)) == known_end:
                    self._note_digested(rot, reach, position)
                return position
            at = end
        return at

    def _parse_again(self, rot: Rot, parsed_max: int) -> Steps[None]:
        at = self.by_records[rot.start]
        end = min(rot.end, at + max(parsed_max, self.at_once_bytes))
        try:
            position, _, reason = yield from self._first_bad(at, end)
        except OffsetGone:
            self.forget(rot.start)
            return
        if not reason and end == rot.end:
            self.healed.add(rot.start)
        else:
            self.healed.discard(rot.start)
            self.by_records[rot.start] = position

    def _first_bad(self, at: int, end: int) -> Steps[tuple[int, int, str]]:
        """Find the first bad record from `at` on, where a record begins, up to `end` in its file.

        Returns: where it begins, where it ends at most, and what is wrong with it. If none is bad
            as far as they are there, the problem is "", and the position that of the last record,
            which may go on after `end`.

        Raises: OffsetGone.
        """
        base = at - at % self.digests.segment_bytes
        walk = Walk(base, base + self.digests.segment_bytes, at, parses=True, record_at=at)
        while walk.at < end:
            span = (walk.at, min(walk.at + PARSE_BYTES, end))
            (found,) = yield from self._read([span], keeps=True)
            if found.digest is None:
                return walk.record_at, end, found.problem
            reason = walk.parse(found.data, self.record_bytes_max)
            if reason:
                return walk.record_at, walk.reach(self.record_bytes_max), reason
            walk.at = found.end
        if walk.rest and not self.goes_on(walk.rest, walk.record_at):
            return walk.record_at, end, "a record of another size than its lengths say"
        return walk.record_at, end, ""

    def goes_on(self, have: bytes, offset: int) -> bool:
        """Return whether `have` is a good beginning of a record or filler at `offset`."""
        size = self.digests.segment_bytes
        return is_beginning(have, offset, size - offset % size, self.record_bytes_max)

    def _complete(self, at: int, end: int) -> list[Span]:
        """Return the complete ranges from `at` on that begin below `end`, within one file."""
        spans: list[Span] = []
        end = min(end, at - at % self.digests.segment_bytes + self.digests.segment_bytes)
        while at < end and (span := self.digests.range_at(at))[1] <= self.limit_bytes:
            spans.append(span)
            at = span[1]
        return spans

    def _known(self, spans: Sequence[Span]) -> list[int | None]:
        return self.digests.known(spans[0][0], len(spans))

    def remember(self, start: int, begins: int) -> None:
        """Note damage at `start` that an earlier incarnation of the node found.

        If no digest can show it, records are parsed.

        Args:
            begins: where a record begins, at or below the log's last range.
        """
        start, end = self.digests.range_at(start)
        rot = Rot(start, min(end, self.limit_bytes), "it was found before")
        if end > self.limit_bytes:
            self._note_record(rot, max(begins, start - start % self.digests.segment_bytes))
        else:
            self.note(rot)

    def confirm(self, starts: Iterable[int]) -> None:
        """Forget damage that had read well when its file was synced, unless it reads badly now."""
        for start in starts:
            if start in self.healed:
                self.forget(start)

    def forget(self, start: int) -> None:
        """Forget the damage that begins at `start`, because it is mended or its file is gone."""
        self.rotten.pop(start, None)
        self.by_records.pop(start, None)
        self.healed.discard(start)

    def first_unknown(self, base: int) -> int:
        """Return where a file's first range without a digest begins; its end if all have one."""
        end = base + self.digests.segment_bytes
        for first in range(base, end, COMPARE_BYTES):
            ranges = range(first, min(first + COMPARE_BYTES, end), RANGE_BYTES)
            known = self.digests.known(first, len(ranges))
            if None in known:
                return ranges[known.index(None)]
        return end

    def _read(
        self,
        spans: Sequence[Span],
        *,
        keeps: bool = False,
        known: Sequence[int | None] | None = None,
        before: int = 0,
    ) -> Steps[list[RangeRead]]:
        """Read ranges of one file.

        Args:
            keeps, before: as in `read_ranges`.
            known: the known digests; only ranges with other digests are returned.

        Raises: OffsetGone: the file was deleted for its age.
        """
        try:
            file, position, _ = self.reader.file_at(spans[0][0])
        except OffsetGone:
            if not self._is_hole(spans[0][0]):
                raise
            problem = "its file is not there"
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
        else:
            base = spans[0][0] - position
            if known is not None:
                return (yield partial(read_changed, file, base, spans, known))
            return (yield partial(read_ranges, file, base, spans, keeps=keeps, before=before))
        return [RangeRead(start, end, None, problem=problem) for start, end in spans]

    def _is_hole(self, offset: int) -> bool:
        """Return whether a missing file is a hole: there are older files, and expiry deletes those
        first.
        """
        bases = self.reader.bases()
        return bool(bases) and bases[0] < offset

    def _judge(self, found: RangeRead, known: int | None) -> bool:
        """Note a range as damaged or mended. Returns: whether its bytes are what was written."""
        is_same = found.digest is not None and found.digest == known
        if found.digest is None:
            self.note(Rot(found.start, found.end, found.problem))
        else:
            self._compared(found.start, found.end, is_same)
        return is_same

    def _compared(self, start: int, end: int, is_same: bool) -> None:
        if is_same:
            self._reads_well(start)
        else:
            self.note(Rot(start, end, "its bytes are not those that were written"))

    def _reads_well(self, start: int) -> None:
        if start in self.rotten and start not in self.by_records:
            self.healed.add(start)

    def _parse(self, walk: Walk, data: bytes) -> None:
        reason = walk.parse(data, self.record_bytes_max)
        if not reason:
            return
        walk.broken, position = True, walk.record_at
        start, end = self.digests.range_at(position)
        rot = Rot(start, end, f"offset {position}: {reason}")
        if self.digests.get(start) is None:
            self.note(rot)
            return
        self._note_digested(rot, walk.reach(self.record_bytes_max), position)

    def _note_digested(self, rot: Rot, reach: int, position: int) -> None:
        """Note a bad record at `position`, up to `reach` at most, although the digests fit.

        They were made of damaged bytes.
        """
        end = min(self.digests.range_at(reach - 1)[1], self.limit_bytes)
        if any(rot.start <= each < end for each in self.rotten):
            return  # a digest shows it
        self._note_record(attrs.evolve(rot, end=end), position)
        at = rot.start
        while at < end:
            self.digests.forget(at)
            at = self.digests.range_at(at)[1]

    def _note_record(self, rot: Rot, position: int) -> None:
        """Note a bad record at `position`, where no digest shows it."""
        is_new = rot.start not in self.rotten
        self.note(rot)
        if is_new and rot.start in self.rotten:
            self.by_records[rot.start] = position

    def note(self, rot: Rot) -> None:
        """Note damage, whatever was read before."""
        self.healed.discard(rot.start)
        if rot.start in self.rotten or len(self.rotten) < ROTTEN_MAX:
            self.rotten.setdefault(rot.start, rot)
        elif self.beyond_bytes is None or rot.start < self.beyond_bytes:
            self.beyond_bytes = rot.start


@attrs.define
class RottenFile:
    """The file `digests/rotten`, which keeps for later starts where damage was found.

    Nothing depends on it, because what it does not keep is found again.

    Attributes:
        starts: the first bytes of the damaged ranges that an earlier incarnation found.
    """

    starts: tuple[int, ...] = ()
    _side: SideFile | None = None

    @classmethod
    def open(cls, disk: Disk, path: str) -> RottenFile:
        """Read the file; one that cannot be read counts as empty."""
        try:
            side, values = SideFile.open(disk, path, ROTTEN_MAX + 1)
        except (OSError, SideFileDamaged):
            return cls()
        count, *starts = values or (0,)
        return cls(tuple(starts[:count]), side)

    def write(self, starts: tuple[int, ...]) -> None:
        """Write the file, with at most ROTTEN_MAX of these ranges."""
        if self._side is None:
            return
        with suppress(OSError):
            self._side.write((len(starts), *starts, *[0] * (ROTTEN_MAX - len(starts))))
            self._side.sync()

    def close(self) -> None:
        if self._side is not None:
            self._side.close()
