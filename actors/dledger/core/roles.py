"""How a member changes its role, and what it does in each by the clock.

`election.Election` is this and the inputs. Each step writes what it asks for into `draft`, which
`effects` hands out.
"""

from __future__ import annotations

from random import Random

import attrs

from actors.dledger.core.election_effects import (
    AskVotes,
    Effects,
    HeartbeatAnswer,
    RoleChanged,
    SendHeartbeats,
    SendTransfer,
    TransferAnswer,
)
from actors.dledger.core.heartbeats import HeartbeatRound
from actors.dledger.core.leader_proof import LeaderProof, Proven
from actors.dledger.core.member_state import TERM_MAX, MemberState, Role, SavedVote
from actors.dledger.core.preferred import PreferredPauses
from actors.dledger.core.settings import (
    BEHIND_PAUSE_S,
    LEADER_SEEN_LEAKS,
    LEADER_SEEN_RAFT_LEAKS,
    REVOTE_PAUSE_S,
    STRICT,
    TRANSFER_TIMEOUT_S,
    CompatSettings,
    ElectionSettings,
)
from actors.dledger.core.transfer import PeersHeard, TakeOver, TransferOut, reached, take_over_code
from actors.dledger.core.votes import ParseResult, Pause, VoteAnswer, VoteAsked, VoteRound, judge
from actors.events import dledger as events
from actors.log_types import Membership
from wire.dledger.codes import ResponseCode, VoteResult


@attrs.define(kw_only=True)
class Draft:
    """Mutable builder for `Effects`, whose fields these are."""

    persist: SavedVote | None = None
    role: RoleChanged | None = None
    hold_appends: bool | None = None
    vote: VoteAnswer | None = None
    heartbeat: HeartbeatAnswer | None = None
    transfers: list[TransferAnswer] = attrs.field(factory=list)
    proven: list[Proven] = attrs.field(factory=list)
    ask_votes: AskVotes | None = None
    send_heartbeats: SendHeartbeats | None = None
    send_transfer: SendTransfer | None = None
    joined: bool = False
    events: list[object] = attrs.field(factory=list)

    def effects(self, deadline_s: float | None) -> Effects:
        """What they have come to."""
        return Effects(
            persist=self.persist,
            role=self.role,
            hold_appends=self.hold_appends if self.role is None else None,
            vote=self.vote,
            heartbeat=self.heartbeat,
            transfers=tuple(self.transfers),
            proven=tuple(self.proven),
            ask_votes=self.ask_votes,
            send_heartbeats=self.send_heartbeats,
            send_transfer=self.send_transfer,
            joined=self.joined,
            events=tuple(self.events),
            deadline_s=deadline_s,
        )


@attrs.define(kw_only=True)
class Roles:
    """See the module's text.

    Attributes:
        rng: for the pauses between campaigns.
        compat: upstream's looser rules.
        now_s: of the input that is worked on.
        may_lead: the store takes appends.
        raise_term: the next campaign is in the term after the present one.
        lost_term: this member followed a leader of that term, and missed it; -1 if there is none.
        barred_term: this member may have led it before it was restarted, and lost what it gave
            out then: it campaigns to be heard, but leads in a later one; -1 if there is none.
        whole_session: in which this member, as follower, has caught up; -1 if in none.
        campaign_s: when a candidate's next campaign is due.
        number: of the last request; a member's later life begins above all that it ever sent.
        round: the votes that a candidate waits for.
        beats: a leader's newest round of heartbeats.
        beat_s: when the next one is due.
        sign_s: the last sign of life: of the leader, or, for a leader, of a quorum.
        heard: what the answers to a leader's heartbeats say of its peers.
        out: the transfer that this leader runs.
        preferred_pauses: preferred leaders that did not take over.
        taking: the transfer that this member is the transferee of.
        proof: who asks whether this member still leads.
    """

    settings: ElectionSettings
    state: MemberState
    rng: Random
    compat: CompatSettings = STRICT
    now_s: float = attrs.field(default=0.0, init=False)
    may_lead: bool = attrs.field(default=True, init=False)
    raise_term: bool = attrs.field(default=False, init=False)
    lost_term: int = attrs.field(default=-1, init=False)
    barred_term: int = attrs.field(default=-1, init=False)
    whole_session: int = attrs.field(default=-1, init=False)
    campaign_s: float = attrs.field(default=0.0, init=False)
    round: VoteRound | None = attrs.field(default=None, init=False)
    beats: HeartbeatRound | None = attrs.field(default=None, init=False)
    beat_s: float = attrs.field(default=0.0, init=False)
    sign_s: float = attrs.field(default=0.0, init=False)
    number: int = 0
    heard: PeersHeard = attrs.field(factory=PeersHeard, init=False)
    out: TransferOut | None = attrs.field(default=None, init=False)
    preferred_pauses: PreferredPauses = attrs.field(factory=PreferredPauses, init=False)
    taking: TakeOver | None = attrs.field(default=None, init=False)
    proof: LeaderProof = attrs.field(factory=LeaderProof, init=False)
    draft: Draft = attrs.field(factory=Draft, init=False)

    # ---- roles ----

    def begin(self) -> None:
        """As a candidate of the remembered term, in a session after all earlier ones."""
        self._enter(Role.CANDIDATE, "")
        self.state.end_final = False
        self.campaign_s = self.now_s + self.pause(Pause.RANDOM)

    def enter_again(self) -> None:
        """A leader or follower goes on in a new session; a transfer of the old one has failed."""
        state = self.state
        if state.role is Role.CANDIDATE:
            return
        if self.out is not None:
            self.answer_out(ResponseCode.TAKE_LEADERSHIP_FAILED)
        self._enter(state.role, state.leader)
        state.end_final = False

    def to_candidate(self, term: int) -> None:
        """Stand for that term, the present one or a larger one, which is taken at once."""
        state = self.state
        assert term >= state.term
        changed = term > state.term
        # Who was a candidate takes no append by changing its term: what was final still is.
        final = self.settings.raft_votes and state.role is Role.CANDIDATE and state.end_final
        if changed:
            self.save(SavedVote(term=term))
            self.raise_term = False
        self.round, self.beats = None, None
        if state.role is not Role.CANDIDATE or changed:
            self._enter(Role.CANDIDATE, "")
            state.end_final = final
        self.campaign_s = self.now_s + self.pause(Pause.RANDOM)

    def to_follower(self, leader: str) -> None:
        """Follow the present term's leader. Only a heartbeat does this."""
        self.sign_s = self.now_s
        self.round, self.raise_term = None, False
        self._enter(Role.FOLLOWER, leader)
        self.state.end_final = False

    def to_leader(self) -> None:
        """Lead in the present term, for which a quorum voted."""
        state = self.state
        assert state.role is Role.CANDIDATE
        assert state.end_final
        self.round, self.raise_term, self.heard = None, False, PeersHeard()
        self.counts_from_now()  # nobody has more
        self.sign_s = self.beat_s = self.now_s
        self._enter(Role.LEADER, state.self_id)
        state.end_final = False
        if self.out is not None:  # of an earlier leadership
            self.answer_out(ResponseCode.TAKE_LEADERSHIP_FAILED)
        self.send_heartbeats()

    def counts_from_now(self) -> None:
        """Its vote does. A vote lost in this term could elect a second leader."""
        state = self.state
        if state.is_partial:
            state.membership, self.draft.joined = Membership.FULL, True
            if not state.vote.voted_for:
                self.save(SavedVote(term=state.term, voted_for=state.leader))

    def _enter(self, role: Role, leader: str) -> None:
        state = self.state
        state.role, state.leader = role, leader
        state.session += 1
        self.draft.proven += self.proof.lost()
        changed = RoleChanged(session=state.session, role=role, term=state.term, leader=leader)
        self.draft.role = changed
        self.draft.events.append(
            events.RoleChanged(
                session=changed.session, role=role.name, term=changed.term, leader=leader
            )
        )
        if self.taking is not None:
            code = take_over_code(state, self.taking.term)
            if code is not None:
                self.end_take_over(code)

    def larger_term(self, term: int) -> None:
        """Somebody has it. A member that is behind becomes a candidate of it."""
        if term > self.state.term:
            self.to_candidate(term)

    def save(self, vote: SavedVote) -> None:
        """Terms rise, and one has one vote: ElectionSafety rests on it."""
        old = self.state.vote
        assert vote.term >= old.term
        assert vote.term > old.term or old.voted_for in ("", vote.voted_for)
        if vote != old:
            self.state.vote = vote
            self.draft.persist = vote

    @property
    def waits_for_log(self) -> bool:
        """How far its log has grown decides something soon."""
        return self.taking is not None or self.state.is_partial

    def look_at_membership(self) -> None:
        """A follower's vote counts once it holds its leader's log; one without entries is not told
        from a lost one when it starts again.
        """
        state = self.state
        is_whole = self.whole_session == state.session and state.end.index >= 0
        if state.role is Role.FOLLOWER and is_whole:
            self.counts_from_now()

    # ---- by the clock ----

    @property
    def stands(self) -> bool:
        """This member may campaign; not where that takes a term in which nobody would hear it."""
        over = self.raise_term and self.state.term >= TERM_MAX
        return self.may_lead and self.settings.candidate and not over

    def maintain_as_candidate(self) -> None:
        """A round that has run out is judged; a campaign that is due begins."""
        if self.round is not None:
            self.settle_round()
        elif self.now_s >= self.campaign_s and self.stands and self.state.end_final:
            self._campaign()

    def _campaign(self) -> None:
        """Ask everybody, this member first and in memory."""
        state = self.state
        if self.raise_term:
            self.raise_term = False
            self.save(SavedVote(term=state.term + 1))
            self._enter(Role.CANDIDATE, "")  # no append can have come: the end is still final
        settings = self.settings
        wait_s = settings.heartbeat_interval_s
        wait_s += self.rng.uniform(0.0, settings.vote_round_extra_s)
        asked = VoteAsked(candidate=state.self_id, term=state.term, end=state.end)
        own = judge(state, asked, internal=True, taking_leadership=False)
        had_leader = state.term in (self.lost_term, self.barred_term)
        refuses = own.answer.result is not VoteResult.ACCEPT
        probes = settings.raft_votes and (had_leader or refuses)
        self.round = votes = VoteRound(
            number=self.next_number(),
            term=state.term,
            voters=state.members,
            quorum=state.quorum,
            deadline_s=self.now_s + wait_s,
            probe_until_s=self.now_s + settings.heartbeat_interval_s if probes else None,
        )
        if own.vote is not None:
            self.save(own.vote)
        ask = AskVotes(number=votes.number, term=state.term, end=state.end)
        votes.answered(state.self_id, own.answer)
        self.settle_round()
        if self.round is votes:
            self.draft.ask_votes = ask

    def settle_round(self) -> None:
        """If the round is over: lead, or ask again later."""
        if self.round is None or not self.round.over(self.now_s):
            return
        result, leaderless = self.round.result(self.now_s), self.round.leaderless(self.now_s)
        self.round = None
        match result.parse_result:
            case ParseResult.PASSED if self.state.term != self.barred_term:
                self.to_leader()
                return
            case ParseResult.WAIT_TO_VOTE_NEXT if result.larger_term is not None:
                self.to_candidate(result.larger_term)
            case ParseResult.PASSED | ParseResult.WAIT_TO_VOTE_NEXT:
                self.raise_term = True
                if leaderless and self.stands:
                    self._campaign()
                    return
            case ParseResult.WAIT_TO_REVOTE | ParseResult.REVOTE_IMMEDIATELY:
                pass
        self.campaign_s = self.now_s + self.pause(result.pause)

    def pause(self, pause: Pause) -> float:
        """Seconds until the next campaign."""
        settings = self.settings
        low, high = settings.vote_interval_min_s, settings.vote_interval_max_s
        if self.takes_leadership:
            low, high = settings.take_over_interval_min_s, settings.take_over_interval_max_s
        match pause:
            case Pause.NONE:
                return REVOTE_PAUSE_S
            case Pause.RANDOM:
                return self.rng.uniform(low, high)
            case Pause.LEADER_SEEN:
                leaks = LEADER_SEEN_RAFT_LEAKS if settings.raft_votes else LEADER_SEEN_LEAKS
                extra_s = leaks * settings.heartbeat_interval_s
                return self.rng.uniform(low, high) + extra_s
            case Pause.BEHIND:
                return self.rng.uniform(low, high) + BEHIND_PAUSE_S

    def maintain_as_leader(self) -> None:
        """Heartbeats when they are due; no quorum for too long ends the leadership."""
        if self.now_s >= self.sign_s + self.settings.leak_s:
            self.to_candidate(self.state.term)
        elif self.now_s >= self.beat_s:
            self.send_heartbeats()

    def maintain_transfers(self) -> None:
        """What is waited for too long has failed."""
        if self.out is not None and self.now_s >= self.out.deadline_s:
            self.end_out(ResponseCode.TIMEOUT)
        if self.taking is not None and self.now_s >= self.taking.deadline_s:
            self.end_take_over(ResponseCode.TAKE_LEADERSHIP_FAILED)

    def send_heartbeats(self) -> None:
        """To every peer; a group of one is its own quorum."""
        state = self.state
        number = self.next_number()
        self.beats = HeartbeatRound(
            number=number, peers=len(state.peers), quorum=state.quorum, sent_s=self.now_s
        )
        self.beat_s = self.now_s + self.settings.heartbeat_interval_s
        self.proof.began(number)
        if len(state.members) == 1:
            self.sign_s = self.now_s
            self.draft.proven += self.proof.quorum(number, state.term)
        else:
            self.draft.send_heartbeats = SendHeartbeats(number=number, term=state.term)

    # ---- transfers ----

    @property
    def takes_leadership(self) -> bool:
        """This member campaigns as the transferee of a transfer."""
        taking = self.taking
        return taking is not None and taking.index is None and taking.term == self.state.term

    def end_out(self, code: ResponseCode) -> None:
        """The transfer failed; a leader goes on leading."""
        self.answer_out(code)
        if self.state.role is Role.LEADER:
            self.draft.hold_appends = False

    def answer_out(self, code: ResponseCode) -> None:
        """The transfer is over; who asked for it is answered."""
        assert self.out is not None
        failed = code is not ResponseCode.SUCCESS
        silent = self.compat.transfer_unanswered and self.state.role is not Role.LEADER and failed
        if not failed:
            self.preferred_pauses.took_over(self.out.transferee)
        elif self.out.token is None:
            check_s = self.settings.preferred_check_s
            self.preferred_pauses.failed(self.out.transferee, self.now_s, check_s)
        if self.out.token is not None and not silent:
            self.answer_transfer(self.out.token, code)
        self.out = None

    def answer_transfer(self, token: int, code: ResponseCode) -> None:
        self.draft.transfers.append(TransferAnswer(token=token, code=code, term=self.state.term))

    def look_at_take_over(self) -> None:
        """As transferee: campaign in the next term once the log is long enough. While its vote
        counts only with all others' it would end a leadership, and win none if one is down; so it
        waits until it has joined, unless there is nothing to hold (a Java leader of no entry yet).
        """
        taking = self.taking
        if taking is None or taking.index is None:
            return
        if self.state.is_partial and taking.index >= 0:
            return
        if reached(self.state.end, taking.index):
            taking.index = None
            taking.deadline_s = self.now_s + TRANSFER_TIMEOUT_S
            self.to_candidate(taking.term)

    def end_take_over(self, code: ResponseCode) -> None:
        assert self.taking is not None
        self.answer_transfer(self.taking.token, code)
        self.taking = None

    # ---- what is handed out ----

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def _deadline_s(self) -> float | None:
        due: list[float] = []
        match self.state.role:
            case Role.CANDIDATE if self.round is not None:
                due.append(self.round.ends_s)
            case Role.CANDIDATE if self.stands and self.state.end_final:
                due.append(self.campaign_s)
            case Role.CANDIDATE:
                pass  # `fenced` and `lead_allowed` look again; who does not stand only votes
            case Role.FOLLOWER:
                due.append(self.sign_s + self.settings.leak_s)
            case Role.LEADER:
                due += [self.beat_s, self.sign_s + self.settings.leak_s]
        if self.out is not None:
            due.append(self.out.deadline_s)
        if self.taking is not None:
            due.append(self.taking.deadline_s)
        return min(due, default=None)

    def effects(self) -> Effects:
        """What the input asks for."""
        draft, self.draft = self.draft, Draft()
        return draft.effects(self._deadline_s())
