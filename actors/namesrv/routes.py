"""Routes owns the tables of a name server, and carries out what its core decides.

Messages: Request (from the port), ConnectionEnded and Look, and those of its feeder. It sends no
messages to other actors. A restart forgets all registrations, as upstream's does: brokers register
every 30 s. The KV table and the settings are in files with upstream's names. While one of them is
saved, requests about them wait, but those about routes and registrations do not.

However many topics a broker has that comes or goes, the loop is held for SLICE_TOPICS of them at
most; other requests wait until all are done. Large registrations are read beside the loop.

Source: apache/rocketmq, namesrv/NamesrvController.java, routeinfo/BrokerHousekeepingService.java,
5.3.3; broker.md 2.

Differs: files are replaced as a whole, and a full disk keeps the old content (broker.md T22).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias, assert_never

import attrs
import trio

from actors.env.protocols import (
    Disk,
    FileLock,
    LockedByOther,
    LockedByUs,
    RunBeside,
    run_here,
)
from actors.errors import NO_ROOM_CODES, ConfigError, StorageError
from actors.events.namesrv import NameServerStarted
from actors.namesrv.core import settings
from actors.namesrv.core.name_server import (
    OF_FILES,
    SCAN_S,
    Asked,
    Change,
    Effects,
    NameServer,
    Place,
    not_saved,
)
from actors.remoting.requests import BUSY, Answer, Channel, Request
from actors.runtime import Actor, MailboxFull, MailboxSpec, ReplyTo, StopReason
from actors.storage.files.replacing import Replaced, keep_spare, replace_file, settle_spares
from actors.storage.files.room import NoRoom, why_no_room
from actors.storage.files.stepping import stepped
from actors.storage.files.whole_files import read_bytes
from wire.errors import RemoteProtocolError

LOCK_FILE: Final = "lock"
_LOGGER: Final = logging.getLogger("triolog.namesrv")
BEHIND_MAX: Final = 1024
"""The most requests that may wait for a save; further ones are answered as busy."""
LARGE_BYTES: Final = 64 << 10
"""The size of an answer above which another one of its kind is not made, for it takes milliseconds,
unless the port has room for it."""
EXPIRED: Final = "its broker was silent for too long"


@attrs.frozen
class ConnectionEnded:
    """A connection on which a broker had registered has ended."""

    connection: int


@attrs.frozen
class Look:
    """Ask for the name server's status."""

    reply_to: ReplyTo[NameServerStatus]


@attrs.frozen(kw_only=True)
class NameServerStatus:
    """How much a name server knows.

    Attributes:
        brokers: how many addresses are registered.
        topics: how many names of topics it knows.
    """

    brokers: int
    topics: int


@attrs.frozen
class _Scan:
    """Timer: remove silent brokers.

    Attributes:
        due_s: the time for which the timer was set. The message is late if the loop or the actor
            was blocked; as requests since then may be unread, silence counts up to this time only.
    """

    due_s: float


@attrs.frozen
class _Saved:
    """The end of a save.

    Attributes:
        failed: the effects of a failed save, or None if the change is saved.
    """

    failed: Effects | None


Message: TypeAlias = Request | ConnectionEnded | Look
_Inbox: TypeAlias = Message | _Scan | _Saved


@attrs.define(kw_only=True)
class Routes(Actor[_Inbox]):
    """See the module's text.

    Args:
        place: where the name server listens, and the absolute path of its folder.
        run_beside: runs the decoding of large registrations in a thread.
        on_change: called with the new status after each change of it.
    """

    mailbox: ClassVar[MailboxSpec] = MailboxSpec(
        conflate={ConnectionEnded: lambda message: message.connection}
    )

    disk: Disk
    place: Place
    run_beside: RunBeside = run_here
    on_change: Callable[[NameServerStatus], None] = lambda status: None
    _core: NameServer = attrs.field(init=False)
    _channels: dict[int, Channel] = attrs.field(factory=dict, init=False)
    _files: dict[str, Replaced] = attrs.field(factory=dict, init=False)
    _status: NameServerStatus = attrs.field(
        default=NameServerStatus(brokers=0, topics=0), init=False
    )
    _saving: tuple[Request, Effects] | None = attrs.field(default=None, init=False)
    _save_due: trio.Event = attrs.field(factory=trio.Event, init=False)
    _sizes: dict[int, int] = attrs.field(factory=dict, init=False)  # of the last answers, by code
    _behind: deque[Request] = attrs.field(factory=deque, init=False)  # until it is saved
    _lock: FileLock | None = attrs.field(default=None, init=False)

    async def on_start(self) -> None:
        self._core = NameServer(self.place)
        try:
            self._open()
        except ConfigError:
            self._close()
            raise
        if ignored := self._core.not_acting():
            file = f"{self.place.folder}/{settings.CONFIG_FILE}"
            _LOGGER.warning("%s: does not act here: %s", file, ", ".join(ignored))
        self.ctx.spawn(self._save_changes)
        self._start_scan()
        self.ctx.emit(NameServerStarted(kv_count=sum(map(len, self._core.kv.values()))))

    def _open(self) -> None:
        """Lock the folder and read its files.

        Raises:
            ConfigError: the folder cannot be used, or has files that are no name server's.
        """
        folder = self.place.folder
        try:
            self.disk.mkdir(folder)
            self._lock = self.disk.lock(f"{folder}/{LOCK_FILE}")
            settle_spares(self.disk, folder)
            self._core.read_files(self._read(settings.KV_FILE), self._read(settings.CONFIG_FILE))
            for change in self._core.contents():
                path = f"{folder}/{change.file}"
                if self.disk.exists(path):  # perhaps another's, who says more in other words
                    keep_spare(self.disk, path, len(change.data))
                else:
                    replace_file(self.disk, path, change.data)
                self._files[change.file] = Replaced(self.disk, path)
            self.disk.sync_dir(folder)
        except (LockedByOther, LockedByUs) as error:
            raise ConfigError(f"{folder}: another name server uses it") from error
        except OSError as error:
            full = error.errno in NO_ROOM_CODES
            why = why_no_room(self.disk, folder, error) if full else str(error)
            raise ConfigError(f"{folder}: cannot be used as a data directory: {why}") from error
        except RemoteProtocolError as error:
            raise ConfigError(f"{folder}: {error}") from error

    def _read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is none.

        A stock name server does not sync its files, so that a power loss leaves them empty, and the
        content before that in a backup.
        """
        path = f"{self.place.folder}/{name}"
        if not self.disk.exists(path):
            return None
        for each in (path, f"{path}.bak"):
            data = b""
            if self.disk.exists(each):
                data = read_bytes(self.disk, each, 2 * settings.KV_BYTES_MAX)
            if data.strip(b"\0"):
                if each != path:
                    _LOGGER.warning("%s: is empty: its backup is used", path)
                return data
        _LOGGER.warning("%s: is empty, and has no backup: it counts as missing", path)
        return None

    async def handle(self, message: _Inbox) -> None:
        match message:
            case Request():
                await self._serve(message)
            case ConnectionEnded():
                self._channels.pop(message.connection, None)
                self._carry_out(await stepped(self._core.ended(message.connection)))
            case _Scan():
                self._start_scan()
                self._carry_out(await stepped(self._core.tick(message.due_s)))
            case _Saved():
                await self._saved(message)
            case Look():
                message.reply_to.send(self._status)
            case _:
                assert_never(message)

    def _start_scan(self) -> None:
        self.ctx.timers.start("scan", SCAN_S, _Scan(self.ctx.now_s() + SCAN_S))

    async def _serve(self, request: Request) -> None:
        if self._saving is not None and request.header.code in OF_FILES:
            if len(self._behind) < BEHIND_MAX:
                self._behind.append(request)
            else:
                request.fail(MailboxFull(BUSY))
            return
        size_bytes = self._sizes.get(request.header.code, 0)
        if size_bytes > LARGE_BYTES and not request.channel.has_room(size_bytes):
            request.fail(MailboxFull(BUSY))
            return
        connection = request.channel.connection
        asked = Asked(header=request.header, connection=connection, body=request.body)
        if asked.is_long_to_read:
            asked = await self.run_beside(asked.read_ahead)
        effects = await stepped(self._core.serve(asked, self.ctx.now_s()))
        if effects.save is None:
            self._settle(request, effects)
        else:
            self._saving = request, effects
            self._save_due.set()

    async def _saved(self, message: _Saved) -> None:
        """Answer the request whose save ended, and serve those that waited, up to the next save."""
        assert self._saving is not None
        (request, effects), self._saving = self._saving, None
        if message.failed is not None:
            effects = message.failed
        elif effects.save is not None:
            self._core.saved(effects.save)
        self._settle(request, effects)
        while self._behind and self._saving is None:
            await self._serve(self._behind.popleft())

    async def _save_changes(self) -> None:
        """Save each change in `_saving`, as a feeder, while routes and registrations are served."""
        while True:
            await self._save_due.wait()
            self._save_due = trio.Event()
            assert self._saving is not None
            change = self._saving[1].save
            assert change is not None
            await self.ctx.self_ref.tell(_Saved(await self._save(change)))

    def _settle(self, request: Request, effects: Effects) -> None:
        if effects.answer is not None:
            answer = effects.answer
            self._sizes[request.header.code] = len(answer.body)
            request.send(
                Answer(
                    code=answer.code,
                    ext_fields=answer.fields,
                    remark=answer.remark,
                    body=answer.body,
                )
            )
        if effects.registered:
            channel = request.channel
            channel.prove()
            self._channels[channel.connection] = channel
            channel.on_end(self._ended)
        self._carry_out(effects)

    async def _save(self, change: Change) -> Effects | None:
        """Save a file, and return None or the effects of a failure."""
        try:
            await self._files[change.file].replace_beside(lambda: change.data)
        except NoRoom as error:
            return not_saved(change, why_no_room(self.disk, self.place.folder, error))
        except StorageError as error:
            return not_saved(change, str(error))
        return None

    def _ended(self, channel: Channel) -> None:
        self.ctx.self_ref.post(ConnectionEnded(channel.connection))

    def _carry_out(self, effects: Effects) -> None:
        """Carry out the effects that follow the answer."""
        for connection in effects.close:
            channel = self._channels.get(connection)
            if channel is not None:
                channel.end(EXPIRED)
        for event in effects.events:
            self.ctx.emit(event)
        tables = self._core.tables
        status = NameServerStatus(brokers=len(tables.live), topics=len(tables.topics))
        if status != self._status:
            self._status = status
            self.on_change(status)

    async def on_stop(self, reason: StopReason) -> None:
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._lock is not None:
            self._lock.release()
