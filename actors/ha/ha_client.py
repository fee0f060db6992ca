"""HAClient is a slave's side of the replication: it connects, hands bytes to the store, and
reports.

Source: apache/rocketmq store/ha/DefaultHAClient.java (5.3.3); the decisions and their differences
are in `core.slave_progress` and `core.reconnect`.

Messages: LogGrew and RawRefused from the store, CopyState from the scrubber,
SetMaster from whoever learns of another master, and its feeder's. It sends the store OpenSession
and AppendRaw, connection_state ClientChanged, and reports to the master, over the stream, what it
holds. Its feeder waits for room in the mailbox, and the actor for room in the store's, so that a
slow disk pushes back on the master's socket. A restart begins with a new connection.

Where the dialect has a handshake, it sends that first, compares the answer with its own epochs, and
owns those while it runs.

Differs from upstream: it connects from its own node's address, because nothing else on the classic
wire identifies it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import assert_never

import attrs
import trio

from actors.env.protocols import Address, Held, Network
from actors.epochs import History
from actors.events import ha as events
from actors.events import roles as role_events
from actors.ha import connection_state
from actors.ha.client_feeder import ClientFeeder
from actors.ha.client_messages import (
    AwaitedAnswer,
    Connected,
    Connection,
    HighWaterDue,
    Inbox,
    Judged,
    RangeAnswered,
    Received,
    RecordsSeen,
    SetMaster,
    StreamEnded,
    Tick,
    raw_append,
    size_of,
)
from actors.ha.connection_state import ClientChanged
from actors.ha.core import slave_progress
from actors.ha.core.epoch_trail import EpochTrail, Verdict
from actors.ha.core.extent import LogExtent
from actors.ha.core.rate_limiter import RateLimiter
from actors.ha.core.reconnect import Reconnect
from actors.ha.core.slave_progress import SlaveProgress
from actors.ha.core.states import DIVERGED_AFTER, OFFSET_REFUSALS, HAConnectionState, Lost
from actors.ha.frame_reader import RECEIVE_BYTES, TURN_BYTES
from actors.ha.record_verifier import RecordVerifier
from actors.ha.role_messages import (
    HIGH_WATER_S,
    HighWater,
    MasterLeft,
    NotCompared,
    Verified,
    Verify,
)
from actors.ha.settings import ClientSettings
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog import store_messages
from actors.storage.files.room import NO_ROOM, NoRoom
from actors.storage.log.growth import Subscribe, Unsubscribe
from actors.storage.log.log_reader import OffsetGone
from actors.storage.scrub import scrubber_messages
from wire.errors import RemoteProtocolError
from wire.ha.autoswitch import HandshakeAnswer

PENDING_BYTES = TURN_BYTES + RECEIVE_BYTES
"""How many received bytes may wait for this actor; the store's mailbox bounds those for the disk.
"""
REPORT_TIMEOUT_S = 5.0
"""How long a master may take to accept 8 bytes before the connection ends, as it does not read."""
VERIFY_TIMEOUT_S = 10.0
"""How long the master may take to open and to report its log before the connection is made anew. It
is less than the master's housekeeping interval, which ends connections without a report.
"""
ANSWER_TIMEOUT_S = 5.0
"""How long a master may take to answer a handshake. Upstream's slave asks again on the same
connection then; a second answer among frames would end it.
"""
RANGE_TIMEOUT_S = 60.0
"""How long the store may take to write what the previous connection gave it before the new
connection ends.
"""


def client_status(
    *,
    master: str,
    session: int,
    attempting: bool,
    reconnect: Reconnect,
    progress: SlaveProgress | None,
    verifier: RecordVerifier | None,
    damage: str,
    received_bytes: int,
    meter: RateLimiter,
    now_s: float,
) -> ClientChanged:
    """The status of a client, as a ClientChanged.

    Args:
        progress: None before the first report.
        verifier: None where the master has compared what it sends.
    """
    waiting = reconnect.state == HAConnectionState.READY and not attempting
    return ClientChanged(
        master=master,
        state=reconnect.state,
        session=session,
        diverged=reconnect.diverged,
        mismatches_count=reconnect.mismatches_total,
        reported_bytes=progress.reported_bytes if progress is not None else None,
        received_bytes=received_bytes,
        bytes_per_s=meter.last_second_bytes(now_s),
        last_read_s=progress.last_read_s if progress is not None else None,
        last_write_s=progress.last_write_s if progress is not None else None,
        next_attempt_s=reconnect.connect_at_s if waiting else None,
        last_error=reconnect.last_error,
        last_lost=reconnect.last_lost,
        damage=damage,
        first_bytes=progress.first_bytes if progress is not None else None,
        master_end_bytes=progress.master_end_bytes if progress is not None else None,
        verified_bytes=verifier.at_bytes if verifier is not None else None,
        last_store_ms=verifier.last_store_ms if verifier is not None else 0,
    )


@attrs.define
class HAClient(Actor[Inbox]):
    """See the module's text.

    Attributes:
        next_session: gives the next session's number. Numbers outlive restarts of the actor, and
            the store refuses older ones.
    """

    mailbox = MailboxSpec(
        capacity_bytes=PENDING_BYTES,
        size_of=size_of,
        # What flows back from the store may never wait: this actor may be waiting for the store.
        conflate={
            store_messages.LogGrew: lambda message: None,
            store_messages.RawRefused: attrgetter("session"),
        },
        control=(SetMaster, scrubber_messages.CopyState),
    )
    _settings: ClientSettings
    _network: Network
    _next_session: Callable[[], int]
    _store: ActorRef[store_messages.Message]
    _connection_state: ActorRef[connection_state.Message]
    _scrubber: ActorRef[scrubber_messages.Watch]
    _master: Address = attrs.field(init=False)
    _reconnect: Reconnect = attrs.field(init=False)
    _session: int = 0
    _attempting: bool = False
    _arrived: dict[int, Connection] = attrs.field(factory=dict)  # connected, not yet taken over
    _connection: Connection | None = None
    _damage: str = ""  # what is damaged of the own copy, which does not follow then; "": nothing
    _verifier: RecordVerifier | None = None  # outlives connections; busy while `_verifying`
    _verifying: bool = False
    _seen_bytes: int = 0
    _left: int | None = None  # a session whose end was not reported to the role keeper yet

    async def on_start(self) -> None:
        settings = self._settings
        self._master = settings.master
        self._reconnect = Reconnect(
            interval_s=settings.reconnect_interval_s,
            first_s=settings.reconnect_first_s,
            upstream=settings.dialect.upstream,
        )
        # With a verifier, records are looked at as soon as they are written.
        synced_only = self._settings.synced and self._settings.verifier is None
        idle = store_messages.WRITTEN if synced_only else frozenset()
        await self._store.tell(Subscribe(subscriber=self.ctx.self_ref, idle=idle))
        await self._scrubber.tell(scrubber_messages.Watch(subscriber=self.ctx.self_ref))
        self.ctx.timers.start("tick", 0.0, Tick())

    async def handle_batch(self, messages: list[Inbox]) -> None:
        """Time comes last, so that silence is judged by all that has arrived."""
        for message in messages:
            match message:
                case Received():
                    await self._received(message)
                case store_messages.LogGrew():
                    await self._grew(message)
                case Connected():
                    await self._connected(message.session)
                case RangeAnswered():
                    await self._range_answered(message)
                case Judged():
                    self._judged(message)
                case RecordsSeen():
                    await self._records_seen(message)
                case HighWaterDue():
                    await self._send_high_water()
                case StreamEnded():
                    if message.session == self._session:
                        self._lose(message.reason, message.detail)
                case store_messages.RawRefused():
                    await self._raw_refused(message)
                case SetMaster():
                    self._set_master(message.address)
                case scrubber_messages.CopyState():
                    self._copy_is(message.damage)
                case Tick():
                    pass
                case _:
                    assert_never(message)
        await self._look_at_time()
        await self._send_left()
        connection, epochs = self._connection, self._settings.epochs
        if epochs is not None and connection is not None and connection.progress is not None:
            epochs.may_see(connection.progress.confirm_bytes)
        self._connection_state.defer(self._status())

    async def on_stop(self, reason: StopReason) -> None:
        await self._send_high_water()
        for arrived in self._arrived.values():
            arrived.stream.abort()
        if self._connection is not None:
            self._connection.stream.abort()
        self._reconnect.stopped()
        if self._verifier is not None:
            self._verifier.reader.close()  # its thread ended before
        await self._connection_state.tell(self._status())
        await self._store.tell(Unsubscribe(subscriber=self.ctx.self_ref))

    async def _connected(self, session: int) -> None:
        connection = self._arrived.pop(session)
        if session != self._session:
            connection.stream.abort()
            return
        handshake = self._settings.dialect.handshake
        self._attempting = False
        self._connection = connection
        self._reconnect.connected(shaking=handshake is not None)
        self.ctx.emit(events.MasterConnected(session=session, master=str(self._master)))
        await self._store.tell(
            store_messages.OpenSession(session=session, source=self.ctx.self_ref)
        )
        if handshake is None:
            self._ask_range(session)
        else:
            until_s = self.ctx.now_s() + ANSWER_TIMEOUT_S
            connection.awaited = AwaitedAnswer(until_s, self._settings.dialect.frame_decoder())
            await self._send(connection, handshake.request)

    async def _answer_came(
        self, connection: Connection, awaited: AwaitedAnswer, data: bytes
    ) -> None:
        try:
            connection.answer = awaited.received(data)
        except RemoteProtocolError as error:
            self._lose(Lost.BAD_FRAME, str(error))
            return
        if connection.answer is not None:
            connection.awaited = None
            self._ask_range(self._session)

    async def _agree(
        self, answer: HandshakeAnswer, log: store_messages.LogRange
    ) -> EpochTrail | None:
        """The master's epochs, if the own log may follow them as it is."""
        epochs = self._settings.epochs
        assert epochs is not None
        try:
            found = await self._settings.run_beside(partial(epochs.agree, answer, log))
        except OSError as error:
            self._lose(Lost.NOT_VERIFIED, f"the own log cannot be read: {error}")
            return None
        if found.verdict is Verdict.FOLLOWS:
            self._reconnect.agreed()
            self.ctx.emit(
                role_events.SlaveVerified(
                    session=self._session,
                    master=epochs.master,
                    number=epochs.told_epoch,
                    end_bytes=log.written_bytes,
                )
            )
            return EpochTrail(found.theirs)
        if found.verdict is Verdict.CUT:
            assert found.end_bytes is not None
            self._lose(Lost.CUT_FIRST, f"from {log.written_bytes} to {found.end_bytes}")
            epochs.cut(found.end_bytes)
        elif found.verdict is Verdict.DEPOSED:
            self._lose(Lost.DEPOSED, f"it is {answer.last_epoch}")
        else:
            self._lose(Lost.FOREIGN_LOG, epochs.store.problem or found.text)
        return None

    def _ask_range(self, session: int) -> None:
        self.ctx.ask_later(
            self._store,
            store_messages.LogRange,
            lambda reply_to: store_messages.GetRange(reply_to=reply_to),
            timeout_s=RANGE_TIMEOUT_S,
            on_reply=lambda outcome: RangeAnswered(session=session, outcome=outcome),
        )

    async def _range_answered(self, message: RangeAnswered) -> None:
        connection = self._connection
        if connection is None or message.session != self._session:
            return
        if isinstance(message.outcome, Exception):
            self._lose(Lost.APPEND_FAILED, f"the store did not answer: {message.outcome}")
            return
        settings, log = self._settings, message.outcome
        if settings.judge is not None and not connection.verified:
            self._verify(settings.judge, message.session, log)
            return
        trail = None
        if connection.answer is not None:
            trail = await self._agree(connection.answer, log)
            if trail is None:
                return
        connection.progress = SlaveProgress(
            dialect=settings.dialect,
            synced=settings.synced,
            segment_bytes=settings.segment_bytes,
            heartbeat_s=settings.heartbeat_s,
            housekeeping_s=settings.housekeeping_s,
            extent=LogExtent(log.min_bytes, log.written_bytes, log.synced_bytes),
            last_read_s=connection.opened_s,
            last_write_s=connection.opened_s,
            seen_bytes=self._verified_to(log),
            passive=settings.passive,
            trail=trail,
        )
        await self._carry_out(connection, connection.progress.begin())
        self._verify_more()

    def _verify(self, judge: ActorRef[Verify], session: int, log: store_messages.LogRange) -> None:
        """Ask the judge before the first report: is this log a part of the master's?"""
        self.ctx.ask_later(
            judge,
            Verified,
            lambda reply_to: Verify(
                session=session,
                end_bytes=log.written_bytes,
                synced_bytes=log.synced_bytes,
                reply_to=reply_to,
            ),
            timeout_s=VERIFY_TIMEOUT_S,
            on_reply=lambda outcome: Judged(session=session, outcome=outcome),
        )

    def _judged(self, message: Judged) -> None:
        connection = self._connection
        if connection is None or message.session != self._session:
            return
        if isinstance(message.outcome, NotCompared):
            self._lose(Lost.NOT_VERIFIED, str(message.outcome))
        elif isinstance(message.outcome, Exception):
            self._lose(Lost.NOT_VERIFIED, "")
        elif not message.outcome.fits:
            self._lose(Lost.FOREIGN_LOG, message.outcome.detail)
        else:
            connection.verified = True
            connection.whole_at_bytes = message.outcome.whole_at_bytes
            self._ask_range(message.session)  # anew: more of it may be synced by now

    async def _send_left(self) -> None:
        left, self._left = self._left, None
        if left is not None and self._settings.keeper is not None:
            await self._settings.keeper.tell(MasterLeft(session=left))

    async def _send_high_water(self) -> None:
        keeper, connection = self._settings.keeper, self._connection
        progress = connection.progress if connection is not None else None
        if keeper is not None and progress is not None and progress.reported_bytes:
            await keeper.tell(HighWater(offset_bytes=progress.reported_bytes))

    async def _received(self, message: Received) -> None:
        connection = self._connection
        if connection is None or message.session != self._session:
            return
        now_s, progress = self.ctx.now_s(), connection.progress
        connection.received_bytes += message.size_bytes
        connection.meter.count(message.size_bytes, now_s)
        if progress is None:
            if connection.awaited is not None:
                # An answer has no body that would be held.
                data = b"".join(piece for piece in message.pieces if isinstance(piece, bytes))
                await self._answer_came(connection, connection.awaited, data)
            else:
                self._lose(Lost.BAD_FRAME, "bytes came before the first report")
            return
        for piece in message.pieces:
            accepted_before, held = progress.frames_accepted, None
            if isinstance(piece, bytes):
                effects = progress.received(piece, now_s)
            else:
                held, effects = piece, progress.body_kept(len(piece), now_s)
            if progress.frames_accepted > accepted_before:
                self._reconnect.frame_accepted()
            await self._carry_out(connection, effects, held)
            if self._connection is None:
                return  # the connection was lost: nothing more of it counts

    async def _grew(self, message: store_messages.LogGrew) -> None:
        connection = self._connection
        if connection is not None and connection.progress is not None:
            extent = LogExtent(message.min_bytes, message.written_bytes, message.synced_bytes)
            await self._carry_out(connection, connection.progress.grew(extent))
            self._verify_more()

    def _verified_to(self, log: store_messages.LogRange) -> int | None:
        """The end of the records that were checked, those of earlier connections included."""
        verifies, segment_bytes = self._settings.verifier, self._settings.segment_bytes
        if verifies is None:
            return None
        if self._verifier is not None and self._verifier.problem and not self._verifying:
            self._verifier = self._verifier.anew()
            self._seen_bytes = self._verifier.seen_bytes
        if self._verifier is None or not log.min_bytes <= self._seen_bytes <= log.written_bytes:
            if self._verifier is not None and not self._verifying:
                self._verifier.reader.close()
            # The last file and the one before it: a bad record may be its last.
            first = log.written_bytes - log.written_bytes % segment_bytes - segment_bytes
            self._verifier = verifies(max(first, log.min_bytes))
            self._seen_bytes = self._verifier.seen_bytes
        return self._seen_bytes

    def _verify_more(self) -> None:
        """Check the next records beside the loop, if there are some and none are being checked."""
        connection, verifier = self._connection, self._verifier
        progress = connection.progress if connection is not None else None
        if progress is None or verifier is None or self._verifying:
            return
        limit_bytes = progress.extent.written_bytes
        if verifier.problem:
            place = f"offset {verifier.at_bytes}: {verifier.problem}; nothing from there on counts"
            self._lose(Lost.BAD_RECORD, place)
        elif self._seen_bytes < limit_bytes:
            self._verifying = True
            self.ctx.spawn(self._feed_seen, verifier, limit_bytes)

    async def _feed_seen(self, verifier: RecordVerifier, limit_bytes: int) -> None:
        error: Exception | None = None
        try:
            await self._settings.run_beside(partial(verifier.step, limit_bytes))
        except (OSError, OffsetGone) as failure:
            error = failure
        await self.ctx.self_ref.tell(RecordsSeen(error=error))

    async def _records_seen(self, message: RecordsSeen) -> None:
        self._verifying = False
        connection, verifier = self._connection, self._verifier
        assert verifier is not None
        if message.error is not None:
            verifier.reader.close()
            self._verifier = None  # the next connection begins anew
            self._lose(Lost.BAD_RECORD, f"it cannot be read back: {message.error}")
            return
        self._seen_bytes = verifier.seen_bytes
        progress = connection.progress if connection is not None else None
        if connection is not None and progress is not None:
            # The first report is the log's end, within a record or not. Later ones wait for whole
            # records: with a damaged size all that follows looks like the rest of a record.
            is_first = progress.reported_bytes is None
            seen_bytes = verifier.seen_bytes if is_first else verifier.at_bytes
            await self._carry_out(connection, progress.seen(seen_bytes))
        self._verify_more()

    async def _raw_refused(self, message: store_messages.RawRefused) -> None:
        connection = self._connection
        if connection is not None and message.session == self._session:
            no_room = message.reason.startswith(NO_ROOM)
            self._lose(Lost.APPEND_FAILED, message.reason, no_room=no_room)

    def _set_master(self, address: Address) -> None:
        if address == self._master:
            return
        self._master = address
        live = self._attempting or self._connection is not None
        if live and self._settings.dialect.upstream:
            return  # upstream takes it with the next connect (T16)
        if live:
            self._lose(Lost.MASTER_CHANGED, str(address))
        else:
            self._reconnect.connect_at_s = self.ctx.now_s()

    def _copy_is(self, damage: str) -> None:
        if damage:
            self._lose(Lost.DAMAGED, damage)
        elif self._damage:
            self._reconnect.connect_at_s = self.ctx.now_s()
        self._damage = damage

    async def _carry_out(
        self, connection: Connection, effects: slave_progress.Effects, held: Held | None = None
    ) -> None:
        """Carry effects out in this order: have the epochs of what comes on the disk, give bytes to
        the store, report, end the connection.
        """
        if effects.follow is not None and not await self._follow(*effects.follow):
            return
        if effects.append:
            await self._store.tell(raw_append(self._session, effects.append, held))
        if effects.report_bytes is not None:
            await self._report(connection, effects.report_bytes)
        if effects.lost is not None:
            detail = effects.detail
            if effects.lost in OFFSET_REFUSALS:
                detail = f"expected {effects.expected_bytes}, got {effects.got_bytes}"
            self._lose(effects.lost, detail)
            if effects.lost in OFFSET_REFUSALS:
                self._emit_mismatch(effects)

    async def _follow(self, theirs: History, end_bytes: int) -> bool:
        """Have the master's epochs up to that end on the disk."""
        epochs = self._settings.epochs
        assert epochs is not None
        try:
            await self._settings.run_beside(partial(epochs.follow, theirs, end_bytes))
        except OSError as error:
            no_room = isinstance(error, NoRoom)
            self._lose(Lost.APPEND_FAILED, f"the epoch file: {error}", no_room=no_room)
            return False
        return True

    async def _send(self, connection: Connection, data: bytes) -> bool:
        """Send a few bytes. Returns: whether the master took them."""
        try:
            if rest := data[connection.send.send_now(data) :]:
                with trio.fail_after(REPORT_TIMEOUT_S):
                    await connection.send.send_all(rest)
        except trio.TooSlowError:
            self._lose(Lost.REPORT_STUCK, "")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(Lost.BROKEN, str(error))
        else:
            return True
        return False

    async def _report(self, connection: Connection, offset_bytes: int) -> None:
        progress = connection.progress
        assert progress is not None
        if await self._send(connection, self._settings.dialect.encode_report(offset_bytes)):
            progress.reported(offset_bytes, self.ctx.now_s())
            self.ctx.emit(events.OffsetReported(session=self._session, offset_bytes=offset_bytes))
            whole_at = connection.whole_at_bytes
            if whole_at is not None and offset_bytes >= whole_at:
                connection.whole_at_bytes = None
                await self._send_high_water()
            elif self._settings.keeper is not None and not self.ctx.timers.active("high_water"):
                self.ctx.timers.start("high_water", HIGH_WATER_S, HighWaterDue())

    def _emit_mismatch(self, effects: slave_progress.Effects) -> None:
        assert effects.expected_bytes is not None
        assert effects.got_bytes is not None
        consecutive = self._reconnect.mismatches
        self.ctx.emit(
            events.OffsetMismatched(
                session=self._session,
                expected_bytes=effects.expected_bytes,
                got_bytes=effects.got_bytes,
                consecutive=consecutive,
            )
        )
        if consecutive == DIVERGED_AFTER and self._reconnect.diverged:
            self.ctx.emit(events.SlaveDiverged(session=self._session, mismatches=consecutive))

    def _lose(self, reason: Lost, detail: str, *, no_room: bool = False) -> None:
        """End the connection or the attempt; harmless when it has ended."""
        if self._connection is None and not self._attempting:
            return
        was_reset = os.strerror(errno.ECONNRESET) in detail
        unheard_from = self._settings.own_host or "" if was_reset else None
        if self._connection is not None:
            is_unheard = not self._connection.received_bytes
            unheard_from = self._connection.stream.local.host if is_unheard else None
            self._connection.stream.abort()
        pause_s = self._reconnect.lost(
            reason, detail, self.ctx.now_s(), no_room=no_room, unheard_from=unheard_from
        )
        self.ctx.emit(
            events.MasterLost(
                session=self._session, reason=reason.value, detail=detail, pause_s=pause_s
            )
        )
        if self._connection is not None:
            self._left = self._session
        self._connection = None
        self._attempting = False

    async def _look_at_time(self) -> None:
        """Do what is due, and set the timer for what will be."""
        now_s = self.ctx.now_s()
        connection = self._connection
        if connection is not None and connection.progress is not None:
            await self._carry_out(connection, connection.progress.tick(now_s))
        awaited = connection.awaited if connection is not None else None
        if awaited is not None and now_s >= awaited.until_s:
            self._lose(Lost.SILENT, "no answer to the handshake")
        if (
            self._connection is None
            and not self._attempting
            and not self._damage
            and now_s >= self._reconnect.connect_at_s
        ):
            self._attempting = True
            self._session = self._next_session()
            feeder = ClientFeeder(self._settings, self._network, self.ctx.self_ref, self._arrived)
            self.ctx.spawn(feeder.feed, self._session, self._master)
        deadline_s = self._deadline_s()
        if deadline_s is not None:
            self.ctx.timers.start_at("tick", deadline_s, Tick())

    def _deadline_s(self) -> float | None:
        if self._connection is None:
            waits = self._attempting or self._damage
            return None if waits else self._reconnect.connect_at_s
        progress, awaited = self._connection.progress, self._connection.awaited
        if progress is not None:
            return progress.deadline_s
        return awaited.until_s if awaited is not None else None

    def _status(self) -> connection_state.ClientChanged:
        connection = self._connection
        return client_status(
            master=str(self._master),
            session=self._session,
            attempting=self._attempting,
            reconnect=self._reconnect,
            progress=connection.progress if connection is not None else None,
            verifier=self._verifier,
            damage=self._damage,
            received_bytes=connection.received_bytes if connection is not None else 0,
            meter=connection.meter if connection is not None else RateLimiter(),
            now_s=self.ctx.now_s(),
        )
