"""EntryHandler takes the leader's pushes into the own log, and acknowledges what is stored.

Upstream: openmessaging/dledger, DLedgerEntryPusher.java (EntryHandler), 0.3.1.2; the decisions and
their differences are in `core.intake`.

Differs: pushes that have come together are written together; an entry that is committed here and
differs from the leader's ends the node.

Messages: Asked (PUSH, INSTALL_SNAPSHOT), MachineAt, LedgerGrew, GetTaking, and sessions. It asks
the store Change and tells it Commit or Condemn; it tells the checker Followed, the maintainer
SawTerm, StoreTakes, CaughtUp and Rejoin. Readers learn the committed index from the store, together
with the log that it is about. A restart forgets which entries are known to equal the leader's, and
has the session renewed.
"""

from __future__ import annotations

import logging
import math
from typing import Final, TypeAlias, assert_never

import attrs

from actors.dledger.core.intake import Intake
from actors.dledger.core.intake_effects import IntakeEffects, StoreChange
from actors.dledger.machine.machine_messages import MachineAt
from actors.dledger.replication.append_messages import Followed
from actors.dledger.replication.foreign_leader import ForeignLeader, ill_formed
from actors.dledger.replication.pending_ledger import PendingLedger
from actors.dledger.replication.push_bodies import entries_bytes, no_snapshots, pushed_of
from actors.dledger.rpc.peer_messages import GetTaking, Taking
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Asked, Sender
from actors.dledger.session_messages import (
    CONTROL,
    CaughtUp,
    Following,
    Leading,
    Rejoin,
    Resting,
    SawTerm,
    StoreTakes,
)
from actors.errors import LogFull
from actors.events.dledger import EntriesRefused, LedgerTruncated
from actors.runtime import Actor, ActorDown, ActorRef, MailboxSpec, ReplyTo, StopReason
from actors.storage.ledger import store_messages
from actors.storage.ledger.ledger import EntryRefused, NotInSequence
from actors.storage.ledger.store_messages import LedgerGrew
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.dledger.codes import PushType
from wire.dledger.rpc import InstallSnapshotRequest, PushEntryRequest, Response

MAILBOX_CAPACITY: Final = 1024
WAITING_MAX: Final = 1024
"""How many pushes may wait for those before them, and how many for the disk, as in upstream."""
GROUP_ENTRIES_MAX: Final = 4096
"""The most entries of pushes that came together and are given to the store as one change."""
REFUSED_PAUSE_S: Final = 0.5
"""The seconds by which the refusal of a push for lack of room is delayed, because its leader would
send it again at once; also the pause before a store that did not report its log is asked again.
"""
STORE_TIMEOUT_S: Final = 60.0
"""The seconds without an answer after which the outcome of a change is unknown; the store is then
asked for its log.
"""


_LOGGER: Final = logging.getLogger("triolog.dledger")


def contradiction(sender: Sender, alarm: str, leader: str, term: int) -> str:
    """Describe, for people, why a member ends: its leader's log contradicts committed entries.

    The text names the group and the members, and says what to do. Upstream has nothing like it: a
    member there cuts committed entries (bug B12).

    Args:
        alarm: the alarm of the decisions: which entry differs from the leader's.
        term: the term in which the leader leads.
    """
    group, me = sender.group, sender.self_id
    return (
        f"{group}: {me} ends: {alarm}, {leader}'s in term {term}. Two majorities have committed:"
        " some node's cluster file named other members, or its data was replaced by other data."
        f" Stop all members, and compare `members` in their files and their logs (python -m"
        f" actors.storage dump DATA_DIR/NODE --group {group}); where the log is not what most of"
        f" them have, perhaps {leader}'s, move all but currterm out of DATA_DIR/NODE/groups/{group}"
        " and keep it; start the others first (OPERATING.md, A lost disk)"
    )


@attrs.define
class CutLog:
    """Follows how far the log is synced, and logs when a leader has synced entries cut.

    That is usual after a leader's end: it had them, no majority did, and the next leader has
    others. They count for nothing, but so an operator finds the entries of an append that ended
    with OutcomeUnknown.
    """

    _sender: Sender
    _synced: int = attrs.field(default=-1, init=False)
    _cuts: int = attrs.field(default=0, init=False)
    _cut_at: int = attrs.field(default=-1, init=False)  # `_cuts` at that time

    def grew(self, log: LedgerGrew) -> None:
        """Note the store's log, as it is now or was before the last cut."""
        self._cuts = log.cuts
        if log.cuts != self._cut_at:
            self._synced, self._cut_at = log.synced_index, -1

    def noted(self, event: object, leader: str, term: int) -> object:
        """Return the event as it has to be emitted.

        A LedgerTruncated gets the last synced entry that is cut. If there is one, a warning is
        logged, unless the whole log is removed to begin anew at another entry.
        """
        if not isinstance(event, LedgerTruncated):
            return event
        synced = min(event.end, self._synced)
        self._synced, self._cut_at = min(self._synced, event.index - 1), self._cuts
        if synced < event.index:
            return event
        if event.next == event.index:
            _LOGGER.warning(
                "%s: %s cuts entries %d to %d, synced to %d: %s, leader of term %d, has others",
                self._sender.group,
                self._sender.self_id,
                event.index,
                event.end,
                synced,
                leader,
                term,
            )
        return attrs.evolve(event, synced=synced)


@attrs.define
class CatchingUp:
    """Finds out when a follower holds all that its leader's log had when both were first compared.

    A member whose store is in memory has lost by a restart what it acknowledged before; a leader
    that was elected without its vote has all of that which is committed. The leader's first COMPARE
    names the end of its log (`core.dispatch`: a search that was not answered begins anew).
    """

    _leader: str = attrs.field(default="", init=False)
    _term: int = attrs.field(default=-1, init=False)
    _until: int | None = attrs.field(default=None, init=False)
    _said: bool = attrs.field(default=False, init=False)

    def follow(self, leader: str, term: int) -> None:
        """Begin a session. Its first COMPARE may belong to a search of the session before."""
        if (leader, term) != (self._leader, self._term):
            self._until = None
        self._leader, self._term, self._said = leader, term, False

    def saw(self, request: PushEntryRequest) -> None:
        """Note a push of any member."""
        own = (request.leader_id, request.term) == (self._leader, self._term)
        if own and request.type is PushType.COMPARE and request.entries and self._until is None:
            self._until = request.entries[0].index

    def has(self, intake: Intake) -> bool:
        """Return whether the follower has caught up now: True once in a session."""
        if self._said or self._until is None or intake.matched is None:
            return False
        self._said = min(intake.matched, intake.stored) >= self._until
        return self._said


@attrs.frozen(kw_only=True)
class _ChangeAnswered:
    """The store's answer to a change, or to several as one, of which `number` is the last."""

    session: int
    number: int
    first: int  # index of its first entry
    outcome: store_messages.Changed | Exception


@attrs.frozen(kw_only=True)
class _LogSaid:
    """The store's log, after a change was refused and all later ones were answered."""

    session: int
    outcome: store_messages.MemberRecord | Exception


@attrs.frozen(kw_only=True)
class _AskLogDue:
    """Timer: ask for the log after a change that was refused."""

    session: int


@attrs.frozen(kw_only=True)
class _TickDue:
    """Timer: `IntakeEffects.deadline_s` has come."""


Message: TypeAlias = (
    Asked | MachineAt | store_messages.LedgerGrew | GetTaking | Resting | Following | Leading
)
_Inbox: TypeAlias = Message | _ChangeAnswered | _LogSaid | _AskLogDue | _TickDue


@attrs.define(kw_only=True)
class EntryHandler(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        intake: the decisions, which read `ledger`.
        synced: whether this member acknowledges only what is on its disk.
        pending_bytes: how many bytes of pushes may wait.
    """

    mailbox: MailboxSpec = attrs.field(init=False)  # type: ignore[misc]
    sender: Sender
    intake: Intake
    ledger: PendingLedger
    synced: bool
    pending_bytes: int
    store_ref: ActorRef[store_messages.Message]
    checker: ActorRef[Followed]
    maintainer: ActorRef[SawTerm | StoreTakes | Rejoin | CaughtUp]
    _session: int = attrs.field(default=-1, init=False)
    _leader: str = attrs.field(default="", init=False)
    _followed: int = attrs.field(default=-1, init=False)  # the last session with a leader
    _asked: dict[int, tuple[PushEntryRequest, ReplyTo[Response]]] = attrs.field(
        factory=dict, init=False
    )
    _token: int = attrs.field(default=0, init=False)
    _changes: list[StoreChange] = attrs.field(factory=list, init=False)  # not given yet
    _given: int = attrs.field(default=0, init=False)  # number of the last change, dropped or not
    _answered: int = attrs.field(default=0, init=False)  # changes up to there are done
    _unanswered: int = attrs.field(default=0, init=False)
    _refused: bool = attrs.field(default=False, init=False)  # the log is not as decided
    _was_full: bool = attrs.field(default=False, init=False)
    _said_refused: int = attrs.field(default=-1, init=False)  # the last session in which it was
    _refusal: str = attrs.field(default="", init=False)  # why the store takes nothing
    _log: RefusalLog = attrs.field(
        default=attrs.Factory(lambda part: RefusalLog(part.sender.group), takes_self=True),
        init=False,
    )
    _cuts: CutLog = attrs.field(
        default=attrs.Factory(lambda part: CutLog(part.sender), takes_self=True), init=False
    )
    _foreign: ForeignLeader = attrs.field(
        default=attrs.Factory(lambda part: ForeignLeader(part.sender), takes_self=True), init=False
    )
    _catching_up: CatchingUp = attrs.field(factory=CatchingUp, init=False)

    def __attrs_post_init__(self) -> None:
        self.mailbox = MailboxSpec(
            capacity=MAILBOX_CAPACITY,
            capacity_bytes=self.pending_bytes,
            size_of=_size_of,
            conflate={store_messages.LedgerGrew: lambda message: None},
            control=CONTROL,
        )

    # ---- start and stop ----

    async def on_start(self) -> None:
        if self.ctx.incarnation > 1:
            await self.maintainer.tell(Rejoin(actor=self.ctx.path, renew=True))

    async def on_stop(self, reason: StopReason) -> None:
        await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
        self.ledger.reset(-1)

    # ---- messages ----

    async def handle_batch(self, messages: list[_Inbox]) -> None:
        """Take the messages of a batch, then give all changes of its pushes to the store."""
        for message in messages:
            match message:
                case Asked():
                    await self._take(message)
                case _ChangeAnswered():
                    await self._change_answered(message)
                case store_messages.LedgerGrew():
                    await self._grew(message)
                case MachineAt():
                    self.intake.machine.reached(message.index)
                case _TickDue():
                    await self._carry_out(self.intake.tick(self.ctx.now_s()))
                case _LogSaid():
                    await self._log_said(message)
                case GetTaking():
                    why = self._foreign.refusal or self._refusal
                    message.reply_to.send(Taking(refusal=why))
                case _AskLogDue():
                    if message.session == self._session and self._refused:
                        self._ask_log()
                case Resting() | Following() | Leading():
                    await self._act_by(message)
                case _:
                    assert_never(message)
        self._give()
        if self._catching_up.has(self.intake):
            await self.maintainer.tell(CaughtUp(session=self._session))

    async def _act_by(self, change: Resting | Following | Leading) -> None:
        if change.session < self._session or (
            change.session == self._session and not isinstance(change, Following)
        ):
            return
        if change.session > self._session:
            self._session, self._leader, self._refusal = change.session, "", ""
            self._foreign.forget()
            self._changes, self._refused = [], False
            if self._followed >= 0 and not isinstance(change, Following):
                await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))
            await self._carry_out(self.intake.rest(session=change.session, term=change.term))
        if isinstance(change, Following) and change.session > self._followed:
            self._followed, self._leader = change.session, change.leader
            self._catching_up.follow(change.leader, change.term)
            self.ledger.reset(change.end)
            self._answered = self._given
            # What is committed it has said itself; in a synced group each end is synced soon.
            wanted = Subscribe(
                subscriber=self.ctx.self_ref,
                minor=store_messages.SYNCS if not self.synced else frozenset(),
                idle=store_messages.COMMITS | (store_messages.ENDS if self.synced else frozenset()),
            )
            await self.store_ref.tell(wanted)
            await self._carry_out(
                self.intake.follow(
                    session=change.session,
                    term=change.term,
                    leader=change.leader,
                    begin=change.begin,
                    end=change.end,
                    committed=change.committed,
                )
            )

    async def _take(self, asked: Asked) -> None:
        request = asked.request
        if isinstance(request, InstallSnapshotRequest):
            asked.reply_to.send(no_snapshots(request))
            return
        assert isinstance(request, PushEntryRequest)
        pushed = pushed_of(request, self._token + 1)
        if pushed is None:
            asked.reply_to.send(ill_formed(request, self._leader))
            return
        self._token = pushed.token
        self._asked[self._token] = request, asked.reply_to
        await self._carry_out(self.intake.pushed(self.ctx.now_s(), pushed))
        self._catching_up.saw(request)

    async def _grew(self, log: store_messages.LedgerGrew) -> None:
        if log.session != self._session or log.session != self._followed or self._refused:
            return
        self._cuts.grew(log)
        intake = self.intake
        if not self.ledger.pending and intake.begin < log.begin_index <= intake.end:
            await self._carry_out(intake.expired(log.begin_index))
        held = log.synced_index if self.synced else log.end_index
        await self._carry_out(intake.stored_to(log.session, self._answered, held))
        if log.committed_index < min(intake.committed, log.end_index):
            # It was sent while the entries were on their way to the store.
            await self.store_ref.tell(
                store_messages.Commit(session=log.session, index=intake.committed)
            )

    # ---- changes ----

    def _give(self) -> None:
        """Give the changes to the store: appends that follow on each other as one."""
        changes, self._changes = self._changes, []
        group: list[StoreChange] = []
        count = 0
        for change in changes:
            removes = change.restart or change.cut_from is not None
            if group and (removes or count + len(change.entries) > GROUP_ENTRIES_MAX):
                self._give_one(group)
                group, count = [], 0
            group.append(change)
            count += len(change.entries)
        if group:
            self._give_one(group)

    def _give_one(self, group: list[StoreChange]) -> None:
        head, number, session = group[0], group[-1].number, self._session
        entries = head.entries
        if len(group) > 1:
            entries = tuple(entry for change in group for entry in change.entries)
        self._unanswered += 1
        self.ctx.ask_later(
            self.store_ref,
            store_messages.Changed,
            lambda reply_to: store_messages.Change(
                session=session,
                cut_from=head.cut_from,
                restart=head.restart,
                entries=entries,
                reply_to=reply_to,
            ),
            timeout_s=STORE_TIMEOUT_S,
            on_reply=lambda outcome: _ChangeAnswered(
                session=session, number=number, first=entries[0].index, outcome=outcome
            ),
            within_s=math.inf,  # LedgerGrew follows on it
        )

    async def _change_answered(self, answered: _ChangeAnswered) -> None:
        self._unanswered -= 1
        outcome = answered.outcome
        if answered.session != self._session:
            pass
        elif not isinstance(outcome, Exception):
            self.ledger.done(answered.number, outcome.end_index)
            self._answered, self._refusal = answered.number, ""
            if self._was_full:
                await self._send_takes("")
        else:
            self._refused = True
            self._changes.clear()
            if isinstance(outcome, LogFull):
                self._refusal = str(outcome)  # the store has logged it
                await self._send_takes(self._refusal)  # each time: it may not lead for a while
            if isinstance(outcome, EntryRefused):
                self._say_refused(answered.first, outcome)
        if self._refused and not self._unanswered and self._was_full:
            self._ask_log_later()
        elif self._refused and not self._unanswered:
            self._ask_log()

    def _say_refused(self, first: int, refused: EntryRefused) -> None:
        if not isinstance(refused, NotInSequence):  # else it follows on a refused one
            self._refusal = f"{refused}: its leader's data_file_bytes may be another"
            me = self.sender.self_id
            self._log.say(me, f"{me} cannot take what {self._leader} sends: {self._refusal}")
        if self._said_refused < self._session:
            self._said_refused = self._session
            self.ctx.emit(EntriesRefused(session=self._session, index=first, reason=str(refused)))

    async def _send_takes(self, refusal: str) -> None:
        self._was_full = bool(refusal)
        await self.maintainer.tell(StoreTakes(session=self._session, refusal=refusal))

    def _ask_log_later(self) -> None:
        due = _AskLogDue(session=self._session)
        self.ctx.timers.start("ask log", REFUSED_PAUSE_S, due)

    def _ask_log(self) -> None:
        session = self._session
        self.ctx.ask_later(
            self.store_ref,
            store_messages.MemberRecord,
            lambda reply_to: store_messages.GetMember(reply_to=reply_to),
            timeout_s=STORE_TIMEOUT_S,
            on_reply=lambda outcome: _LogSaid(session=session, outcome=outcome),
        )

    async def _log_said(self, said: _LogSaid) -> None:
        """Let the decisions continue from the log as it is; the leader will compare again."""
        record = said.outcome
        if said.session != self._session or not self._refused:
            return
        if isinstance(record, Exception):
            if not isinstance(record, ActorDown):  # else the node ends
                self._ask_log_later()
            return
        self._refused = False
        self._answered = self._given
        self.ledger.reset(record.end)
        await self._carry_out(self.intake.refused(said.session, record.begin, record.end))
        held = record.stored if self.synced else record.end
        await self._carry_out(self.intake.stored_to(said.session, self._answered, held))

    # ---- effects ----

    async def _carry_out(self, effects: IntakeEffects) -> None:
        """Carry effects out. Changes are collected for the store; answers to pushes are sent."""
        if effects.alarm:
            reason = contradiction(self.sender, effects.alarm, self._leader, self.intake.term)
            await self.store_ref.tell(store_messages.Condemn(reason=reason))
        for change in effects.changes:
            self._given = change.number
            if not self._refused:
                self._changes.append(change)
                self.ledger.asked(change)
        if effects.committed is not None:
            await self._committed(effects.committed)
        if effects.larger_term is not None:
            await self.maintainer.tell(SawTerm(term=effects.larger_term))
        for token, answer in effects.answers:
            request, reply_to = self._asked.pop(token)
            if self._refusal:
                answer = attrs.evolve(answer, refusal=self._refusal)
            said = self._foreign.answer(request, answer, self._leader, self.ctx.emit)
            reply_to.send(said)
        for event in effects.events:
            self.ctx.emit(self._cuts.noted(event, self._leader, self.intake.term))
        if effects.deadline_s is not None:
            self.ctx.timers.start_by("tick", effects.deadline_s, _TickDue())

    async def _committed(self, index: int) -> None:
        """Have the store note the committed index, after the changes that it covers."""
        self._give()
        await self.store_ref.tell(store_messages.Commit(session=self._session, index=index))
        self.checker.defer(Followed(index=index))  # nothing there waits for it


def _size_of(message: object) -> int:
    """Return the bytes of a message that count against those that may wait."""
    return entries_bytes(message.request) if isinstance(message, Asked) else 0
