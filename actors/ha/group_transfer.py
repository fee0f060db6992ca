"""GroupTransfer answers appends when enough nodes hold them, and knows what readers may see.

Source: apache/rocketmq store/ha/GroupTransferService.java; the decisions and their differences are
in `core.transfer_wait`.

Messages: RecordsWritten and LogGrew from the store; SlaveJoined, SlaveAcked and
SlaveGone from the connections; Opened and GiveUp from whoever owns the role, and SetTold if there
is a sync state set. It has the replicas manager alter that. Before the epoch has begun
nothing counts as acknowledged: another node may be master by now. It asks no actor. It sends
pull_service the read limit, and the role keeper, once a second, the highest one; a role owner it
tells that it has started, Started. A restart forgets
the waiting appends, whose outcome is then unknown, and ends all connections (rest_for_one), so that
slaves report anew. If the policy refuses appends before they are written, the store is sent every
change of that (store.SetAdmission).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

import attrs

from actors.errors import (
    LeadershipLost,
    NodeStopped,
    ReplicationTimeout,
    SlaveNotAvailable,
    SyncTimeout,
)
from actors.events import ha as events
from actors.ha.autoswitch.messages import AlterSyncStateSet, SetAdopted, SetRefused
from actors.ha.autoswitch.set_keeper import ALTER_TIMEOUT_S, SetKeeper
from actors.ha.core.extent import LogExtent
from actors.ha.core.sync_state_set import TICK_S, SyncStateSet
from actors.ha.core.transfer_wait import TransferWait
from actors.ha.role_messages import HIGH_WATER_S, HighWater
from actors.ha.role_status import RoleStatus
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.log.growth import Subscribe, Unsubscribe

GROWTH_WITHIN_S = 0.005
"""How long a report of the own log's growth may wait while an append needs a slave, too. The
slave's report comes later, and the growth before it is read with it.
"""


@attrs.frozen(kw_only=True)
class SlaveJoined:
    """The first report of a connection was accepted.

    Attributes:
        holds_from_bytes: see `report_progress.Start`.
        async_learner: whether it asks to be counted nowhere, so what it acknowledges is ignored.
    """

    slave: str
    connection: int
    holds_from_bytes: int
    async_learner: bool = False


@attrs.frozen(kw_only=True)
class SlaveAcked:
    """The slave holds everything below `offset_bytes`."""

    slave: str
    connection: int
    offset_bytes: int


@attrs.frozen(kw_only=True)
class SlaveGone:
    """The connection of a slave has ended."""

    slave: str
    connection: int


@attrs.frozen(kw_only=True)
class GiveUp:
    """Another node is master now, so this one will not acknowledge the appends that wait.

    Attributes:
        reason: the reason that their producers get.
    """

    reason: str


@attrs.frozen(kw_only=True)
class Opened:
    """The epoch has begun, as the role status says."""


@attrs.frozen(kw_only=True)
class Started:
    """To the role owner: appends that come from now on are answered.

    Attributes:
        build: which tree of the group this is of.
    """

    build: int


@attrs.frozen(kw_only=True)
class SetTold:
    """The controllers have this sync state set."""

    members: frozenset[int]
    set_epoch: int


@attrs.frozen(kw_only=True)
class _SetAnswered:
    """The replicas manager's answer to a wish for another sync state set."""

    outcome: SetAdopted | SetRefused | Exception


@attrs.frozen(kw_only=True)
class _SetTick:
    """Timer: a member of the sync state set may have been behind for too long."""


@attrs.frozen(kw_only=True)
class _DeadlineCame:
    """Timer: an append's deadline."""


@attrs.frozen(kw_only=True)
class _HighWaterDue:
    """Timer: the role keeper was sent nothing for a second."""


Message: TypeAlias = (
    store_messages.RecordsWritten
    | store_messages.LogGrew
    | SlaveJoined
    | SlaveAcked
    | SlaveGone
    | Opened
    | GiveUp
    | SetTold
)
_Inbox: TypeAlias = Message | _DeadlineCame | _HighWaterDue | _SetAnswered | _SetTick


def _connection(message: SlaveJoined | SlaveAcked | SlaveGone) -> tuple[str, int]:
    return message.slave, message.connection


@attrs.define
class GroupTransfer(Actor[_Inbox]):
    """See the module's text."""

    mailbox = MailboxSpec(
        conflate={
            store_messages.LogGrew: lambda message: None,
            SlaveJoined: _connection,
            SlaveAcked: _connection,
            SlaveGone: _connection,
        },
        control=(GiveUp,),
    )
    _wait: TransferWait[store_messages.Waiting]
    _durability: str
    _store: ActorRef[store_messages.Message]
    _readers: ActorRef[pull_service.Acknowledged]
    _acknowledged: pull_service.AcknowledgedMark = attrs.field(
        factory=pull_service.AcknowledgedMark
    )
    _keeper: ActorRef[HighWater] | None = None
    _role_status: RoleStatus | None = None  # None: the master never changes
    _set: SetKeeper | None = None  # None: there is no sync state set
    _tell_started: Callable[[], Awaitable[None]] | None = None  # None: nobody has to know
    _has_lease: bool = False
    _begun: bool = False
    _refusal: str = ""
    _lost: GiveUp | None = None

    async def on_start(self) -> None:
        await self._send_admission()  # before anybody can append
        within_s = GROWTH_WITHIN_S if self._wait.copies > 1 else 0.0
        await self._store.tell(Subscribe(subscriber=self.ctx.self_ref, within_s=within_s))
        if self._set is not None:
            self._emit_set(self._set.members)
            self.ctx.timers.start("set", TICK_S, _SetTick())
        if self._tell_started is not None:
            await self._tell_started()

    def _joined(self, message: SlaveJoined, now_s: float) -> None:
        slave, connection, is_learner = message.slave, message.connection, message.async_learner
        if not is_learner:
            self._wait.joined(slave, connection, message.holds_from_bytes)
        if self._set is not None:
            self._set.joined(slave, connection, now_s, async_learner=is_learner)

    def _acked(self, message: SlaveAcked, now_s: float) -> None:
        slave, connection, offset_bytes = message.slave, message.connection, message.offset_bytes
        self._wait.acked(slave, connection, offset_bytes, now_s)
        if self._set is not None:
            self._set.acked(slave, connection, offset_bytes, now_s)

    def _gone(self, message: SlaveGone, now_s: float) -> None:
        self._wait.gone(message.slave, message.connection)
        if self._set is not None:
            self._set.gone(message.connection, now_s)

    def _grew(self, extent: LogExtent, now_s: float) -> None:
        self._wait.grew(extent)
        if self._set is not None:
            self._set.grew(extent, now_s)

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        acked: dict[tuple[str, int], SlaveAcked] = {}
        now_s = self.ctx.now_s()
        for message in messages:
            match message:
                case store_messages.RecordsWritten():
                    self._wait.wait(message.waits)
                case store_messages.LogGrew():
                    self._grew(
                        LogExtent(message.min_bytes, message.written_bytes, message.synced_bytes),
                        now_s,
                    )
                case SlaveAcked():
                    self._acked(message, now_s)
                    acked[_connection(message)] = message
                case SlaveJoined():
                    self._joined(message, now_s)
                case SlaveGone():
                    self._gone(message, now_s)
                case SetTold() | _SetAnswered() | _SetTick():
                    self._look_at_set(message, now_s)
                case _DeadlineCame():
                    pass  # after each batch all that is due is done
                case Opened():  # the role status has it, and the lease may be new
                    if self._set is not None:
                        self._set.tick(now_s)
                case GiveUp():
                    self._lost = message
                case _HighWaterDue():
                    await self._send_high_water()
                case _:
                    assert_never(message)
        for ack in acked.values():
            self.ctx.emit(
                events.SlaveAcked(
                    slave=ack.slave, connection=ack.connection, offset_bytes=ack.offset_bytes
                )
            )
        if self._lost is not None:
            self._fail_all()
        self._alter_set()
        self._note_lease()
        await self._settle()

    def _look_at_set(self, message: SetTold | _SetAnswered | _SetTick, now_s: float) -> None:
        keeper = self._set
        assert keeper is not None  # others send none of these
        before = keeper.members.set_epoch
        match message:
            case SetTold():
                keeper.told(message.members, message.set_epoch, now_s)
            case _SetAnswered():
                keeper.answered(message.outcome, now_s)
            case _SetTick():
                keeper.tick(now_s)
                self.ctx.timers.start("set", TICK_S, _SetTick())
            case _:
                assert_never(message)
        if keeper.members.set_epoch != before:
            self._emit_set(keeper.members)

    def _emit_set(self, members: SyncStateSet) -> None:
        in_sync = tuple(sorted(members.members))
        self.ctx.emit(events.SyncStateSetTaken(in_sync=in_sync, set_epoch=members.set_epoch))

    def _note_lease(self) -> None:
        if (keeper := self._set) is not None and keeper.members.has_lease != self._has_lease:
            self._has_lease = keeper.members.has_lease
            self.ctx.emit(events.LeaseChanged(epoch=keeper.epoch, holds=self._has_lease))

    def _alter_set(self) -> None:
        """Have the controllers take another set, if one is due."""
        keeper = self._set
        wanted = keeper.take_wish() if keeper is not None else None
        if keeper is None or wanted is None:
            return
        epoch, set_epoch = keeper.epoch, keeper.members.set_epoch
        self.ctx.ask_later(
            keeper.manager,
            (SetAdopted, SetRefused),
            lambda reply_to: AlterSyncStateSet(
                epoch=epoch, members=wanted, set_epoch=set_epoch, reply_to=reply_to
            ),
            timeout_s=ALTER_TIMEOUT_S,
            on_reply=lambda outcome: _SetAnswered(outcome=outcome),
        )

    async def on_stop(self, reason: StopReason) -> None:
        await self._store.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        await self._send_high_water()
        self._fail_all()

    def _fail_all(self) -> None:
        """Fail the appends that wait, whose outcome is unknown: this node will not answer them."""
        for wait in self._wait.close():
            error = (
                LeadershipLost(self._lost.reason, *wait.in_doubt)
                if self._lost is not None
                else NodeStopped("the node stopped before enough copies were made", *wait.in_doubt)
            )
            wait.reply_to.fail(error)

    async def _send_high_water(self) -> None:
        if self._keeper is not None and self._wait.acknowledged_bytes:
            await self._keeper.tell(HighWater(offset_bytes=self._wait.acknowledged_bytes))

    async def _settle(self) -> None:
        """Carry the effects out: readers first, so that an answered append can be read at once."""
        self._begun = self._begun or self._role_status is None or self._role_status.view.opened
        if not self._begun:
            await self._send_admission()
            return
        effects = self._wait.settle(self.ctx.now_s())
        await self._send_admission()
        if effects.acknowledged_bytes is not None:
            self._acknowledged.raise_to(effects.acknowledged_bytes)
            self._readers.defer(
                pull_service.Acknowledged(offset_bytes=effects.acknowledged_bytes),
                within_s=pull_service.IDLE_NEWS_WITHIN_S,
            )
            if self._keeper is not None and not self.ctx.timers.active("high_water"):
                self.ctx.timers.start("high_water", HIGH_WATER_S, _HighWaterDue())
        if effects.done:
            self._answer_done(effects.done)
        if effects.timed_out:
            self._answer_timed_out(effects.timed_out)
        if effects.unavailable:
            self._answer_unavailable(effects.unavailable)
        if effects.deadline_s is None:
            self.ctx.timers.cancel("deadline")
        else:
            self.ctx.timers.start_by("deadline", effects.deadline_s, _DeadlineCame())

    def _answer_done(self, done: tuple[tuple[store_messages.Waiting, int], ...]) -> None:
        for wait, copies in done:
            wait.reply_to.send(
                store_messages.Appended(
                    first_bytes=wait.first_bytes,
                    last_bytes=wait.last_bytes,
                    next_bytes=wait.next_bytes,
                    copies=copies,
                    durability=self._durability,
                )
            )
        self.ctx.emit(
            events.AppendsAcknowledged(
                first_bytes=done[0][0].first_bytes,
                next_bytes=done[-1][0].next_bytes,
                appends=len(done),
                records=sum(wait.count for wait, _ in done),
            )
        )

    def _answer_timed_out(self, timed_out: tuple[store_messages.Waiting, ...]) -> None:
        held_bytes, copied_bytes = self._wait.held_bytes(), self._wait.copied_bytes()
        now_s = self.ctx.now_s()
        for wait in timed_out:
            kind, what = ReplicationTimeout, f"stored, but not on {self._wait.copies} nodes"
            if copied_bytes >= wait.next_bytes > held_bytes:
                kind, what = SyncTimeout, "stored, but not synced on the master"
            text = self._wait.shortage(wait.next_bytes, now_s)
            wait.reply_to.fail(kind(f"{what} before the deadline ({text})", *wait.in_doubt))
        self.ctx.emit(
            events.AppendsTimedOut(
                first_bytes=min(wait.first_bytes for wait in timed_out),
                next_bytes=max(wait.next_bytes for wait in timed_out),
                appends=len(timed_out),
                held_bytes=self._wait.known_bytes(),
            )
        )

    def _answer_unavailable(
        self, unavailable: tuple[tuple[store_messages.Waiting, str], ...]
    ) -> None:
        """Fail appends that the policy does not let wait. They are stored, and may be copied."""
        for wait, reason in unavailable:
            wait.reply_to.fail(SlaveNotAvailable(f"stored, but {reason}", *wait.in_doubt))
        self.ctx.emit(
            events.SlaveNotAvailable(
                first_bytes=unavailable[0][0].first_bytes,
                next_bytes=unavailable[-1][0].next_bytes,
                appends=len(unavailable),
                reason=unavailable[-1][1],
            )
        )

    async def _send_admission(self) -> None:
        refusal = self._wait.refusal()
        if refusal != self._refusal:
            self._refusal = refusal
            await self._store.tell(store_messages.SetAdmission(refusal=refusal))
