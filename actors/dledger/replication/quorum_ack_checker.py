"""QuorumAckChecker takes appends, counts what a quorum holds, and answers what is committed.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java (QuorumAckChecker, waitAck), DLedgerServer
(handleAppend), 0.3.1.2; the decisions and their differences are in `core.quorum` and `outcomes`.

Differs: all appends that wait are given to the store as one. A leader opens its term with an entry
of its own (`term_body`), so that entries of older leaders can be committed. What the store answers,
and how far its log is kept, is read with a peer's acknowledgement, unless it can decide more.

Messages: Append, Asked (APPEND), AskedAppends, Matched, Applied, Followed, HoldAppends,
GetWatermarks, GetReadIndex, LedgerGrew, and sessions. It asks the store Append and tells it Commit;
it tells the maintainer Held, StoreTakes and Rejoin, readers CommittedTo. A restart forgets the
appends that wait, whose outcome is then unknown, and has the session renewed.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias, assert_never

import attrs

from actors.dledger.core.member_state import LedgerEnd
from actors.dledger.core.quorum import Quorum, QuorumEffects
from actors.dledger.election.open_questions import OpenReads
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.reading.entry_reader import CommittedTo
from actors.dledger.replication import append_groups, append_messages, outcomes
from actors.dledger.replication.append_groups import AppendGroup, Taken
from actors.dledger.replication.append_messages import (
    Append,
    Applied,
    Followed,
    GetReadIndex,
    GetWatermarks,
    Held,
    HoldAppends,
    Matched,
    Watermarks,
)
from actors.dledger.replication.append_waits import AppendWait, AppliedResults, RPCAnswers
from actors.dledger.rpc.rpc_messages import Asked, AskedAppends
from actors.dledger.session_messages import (
    CONTROL,
    Following,
    Leading,
    Rejoin,
    Resting,
    SessionChange,
    StoreTakes,
)
from actors.errors import LogFull, NodeStopped
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog.pull_service import IDLE_NEWS_WITHIN_S, NEWS_WITHIN_S
from actors.storage.ledger import store_messages
from actors.storage.log.growth import Subscribe, Unsubscribe

MAILBOX_CAPACITY: Final = 16_384
"""Most messages are appends; `AckSettings.waiting_max` bounds those that wait for a quorum."""
STORE_TIMEOUT_S: Final = 60.0
"""The seconds without the store's answer after which the outcome of an append is unknown."""
ASKS_BESIDES: Final = 16
"""How many requests to the store may be open beside the appends that wait."""
STORED_WITHIN_S: Final = 0.05
"""The seconds after which the store's answer to an append, which wakes nobody, is read at the
latest.
"""
OPEN_AGAIN_S: Final = 0.1
"""The seconds after which the entry that opens a term is given again to a store that refused it."""


@attrs.frozen(kw_only=True)
class _Stored:
    """The store's answer to a group of appends."""

    session: int
    group: AppendGroup
    outcome: store_messages.AppendedAt | Exception


@attrs.frozen
class _DeadlineCame:
    """Timer: an append's deadline has come."""


_DEADLINE_CAME: Final = _DeadlineCame()


@attrs.frozen(kw_only=True)
class _OpenTermDue:
    """Timer: the term still needs an entry of its own."""

    session: int


Message: TypeAlias = (
    Append
    | Asked
    | AskedAppends
    | Matched
    | Applied
    | Followed
    | HoldAppends
    | GetWatermarks
    | GetReadIndex
    | store_messages.LedgerGrew
    | SessionChange
)
_Inbox: TypeAlias = Message | _Stored | _DeadlineCame | _OpenTermDue


def _only_one(_: object) -> None:
    """Return the conflation key of messages of which only the newest matters."""


@attrs.define(kw_only=True)
class QuorumAckChecker(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        synced: whether this member counts as a holder of an entry only once it is on its disk.
        term_body: the body of the entry that opens a term; None: there is no such entry.
        body_bytes_max: the largest body of an entry.
        pending_bytes: how many bytes of appends may wait, here and for the store.
        role_status: where dispatchers find the committed index.
    """

    mailbox: MailboxSpec = attrs.field(init=False)  # type: ignore[misc]
    asks_max: int = attrs.field(init=False)  # type: ignore[misc]
    quorum: Quorum[AppendWait]
    synced: bool
    term_body: bytes | None
    body_bytes_max: int
    pending_bytes: int
    store_ref: ActorRef[store_messages.Message]
    maintainer: ActorRef[Held | StoreTakes | Rejoin]
    reader: ActorRef[CommittedTo]
    role_status: LeaderStatus
    _session: int = attrs.field(default=-1, init=False)
    _term: int = attrs.field(default=-1, init=False)
    _leader: str = attrs.field(default="", init=False)
    _holding: bool = attrs.field(default=False, init=False)
    _held_sent: bool = attrs.field(default=False, init=False)
    _at_store: int = attrs.field(default=0, init=False)  # unanswered appends at the store
    _at_store_bytes: int = attrs.field(default=0, init=False)
    _at_once: bool = attrs.field(default=False, init=False)  # deferred news wakes this actor
    _last: int = attrs.field(default=-1, init=False)  # the newest index from the store
    _last_term: int = attrs.field(default=-1, init=False)
    _results: AppliedResults = attrs.field(factory=AppliedResults, init=False)
    _reads: OpenReads = attrs.field(factory=OpenReads, init=False)

    def __attrs_post_init__(self) -> None:
        self.asks_max = self.quorum.settings.waiting_max + ASKS_BESIDES
        self.mailbox = MailboxSpec(
            capacity=MAILBOX_CAPACITY,
            capacity_bytes=self.pending_bytes,
            size_of=append_messages.size_of,
            conflate={
                Matched: lambda message: message.peer,
                Followed: _only_one,
                store_messages.LedgerGrew: _only_one,
            },
            control=(*CONTROL, HoldAppends),
        )

    # ---- start and stop ----

    async def on_start(self) -> None:
        if self.ctx.incarnation > 1:
            await self.maintainer.tell(Rejoin(actor=self.ctx.path, renew=True))

    async def on_stop(self, reason: StopReason) -> None:
        await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        for wait in self.quorum.rest().lost:
            text = "this member stopped before a quorum was known to have the entries"
            wait.answer_to.fail(NodeStopped(text, wait.first, wait.last, wait.last + 1))

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Take the messages of a batch, then give its appends to the store, in their order."""
        taken: list[Taken] = []
        for message in messages:
            match message:
                case Append() if message.term in (None, self._term):
                    taken.append(append_groups.in_process(message))
                case Append():
                    message.reply_to.fail(outcomes.not_leader(self._leader))
                case Asked() | AskedAppends():
                    taken += self._asked(message)
                case _:
                    await self._other(message)
        if taken:
            self._append_all(taken)
        self._want_news()

    def _want_news(self) -> None:
        """Set how long the store's news may be delayed.

        They are read at once where they may commit something, or where a change of this member's
        role waits for the store's answers.
        """
        at_once = self.quorum.waits_for_own
        if self._at_store and (self._holding or not self.quorum.leading):
            at_once = True
        if at_once is not self._at_once:
            self._at_once = at_once
            self.ctx.limit_delay(0.0 if at_once else math.inf)

    async def _other(self, message: Any) -> None:
        quorum = self.quorum
        match message:
            case _Stored():
                await self._stored(message)
            case Matched():
                await self._carry_out(quorum.matched(message.session, message.peer, message.index))
            case store_messages.LedgerGrew():
                await self._grew(message)
            case _DeadlineCame():
                await self._carry_out(quorum.tick(self.ctx.now_s()))
            case _OpenTermDue():
                self._open_term(message.session)
            case Applied():
                await self._applied(message)
            case Followed():
                quorum.followed(message.index)
            case GetWatermarks():
                indexes = tuple(quorum.watermarks.items()) if quorum.leading else ()
                session = self._session if quorum.leading else 0
                message.reply_to.send(Watermarks(session=session, indexes=indexes))
            case GetReadIndex():
                self._reads.add(message.reply_to)
                if quorum.leading:
                    self._reads.answer(self._term, quorum.read_index)
                else:
                    self._reads.fail(outcomes.not_leader(self._leader))
            case HoldAppends():
                await self._hold(message)
            case Resting() | Following() | Leading():
                await self._act_by(message)
            case _:
                assert_never(message)

    # ---- sessions ----

    async def _act_by(self, change: SessionChange) -> None:
        if change.session < self._session or (
            change.session == self._session and isinstance(change, Resting)
        ):
            return
        led = self.quorum.leading
        again = led and change.session == self._session
        if led and not isinstance(change, Leading):
            await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        self._session, self._term = change.session, change.term
        match change:
            case Leading() if not again:
                self._lose(self.quorum.rest())
                await self._lead(change)
            case Leading():
                pass
            case Following():
                self._lose(self.quorum.rest())
                self._leader = change.leader
                self.quorum.followed(change.committed)
            case Resting():
                self._lose(self.quorum.rest())
                self._leader = ""
            case _:
                assert_never(change)

    async def _lead(self, change: Leading) -> None:
        """Begin to lead. The entry that opens the term is written first."""
        quorum = self.quorum
        quorum.followed(change.committed)
        # It has reported itself what is committed, and the store answers what is written.
        idle = store_messages.COMMITS | store_messages.ENDS
        if not self.synced:
            idle |= store_messages.SYNCS
        me = self.ctx.self_ref
        await self.store_ref.tell(Subscribe(subscriber=me, within_s=IDLE_NEWS_WITHIN_S, idle=idle))
        if quorum.committed > change.committed:  # the store dropped it as of an old session
            await self.store_ref.tell(
                store_messages.Commit(session=change.session, index=quorum.committed)
            )
        self.role_status.committed = quorum.committed
        self._leader, self._holding = quorum.self_id, False
        self._last, self._last_term = change.end, change.end_term
        effects = quorum.lead(
            session=change.session, term=change.term, end=change.end, end_term=change.end_term
        )
        await self._carry_out(effects)
        if change.end_term != change.term:
            self._open_term(change.session)

    def _open_term(self, session: int) -> None:
        """Write the entry that opens the term, without which no older entry can be committed."""
        if self.term_body is None or session != self._session or not self.quorum.leading:
            return
        if self._holding:  # the log may not grow now
            self._open_term_later(session)
        else:
            self._give(AppendGroup((), (self.term_body,)))

    def _open_term_later(self, session: int) -> None:
        self.ctx.timers.start("open term", OPEN_AGAIN_S, _OpenTermDue(session=session))

    async def _hold(self, message: HoldAppends) -> None:
        if message.session == self._session:
            self._holding, self._held_sent = message.on, False
            await self._send_held()

    async def _send_held(self) -> None:
        """Send Held once the store has answered all appends."""
        if self._holding and not self._held_sent and not self._at_store:
            self._held_sent = True
            end = LedgerEnd(index=self._last, term=self._last_term)
            await self.maintainer.tell(Held(session=self._session, end=end))

    # ---- appends ----

    def _asked(self, asked: Asked | AskedAppends) -> list[Taken]:
        until_s = self.ctx.now_s() + self.quorum.settings.wait_s
        term, leader = self._term, self._leader
        if isinstance(asked, Asked):
            return append_groups.over_the_wire(asked, term=term, leader=leader, deadline_s=until_s)
        answers = RPCAnswers(asked.requests, asked.reply_to, term, leader)
        most = self.body_bytes_max
        return append_groups.together(answers, deadline_s=until_s, body_bytes_max=most)

    def _append_all(self, taken: list[Taken]) -> None:
        quorum = self.quorum
        if not quorum.leading or self._holding:
            for wait, _ in taken:
                held = outcomes.transferring() if quorum.leading else None
                wait.answer_to.fail(held or outcomes.not_leader(self._leader))
            return
        for group in append_groups.groups(
            taken,
            room=quorum.room - self._at_store,
            bytes_left=self.pending_bytes - self._at_store_bytes,
            body_bytes_max=self.body_bytes_max,
        ):
            self._give(group)

    def _give(self, group: AppendGroup) -> None:
        session, bodies = self._session, group.bodies
        self._at_store += group.count
        self._at_store_bytes += group.size_bytes
        self.ctx.ask_later(
            self.store_ref,
            store_messages.AppendedAt,
            lambda reply_to: store_messages.Append(
                session=session, bodies=bodies, reply_to=reply_to
            ),
            timeout_s=STORE_TIMEOUT_S,
            on_reply=lambda outcome: _Stored(session=session, group=group, outcome=outcome),
            within_s=STORED_WITHIN_S,
        )

    async def _stored(self, stored: _Stored) -> None:
        group, outcome = stored.group, stored.outcome
        self._at_store -= group.count
        self._at_store_bytes -= group.size_bytes
        if isinstance(outcome, Exception):
            await self._not_stored(stored, outcome)
            return
        index, at = outcome.first_index, 0
        for wait in group.waits:
            behind = at + wait.count
            wait.first, wait.last = index + at, index + behind - 1
            wait.positions = outcome.positions[at:behind]
            at = behind
        if stored.session != self._session or not self.quorum.leading:
            for wait in group.waits:
                wait.answer_to.fail(outcomes.leadership_lost(wait.first, wait.last))
        else:
            self._last, self._last_term = outcome.last_index, self._term
            if not self.synced:
                await self._carry_out(self.quorum.stored(stored.session, self._last))
            await self._carry_out(self.quorum.waiting(*group.waits))
        await self._send_held()

    async def _not_stored(self, stored: _Stored, outcome: Exception) -> None:
        for wait in stored.group.waits:
            wait.answer_to.fail(outcomes.not_stored(outcome) or outcomes.store_silent(outcome))
        if isinstance(outcome, LogFull) and stored.session == self._session:
            refused = StoreTakes(session=stored.session, refusal=str(outcome))
            await self.maintainer.tell(refused)
        if not stored.group.waits:  # the entry that opens the term; twice in the log is harmless
            self._open_term_later(stored.session)
        await self._send_held()

    async def _applied(self, message: Applied) -> None:
        self._results.add(message.index, message.results)
        await self._carry_out(self.quorum.applied(message.index))
        if not (self.quorum.leading and (self.quorum.open_count or self._at_store)):
            self._results.forget()

    def _lose(self, effects: QuorumEffects[AppendWait]) -> None:
        self._reads.fail(outcomes.not_leader(""))
        for wait in effects.lost:
            wait.answer_to.fail(outcomes.leadership_lost(wait.first, wait.last))

    # ---- what is committed ----

    async def _grew(self, log: store_messages.LedgerGrew) -> None:
        held = log.synced_index if self.synced else log.end_index
        await self._carry_out(self.quorum.stored(log.session, held))

    async def _carry_out(self, effects: QuorumEffects[AppendWait]) -> None:
        """Carry effects out, readers first, so that an answered append can be read at once."""
        if effects.committed is not None:
            self.role_status.committed = effects.committed
            self._reads.answer(self._term, self.quorum.read_index)
            commit = store_messages.Commit(session=self._session, index=effects.committed)
            if self.quorum.by_applied:
                await self.store_ref.tell(commit)  # the machine waits for it
            else:
                self.store_ref.defer(commit, within_s=NEWS_WITHIN_S)
            news = CommittedTo(index=effects.committed)
            self.reader.defer(news, within_s=IDLE_NEWS_WITHIN_S)
        for event in effects.events:
            self.ctx.emit(event)
        if effects.lost:
            self._lose(effects)
        if effects.done:
            copies = self.quorum.copies(self.quorum.committed)
            for wait in effects.done:
                wait.done(copies, self._results.take(wait.first, wait.last))
        for wait in effects.timed_out:
            error = outcomes.timed_out(wait.first, wait.last, self.quorum.committed)
            wait.answer_to.fail(error)
        if effects.deadline_s is not None:
            self.ctx.timers.start_by("deadline", effects.deadline_s, _DEADLINE_CAME)
