"""RoleKeeper keeps one group's role on this node. It outlives the group's tree, and restarts it.

The decisions are in `core.role_rules`. This actor carries them out in this order: save the record,
set the store's gate, restart the tree, ask, answer, emit, publish. So no other actor or node learns
what might be forgotten. The record is written and synced inline, because it rarely changes; the
high-water mark, which often does, is saved beside the loop.

Messages: see `role_messages`. It sends the store SetGate, group_transfer Opened and GiveUp, and the
node's root RestartChild, and asks its `RoleAuthority`; it does not wait for answers. A crash ends
the node, because it is in doubt then what was saved; a restart asks the members again. It waits for
a disk without room for the record, see `unsaved_record`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

import attrs

from actors.errors import Overloaded
from actors.events import roles as events
from actors.ha import group_transfer
from actors.ha.core.extent import LogExtent
from actors.ha.core.freshness import FRESH_READS_MAX, FreshReads, Refused
from actors.ha.core.role_effects import AppendGate, Effects, Role, RoleState, Verdict
from actors.ha.core.role_rules import RoleRules
from actors.ha.role_messages import (
    AskFresh,
    Done,
    Fence,
    Fresh,
    HighWater,
    MasterLeft,
    MemberReported,
    Message,
    Record,
    ReportedAhead,
    Resync,
    Verified,
    Verify,
)
from actors.ha.role_parts import RoleAuthority
from actors.ha.role_status import RoleStatus
from actors.ha.unsaved_record import NEWER, UnsavedRecord
from actors.log_types import GroupRecord, Promotion
from actors.runtime import Actor, ActorRef, MailboxSpec, ReplyTo, StopReason, requests
from actors.storage.commitlog import store_messages
from actors.storage.files.room import NO_ROOM, ROOM_PAUSE_S, NoRoom, OpeningWaits
from actors.storage.scrub.scrubber_messages import CopyState

NOTHING = Effects()
_LOGGER = logging.getLogger("triolog.ha")
REQUESTS_MAX = 1024
"""How many promotions may wait for the tree at once."""


@attrs.frozen(kw_only=True)
class _Tick:
    """Timer: a master has waited long enough for silent members, or a claim has timed out."""


@attrs.frozen(kw_only=True)
class _FreshTick:
    """Timer: members have to be asked again for fresh reads, or one has waited for too long."""


@attrs.frozen(kw_only=True)
class _RoomDue:
    """Timer: there may be room again for what could not be saved."""


_Inbox: TypeAlias = Message | _Tick | _FreshTick | _RoomDue


@attrs.define(kw_only=True)
class RoleKeeper(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        group: the group's name, and its child's in the node's root.
        remember: writes and syncs the record. Raises: NoRoom: the old one is kept. OSError.
        note: does the same beside the loop, with what nothing rests on yet.
        root: the node's root supervisor.
        authority: decides which node is master.
        fresh: the reads that wait until it is known what is fresh.
    """

    mailbox = MailboxSpec(
        conflate={HighWater: lambda message: None, OpeningWaits: lambda message: None}
    )
    group: str
    rules: RoleRules
    role_status: RoleStatus
    remember: Callable[[GroupRecord], None]
    note: Callable[[GroupRecord], Awaitable[None]]
    root: ActorRef[requests.Message]
    store_ref: ActorRef[store_messages.Message]
    transfer_ref: ActorRef[group_transfer.Message]
    authority: RoleAuthority
    fresh: FreshReads[ReplyTo[Fresh]]
    _store: int = 0  # incarnation of the group's store
    _opening: str = ""  # why the group's tree waits for room
    _asking: Verify | None = None
    _unsaved: UnsavedRecord[Message | _Tick | _FreshTick] = attrs.field(factory=UnsavedRecord)
    _waiting: list[Record | Resync] = attrs.field(factory=list)

    async def on_start(self) -> None:
        self._publish()

    async def on_stop(self, reason: StopReason) -> None:
        """Do nothing: the group's tree has stopped, and its last messages came before this."""

    async def handle(self, message: _Inbox) -> None:
        if isinstance(message, _RoomDue):
            await self._save_again()
        elif self._unsaved.waits is not None:
            self._unsaved.hold(message)
        else:
            await self._decide(message)

    async def _decide(self, message: Message | _Tick | _FreshTick) -> None:
        rules, now_s = self.rules, self.ctx.now_s()
        match message:
            case HighWater():
                effects = rules.high_water(message.offset_bytes)
            case Verify():
                self._replaced()
                self._asking = message
                effects = rules.verify(message.session, message.end_bytes)
            case MasterLeft():
                effects = rules.left(message.session)
            case MemberReported():
                self.role_status.note(message.member, message.state)
                self.fresh.heard(message.member, message.state, message.asked)
                effects = rules.heard(message.member, message.state, now_s, message.asked)
            case AskFresh():
                self._take_fresh(message)
                effects = NOTHING
            case _FreshTick():
                effects = NOTHING
            case ReportedAhead():
                effects = rules.reported_ahead(message.slave, message.offset_bytes, now_s)
            case Fence():
                effects = rules.fence(message.claim, on=message.on, now_s=now_s)
            case Record():
                promotion = Promotion(message.number, message.master)
                effects = rules.recorded(promotion, now_s, token=message.token, force=message.force)
            case Resync():
                effects = rules.resync(message.number, message.cut_bytes)
            case store_messages.StoreStarted():
                effects = self._store_started(message, now_s)
            case CopyState():
                effects = rules.copy_is(message.damage)
            case OpeningWaits():
                self._opening, effects = message.reason, NOTHING
            case _Tick():
                effects = rules.tick(now_s)
            case _:
                assert_never(message)
        if effects.record is None or await self._saved(effects.record, rests=effects.rests):
            await self._carry_out(message, effects)
        elif not effects.rests:
            self._publish()
        else:
            self._unsaved.waits = message, effects

    # Remembering.

    async def _saved(self, record: GroupRecord, *, rests: bool = True) -> bool:
        """Save the record.

        Args:
            rests: whether something rests on it.

        Returns: False if there is no room; it is tried again in a while, unless a later one is
            saved.
        """
        unsaved = self._unsaved
        try:
            if rests:
                self.remember(record)
            else:
                await self.note(record)
        except NoRoom as error:
            unsaved.record = record
            self.ctx.timers.start("room", ROOM_PAUSE_S, _RoomDue())
            if not unsaved.reason:
                unsaved.reason = f"{NO_ROOM}{error}"
                self.ctx.emit(events.RecordUnsaved(reason=unsaved.reason))
                text = "%s: %s: promotions and fences wait: %s"
                _LOGGER.warning(text, self.rules.node, self.group, unsaved.reason)
                view = attrs.evolve(self.role_status.view, reason=unsaved.reason)
                self.role_status.publish(view, is_open=self.role_status.is_open)
            return False
        if unsaved.reason and unsaved.waits is None:
            unsaved.released()
            self._report_saved()
        return True

    async def _save_again(self) -> None:
        unsaved = self._unsaved
        if unsaved.record is None or not await self._saved(unsaved.record):
            return
        if unsaved.waits is not None:
            message, effects = unsaved.waits
            held = unsaved.released()
            self._report_saved()
            await self._carry_out(message, effects)
            for each in held:  # one of them may find no room again
                await self.handle(each)
        self._publish()

    def _report_saved(self) -> None:
        self.ctx.emit(events.RecordUnsaved(reason=""))
        _LOGGER.warning("%s: %s: the disk has room again", self.rules.node, self.group)

    # Effects.

    async def _carry_out(self, message: Message | _Tick | _FreshTick, effects: Effects) -> None:
        """Carry effects out in the order of the module's text, once the record is saved."""
        await self._act(effects)
        match message:
            case Fence():
                message.reply_to.send(Done(refused=effects.refused))
            case Record() | Resync():
                self._answer_later(message, effects)
            case _:
                pass
        self._answer_records()
        await self._settle_fresh(self.ctx.now_s())

    def _store_started(self, message: store_messages.StoreStarted, now_s: float) -> Effects:
        self._store, self._opening = message.incarnation, ""
        held = message.range
        return self.rules.started(
            message.promotion,
            LogExtent(held.min_bytes, held.written_bytes, held.synced_bytes),
            now_s,
            kept_bytes=message.kept_bytes,
            was_clean=message.was_clean,
        )

    async def _act(self, effects: Effects) -> None:
        if effects.gate is not None:
            await self._set_gate(effects.gate)
        if effects.restart:
            promotion = self.rules.promotion
            why = f"promotion {promotion.number} made {promotion.master} master of {self.group}"
            await self.transfer_ref.tell(group_transfer.GiveUp(reason=why))
            await self.root.tell(requests.RestartChild(name=self.group))
            self._opening = ""
        for member, number in effects.ask:
            await self.authority.ask(member, number)
        if effects.verdict is not None:
            self._judged(effects.verdict)
        for event in effects.events:
            self.ctx.emit(event)
        if effects.deadline_s is not None:
            self.ctx.timers.start_at("tick", effects.deadline_s, _Tick())
        self._publish()
        if effects.gate is not None and effects.gate.open:
            await self.transfer_ref.tell(group_transfer.Opened())

    async def _set_gate(self, gate: AppendGate) -> None:
        closed = None
        if not gate.open:
            is_master = gate.master == self.rules.node
            hint = None if is_master else gate.master or None
            closed = store_messages.GateClosed(reason=gate.reason, hint=hint, is_master=is_master)
        await self.store_ref.tell(store_messages.SetGate(incarnation=self._store, closed=closed))

    def _publish(self) -> None:
        view = self.rules.view()
        if reason := self._unsaved.reason or self._opening:
            view = attrs.evolve(view, reason=reason)
        is_open = view.role is Role.MASTER and view.state is RoleState.OPEN
        self.role_status.publish(view, is_open=is_open)

    # Fresh reads.

    def _take_fresh(self, message: AskFresh) -> None:
        if not self.fresh.add(message.reply_to, message.deadline_s):
            message.reply_to.fail(Overloaded(f"{FRESH_READS_MAX} fresh reads wait already"))

    async def _settle_fresh(self, now_s: float) -> None:
        """Answer the fresh reads for which the last message was enough, and ask for the others."""
        own = self.rules.view() if self.rules.acts else None
        effects = self.fresh.settle(own, now_s, self.rules.next_question)
        for reply_to, found in effects.done:
            if isinstance(found, Refused):
                reply_to.send(Fresh(offset_bytes=0, refused=found.reason))
            else:
                reply_to.send(Fresh(offset_bytes=found))
        for member, number in effects.ask:
            await self.authority.ask(member, number)
        if effects.deadline_s is not None:
            self.ctx.timers.start_at("fresh", effects.deadline_s, _FreshTick())

    # A slave's connection.

    def _judged(self, verdict: Verdict) -> None:
        asking = self._asking
        if asking is not None and asking.session == verdict.session:
            self._asking = None
            asking.reply_to.send(
                Verified(
                    fits=verdict.fits,
                    detail=verdict.detail,
                    whole_at_bytes=verdict.whole_at_bytes,
                )
            )

    def _replaced(self) -> None:
        """Refuse an older connection that waits for its verdict: a newer one has replaced it."""
        if self._asking is not None:
            self._asking.reply_to.send(NEWER)
            self._asking = None

    # Promotions.

    def _answer_later(self, message: Record | Resync, effects: Effects) -> None:
        if effects.refused:
            message.reply_to.send(Done(refused=effects.refused))
            return
        self._waiting = [held for held in self._waiting if not held.reply_to.answered]
        if len(self._waiting) >= REQUESTS_MAX:
            message.reply_to.send(Done(refused=f"{REQUESTS_MAX} promotions wait already"))
            return
        self._waiting.append(message)

    def _answer_records(self) -> None:
        """Answer the promotions that are settled.

        The tree acts by them, or will when there is room, or a later one has superseded them.
        """
        if not self._waiting:
            return
        promotion, acts = self.rules.promotion, self.rules.acts
        kept: list[Record | Resync] = []
        for held in self._waiting:
            if held.number < promotion.number:
                self._overtaken(held.reply_to, promotion)
            elif acts or (self._opening and isinstance(held, Record)):
                held.reply_to.send(Done())
            elif self._opening:
                held.reply_to.send(Done(refused=self._opening))
            else:
                kept.append(held)
        self._waiting = kept

    def _overtaken(self, reply_to: ReplyTo[Done], promotion: Promotion) -> None:
        refused = f"promotion {promotion.number} made {promotion.master} master meanwhile"
        reply_to.send(Done(refused=refused))
