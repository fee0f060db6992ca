"""StateMachineCaller gives committed entries to a user's state machine, and takes snapshots.

Upstream: openmessaging/dledger, statemachine/StateMachineCaller.java and
snapshot/SnapshotManager.java, tag 0.4.0; dledger.md 9.

Differs: entries go in batches. A snapshot is written in steps, between messages. A snapshot is
taken from the leader that is followed alone, in its term (11.4, item 1).

Messages: LedgerGrew, Asked (INSTALL_SNAPSHOT), GetSnapshot, ReleaseSnapshot, and sessions. It tells
the checker Applied, the handler MachineAt, the store DropBelow, the maintainer SawTerm. It asks
nobody. There is no restart: the machine's state is in doubt then, and the member stops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeAlias, assert_never

import attrs
import trio

from actors.dledger.machine.machine_messages import (
    GetSnapshot,
    MachineAt,
    NoSnapshot,
    ReleaseSnapshot,
)
from actors.dledger.machine.machine_run import MachineRun, machine_failed, of_group
from actors.dledger.machine.snapshot_keeping import SnapshotKeeping
from actors.dledger.machine.snapshot_receiving import Install, SnapshotReceiving
from actors.dledger.replication.append_messages import Applied
from actors.dledger.rpc.rpc_messages import Asked
from actors.dledger.session_messages import (
    CONTROL,
    Following,
    Leading,
    Resting,
    SawTerm,
    SessionChange,
)
from actors.env.protocols import Disk, Syncer
from actors.errors import LogFull, MachineFailed
from actors.events import dledger as events
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason
from actors.state_machine import StateMachine
from actors.storage.files.room import Room
from actors.storage.files.stepping import stepped
from actors.storage.ledger import store_messages
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.snapshots import (
    CHUNK_BYTES,
    TAKEN,
    Snapshot,
    SnapshotFolder,
    SnapshotTooLarge,
    Writer,
)
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.dledger.codes import ResponseCode
from wire.dledger.rpc import InstallSnapshotRequest, InstallSnapshotResponse, Response

MAILBOX_CAPACITY: Final = 1024
MAILBOX_BYTES: Final = 32 << 20
"""How many bytes of pieces of snapshots may wait; a leader sends one piece at a time."""


@attrs.define
class SnapshotTaking:
    """A snapshot of the own machine while it is written, piece by piece.

    Upstream: openmessaging/dledger, snapshot/SnapshotManager.java, saveSnapshot, tag 0.4.0, which
    writes it in one call.

    Attributes:
        index, term: those of the last entry in its state.
        holds: whether the machine's own state is read, so that it may not change meanwhile.
    """

    index: int
    term: int
    holds: bool
    writer: Writer
    _chunks: Iterator[bytes]
    _rest: memoryview = attrs.field(factory=lambda: memoryview(b""))

    @classmethod
    def begin(
        cls, machine: StateMachine, folder: SnapshotFolder, index: int, term: int
    ) -> SnapshotTaking:
        """Begin a snapshot of the machine's present state.

        Raises: MachineFailed; LogFull, OSError.
        """
        writer = folder.writer(TAKEN)
        try:
            state = machine.save()
            chunks = iter((state,) if isinstance(state, bytes) else state)
        except Exception as error:
            raise machine_failed("save()", error) from error
        return cls(index, term, not isinstance(state, bytes | list | tuple), writer, chunks)

    def step(self) -> bool:
        """Write one piece. Returns: False if there was none left.

        Raises: MachineFailed; LogFull, SnapshotTooLarge, OSError.
        """
        if not self._rest:
            try:
                self._rest = memoryview(next(self._chunks))
            except StopIteration:
                if not self.writer.size_bytes:
                    raise MachineFailed("the state machine's save() gave no byte") from None
                return False
            except Exception as error:
                raise machine_failed("save()", error) from error
        self.writer.write(self._rest[:CHUNK_BYTES])
        self._rest = self._rest[CHUNK_BYTES:]
        return True


@attrs.frozen(kw_only=True)
class _GoOn:
    """Timer: more has to be applied, written or loaded."""


@attrs.frozen(kw_only=True)
class _Synced:
    """Feeder: the snapshot with that number is on the disk."""

    number: int


Message: TypeAlias = (
    store_messages.LedgerGrew | Asked | GetSnapshot | ReleaseSnapshot | SessionChange
)
_Inbox: TypeAlias = Message | _GoOn | _Synced


def _size_of(message: object) -> int:
    """Return how many bytes of MAILBOX_BYTES a message takes."""
    if not isinstance(message, Asked) or not isinstance(message.request, InstallSnapshotRequest):
        return 0
    return len(message.request.data or b"") + len(message.request.piece or b"")


@attrs.define(kw_only=True)
class StateMachineCaller(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        group: the group's name.
        make: makes the machine, in its first state.
        outlives: whether the log, and so snapshots, outlive a restart.
        window: reads the log; nothing uncommitted is read.
        entries_max, bytes_max: how many entries, or bytes of bodies, may be applied since the last
            snapshot before another is taken.
    """

    mailbox = MailboxSpec(
        capacity=MAILBOX_CAPACITY,
        capacity_bytes=MAILBOX_BYTES,
        size_of=_size_of,
        conflate={store_messages.LedgerGrew: lambda message: None},
        control=CONTROL,
    )
    group: str
    make: Callable[[], StateMachine]
    outlives: bool
    keeping: SnapshotKeeping
    window: EntryWindow
    entries_max: int
    bytes_max: int
    disk: Disk
    room: Room
    store_ref: ActorRef[store_messages.Message]
    checker: ActorRef[Applied]
    handler: ActorRef[MachineAt]
    maintainer: ActorRef[SawTerm]
    _run: MachineRun = attrs.field(init=False)
    _receiving: SnapshotReceiving = attrs.field(init=False)
    _syncer: Syncer = attrs.field(init=False)
    _syncing: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _session: SessionChange | None = attrs.field(default=None, init=False)
    _since: tuple[int, int] = attrs.field(default=(-1, 0), init=False)  # index, bytes then
    _committed: int = attrs.field(default=-1, init=False)  # committed, and in the log
    _begin: int = attrs.field(default=-1, init=False)
    _cuts: int = attrs.field(default=-1, init=False)
    _taking: SnapshotTaking | None = attrs.field(default=None, init=False)
    _taken: int | None = attrs.field(default=None, init=False)  # number of its sync
    _install: Install | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)

    # ---- start and stop ----

    async def on_start(self) -> None:
        """Load the newest good snapshot before the first message."""
        self._syncer = self.disk.syncer()
        folder = self.keeping.folder
        self._receiving = SnapshotReceiving(folder)
        with of_group(self.group):
            self._run = MachineRun.make(self.make, self.window)
        await self.room.wait(self._open_folder, self.ctx.emit)
        for failed in await stepped(self.keeping.find()):
            self.ctx.emit(failed)
        newest = self.keeping.newest
        if newest is not None:
            with of_group(self.group):
                await stepped(self._run.load(self.disk, newest))
            await self._loaded(newest)
        await self.store_ref.tell(Subscribe(subscriber=self.ctx.self_ref))

    def _open_folder(self) -> Generator[None, None, None]:
        yield
        self.keeping.folder.open(keeps=self.outlives)

    async def on_stop(self, reason: StopReason) -> None:
        await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        self.window.forget()
        self._drop_taking()
        self._receiving.forget()
        if self._install is not None and self._install.steps is not None:
            self._install.steps.close()
        self._syncer.close()

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Take the messages, then do one piece of each kind of work."""
        with of_group(self.group):
            await self._handle_all(messages)
            if await self._work():
                self.ctx.timers.start("go on", 0.0, _GoOn())

    async def _handle_all(self, messages: list[_Inbox]) -> None:
        for message in messages:
            match message:
                case store_messages.LedgerGrew():
                    self._grew(message)
                case Asked():
                    await self._asked(message)
                case GetSnapshot():
                    self._get(message)
                case ReleaseSnapshot():
                    self.keeping.release(message.holder)
                    await self._drop_below()
                case _Synced():
                    await self._synced(message.number)
                case _GoOn():
                    pass
                case Resting() | Following() | Leading():
                    await self._act_by(message)
                case _:
                    assert_never(message)

    async def _act_by(self, session: SessionChange) -> None:
        if self._session is not None and session.session < self._session.session:
            return
        self._session = session
        self._run.lead(session)
        if not isinstance(session, Resting):  # these actors may have restarted
            await self.handler.tell(MachineAt(index=self._run.applied))
            await self.checker.tell(Applied(index=self._run.applied))

    def _grew(self, log: store_messages.LedgerGrew) -> None:
        if log.cuts != self._cuts:
            self._cuts = log.cuts
            self.window.forget()
        self._begin = log.begin_index
        self._committed = min(log.committed_index, log.end_index)

    def _get(self, message: GetSnapshot) -> None:
        snapshot = self.keeping.hold(message.holder)
        if snapshot is None:
            message.reply_to.fail(NoSnapshot("there is no snapshot that is whole"))
        else:
            message.reply_to.send(snapshot)

    # ---- work ----

    async def _work(self) -> bool:
        """Do one piece of each kind of work. Returns: whether more has to be done."""
        install = self._install
        if install is not None and install.steps is not None:
            return await self._load_on(install, install.steps)
        more = False
        if self._taking is None or not self._taking.holds:
            more = await self._apply()
        if self._taking is None:
            more = self._begin_taking() or more
        elif self._taken is None:
            more = self._take_on(self._taking)
        return more

    async def _apply(self) -> bool:
        run = self._run
        results = run.apply(self._begin, run.may_apply(self._session, self._committed))
        if not results:
            return False
        await self.checker.tell(Applied(index=run.applied, results=results))
        run.lead(self._session)
        return run.applied < self._committed

    # ---- snapshots of the own machine ----

    def _begin_taking(self) -> bool:
        index, size = self._since
        if self._install is not None or self._run.applied <= index:
            return False
        run, folder = self._run, self.keeping.folder
        if run.applied - index < self.entries_max and run.body_bytes - size < self.bytes_max:
            return False
        self._since = run.applied, run.body_bytes  # also if this snapshot fails
        try:
            self._taking = SnapshotTaking.begin(run.machine, folder, run.applied, run.term)
        except LogFull as refused:
            self._failed(run.applied, refused)
        return self._taking is not None

    def _take_on(self, taking: SnapshotTaking) -> bool:
        try:
            if taking.step():
                return True
            paths = taking.writer.finish(taking.index, taking.term)
        except (LogFull, SnapshotTooLarge) as refused:
            self._drop_taking()
            self._failed(taking.index, refused)
            return True
        taking.holds = False
        self._taken = self._sync(paths)
        return True

    def _drop_taking(self) -> None:
        taking, self._taking, self._taken = self._taking, None, None
        if taking is not None:
            taking.writer.abandon()

    def _failed(self, index: int, error: Exception) -> None:
        self.ctx.emit(events.SnapshotFailed(index=index, reason=str(error)))

    def _sync(self, paths: tuple[str, ...]) -> int:
        self._number += 1
        self.ctx.spawn(self._sync_paths, paths, self._number)
        return self._number

    async def _sync_paths(self, paths: tuple[str, ...], number: int) -> None:
        async with self._syncing:
            await self._syncer.sync(paths)
            self._syncer.forget(paths)
        await self.ctx.self_ref.tell(_Synced(number=number))

    async def _synced(self, number: int) -> None:
        taking, install = self._taking, self._install
        if taking is not None and number == self._taken:
            self._taking, self._taken = None, None
            taking.writer.commit()
            await self._saved(taking.index, installed=False)
        elif install is None or number != install.number:
            pass
        elif install.coming.index <= self._run.applied:  # a leader's log was faster
            self._install = None
            install.coming.writer.abandon()
            install.answer(await self._has_it())
        else:
            install.coming.writer.commit()
            install.snapshot = await self._saved(install.coming.index, installed=True)
            self._drop_taking()  # its state is older
            install.steps = self._run.load(self.disk, install.snapshot)

    async def _saved(self, index: int, *, installed: bool) -> Snapshot:
        """Publish a synced snapshot; remove the log before it once the machine has its state."""
        snapshot = self.keeping.folder.snapshot(index)
        self.keeping.added(snapshot, alone=installed)
        term, size = snapshot.term, snapshot.size_bytes
        saved = events.SnapshotSaved(index=index, term=term, size_bytes=size, installed=installed)
        self.ctx.emit(saved)
        await self._drop_below()
        return snapshot

    async def _drop_below(self) -> None:
        floor = self.keeping.floor
        if floor is not None:
            await self.store_ref.tell(store_messages.DropBelow(index=floor))

    # ---- snapshots of a leader ----

    async def _asked(self, asked: Asked) -> None:
        request, reply_to = asked.request, asked.reply_to
        assert isinstance(request, InstallSnapshotRequest)
        code = self._gate(request)
        if code is None:
            try:
                code = await self._take(request, reply_to)
            except LogFull as refused:
                self._failed(request.last_included_index, refused)
                code = ResponseCode.DISK_FULL
        elif self._session is not None and request.term > self._session.term:
            await self.maintainer.tell(SawTerm(term=request.term))
        if code is not None:
            reply_to.send(self._response(request, code))

    def _gate(self, request: InstallSnapshotRequest) -> ResponseCode | None:
        """Return why a request is refused unread, as a push would be; None if it is not."""
        session = self._session
        if session is None or request.term > session.term:
            return ResponseCode.NOT_FOLLOWER
        if request.term < session.term:
            return ResponseCode.EXPIRED_TERM
        if not isinstance(session, Following):
            return ResponseCode.NOT_FOLLOWER
        return None if request.leader_id == session.leader else ResponseCode.INCONSISTENT_LEADER

    async def _take(
        self, request: InstallSnapshotRequest, reply_to: ReplyTo[Response]
    ) -> ResponseCode | None:
        """Take a request of a leader that sends its snapshot.

        Returns: the code of the answer; None if it is answered once the machine has the snapshot.
        """
        busy, included = self._install, request.last_included_index
        if busy is not None:
            other = ResponseCode.NEWER_INSTALL_SNAPSHOT_REQUEST_EXIST
            if (included, request.term) != (busy.coming.index, busy.coming.leader_term):
                return other
            busy.answer(other)  # The leader has not waited so long, and asks again.
            busy.answer = lambda code: reply_to.send(self._response(request, code))
            return None
        if 0 <= included <= self._run.applied:
            return await self._has_it()
        code = self._receiving.take(request)
        coming = self._receiving.coming
        if code is not None or coming is None:
            return code
        self._receiving.coming = None
        self._install = Install(
            coming=coming,
            answer=lambda code: reply_to.send(self._response(request, code)),
            number=self._sync(coming.writer.finish(coming.index, coming.term)),
        )
        return None

    async def _has_it(self) -> ResponseCode:
        """Return the answer to a leader whose snapshot is not needed; tell the handler so."""
        await self.handler.tell(MachineAt(index=self._run.applied))
        return ResponseCode.REPEATED_REQUEST

    async def _load_on(self, install: Install, steps: Generator[None, None, None]) -> bool:
        try:
            next(steps)
        except StopIteration:
            assert install.snapshot is not None
            self._install = None
            await self._loaded(install.snapshot)
            install.answer(ResponseCode.SUCCESS)
        return True

    async def _loaded(self, snapshot: Snapshot) -> None:
        """Report a loaded snapshot to the entry handler and the checker, before the leader."""
        self._since = snapshot.index, self._run.body_bytes
        self.ctx.emit(events.SnapshotLoaded(index=snapshot.index, term=snapshot.term))
        if self._session is not None:
            await self.handler.tell(MachineAt(index=snapshot.index))
            await self.checker.tell(Applied(index=snapshot.index))
        await self._drop_below()

    def _response(
        self, request: InstallSnapshotRequest, code: ResponseCode
    ) -> InstallSnapshotResponse:
        session = self._session
        expired = code is ResponseCode.EXPIRED_TERM and session is not None
        term = session.term if expired and session is not None else request.term
        return InstallSnapshotResponse(code=code, group=request.group, term=term)
