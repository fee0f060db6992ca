"""The actor that keeps a node's events on disk.

Events are emitted into the `EventSink` of the node, which outlives this actor; the actor is
notified when some wait, writes them as gzip members into the live file, and publishes it when it is
full or old (`event_files` has the files' side of it).

Messages: private ones only. It sends none, and emits events about its own work. A restart forgets
nothing: what was written is published from the live file, what was not still waits in the sink.

Policies when the disk takes no events or too many wait:
- "drop": the node goes on. Writing is tried again with a growing pause; what finds no room in
  memory meanwhile is dropped and named.
- "stop": the actor fails, and as a significant child it takes the node down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.config.model import EventsConfig
from actors.env.protocols import Disk, Syncer
from actors.events.node import EventFileRepaired, EventFilesExpired, EventWriteFailed
from actors.events.sink import WAKE_COUNT, EventSink, SinkFull
from actors.readable import counted
from actors.runtime import Actor, ChildSpec, MailboxSpec, Restart, StopReason
from actors.storage.files.room import NoRoom, needing_room, why_failed
from actors.storage.node import event_files
from actors.storage.node.event_files import EventFile, LiveFile

BLOCK_COUNT = WAKE_COUNT
"""Lines of one gzip member: 0.2 us each to compress, so about 0.1 ms at a time."""
FLUSH_INTERVAL_S = 0.2
"""How long an event may wait in memory, and so what a kill of the process can lose."""
ROLL_BYTES = 8 << 20
"""Compressed bytes at which a file is published: what a reader holds in memory at once."""
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 30.0
EXPIRE_COUNT_MAX = 64
"""Files deleted at a time: a retention that was lowered is worked off over several files."""
_WAITING = "%s: events wait in memory: %s; the oldest go if they become too many"
_UNWRITTEN = "%s: stops with %d events that are not written: %s"
_LOGGER = logging.getLogger("triolog.storage")
SHUTDOWN_S = 10.0
"""Two syncs and a folder sync of a slow disk."""


@attrs.frozen(kw_only=True)
class _Pending:
    """A first event waits after a pause: others will come with it, so wait a little."""


@attrs.frozen(kw_only=True)
class _Flush:
    """Timer, or the sink: events have waited long enough, or many wait."""


@attrs.frozen(kw_only=True)
class _Roll:
    """The live file is old enough."""


@attrs.frozen(kw_only=True)
class _Retry:
    """Try the disk again."""


_Inbox: TypeAlias = _Pending | _Flush | _Roll | _Retry


@attrs.frozen
class _Expired:
    """The oldest files, which an event says are of no use any more.

    Attributes:
        said_seq: of that event.
        count: how many they are.
    """

    said_seq: int
    count: int


@attrs.define
class EventLog(Actor[_Inbox]):
    """Writes the events of one node under `root`."""

    mailbox = MailboxSpec(capacity=16, conflate={_Pending: lambda _: 0, _Flush: lambda _: 0})

    _sink: EventSink
    _disk: Disk
    _root: str
    _config: EventsConfig
    _now_us: Callable[[], int]
    _syncer: Syncer = attrs.field(init=False)
    _live: LiveFile | None = attrs.field(init=False, default=None)
    _files: list[EventFile] = attrs.field(init=False, factory=list)
    _written_seq: int = attrs.field(init=False, default=0)
    _expired: _Expired | None = attrs.field(init=False, default=None)
    _failures: int = attrs.field(init=False, default=0)
    _first_error: str = attrs.field(init=False, default="")

    async def on_start(self) -> None:
        self._syncer = self._disk.syncer()
        with ExitStack() as files:
            files.callback(self._syncer.close)
            await self._start()
            files.pop_all()
        self._await_events()

    async def handle(self, message: _Inbox) -> None:
        try:
            match message:
                case _Pending():
                    pass  # _await_events below starts the timer
                case _Flush():
                    await self._flush()
                case _Roll():
                    await self._publish()
                case _Retry():
                    await self._retry()
                case _:
                    assert_never(message)
        except OSError as error:
            self._failed(error)
        self._await_events()

    async def on_stop(self, reason: StopReason) -> None:
        """Write what waits and NodeStopped, and publish; unless the actor failed or is killed."""
        self._sink.on_pending(None)
        try:
            if reason in (StopReason.SHUTDOWN, StopReason.NORMAL):
                await self._finish()
        finally:
            if self._live is not None:
                self._live.close()
            self._syncer.close()

    async def _start(self) -> None:
        try:
            await self._repair()
        except OSError as error:
            self._failed(error)

    async def _finish(self) -> None:
        """A full disk takes no last words: what was written is published at the next start."""
        try:
            with needing_room():
                await self._finish_writing()
        except NoRoom as error:
            if self._config.policy == "stop":
                raise
            self._sink.close()
            _LOGGER.warning(_UNWRITTEN, self._sink.node, self._sink.pending, error)

    async def _finish_writing(self) -> None:
        if self._failures:
            await self._repair()
            self._recovered()
        self._sink.close()
        while self._sink.pending:
            self._write_block()
            await trio.lowlevel.checkpoint()
        await self._publish()

    def _await_events(self) -> None:
        """Arm what wakes the actor next: a first event, then time or number."""
        if self._sink.overflowed and self._config.policy == "stop":
            raise SinkFull(
                f"{counted(self._config.pending_max_count, 'event waits', 'events wait')} to"
                " be written"
            )
        if self._failures:
            self._sink.on_pending(None)
        elif self._sink.pending:
            self.ctx.timers.start("flush", FLUSH_INTERVAL_S, _Flush())
            self._sink.on_pending(self._wake_now, BLOCK_COUNT)
        else:
            self._sink.on_pending(self._wake_later, 1)

    def _wake_now(self) -> None:
        self.ctx.self_ref.offer(_Flush())

    def _wake_later(self) -> None:
        self.ctx.self_ref.offer(_Pending())

    async def _flush(self) -> None:
        """Write all that waits, unless the disk is to be tried later."""
        if not self._failures:
            await self._write_all()

    async def _write_all(self) -> None:
        while self._sink.pending:
            self._write_block()
            await trio.lowlevel.checkpoint()
            live = self._live
            assert live is not None  # BlockWrittenToLiveFile
            if live.events >= self._config.roll_count or live.size_bytes >= ROLL_BYTES:
                await self._publish()

    def _write_block(self) -> None:
        """Effects order: written to the file, then forgotten in memory; nothing yields between."""
        lines = self._sink.peek(BLOCK_COUNT)
        if self._live is None:
            self._live = self._create(lines[0])
        self._live.append(lines)
        self._written_seq, _ = event_files.key_of(lines[-1])
        self._sink.written(len(lines))

    def _create(self, first_line: bytes) -> LiveFile:
        start_seq, ts_us = event_files.key_of(first_line)
        folder = event_files.folder_of(self._root, event_files.date_of(ts_us), self._sink.node)
        file = EventFile(boot=self._sink.boot, start_seq=start_seq, folder=folder)
        live = LiveFile.create(self._disk, file)
        self.ctx.timers.start("roll", self._config.roll_interval_s, _Roll())
        return live

    async def _publish(self) -> None:
        live = self._live
        if live is None:
            return
        self.ctx.timers.cancel("roll")
        self._files.append(await live.publish(self._syncer))
        self._live = None
        self._delete_expired()
        self._say_expired()

    def _say_expired(self) -> None:
        """Say what the retention does not keep, before it is deleted: whoever looks for a file that
        is gone finds the reason in one that is there. A crash in between has it said again.
        """
        gone = event_files.expired(
            self._files,
            bytes_max=self._config.retention_bytes,
            first_date=event_files.oldest_date(self._now_us(), self._config.retention_days),
            count_max=EXPIRE_COUNT_MAX,
        )
        if not gone or self._expired is not None or self._sink.closed:
            return
        oldest, dropped = self._files[len(gone)], self._sink.dropped
        self.ctx.emit(
            EventFilesExpired(
                files=len(gone),
                size_bytes=sum(file.size_bytes for file in gone),
                oldest_boot=oldest.boot,
                oldest_seq=oldest.start_seq,
            )
        )
        if self._sink.dropped == dropped:
            self._expired = _Expired(self._sink.next_seq - 1, len(gone))

    def _delete_expired(self) -> None:
        """What was said to have expired, once that is published. Raises: OSError."""
        expired = self._expired
        if expired is None or expired.said_seq > self._written_seq:
            return
        self._expired = None
        event_files.delete(self._disk, self._files[: expired.count])
        del self._files[: expired.count]

    async def _repair(self) -> None:
        """Publish the files that earlier incarnations left open, then list all files."""
        for file in event_files.live(self._disk, self._root, self._sink.node):
            repaired = await event_files.repair(self._disk, self._syncer, file)
            self.ctx.emit(
                EventFileRepaired(
                    file=repaired.name, events=repaired.events, cut_bytes=repaired.cut_bytes
                )
            )
        self._files = event_files.published(self._disk, self._root, self._sink.node)
        self._expired = None
        self._say_expired()

    def _failed(self, error: OSError) -> None:
        """Close the live file, which is not trusted any more; the retry repairs it."""
        if self._config.policy == "stop":
            raise error
        if self._live is not None:
            self._live.close()
            self._live = None
        if not self._first_error:
            self._first_error = str(error)
            _LOGGER.warning(_WAITING, self._sink.node, why_failed(self._disk, self._root, error))
        pause_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(self._failures, 16))
        self._failures += 1
        self.ctx.timers.cancel("roll")
        self.ctx.timers.cancel("flush")
        self.ctx.timers.start("retry", pause_s, _Retry())

    async def _retry(self) -> None:
        await self._repair()
        await self._write_all()
        self._recovered()

    def _recovered(self) -> None:
        event = EventWriteFailed(error=self._first_error, count=self._failures)
        self._failures = 0
        self._first_error = ""
        self.ctx.emit(event)


def child_spec(
    sink: EventSink, disk: Disk, root: str, config: EventsConfig, now_us: Callable[[], int]
) -> ChildSpec:
    """The event log as the first child of a node's root, so that it stops last.

    With policy "stop" it is significant: the root needs AutoShutdown.ANY_SIGNIFICANT.

    Args:
        sink: the node's events.
        disk: where `root` is.
        root: folder of the node's events, absolute.
        now_us: the node's wall clock in microseconds.
    """
    stop = config.policy == "stop"
    return ChildSpec(
        name="event_log",
        start=lambda: EventLog(sink=sink, disk=disk, root=root, config=config, now_us=now_us),
        restart=Restart.TEMPORARY if stop else Restart.PERMANENT,
        significant=stop,
        shutdown_s=SHUTDOWN_S,
    )
