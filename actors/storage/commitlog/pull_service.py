"""PullService answers reads of one group's log up to what is acknowledged; it keeps those that
wait.

Upstream: apache/rocketmq, broker/.../processor/PullMessageProcessor.java and
longpolling/PullRequestHoldService.java, 5.3.3.

Differs: reads end at what is acknowledged, not at what is written (T27), on every node alike;
positions are physical offsets; there is no poll, every growth wakes who waits for it.

Messages: Read, WatchOffsets; LogGrew, Acknowledged, MasterChanged and the scrubber's
CopyState as they grow and change: what is damaged is not shown.
It asks the store for its range at its start, and sends the scrubber Doubt of what no answer can
begin with. It looks at the CRC of an answer's first record only: who finds another one damaged asks
for that next. A restart forgets the reads that wait: their replies fail.

The messages serve both modes: their positions are what the group's log counts in, bytes in a
classic group, indexes in a DLedger group.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias, assert_never

import attrs
import trio

from actors.env import Disk
from actors.errors import Overloaded
from actors.log_types import Offsets
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo
from actors.runtime.loop_share import let_others_work
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.recovery import is_beginning
from actors.storage.log.growth import Subscribe
from actors.storage.log.log_reader import LogReader, OffsetGone
from actors.storage.scrub.scrubber_messages import WITHOUT_END, CopyState, Doubt
from wire.files.message_record import SIZE_BYTES
from wire.files.record_scan import scan, walk
from wire.files.scanned import Scanned, Stop

HELD_MAX: Final = 10_000
"""Watches that may wait at once; more are refused."""
NEWS_WITHIN_S: Final = 0.005
"""Maximum delay of a watch's answer: readers wake for many appends at once. A read shows everything
at once, without that delay.
"""
IDLE_NEWS_WITHIN_S: Final = 1.0
"""Maximum delay while nobody watches: so soon is let go of what has left the log. A question that
comes then finds the news in front of it.
"""
READ_BYTES_MAX: Final = 8 << 20


@attrs.frozen(kw_only=True)
class Pulled:
    """Whole records, and how far the log is.

    Attributes:
        start: position of the first byte of `data`; above what was asked where a file ended.
        next: where to read on; above the end of `data` where a file ends with a blank.
        data: whole records, one after the other; empty if nothing acknowledged follows `start`.
    """

    start: int
    next: int
    data: bytes
    offsets: Offsets


class NotARecord(ValueError):
    """The asked position is not where a record begins: the asker's fault."""


class Unreadable(Exception):
    """The log at the asked position is damaged on this node, by the fault of its disk."""


@attrs.frozen(kw_only=True)
class Read:
    """Request: acknowledged records from `start` on.

    Attributes:
        start: a position below the log's first one is moved to it.
        max_bytes: most log bytes; a larger first record is answered alone.
    """

    start: int
    max_bytes: int
    reply_to: ReplyTo[Pulled]


@attrs.frozen(kw_only=True)
class WatchOffsets:
    """Request: answered once the offsets differ from `known` and a read at `above` gives any."""

    known: Offsets | None = None
    above: int = -1
    reply_to: ReplyTo[Offsets]


@attrs.define
class Watches:
    """The watches that wait, of one service."""

    _held: list[WatchOffsets] = attrs.field(factory=list, init=False)

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def news_within_s(self) -> float:
        """How long news may wait at most, for `ActorContext.limit_delay`."""
        return NEWS_WITHIN_S if self._held else math.inf

    def add(self, request: WatchOffsets) -> None:
        """Keep a request until there is news for it, or refuse it if too many wait."""
        if len(self._held) >= HELD_MAX:
            self._held = [held for held in self._held if not held.reply_to.answered]
        if len(self._held) >= HELD_MAX:
            request.reply_to.fail(Overloaded(f"{HELD_MAX} readers wait already"))
        else:
            self._held.append(request)

    def answer(self, now: Offsets, readable: int) -> None:
        """Answer the requests for which something is new.

        Args:
            readable: the end of what a read gives.
        """
        kept: list[WatchOffsets] = []
        for held in self._held:
            if readable > held.above and now != held.known:
                held.reply_to.send(now)
            elif not held.reply_to.answered:
                kept.append(held)
        self._held = kept


_ASK_TIMEOUT_S: Final = 5.0


@attrs.define
class AcknowledgedMark:
    """The offset up to which readers may see one log.

    It is kept as long as the group's tree, so that no crash of an actor takes back what was shown.

    Group transfer raises it before it answers an append; on a slave the pull service does, when it
    hears of the master's.
    """

    offset_bytes: int = 0

    def raise_to(self, offset_bytes: int) -> None:
        """AcknowledgedMonotonic: it never goes back."""
        self.offset_bytes = max(self.offset_bytes, offset_bytes)


@attrs.frozen(kw_only=True)
class Acknowledged:
    """Readers may see all below `offset_bytes`; from group_transfer, on a slave from the link."""

    offset_bytes: int


@attrs.frozen(kw_only=True)
class MasterChanged:
    """The node that takes appends now; None: unknown."""

    master: str | None


Message: TypeAlias = (
    Read | WatchOffsets | Acknowledged | MasterChanged | CopyState | store_messages.LogGrew
)


def _only_one(_: object) -> None:
    """The conflation key of messages of which only the newest matters."""


@attrs.define
class PullService(Actor[Message]):
    """Serves one group's readers on one node.

    Attributes:
        disk: the disk of the commit log.
        store_ref: the store of the log.
        record_bytes_max: the largest record of the group.
        synced_only: whether only synced bytes are shown, so that no power loss takes one back.
        scrubber: is sent Doubt about what was found damaged.
        mark: up to where readers may see the log.
        unacknowledged: show all that is written (compat: upstream's view).
    """

    mailbox = MailboxSpec(
        capacity=HELD_MAX,
        conflate=dict.fromkeys(
            (Acknowledged, MasterChanged, CopyState, store_messages.LogGrew), _only_one
        ),
    )

    disk: Disk
    store_ref: ActorRef[store_messages.Message]
    master: str | None
    record_bytes_max: int
    synced_only: bool
    mark: AcknowledgedMark = attrs.field(factory=AcknowledgedMark)
    unacknowledged: bool = False
    scrubber: ActorRef[Doubt] | None = None
    _reader: LogReader = attrs.field(init=False)
    _log: store_messages.LogGrew = attrs.field(init=False)
    _watches: Watches = attrs.field(factory=Watches, init=False)
    _damaged: tuple[tuple[int, int], ...] = attrs.field(default=(), init=False)

    async def on_start(self) -> None:
        held = await self.store_ref.ask(
            store_messages.LogRange,
            lambda reply_to: store_messages.GetRange(reply_to=reply_to),
            timeout_s=_ASK_TIMEOUT_S,
        )
        self._reader = LogReader(self.disk, held.folder, held.segment_bytes)
        self._log = store_messages.LogGrew(
            min_bytes=held.min_bytes,
            written_bytes=held.written_bytes,
            synced_bytes=held.synced_bytes,
        )
        wanted = Subscribe(subscriber=self.ctx.self_ref, within_s=IDLE_NEWS_WITHIN_S)
        await self.store_ref.tell(wanted)

    async def on_stop(self, reason: object) -> None:
        self._reader.close()

    async def handle(self, message: Message) -> None:
        match message:
            case Read():
                began_s = trio.current_time()
                self._read(message)
                await let_others_work(trio.current_time() - began_s)
            case WatchOffsets():
                self._watch(message)
            case Acknowledged():
                self.mark.raise_to(message.offset_bytes)
                self._answer_watchers()
            case store_messages.LogGrew():
                self._log = message
                self._reader.drop_below(message.min_bytes)
                self._answer_watchers()
            case CopyState():
                self._damaged = message.ranges
            case MasterChanged():
                self.master = message.master
                self._answer_watchers()
            case _:
                assert_never(message)

    @property
    def _held_here(self) -> int:
        log = self._log
        return log.synced_bytes if self.synced_only else log.written_bytes

    def _offsets(self) -> Offsets:
        shown = self._held_here if self.unacknowledged else self.mark.offset_bytes
        return Offsets(
            min=self._log.min_bytes,
            written=self._log.written_bytes,
            synced=self._log.synced_bytes,
            acknowledged=shown,
            master=self.master,
        )

    def _read(self, request: Read) -> None:
        offsets = self._offsets()
        start = max(request.start, self._log.min_bytes)
        limit = min(offsets.acknowledged, self._held_here)
        try:
            start, following, data = self._records(start, limit, request.max_bytes)
        except (NotARecord, Unreadable) as error:
            request.reply_to.fail(error)
            return
        assert start + len(data) <= following
        request.reply_to.send(Pulled(start=start, next=following, data=data, offsets=offsets))

    def _records(self, start: int, limit: int, max_bytes: int) -> tuple[int, int, bytes]:
        """Where the whole records at or behind `start` begin, where to read on, their bytes.

        Raises: NotARecord; Unreadable.
        """
        size = min(max_bytes, READ_BYTES_MAX)
        while start < limit:
            self._check_damage(start)
            try:
                data = self._reader.read(start, size, limit)
            except OffsetGone:
                # Expired, and the news of it still waits. What is kept begins with some next file.
                start = self._file_end(start)
                continue
            except OSError as error:
                self._doubt(start, is_record=False)
                why = error.strerror or error
                raise Unreadable(f"log byte {start} cannot be read: {why}") from error
            stopped = walk(data, physical_offset=start, size_max=self.record_bytes_max)
            if stopped.end:
                self._check_first(start, data)
                return self._undamaged(start, data[: stopped.end], self._behind(start, stopped))
            if stopped.stop is Stop.INCOMPLETE:
                size = self._more(start, data, stopped.missing_bytes, size, limit)
                if not size:
                    break
                continue
            following = self._behind(start, stopped)
            if following == start:
                self._doubt(start, is_record=False)
                raise self._not_a_record(start, stopped)
            start = following
        return start, start, b""

    def _file_end(self, offset: int) -> int:
        size = self._reader.segment_bytes
        return offset - offset % size + size

    def _behind(self, start: int, stopped: Scanned) -> int:
        """Where to read on: behind the filler, if one follows that ends where its file does."""
        after = start + stopped.end
        file_end = self._file_end(start)
        is_filler = stopped.stop is Stop.BLANK and after + stopped.blank_bytes == file_end
        return file_end if is_filler else after

    def _more(self, start: int, data: bytes, missing: int, size: int, limit: int) -> int:
        """How many bytes show the record that `data` is the beginning of; 0: the rest is not
        acknowledged, or not here yet.

        Raises: Unreadable: no such record can lie there.
        """
        end = start + len(data) + missing
        file_end = self._file_end(start)
        if len(data) < min(size, limit - start, file_end - start):
            self._doubt(start, is_record=False)
            raise Unreadable(f"the file with log byte {start} is too short")
        if end <= min(limit, file_end):
            return end - start
        if not is_beginning(data, start, file_end - start, self.record_bytes_max):
            self._doubt(start, is_record=True)
            raise Unreadable(f"the record at {start} has a size that is not what its lengths say")
        return 0

    def _not_a_record(self, start: int, stopped: Scanned) -> Exception:
        """The error where no record begins; at the start of a file or filler it is damage."""
        unwritten = stopped.stop is Stop.UNWRITTEN
        reason = "nothing is written there" if unwritten else stopped.reason or stopped.stop.name
        if stopped.stop is Stop.BLANK:
            return Unreadable(f"the filler at {start} does not end where its file ends")
        if start in (self._log.min_bytes, self._file_end(start) - self._reader.segment_bytes):
            return Unreadable(f"the record at {start} is damaged: {reason}")
        return NotARecord(f"no record begins at {start}: {reason}")

    # ---- damage ----

    def _check_first(self, start: int, data: bytes) -> None:
        """Raises: Unreadable: the record that `data` begins with fails its CRC, or its lengths."""
        size = int.from_bytes(data[:SIZE_BYTES], "big")
        found, stopped = scan(data, end=size, physical_offset=start, size_max=size)
        if not found:
            self._doubt(start, is_record=True)
            raise Unreadable(f"the record at {start} is damaged: {stopped.reason}")

    def _doubt(self, position: int, *, is_record: bool) -> None:
        if self.scrubber is not None:
            self.scrubber.offer(Doubt(position=position, is_record=is_record))

    def _check_damage(self, start: int) -> None:
        for first, end in self._damaged:
            if first <= start < end:
                raise _damaged(first, end)

    def _undamaged(self, start: int, data: bytes, following: int) -> tuple[int, int, bytes]:
        """The records in front of the first damaged range."""
        for first, end in self._damaged:
            if first < following and start < end:
                whole = walk(
                    data[: first - start], physical_offset=start, size_max=self.record_bytes_max
                )
                if not whole.end:
                    raise _damaged(first, end)
                return start, start + whole.end, data[: whole.end]
        return start, following, data

    def _watch(self, request: WatchOffsets) -> None:
        self._watches.add(request)
        self._answer_watchers()

    def _answer_watchers(self) -> None:
        if self._watches:
            now = self._offsets()
            # What is acknowledged and not here yet wakes nobody: a read would come back empty.
            self._watches.answer(now, min(now.acknowledged, self._held_here))
            self.ctx.limit_delay(self._watches.news_within_s)


def _damaged(first: int, end: int) -> Unreadable:
    which = f"bytes from {first} on" if end == WITHOUT_END else f"bytes {first} to {end}"
    return Unreadable(f"{which} of its log are damaged")
