"""Syncer makes durable what the store has written, one sync at a time, and reports the synced end.

Upstream: apache/rocketmq store/.../CommitLog.java, GroupCommitService and FlushRealTimeService
(5.3.3).

Differs: what is written during a sync is covered by the next one (no polling, no retries). A failed
sync is final: the kernel may have dropped the pages, so a second try that succeeds proves nothing.
The actor crashes, and with it the store and the node. With `upstream` (`compat`) a failed sync
counts as done, as upstream's does (T26).

Messages: Written; Settle; SyncFile. It sends the store SyncDone. A restart forgets what had to be
synced; the store restarts with it.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias, assert_never

import attrs

from actors.env.protocols import Disk
from actors.env.protocols import Syncer as DiskSyncer
from actors.errors import StorageError
from actors.events import store as events
from actors.runtime import (
    Actor,
    ActorDown,
    ActorRef,
    AskTimeout,
    MailboxSpec,
    ReplyTo,
    StopReason,
)

MAILBOX_CAPACITY = 64
"""The store keeps a message that does not fit, and offers it again when the next sync ends."""
SETTLE_S = 5.0
"""How many seconds a stopping store waits for the sync under way: half of its stop's time-out."""
WHAT_TO_DO: Final = (
    "something beside the node has removed it; start the node again, which makes it anew or says"
    " what is lost and what to do"
)


@attrs.frozen(kw_only=True)
class Written:
    """All below `offset_bytes` is written.

    Attributes:
        paths: the files written since the last such message.
        gone: the files deleted since then.
    """

    offset_bytes: int
    paths: tuple[str, ...]
    gone: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SyncDone:
    """To the store: all below `offset_bytes` is on the disk."""

    offset_bytes: int


@attrs.frozen(kw_only=True)
class Settled:
    """No sync has failed, none is under way, and none begins before something is written."""


@attrs.frozen(kw_only=True)
class Settle:
    """From a store that stops: sync the rest now, then answer. It fails if the sync does."""

    reply_to: ReplyTo[Settled]


@attrs.frozen(kw_only=True)
class FileSynced:
    """The answer to SyncFile: the file is synced as it was then, or it was deleted."""


@attrs.frozen(kw_only=True)
class SyncFile:
    """Sync this file now, because bytes in the middle of it were replaced.

    It fails if the sync does, which is as final as any failed sync. A file that was deleted
    meanwhile is not synced.
    """

    path: str
    reply_to: ReplyTo[FileSynced]


@attrs.frozen(kw_only=True)
class _IntervalPassed:
    """Timer: the next sync of a `written` group is due."""


Message: TypeAlias = Written | Settle | SyncFile
_Inbox: TypeAlias = Message | _IntervalPassed


async def may_close_clean(syncer: ActorRef[Settle], reason: StopReason) -> bool:
    """Return whether a store that stops for `reason` may sync the rest by itself and end clean.

    It may only in an ordered stop, and only once the sync under way is known to have succeeded: the
    system reports an error only once, and a later sync passes without the lost pages.
    """
    if reason not in (StopReason.NORMAL, StopReason.SHUTDOWN):
        return False
    try:
        await syncer.ask(Settled, lambda reply_to: Settle(reply_to=reply_to), timeout_s=SETTLE_S)
    except (ActorDown, AskTimeout):
        return False
    return True


@attrs.define
class Syncer(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        interval_s: the least seconds between two syncs; 0.0 syncs as soon as bytes are written.
        least_bytes: fewer unsynced bytes than this wait for `thorough_s` instead.
        thorough_s: the least seconds between two syncs of fewer bytes than that.
        upstream: whether a failed sync is only reported, and counts as done.
    """

    mailbox = MailboxSpec(capacity=MAILBOX_CAPACITY)
    _disk: Disk
    _store: ActorRef[SyncDone]
    interval_s: float
    upstream: bool = False
    least_bytes: int = 0
    thorough_s: float = 0.0
    _syncer: DiskSyncer = attrs.field(init=False)
    _offset_bytes: int = attrs.field(default=0, init=False)
    _paths: dict[str, None] = attrs.field(factory=dict, init=False)
    _synced_bytes: int = attrs.field(default=0, init=False)
    _began_s: float = attrs.field(default=-math.inf, init=False)

    async def on_start(self) -> None:
        self._syncer = self._disk.syncer()

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        settles: list[Settle] = []
        for message in messages:
            match message:
                case Written():
                    self._offset_bytes = max(self._offset_bytes, message.offset_bytes)
                    self._paths.update(dict.fromkeys(message.paths))
                    self._syncer.forget(message.gone)
                case Settle():
                    settles.append(message)
                case SyncFile():
                    await self._sync_file(message)
                case _IntervalPassed():
                    pass
                case _:
                    assert_never(message)
        if self._paths:
            if self.interval_s and not settles and self.ctx.now_s() < self._due_s():
                self.ctx.timers.start_at("interval", self._due_s(), _IntervalPassed())
            else:
                await self._sync()
        for settle in settles:
            settle.reply_to.send(Settled())

    async def on_stop(self, reason: StopReason) -> None:
        self._syncer.close()

    def _due_s(self) -> float:
        """Return when the next sync may begin, by how many bytes are not synced."""
        few = self._offset_bytes - self._synced_bytes < self.least_bytes
        return self._began_s + max(self.interval_s, self.thorough_s if few else 0.0)

    async def _sync(self) -> None:
        """Sync, then report, so that nothing is reported as durable before it is."""
        paths, offset = tuple(self._paths), self._offset_bytes
        self._paths.clear()
        began_s = self.ctx.now_s()
        try:
            await self._syncer.sync(paths)
        except OSError as error:
            self._failed(error, paths)
        self._began_s, self._synced_bytes = began_s, offset
        await self._store.tell(SyncDone(offset_bytes=offset))

    async def _sync_file(self, message: SyncFile) -> None:
        try:
            await self._syncer.sync((message.path,))
        except FileNotFoundError:
            pass
        except OSError as error:
            self._failed(error, (message.path,))
        message.reply_to.send(FileSynced())

    def _failed(self, error: OSError, paths: tuple[str, ...]) -> None:
        """Report a failed sync. Raises: StorageError, unless a failed sync counts as done."""
        self.ctx.emit(events.SyncFailed(error=str(error), paths=paths))
        if self.upstream:
            return
        if isinstance(error, FileNotFoundError):
            raise StorageError(lost_text(self._disk, str(error.filename))) from None
        raise StorageError(f"the sync of {', '.join(paths)} failed: {error}") from error


def lost_text(disk: Disk, path: str) -> str:
    """Describe a missing file for people, or its folder if that is gone too, and what to do.

    Args:
        path: the path of the file that the disk did not find.
    """
    gone, parent = path, path.rpartition("/")[0]
    while parent and not disk.exists(parent):
        gone, parent = parent, parent.rpartition("/")[0]
    kind = "file" if gone == path else "folder"
    return f"{gone}: the {kind} is missing: {WHAT_TO_DO}"
