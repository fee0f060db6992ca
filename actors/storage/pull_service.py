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
import trio

from actors.env import Disk
from actors.log_types import Offsets
from actors.runtime import Actor, ActorRef, MailboxSpec
from actors.runtime.loop_share import let_others_work
from actors.storage import store
from actors.storage.log_reader import LogReader, OffsetGone
from actors.storage.pull_messages import HELD_MAX as HELD_MAX
from actors.storage.pull_messages import IDLE_NEWS_WITHIN_S as IDLE_NEWS_WITHIN_S
from actors.storage.pull_messages import READ_BYTES_MAX as READ_BYTES_MAX
from actors.storage.pull_messages import NotARecord as NotARecord
from actors.storage.pull_messages import Pulled as Pulled
from actors.storage.pull_messages import Read as Read
from actors.storage.pull_messages import Watches
from actors.storage.pull_messages import WatchOffsets as WatchOffsets
from wire.record_scan import Stop, walk

_SIZE_BYTES: Final = 4
_ASK_TIMEOUT_S: Final = 5.0


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
    _watches: Watches = attrs.field(factory=Watches, init=False)

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
        wanted = store.Subscribe(subscriber=me, name=name, within_s=IDLE_NEWS_WITHIN_S)
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
            acknowledged=shown,
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
            stopped = walk(data, physical_offset=start, size_max=self.record_bytes_max)
            after = start + stopped.end
            if stopped.stop is Stop.BLANK:
                after += stopped.blank_bytes
            if stopped.end:
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
        self._watches.add(request)
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        if self._watches:
            now = self._offsets()
            # What is acknowledged and not here yet wakes nobody: a read would come back empty.
            self._watches.tell(now, min(now.acknowledged, self._held_here))
            self.ctx.want_notes(self._watches.news_within_s)
