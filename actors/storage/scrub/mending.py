"""Mends a log: gives good ranges to other members, and replaces damaged ones with theirs.

It belongs to the scrubber, which owns the digests and knows what is damaged. Bytes that another
member gives are not trusted. They are checked with the own digest, which says what was written; if
there is none, all records of the file up to there are parsed with these bytes in their place. The
same is done if two copies contradict a digest that no member's bytes fit. Then the digest is wrong:
it was made while a bit was flipped here that no record's checksum covers, and which reads well now.

Damage that no digest shows (`LogCheck.by_records`) is replaced as a whole, up to what was synced
when it was found, and record by record: the new record has to be good, and the one that it replaces
must not be.

Order of a mend: keep the old bytes in `aside/`, save the digest if there was none, write the range
in place. It counts as damaged until the file has been synced. So after a crash there is a range
that its digest contradicts, or the new one; and if a disk is full nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, suppress
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from actors.env.protocols import Disk, RunBeside
from actors.events import store as events
from actors.log_types import GoodRange
from actors.runtime import ReplyTo
from actors.storage.commitlog.set_aside import keep_bytes
from actors.storage.files.room import why_failed
from actors.storage.files.stepping import answered, stepped
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path
from actors.storage.log.digests import digest_of
from actors.storage.log.log_reader import OffsetGone
from actors.storage.scrub.log_check import ROTTEN_MAX, LogCheck, Rot, Steps, Walk
from wire.files.commit_log import scan
from wire.files.message_record import SIZE_BYTES

DAMAGED: Final = "its own bytes there are damaged"
NOT_PARSED: Final = "it has not parsed all before these bytes yet: ask again"


@attrs.frozen(kw_only=True)
class Damage:
    """The answer to GetDamage: what is damaged now.

    All damage was read again for it, and files whose ranges read well were synced.
    """

    rotten: tuple[Rot, ...]


@attrs.frozen(kw_only=True)
class GetDamage:
    """Read all known damage again, parse what has no digest yet, then answer with Damage.

    Attributes:
        only: the log bytes [start, end) to which the reading is limited; None: all damage is read.
    """

    reply_to: ReplyTo[Damage]
    only: tuple[int, int] | None = None


@attrs.frozen(kw_only=True)
class GetGoodRange:
    """Ask for the range that holds `start`, if its bytes are what was written."""

    start: int
    reply_to: ReplyTo[GoodRange]


@attrs.frozen(kw_only=True)
class Mended:
    """The answer to Mend. GetDamage says whether the range is good now.

    Attributes:
        wants_until: the offset up to which all ranges are needed first, so that nothing was written
            yet; 0 if none are needed.
        refused: why nothing was written, for people; "" if something was.
        is_own: whether the reason lies with this node, so that no member's bytes would be taken.
    """

    wants_until: int = 0
    refused: str = ""
    is_own: bool = False


@attrs.frozen(kw_only=True)
class Mend:
    """Write whole ranges, which follow each other, in place of what is there.

    The bytes may also be those of one whole damage that no digest shows. Answered with Mended.

    Attributes:
        source: the member that gave the bytes.
        outvotes: whether no member has bytes that fit the digest. Then the digest is wrong if this
            node has the same bytes.
    """

    start: int
    data: bytes
    source: str
    outvotes: bool = False
    reply_to: ReplyTo[Mended]


Message: TypeAlias = GetDamage | GetGoodRange | Mend


class _Refused(Exception):
    """The bytes are refused; the text says why."""


@attrs.define(kw_only=True)
class Mender:
    """Mends what one scrubber has found.

    Attributes:
        sync_file: lets the group's syncer sync a file of the log, and call `synced` afterwards.
        undigested: returns an offset at which a record begins, at or below the first byte without a
            digest.
        sources: the member that gave the bytes which were written, by range.
    """

    check: LogCheck
    disk: Disk
    layout: StoreLayout
    sync_file: Callable[[str], None]
    run_beside: RunBeside
    undigested: Callable[[], int]
    sources: dict[int, str] = attrs.field(factory=dict, init=False)
    _waiting: list[GetDamage] = attrs.field(factory=list, init=False)
    _syncing: set[int] = attrs.field(factory=set, init=False)
    _in_flight: int = attrs.field(default=0, init=False)

    async def handle(self, message: Message) -> None:
        match message:
            case GetDamage():
                looked = self.check.look_again(*message.only) if message.only else self._all_known()
                await answered(looked, self.run_beside)
                self._waiting.append(message)
            case GetGoodRange():
                good = await answered(self._good_range(message.start), self.run_beside)
                message.reply_to.send(good)
            case Mend():
                message.reply_to.send(await self._mend(message))
            case _:
                assert_never(message)

    def synced(self, path: str, *, done: bool) -> None:
        """Note that a file was synced; `done` is False if it could not be.

        Its ranges that had read well before count as good then.
        """
        self._in_flight -= 1
        asked = {start for start in self._syncing if self._path(start) == path}
        self._syncing -= asked
        if done:
            self.check.confirm(asked)
        else:
            self.check.healed -= asked  # it is looked at again

    def report(self, rot: Rot, emit: Callable[[object], None]) -> None:
        """Emit that a range is mended, if another member gave its bytes."""
        source = self.sources.pop(rot.start, None)
        if source is not None:
            emit(events.RangeRepaired(first_bytes=rot.start, next_bytes=rot.end, source=source))

    def settle(self, rotten: tuple[Rot, ...]) -> None:
        """Have files synced whose damaged ranges read well now; answer requests that wait for that.

        The scrubber calls this after every message.
        """
        new = self.check.healed - self._syncing
        if new and not self._in_flight:
            self._syncing |= new
            paths = sorted({self._path(start) for start in new})
            self._in_flight = len(paths)
            for path in paths:
                self.sync_file(path)
        if not self.check.healed:
            for waiting in self._waiting:
                waiting.reply_to.send(Damage(rotten=rotten))
            self._waiting.clear()

    def _all_known(self) -> Steps[None]:
        """Read again all damaged ranges, and parse the bytes that have no digest."""
        yield from self.check.look_again()
        yield from self.check.look_beyond()
        with suppress(OffsetGone):
            yield from self.check.check_undigested(self.undigested())

    # ---- giving ----

    def _good_range(self, position: int) -> Steps[GoodRange]:
        check = self.check
        start, end = check.digests.range_at(position)
        if position >= check.limit_bytes:
            return GoodRange(start=start, refused="it has not synced these bytes")
        if end > check.limit_bytes:
            return (yield from self._good_end(start, check.limit_bytes))
        try:
            if check.is_unknown(start):
                yield from check.digest_file(start - start % check.digests.segment_bytes)
            until = yield from check.check(start, end)
            data = check.reader.read(start, end - start, end) if until >= end else b""
        except OffsetGone:
            return GoodRange(start=start, refused="it has deleted the file")
        except OSError as error:
            return GoodRange(start=start, refused=f"it cannot read them: {error}")
        digest = check.digests.get(start)
        if digest is None or digest_of(data) != digest:
            return GoodRange(start=start, refused=DAMAGED)
        return GoodRange(start=start, data=data, digest=digest)

    def _good_end(self, start: int, end: int) -> Steps[GoodRange]:
        """Read and parse the synced part of a range that is not full, and so has no digest."""
        check = self.check
        try:
            good_end = yield from check.check_undigested(self.undigested())
            if check.undamaged(start, end) < end:
                return GoodRange(start=start, refused=DAMAGED)
            if good_end < end:
                is_known = any(rot.start <= good_end < rot.end for rot in check.rotten.values())
                refused = DAMAGED if is_known else NOT_PARSED
                return GoodRange(start=start, refused=refused)
            data = check.reader.read(start, end - start, end)
        except (OffsetGone, OSError) as error:
            return GoodRange(start=start, refused=f"it cannot read them: {error}")
        if len(data) < end - start:
            return GoodRange(start=start, refused=DAMAGED)
        return GoodRange(start=start, data=data, digest=digest_of(data))

    # ---- taking ----

    async def _mend(self, message: Mend) -> Mended:
        start, data = message.start, message.data
        try:
            if start in self.check.by_records:
                await self._mend_records(message)
                return Mended()
            self._need_ranges(start, start + len(data))
            wants_until = await stepped(self._judge(start, data, outvotes=message.outvotes))
            if wants_until:
                return Mended(wants_until=wants_until)
            await self._replace(message)
        except _Refused as refused:
            return Mended(refused=str(refused))
        except OffsetGone:
            return Mended(refused="the file has been deleted for its age meanwhile")
        except OSError as error:
            why = why_failed(self.disk, self.layout.root, error)
            return Mended(refused=why, is_own=True)
        await answered(self.check.look_again(start, start + len(data)), self.run_beside)
        return Mended()

    def _need_ranges(self, start: int, end: int) -> None:
        digests = self.check.digests
        whole = start < end and digests.range_at(start)[0] == start
        if (
            not whole
            or digests.range_at(end - 1)[1] != end
            or end - start > self.check.at_once_bytes
        ):
            raise _Refused(f"bytes {start} to {end} are no whole ranges, or too many at once")
        if end > self.check.limit_bytes:
            raise _Refused(f"the bytes end at {end}, the synced log at {self.check.limit_bytes}")
        if start - start % digests.segment_bytes != (end - 1) - (end - 1) % digests.segment_bytes:
            raise _Refused(f"the bytes received, {start} to {end}, lie in two files of the log")

    async def _mend_records(self, message: Mend) -> None:
        """Mend the whole of a damage that no digest shows. Raises: what `_mend` handles."""
        check, start = self.check, message.start
        end, data = check.rotten[start].end, message.data
        if start + len(data) != end:
            raise _Refused(f"the bytes received are not all from byte {start} to {end}")
        old = self._old(start, data)
        await self.run_beside(partial(self._judge_records, start, data, old))
        if old != data:
            keep_bytes(self.disk, self.layout, [(start, old)])
            self.sources[start] = message.source
        check.healed.discard(start)
        self._syncing.discard(start)
        self._write(start, data)
        await answered(check.look_again(), self.run_beside)

    def _judge_records(self, start: int, data: bytes, old: bytes) -> None:
        """Judge received bytes by their records, because no digest tells what was written.

        Each received record has to be good, and where it differs, this node's record must not be
        good. Two good records that differ show only that one of them is wrong, not which.

        Raises: _Refused: the bytes must not be written.
        """
        check, position = self.check, self.check.by_records[start]
        if start - position > check.record_bytes_max:
            raise _Refused(f"nothing behind damage can be checked: offset {position}")
        before = check.reader.read(position, start - position, start)
        same = max(0, position - start)
        if data[:same] != old[:same]:
            raise _Refused(f"bytes received differ before byte {position}, where all is good here")
        given, own = before + data[same:], before + old[same:]
        records, stopped = scan(given, physical_offset=position, size_max=check.record_bytes_max)
        rest = given[stopped.end :]
        if rest and not check.goes_on(rest, position + stopped.end):
            why = stopped.reason or "no record is there"
            raise _Refused(f"the bytes received are no log: offset {position + stopped.end}: {why}")
        for at, size in [*records, (stopped.end, len(rest))]:
            here = own[at : at + size]
            if here != given[at : at + size] and self._is_good(here, position + at):
                text = f"the record at {position + at} is good here, and the one received differs"
                raise _Refused(text)

    def _is_good(self, data: bytes, position: int) -> bool:
        """Return whether this node's bytes are one good record, or the beginning of one."""
        found, _ = scan(data, physical_offset=position, size_max=self.check.record_bytes_max)
        return found == [(0, len(data))] or self.check.goes_on(data, position)

    def _judge(self, start: int, data: bytes, *, outvotes: bool) -> Generator[None, None, int]:
        """Judge received bytes by the digest, or by parsing where there is none.

        Returns: 0 if they are the bytes that were written there; else the offset up to which more
            bytes are needed.

        Raises: _Refused: the bytes must not be written.
        """
        unknown = False
        for at, piece in self._pieces(start, data):
            known = self.check.digests.get(at)
            unknown |= known != digest_of(piece)
            fits = known in (None, digest_of(piece))
            if not fits and not (outvotes and self._old(at, piece) == piece):
                raise _Refused("the bytes received do not fit the digest of those written here")
        return (yield from self._parse(start, data)) if unknown else 0

    def _parse(self, start: int, data: bytes) -> Generator[None, None, int]:
        """Judge received bytes by parsing; see `_judge`. Yields after each range."""
        check, end = self.check, start + len(data)
        base = start - start % check.digests.segment_bytes
        walk = Walk(base, base + check.digests.segment_bytes, base, parses=True)
        while not walk.is_done and (walk.at < end or walk.record_at < end):
            at, behind = check.digests.range_at(walk.at)
            if start <= at < end:
                piece = data[at - start : behind - start]
            elif behind > check.limit_bytes:
                raise _Refused(f"a record that reaches to byte {at} and beyond is not whole here")
            else:
                piece = check.reader.read(at, behind - at, behind)
            reason = walk.parse(piece, check.record_bytes_max)
            if reason:
                return self._more(walk, start, end, reason)
            walk.at = behind
            yield
        return 0

    def _more(self, walk: Walk, start: int, end: int, reason: str) -> int:
        """Return the offset up to which more bytes are needed.

        A record may seem bad only because the bytes behind those received are missing.

        Raises: _Refused: the record ends within the bytes received.
        """
        position = f"offset {walk.record_at}: {reason}"
        if walk.record_at < start:
            raise _Refused(f"nothing behind damage can be checked: {position}")
        size = int.from_bytes(walk.rest[:SIZE_BYTES], "big")
        reach = walk.record_at + (size if len(walk.rest) >= SIZE_BYTES else SIZE_BYTES)
        if walk.record_at >= end or not end < reach <= min(
            walk.end, start + self.check.at_once_bytes
        ):
            raise _Refused(f"the bytes received are no log: {position}")
        return self.check.digests.range_at(reach - 1)[1]

    async def _replace(self, message: Mend) -> None:
        """Write the bytes, in the order of the module's text. Ranges that are equal are skipped."""
        check, digests = self.check, self.check.digests
        pieces = [
            (at, piece, self._old(at, piece))
            for at, piece in self._pieces(message.start, message.data)
        ]
        changed = [each for each in pieces if each[1] != each[2]]
        if changed:
            keep_bytes(self.disk, self.layout, [(at, old) for at, _, old in changed])
        unknown = [(at, piece) for at, piece, _ in pieces if digests.get(at) != digest_of(piece)]
        for at, piece in unknown:
            digests.put(at, digest_of(piece))
            self.sources[at] = message.source
        if unknown and digests.is_unsaved:
            raise _Refused("the digest of the bytes received cannot be saved on this disk")
        if paths := digests.take_dirty():
            with closing(self.disk.syncer()) as syncer:
                await syncer.sync(paths)
        for at, piece, _ in changed:
            check.healed.discard(at)
            self._syncing.discard(at)
            check.note(Rot(at, at + len(piece), "it is being mended"))
            if at not in check.rotten:
                raise _Refused(f"{ROTTEN_MAX} ranges are damaged: mend these first")
            self.sources[at] = message.source
            self._write(at, piece)

    def _write(self, at: int, piece: bytes) -> None:
        with closing(self.disk.open(self._path(at), "w")) as file:
            file.pwrite(piece, at % self.check.digests.segment_bytes)

    def _old(self, at: int, piece: bytes) -> bytes:
        """Return the bytes that are there now; fewer if the disk cannot read them."""
        try:
            return self.check.reader.read(at, len(piece), at + len(piece))
        except OSError:
            return b""

    def _pieces(self, start: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return the bytes in pieces: the offset and the bytes of each range."""
        found, at = [], start
        while at < start + len(data):
            _, behind = self.check.digests.range_at(at)
            found.append((at, data[at - start : behind - start]))
            at = behind
        return found

    def _path(self, start: int) -> str:
        return segment_path(
            self.layout.commit_log, start - start % self.check.digests.segment_bytes
        )
