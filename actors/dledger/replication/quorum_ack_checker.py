"""QuorumAckChecker: takes appends, knows what a quorum holds, answers what is committed.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java (QuorumAckChecker, waitAck), DLedgerServer
(handleAppend), 0.3.1.2; the decisions and their differences are in `core.quorum` and `outcomes`.

Differs: all appends that wait are given to the store as one; a leader opens its term with an entry
of its own (`term_body`), so that what older leaders left can be committed. What the store answers,
and how far its log is kept, is read with a peer's acknowledgement, unless it can decide more.

Messages: Append, Asked (APPEND), AskedAppends, Matched, Applied, Followed, HoldAppends,
GetWatermarks, GetReadIndex, LedgerGrew, and sessions. It asks the store Append and tells it Commit;
it tells the maintainer Held, StoreTakes and Rejoin, readers CommittedTo. A restart forgets all that
waits, whose outcome is then unknown, and has the session renewed.
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
    StoreTakes,
    Told,
)
from actors.errors import LogFull, NodeStopped
from actors.runtime import Actor, ActorRef, MailboxSpec, StopReason
from actors.storage.commitlog.pull_service import IDLE_NEWS_WITHIN_S, NEWS_WITHIN_S
from actors.storage.ledger import store_messages

MAILBOX_CAPACITY: Final = 16_384
"""Appends, most of them; those that wait for a quorum are bounded by `AckSettings.waiting_max`."""
STORE_TIMEOUT_S: Final = 60.0
"""A store that answers an append later than this has left its outcome unknown."""
ASKS_BESIDES: Final = 16
"""Questions to the store besides those of appends that may wait."""
STORED_WITHIN_S: Final = 0.05
"""What the store answers to an append, which wakes nobody, is read so much later at the most."""
OPEN_AGAIN_S: Final = 0.1
"""The entry that opens a term, which the store refused, is given to it again so much later."""


@attrs.frozen(kw_only=True)
class _Stored:
    """What the store said to a group of appends."""

    session: int
    group: AppendGroup
    outcome: store_messages.AppendedAt | Exception


@attrs.frozen
class _DeadlineCame:
    """Timer: an append's deadline."""


_DEADLINE_CAME: Final = _DeadlineCame()


@attrs.frozen(kw_only=True)
class _OpenTermDue:
    """Timer: the term has no entry of its own yet."""

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
    | Told
)
_Inbox: TypeAlias = Message | _Stored | _DeadlineCame | _OpenTermDue


def _only_one(_: object) -> None:
    """Only the newest of these messages matters."""


@attrs.define(kw_only=True)
class QuorumAckChecker(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        synced: this member holds what is on its disk, not what is written.
        term_body: of the entry that opens a term; None: there is none.
        body_bytes_max: of one entry.
        pending_bytes: of appends that wait, here and for the store.
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
    _held_told: bool = attrs.field(default=False, init=False)
    _at_store: int = attrs.field(default=0, init=False)  # appends that it has not answered
    _at_store_bytes: int = attrs.field(default=0, init=False)
    _last: int = attrs.field(default=-1, init=False)  # the last index that the store has said
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

    # ---- life ----

    async def on_start(self) -> None:
        if self.ctx.incarnation > 1:
            await self.maintainer.tell(Rejoin(part=self.ctx.path, renew=True))

    async def on_stop(self, reason: StopReason) -> None:
        await self.store_ref.tell(store_messages.Unsubscribe(name=self.ctx.path))
        for wait in self.quorum.rest().lost:
            text = "this member stopped before a quorum was known to have the entries"
            wait.answer_to.fail(NodeStopped(text, wait.first, wait.last))

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Appends of a batch are given to the store together, in their order."""
        taken: list[Taken] = []
        for message in messages:
            match message:
                case Append():
                    taken.append(append_groups.in_process(message))
                case Asked() | AskedAppends():
                    taken += self._asked(message)
                case _:
                    await self._other(message)
        if taken:
            self._append_all(taken)
        self._want_news()

    def _want_news(self) -> None:
        """At once where it may commit something, or who appended waits for nothing else."""
        at_once = self.quorum.waits_for_own
        if self._at_store and (self._holding or not self.quorum.leading):
            at_once = True
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
                await self._told(message)
            case _:
                assert_never(message)

    # ---- sessions ----

    async def _told(self, told: Told) -> None:
        if told.session < self._session or (
            told.session == self._session and isinstance(told, Resting)
        ):
            return
        led = self.quorum.leading
        again = led and told.session == self._session
        if led and not isinstance(told, Leading):
            await self.store_ref.tell(store_messages.Unsubscribe(name=self.ctx.path))
        self._session, self._term = told.session, told.term
        match told:
            case Leading() if not again:
                self._lose(self.quorum.rest())
                await self._lead(told)
            case Leading():
                pass
            case Following():
                self._lose(self.quorum.rest())
                self._leader = told.leader
                self.quorum.followed(told.committed)
            case Resting():
                self._lose(self.quorum.rest())
                self._leader = ""
            case _:
                assert_never(told)

    async def _lead(self, told: Leading) -> None:
        """The term's own entry goes first; what follows it is committed with it."""
        quorum = self.quorum
        quorum.followed(told.committed)
        # What is committed it has said itself, and what is written the store answers.
        idle = store_messages.COMMITS | store_messages.ENDS
        if not self.synced:
            idle |= store_messages.SYNCS
        me, name = self.ctx.self_ref, self.ctx.path
        await self.store_ref.tell(
            store_messages.Subscribe(
                subscriber=me, name=name, within_s=IDLE_NEWS_WITHIN_S, idle=idle
            )
        )
        if quorum.committed > told.committed:  # said in a session that was over for the store
            await self.store_ref.tell(
                store_messages.Commit(session=told.session, index=quorum.committed)
            )
        self.role_status.committed = quorum.committed
        self._leader, self._holding = quorum.self_id, False
        self._last, self._last_term = told.end, told.end_term
        effects = quorum.lead(
            session=told.session, term=told.term, end=told.end, end_term=told.end_term
        )
        await self._carry_out(effects)
        if told.end_term != told.term:
            self._open_term(told.session)

    def _open_term(self, session: int) -> None:
        """Without an entry of its term a leader commits nothing that older ones have left."""
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
            self._holding, self._held_told = message.on, False
            await self._tell_held()

    async def _tell_held(self) -> None:
        """Once the store has answered all."""
        if self._holding and not self._held_told and not self._at_store:
            self._held_told = True
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
        await self._tell_held()

    async def _not_stored(self, stored: _Stored, outcome: Exception) -> None:
        for wait in stored.group.waits:
            wait.answer_to.fail(outcomes.not_stored(outcome) or outcomes.store_silent(outcome))
        if isinstance(outcome, LogFull) and stored.session == self._session:
            refused = StoreTakes(session=stored.session, refusal=str(outcome))
            await self.maintainer.tell(refused)
        if not stored.group.waits:  # what opens the term; twice in the log it does no harm
            self._open_term_later(stored.session)
        await self._tell_held()

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
        """Readers first, so that an answered append can be read at once."""
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
