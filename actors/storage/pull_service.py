"""PullService: answers reads of one group's log up to what is acknowledged, holds who waits.

Upstream: apache/rocketmq, broker/.../processor/PullMessageProcessor.java and
longpolling/PullRequestHoldService.java, 5.3.3.

Differs: reads end at what is acknowledged, not at what is written (T27), on every node alike;
positions are physical offsets; there is no poll, every growth wakes who waits for it.

Messages: Read, WatchOffsets; store.LogGrew, Acknowledged, MasterChanged as they grow and change.
It asks the store for its range at its start. A restart forgets what is acknowledged, until it is
told again, and who waited: their replies fail.
"""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

import attrs

from actors.env import Disk
from actors.errors import Overloaded
from actors.log_types import Offsets
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo
from actors.storage import store
from actors.storage.log_reader import LogReader, OffsetGone
from wire.record_scan import Stop, scan

# Watches that may wait at once; more are refused.
HELD_MAX: Final = 10_000
NEWS_WITHIN_S: Final = 0.005
"""A watch is answered so much later at the latest: readers wake for many appends at once. Who reads
sees all at once."""
READ_BYTES_MAX: Final = 8 << 20
_SIZE_BYTES: Final = 4
_ASK_TIMEOUT_S: Final = 5.0


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


@attrs.frozen(kw_only=True)
class Acknowledged:
    """What readers may see has grown: told by group transfer, on a slave by the master."""

    offset_bytes: int


@attrs.frozen(kw_only=True)
class MasterChanged:
    """Who takes appends now; None: unknown."""

    master: str | None


Message: TypeAlias = Read | WatchOffsets | Acknowledged | MasterChanged | store.LogGrew


def _only_one(_: object) -> None:
    """Of these messages the newest alone matters."""


@attrs.define
class PullService(Actor[Message]):
    """Serves one group's readers on one node.

    Attributes:
        disk: where the commit log lies.
        store_ref: whose log it is.
        record_bytes_max: largest record of the group.
        synced_only: show nothing that is not synced here, so that no power loss takes it back.
        unacknowledged: show all that is written (compat: upstream's view).
    """

    mailbox = MailboxSpec(
        capacity=HELD_MAX,
        conflate={Acknowledged: _only_one, MasterChanged: _only_one, store.LogGrew: _only_one},
    )

    disk: Disk
    store_ref: ActorRef[store.Message]
    master: str | None
    record_bytes_max: int
    synced_only: bool
    unacknowledged: bool = False
    _reader: LogReader = attrs.field(init=False)
    _log: store.LogGrew = attrs.field(init=False)
    _acknowledged: int = attrs.field(default=0, init=False)
    _watching: list[WatchOffsets] = attrs.field(factory=list, init=False)

    async def on_start(self) -> None:
        held = await self.store_ref.ask(
            store.LogRange,
            lambda reply_to: store.GetRange(reply_to=reply_to),
            timeout_s=_ASK_TIMEOUT_S,
        )
        self._reader = LogReader(self.disk, held.folder, held.segment_bytes)
        self._log = store.LogGrew(
            min_bytes=held.min_bytes,
            written_bytes=held.written_bytes,
            synced_bytes=held.synced_bytes,
        )
        me, name = self.ctx.self_ref, self.ctx.path
        await self.store_ref.tell(store.Subscribe(subscriber=me, name=name, within_s=NEWS_WITHIN_S))

    async def on_stop(self, reason: object) -> None:
        self._reader.close()

    async def handle(self, message: Message) -> None:
        match message:
            case Read():
                self._read(message)
            case WatchOffsets():
                self._watch(message)
            case Acknowledged():
                # AcknowledgedMonotonic: what was shown once is never taken back.
                self._acknowledged = max(self._acknowledged, message.offset_bytes)
                self._tell_watchers()
            case store.LogGrew():
                self._log = message
                self._reader.drop_below(message.min_bytes)
                self._tell_watchers()
            case MasterChanged():
                self.master = message.master
                self._tell_watchers()
            case _:
                assert_never(message)

    @property
    def _held_here(self) -> int:
        log = self._log
        return log.synced_bytes if self.synced_only else log.written_bytes

    def _offsets(self) -> Offsets:
        shown = self._held_here if self.unacknowledged else self._acknowledged
        return Offsets(
            min=self._log.min_bytes,
            written=self._log.written_bytes,
            synced=self._log.synced_bytes,
            acknowledged=max(shown, self._log.min_bytes),
            master=self.master,
        )

    def _read(self, request: Read) -> None:
        offsets = self._offsets()
        start = max(request.start, self._log.min_bytes)
        limit = min(offsets.acknowledged, self._held_here)
        try:
            start, following, data = self._records(start, limit, request.max_bytes)
        except NotARecord as error:
            request.reply_to.fail(error)
            return
        assert start + len(data) <= following
        request.reply_to.send(Pulled(start=start, next=following, data=data, offsets=offsets))

    def _records(self, start: int, limit: int, max_bytes: int) -> tuple[int, int, bytes]:
        """Where the whole records at or behind `start` begin, where to read on, their bytes."""
        size = min(max_bytes, READ_BYTES_MAX)
        while start < limit:
            try:
                data = self._reader.read(start, size, limit)
            except OffsetGone:
                # Expired, and the news of it still waits. What is kept begins with some next file.
                start += self._reader.segment_bytes - start % self._reader.segment_bytes
                continue
            found, stopped = scan(data, physical_offset=start, size_max=self.record_bytes_max)
            after = start + stopped.end
            if stopped.stop is Stop.BLANK:
                after += stopped.blank_bytes
            if found:
                return start, after, data[: stopped.end]
            match stopped.stop:
                case Stop.BLANK:
                    start = after
                case Stop.INCOMPLETE if len(data) < min(limit - start, READ_BYTES_MAX):
                    size = max(2 * size, int.from_bytes(data[:_SIZE_BYTES], "big"))
                    if len(data) < size and start + len(data) >= limit:
                        break
                case Stop.CORRUPT | Stop.UNWRITTEN:
                    raise NotARecord(f"no record begins at {start}: {stopped.reason or 'zeros'}")
                case _:
                    break
        return start, start, b""

    def _watch(self, request: WatchOffsets) -> None:
        if len(self._watching) >= HELD_MAX:
            self._watching = [held for held in self._watching if not held.reply_to.answered]
        if len(self._watching) >= HELD_MAX:
            request.reply_to.fail(Overloaded(f"{HELD_MAX} readers wait already"))
            return
        self._watching.append(request)
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        if not self._watching:
            return
        now = self._offsets()
        readable = min(now.acknowledged, self._held_here)
        kept: list[WatchOffsets] = []
        for held in self._watching:
            # What is acknowledged and not here yet wakes nobody: a read would come back empty.
            if readable > held.above and now != held.known:
                held.reply_to.send(now)
            elif not held.reply_to.answered:
                kept.append(held)
        self._watching = kept
