"""StateMaintainer owns a member's role, and sends its actors the session by which they act.

Upstream: openmessaging/dledger, DLedgerLeaderElector.java (StateMaintainer, handleVote,
handleHeartBeat, handleLeadershipTransfer), MemberState.java, DLedgerServer.java
(handleMetadata, checkPreferredLeader), 0.3.1.2; the decisions and their differences are in
`core.election`.

Differs: effects are carried out in order, and none before the vote that it rests on is on the disk.
While the disk has no room for a vote, requests wait, up to a bound. An actor that was restarted is
sent the session again, or has it renewed.

Messages: Asked (VOTE, HEART_BEAT, METADATA, LEADERSHIP_TRANSFER), Answered, LedgerGrew, Rejoin,
SawTerm, StoreTakes, CaughtUp, Held, ProveLeader, GetSigns. At its start it asks the store
GetMember; later SaveVote and OpenSession, and the checker GetWatermarks. It sends all actors
Resting, then Following or Leading, and the checker HoldAppends. A restart forgets the role: it
begins a new session, as a candidate.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

import attrs

from actors.dledger.core.election import Election
from actors.dledger.core.election_effects import Effects, RoleChanged
from actors.dledger.core.member_state import (
    TERM_NONE,
    LedgerEnd,
    MemberState,
    Role,
    SavedVote,
)
from actors.dledger.core.settings import NUMBERS_PER_INCARNATION, CompatSettings, ElectionSettings
from actors.dledger.election import election_requests as requests
from actors.dledger.election.election_clock import ElectionClock, TickDue
from actors.dledger.election.held_effects import HeldEffects, Job
from actors.dledger.election.joining import Joining
from actors.dledger.election.open_questions import OpenQuestions
from actors.dledger.election.peer_signs import PeerSigns
from actors.dledger.election.session_broadcast import SessionBroadcast
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.replication.append_messages import GetWatermarks, Held, HoldAppends, Watermarks
from actors.dledger.rpc.peer_messages import GetSigns
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Answered, Asked, Call, Sender
from actors.dledger.session_messages import (
    CaughtUp,
    LeaderProven,
    ProveLeader,
    Rejoin,
    SawTerm,
    SessionChange,
    SessionReport,
    StoreTakes,
)
from actors.errors import Overloaded
from actors.events.dledger import VoteUnsaved
from actors.runtime import Actor, ActorDown, ActorRef, AskTimeout, MailboxSpec, StopReason
from actors.storage.commitlog.pull_service import IDLE_NEWS_WITHIN_S, NEWS_WITHIN_S
from actors.storage.ledger import store_messages
from actors.storage.ledger.term_files import TermVote
from actors.storage.log.growth import Subscribe, Unsubscribe
from wire.dledger.rpc import (
    HeartBeatRequest,
    LeadershipTransferRequest,
    MetadataRequest,
    VoteRequest,
)

MAILBOX_CAPACITY: Final = 4096
STORE_TIMEOUT_S: Final = 60.0
"""How long the store may take to confirm a vote or a session before it is asked again. At the start
the question may wait behind a removal of entries, and that behind a sync.
"""
SAVE_AGAIN_S: Final = 1.0
"""The pause in seconds before a vote that could not be saved is saved again; until then this member
sends nothing that rests on it.
"""
LEAD_AGAIN_S: Final = 10.0
"""The seconds after which a store that refused an entry for lack of room checks its disk again."""
WATERMARKS_TIMEOUT_S: Final = 5.0
ENDS_MAX: Final = 64
"""How many ends of the log may wait for their sync; a further one replaces the last of them."""


@attrs.define
class UnsavedVote:
    """A vote that a member cannot save. Nothing that rests on it is sent, so the status says why.

    Upstream: openmessaging/dledger, MemberState.java (persistTerm, 0.3.1.2), which logs the
    failure and answers as if the vote were kept.

    Attributes:
        reason: why the vote cannot be saved, for people; "" if it can.
    """

    _sender: Sender
    reason: str = attrs.field(default="", init=False)
    _log: RefusalLog = attrs.field(
        default=attrs.Factory(lambda vote: RefusalLog(vote._sender.group), takes_self=True),
        init=False,
    )

    def tried(self, term: int, error: Exception | None) -> tuple[VoteUnsaved, ...]:
        """Note that a vote was saved, or that it was not and will be tried again; log a change.

        Returns: the events to emit.
        """
        before, me = self.reason, self._sender.self_id
        if error is None:
            self.reason, reason = "", ""
            said = f"{me} has saved its vote of term {term}, and goes on"
        else:
            reason = str(error) or type(error).__name__
            self.reason = f"cannot save its vote of term {term}: {reason}"
            said = f"{me} {self.reason}; until it can it takes no part in elections"
        if bool(before) == bool(self.reason):
            return ()
        self._log.say(me, said)
        return (VoteUnsaved(term=term, reason=reason),)


@attrs.define
class StoredEnds:
    """The last entry that is stored, with its term, as the store reports the synced index alone.

    It is fed with each report of the log; `kept` lags behind by what is not synced.

    Source: openmessaging/dledger, MemberState.java, updateLedgerIndexAndTerm (0.3.1.2), which
    counts what is written; here a synced member's log ends where its disk does.
    """

    synced: bool
    kept: LedgerEnd
    _waiting: deque[LedgerEnd] = attrs.field(factory=deque, init=False)

    def grew(self, end: LedgerEnd, synced_index: int) -> LedgerEnd:
        """Note a report of the log. Returns: the newest end known to be stored."""
        if not self.synced:
            self.kept = end
            return end
        while self._waiting and self._waiting[-1].index >= end.index:
            self._waiting.pop()  # cut, or the same again
        if len(self._waiting) >= ENDS_MAX:
            self._waiting.pop()
        self._waiting.append(end)
        while self._waiting and self._waiting[0].index <= synced_index:
            self.kept = self._waiting.popleft()
        if self.kept.index > end.index:
            self.kept = end  # a cut is on the disk before it is reported
        return self.kept


@attrs.frozen(kw_only=True)
class VoteSaved:
    """The store's answer to SaveVote."""

    vote: SavedVote
    outcome: TermVote | Exception


@attrs.frozen(kw_only=True)
class Opened:
    """The store's answer to OpenSession.

    Attributes:
        vote: the vote that it saved with it, if any.
    """

    role: RoleChanged
    vote: SavedVote | None
    outcome: store_messages.SessionOpened | Exception


@attrs.frozen(kw_only=True)
class WatermarksSaid:
    """The checker's answer to GetWatermarks.

    Attributes:
        asked: the request for a transfer; None for the look at preferred leaders.
    """

    asked: Asked | None
    outcome: Watermarks | Exception


@attrs.frozen(kw_only=True)
class SaveAgainDue:
    """Timer: the vote has to be saved once more."""


@attrs.frozen(kw_only=True)
class LeadAgainDue:
    """Timer: the store may take entries again."""


@attrs.frozen(kw_only=True)
class LookForPreferred:
    """Timer: see `Election.look_for_preferred`."""


Message: TypeAlias = (
    Asked | Answered | store_messages.LedgerGrew | SessionReport | Held | ProveLeader | GetSigns
)
_Inbox: TypeAlias = (
    Message
    | VoteSaved
    | Opened
    | WatermarksSaid
    | TickDue
    | SaveAgainDue
    | LeadAgainDue
    | LookForPreferred
)


@attrs.define(kw_only=True)
class StateMaintainer(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        compat: upstream's looser rules.
        addresses: by member, where clients reach it: "host:port".
        synced: whether an entry counts as stored only once it is on the disk.
        role_status: where the role is published.
        actors: the actors that are sent sessions, by path.
        peers: by peer, the connection for votes and heartbeats, which carries nothing large.
        joining: whether this member's vote counts by itself.
    """

    mailbox = MailboxSpec(
        capacity=MAILBOX_CAPACITY, conflate={store_messages.LedgerGrew: lambda message: None}
    )
    sender: Sender
    addresses: dict[str, str]
    settings: ElectionSettings
    compat: CompatSettings
    synced: bool
    role_status: LeaderStatus
    store_ref: ActorRef[store_messages.Message]
    checker: ActorRef[HoldAppends | GetWatermarks]
    actors: dict[str, ActorRef[SessionChange]]
    peers: dict[str, ActorRef[Call]]
    joining: Joining
    _election: Election = attrs.field(init=False)
    _ends: StoredEnds = attrs.field(init=False)
    _broadcast: SessionBroadcast = attrs.field(init=False)
    _held: HeldEffects = attrs.field(init=False)
    _questions: OpenQuestions = attrs.field(factory=OpenQuestions, init=False)
    _clock: ElectionClock = attrs.field(init=False)
    _signs: PeerSigns = attrs.field(init=False)
    _unsaved: UnsavedVote = attrs.field(init=False)

    # ---- start and stop ----

    async def on_start(self) -> None:
        record = await self.store_ref.ask(
            store_messages.MemberRecord,
            lambda reply_to: store_messages.GetMember(reply_to=reply_to),
            timeout_s=STORE_TIMEOUT_S,
        )
        end = LedgerEnd(index=record.end, term=record.end_term)
        state = MemberState(
            self_id=self.sender.self_id,
            members=tuple(sorted(self.addresses)),
            vote=SavedVote(term=record.vote.term, voted_for=record.vote.voted_for),
            session=max(record.session, 0),
            end=end,
            membership=self.joining.present(record.membership),
        )
        self._election = Election(
            settings=self.settings,
            state=state,
            rng=self.ctx.rng,
            compat=self.compat,
            number=self.ctx.incarnation * NUMBERS_PER_INCARNATION,
        )
        self._ends = StoredEnds(self.synced, end)
        self._broadcast = SessionBroadcast(actors=self.actors, synced=self.synced)
        self._clock = ElectionClock(self.ctx.timers)
        self._signs = PeerSigns(self.sender)
        self._unsaved = UnsavedVote(self.sender)
        self._held = HeldEffects(waits=not self.compat.vote_unsynced)
        wanted = Subscribe(subscriber=self.ctx.self_ref, within_s=IDLE_NEWS_WITHIN_S)
        await self.store_ref.tell(wanted)
        if self.settings.preferred_leaders:
            self._look_later()
        self._emit(self.joining.began(state.membership))
        await self._carry_out(self._election.started(self.ctx.now_s()))
        self._want_news()

    async def on_stop(self, reason: StopReason) -> None:
        self.role_status.publish(None)
        await self.store_ref.tell(Unsubscribe(subscriber=self.ctx.self_ref))

    # ---- messages ----

    async def handle(self, message: _Inbox) -> None:
        election, now_s = self._election, self.ctx.now_s()
        match message:
            case Asked():
                await self._asked(message)
            case Answered():
                self._signs.heard(now_s, message, joins=bool(self.joining.reason))
                await self._carry_out(requests.answered(election, now_s, message))
            case store_messages.LedgerGrew():
                await self._grew(message)
            case TickDue():
                campaigns, saving = election.campaign_due(now_s), self._held.saving is not None
                if self._clock.ticks(now_s, message, campaigns=campaigns, saving=saving):
                    await self._carry_out(election.tick(now_s))
            case SawTerm():
                if not self._held.full:  # else its sender repeats it
                    await self._carry_out(election.saw_term(now_s, message.term))
            case Held():
                await self._carry_out(election.held(now_s, message.session, message.end))
            case ProveLeader() if self._held.full:
                message.reply_to.send(LeaderProven(term=TERM_NONE))
            case ProveLeader():
                if (token := self._questions.proof(message, election.proof)) is not None:
                    await self._carry_out(election.proof_requested(now_s, token))
            case Rejoin():
                await self._rejoin(message)
            case CaughtUp():
                await self._carry_out(election.caught_up(now_s, message.session))
            case StoreTakes():
                await self._store_takes(message)
            case LeadAgainDue():
                await self._carry_out(election.lead_allowed(now_s, True))
            case Opened():
                if message.vote is None or await self._saved(message.vote, message.outcome):
                    await self._opened(message)
            case VoteSaved():
                await self._saved(message.vote, message.outcome)
            case SaveAgainDue():
                if self._held.saving is not None:
                    self._save(self._held.saving)
            case WatermarksSaid():
                await self._watermarks_said(message)
            case GetSigns():
                message.reply_to.send(self._signs.signs(self._unsaved.reason, self.joining.reason))
            case LookForPreferred():
                self._look_later()
                self._ask_watermarks(None)
            case _:
                assert_never(message)
        self._want_news()

    async def _asked(self, asked: Asked) -> None:
        election, request = self._election, asked.request
        if self._held.full:
            asked.reply_to.fail(Overloaded("too much waits for a vote to be saved"))
            return
        match request:
            case VoteRequest():
                vote = requests.vote_asked(request)
                await self._carry_out(election.vote_requested(self.ctx.now_s(), vote), asked)
            case HeartBeatRequest():
                leader, term = request.leader_id or "", request.term
                await self._carry_out(election.heartbeat(self.ctx.now_s(), leader, term), asked)
            case MetadataRequest():
                asked.reply_to.send(
                    requests.metadata(request, self._election.state.leader, self.addresses)
                )
            case LeadershipTransferRequest():
                self._ask_watermarks(asked)
            case _:
                raise AssertionError(f"not for the maintainer: {type(request).__name__}")

    # ---- the log ----

    def _want_news(self) -> None:
        """Ask the store for news of the log now if a decision waits for them.

        Otherwise the next request brings them.
        """
        waits = self._broadcast.waits or self._election.waits_for_log
        self.ctx.limit_delay(NEWS_WITHIN_S if waits else math.inf)

    async def _grew(self, log: store_messages.LedgerGrew) -> None:
        end = LedgerEnd(index=log.end_index, term=log.end_term)
        kept = self._ends.grew(end, log.synced_index)
        self._signs.grew(log.end_index)
        await self._carry_out(self._election.grew(self.ctx.now_s(), log.session, kept))
        await self._broadcast.grew(log)
        self.role_status.publish(self._broadcast.role, is_open=self._broadcast.leads)

    async def _store_takes(self, message: StoreTakes) -> None:
        self._signs.full = message.refusal
        if message.refusal:
            self.ctx.timers.start("lead again", LEAD_AGAIN_S, LeadAgainDue())
        else:
            self.ctx.timers.cancel("lead again")
        await self._carry_out(self._election.lead_allowed(self.ctx.now_s(), not message.refusal))

    # ---- effects ----

    async def _carry_out(self, effects: Effects, asked: Asked | None = None) -> None:
        """Carry effects out in the order of `Effects`; those after an unsaved vote wait for it."""
        self._clock.wake_by(effects.deadline_s)
        self._held.add(Job(effects=effects, asked=asked))
        await self._work()

    async def _work(self) -> None:
        while (due := self._held.next()) is not None:
            if isinstance(due, Effects):
                self._save(due)
            else:
                await self._do(due)

    def _save(self, effects: Effects) -> None:
        """Have the store save the vote of these effects.

        If a session begins with the vote, the message that opens the session carries the vote too.
        """
        saved = effects.persist
        assert saved is not None
        if effects.role is not None and self._held.waits:
            self._open(effects.role, saved)
            return
        vote = TermVote(saved.term, saved.voted_for)
        self.ctx.ask_later(
            self.store_ref,
            TermVote,
            lambda reply_to: store_messages.SaveVote(vote=vote, reply_to=reply_to),
            timeout_s=STORE_TIMEOUT_S,
            on_reply=lambda outcome: VoteSaved(vote=saved, outcome=outcome),
        )

    async def _saved(self, vote: SavedVote, outcome: object) -> bool:
        """Take the store's answer, and do what waited for the vote.

        If it was not saved, set a timer to save it again.

        Returns: whether the vote was saved and effects waited for it.
        """
        saving = self._held.saving
        if saving is None or saving.persist != vote or isinstance(outcome, ActorDown):
            return False  # a late first answer, or the node ends
        failure = outcome if isinstance(outcome, Exception) else None
        self._emit(self._unsaved.tried(vote.term, failure))
        if failure is not None:
            self.ctx.timers.start("save again", SAVE_AGAIN_S, SaveAgainDue())
            return False
        self._held.saved()
        await self._work()
        if self._held.saving is None:
            self._clock.saved(self.ctx.now_s())
        return True

    async def _do(self, job: Job) -> None:
        effects, asked, sender = job.effects, job.asked, self.sender
        if effects.role is not None:
            self.role_status.lost = self._lost(effects.role)
            self.role_status.publish(effects.role)
            self._signs.took(self.ctx.now_s(), effects.role)
            await self._broadcast.rest(effects.role)
            if effects.persist is None or not self._held.waits:  # else it is open
                self._open(effects.role)
        role = self._broadcast.role
        if effects.hold_appends is not None and role is not None:
            await self.checker.tell(HoldAppends(session=role.session, on=effects.hold_appends))
        if effects.vote is not None and asked is not None:
            asked.reply_to.send(requests.vote_response(asked.request, effects.vote))
        if effects.heartbeat is not None and asked is not None:
            asked.reply_to.send(requests.heartbeat_response(effects.heartbeat))
        self._questions.answer(effects)
        sent = requests.calls(sender, self.peers, effects, self.settings, self.ctx.self_ref)
        for peer, call in sent:
            await self.peers[peer].tell(call)
        if effects.joined:
            self._emit(self.joining.joined())
        self._emit(self._signs.note_events(effects.events))

    def _lost(self, role: RoleChanged) -> str:
        if role.role is not Role.LEADER:
            return ""
        end_index = self._ends.kept.index
        return self.joining.elected(self._signs.joining, len(self.addresses), end_index)

    def _emit(self, events: Iterable[object]) -> None:
        for event in events:
            self.ctx.emit(event)

    # ---- sessions ----

    def _open(self, role: RoleChanged, saved: SavedVote | None = None) -> None:
        vote = None if saved is None else TermVote(saved.term, saved.voted_for)
        self.ctx.ask_later(
            self.store_ref,
            store_messages.SessionOpened,
            lambda reply_to: store_messages.OpenSession(
                session=role.session, term=role.term, vote=vote, reply_to=reply_to
            ),
            timeout_s=STORE_TIMEOUT_S,
            on_reply=lambda outcome: Opened(role=role, vote=saved, outcome=outcome),
        )

    async def _opened(self, opened: Opened) -> None:
        outcome, role = opened.outcome, opened.role
        if role is not self._broadcast.role:
            return
        if isinstance(outcome, AskTimeout):
            self._open(role)
        elif not isinstance(outcome, Exception):
            end = LedgerEnd(index=outcome.end_index, term=outcome.end_term)
            effects = self._election.fenced(self.ctx.now_s(), role.session, end)
            await self._carry_out(effects)
            if role is self._broadcast.role:
                await self._broadcast.opened(end)
                self.role_status.publish(role, is_open=self._broadcast.leads)

    async def _rejoin(self, rejoin: Rejoin) -> None:
        before = self._broadcast.role
        if rejoin.renew:
            await self._carry_out(self._election.renew(self.ctx.now_s()))
        if self._broadcast.role is before:
            await self._broadcast.repeat(rejoin.actor)

    # ---- transfers ----

    def _ask_watermarks(self, asked: Asked | None) -> None:
        self.ctx.ask_later(
            self.checker,
            Watermarks,
            lambda reply_to: GetWatermarks(reply_to=reply_to),
            timeout_s=WATERMARKS_TIMEOUT_S,
            on_reply=lambda outcome: WatermarksSaid(asked=asked, outcome=outcome),
        )

    async def _watermarks_said(self, said: WatermarksSaid) -> None:
        outcome, state = said.outcome, self._election.state
        known: dict[str, int] = {}
        if isinstance(outcome, Watermarks) and outcome.session == state.session:
            known = dict(outcome.indexes)
        now_s = self.ctx.now_s()
        if said.asked is None:
            await self._carry_out(self._election.look_for_preferred(now_s, known))
            return
        token = self._questions.transfer(said.asked)
        asked = requests.transfer_asked(said.asked.request, token)
        await self._carry_out(self._election.transfer_requested(now_s, asked, known))

    def _look_later(self) -> None:
        self.ctx.timers.start("preferred", self.settings.preferred_check_s, LookForPreferred())
