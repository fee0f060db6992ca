"""The steps from one role of a member to another, and what it does by the clock in each role.

`election.Election` adds the inputs. Each step writes its effects into `draft`, and `effects` hands
them out.
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
from actors.dledger.core.member_state import (
    ROLE_TRANSITIONS,
    TERM_MAX,
    MemberState,
    Role,
    SavedVote,
)
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
    """Mutable builder for `Effects`, with the same fields."""

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
        """Return the finished `Effects`."""
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
        rng: draws the pauses between campaigns.
        compat: upstream's looser rules.
        now_s: the time of the present input.
        may_lead: whether the store takes appends.
        raise_term: whether the next campaign is in the term after the present one.
        lost_term: the term whose leader this member followed, and then heard nothing from; -1 if
            there is none.
        barred_term: a term that this member may have led before it was restarted, and of which it
            may have lost entries. It campaigns in it to be heard, but leads in a later one. -1 if
            there is none.
        whole_session: the session in which this member has caught up as a follower; -1 if none.
        campaign_s: when a candidate's next campaign is due.
        number: the number of the last request; after a restart numbers begin above all earlier
            ones.
        round: the round of votes under way.
        beats: a leader's newest round of heartbeats.
        beat_s: when the next round of heartbeats is due.
        sign_s: when the leader was last heard or, on a leader, when the last round began that a
            quorum answered.
        heard: what a leader knows of its peers by their answers to heartbeats.
        out: the transfer that this leader carries out.
        preferred_pauses: preferred leaders that did not take over.
        taking: the transfer of which this member is the transferee.
        proof: the questions whether this member still leads.
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
        """Begin as a candidate of the saved term, in a session after all earlier ones."""
        self._enter(Role.CANDIDATE, "")
        self.state.end_final = False
        self.campaign_s = self.now_s + self.pause(Pause.RANDOM)

    def enter_again(self) -> None:
        """Continue as leader or follower in a new session; a transfer of the old one fails."""
        state = self.state
        if state.role is Role.CANDIDATE:
            return
        if self.out is not None:
            self.answer_out(ResponseCode.TAKE_LEADERSHIP_FAILED)
        self._enter(state.role, state.leader)
        state.end_final = False

    def to_candidate(self, term: int) -> None:
        """Become a candidate in `term`, the present term or a larger one, which is saved first."""
        state = self.state
        assert term >= state.term
        changed = term > state.term
        # A candidate takes no append, so a log's end that was final stays final in a new term.
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
        """Follow the present term's leader. Only a heartbeat leads to this."""
        self.sign_s = self.now_s
        self.round, self.raise_term = None, False
        self._enter(Role.FOLLOWER, leader)
        self.state.end_final = False

    def to_leader(self) -> None:
        """Lead in the present term, in which a quorum voted for this member."""
        state = self.state
        assert state.end_final
        self.round, self.raise_term, self.heard = None, False, PeersHeard()
        self.counts_from_now()  # no member has a longer log
        self.sign_s = self.beat_s = self.now_s
        self._enter(Role.LEADER, state.self_id)
        state.end_final = False
        if self.out is not None:  # it is of an earlier leadership
            self.answer_out(ResponseCode.TAKE_LEADERSHIP_FAILED)
        self.send_heartbeats()

    def counts_from_now(self) -> None:
        """Let this member's vote count by itself from now on.

        Its vote is saved first: one that is lost in this term could elect a second leader.
        """
        state = self.state
        if state.is_partial:
            state.membership, self.draft.joined = Membership.FULL, True
            if not state.vote.voted_for:
                self.save(SavedVote(term=state.term, voted_for=state.leader))

    def _enter(self, role: Role, leader: str) -> None:
        state = self.state
        assert role in ROLE_TRANSITIONS[state.role], f"{state.role.name} to {role.name}"
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
        """Become a candidate in the term that another member has, if it is larger."""
        if term > self.state.term:
            self.to_candidate(term)

    def save(self, vote: SavedVote) -> None:
        """Save a term and a vote. Terms only rise, and each has one vote (ElectionSafety)."""
        old = self.state.vote
        assert vote.term >= old.term
        assert vote.term > old.term or old.voted_for in ("", vote.voted_for)
        if vote != old:
            self.state.vote = vote
            self.draft.persist = vote

    @property
    def waits_for_log(self) -> bool:
        """Whether a decision waits for this member's log to grow."""
        return self.taking is not None or self.state.is_partial

    def look_at_membership(self) -> None:
        """Let a follower's vote count by itself once it holds its leader's log.

        An empty log does not do: after a restart it looks like a lost one.
        """
        state = self.state
        is_whole = self.whole_session == state.session and state.end.index >= 0
        if state.role is Role.FOLLOWER and is_whole:
            self.counts_from_now()

    # ---- by the clock ----

    @property
    def stands(self) -> bool:
        """Whether this member may campaign. It may not if the next term would be above TERM_MAX."""
        over = self.raise_term and self.state.term >= TERM_MAX
        return self.may_lead and self.settings.candidate and not over

    def maintain_as_candidate(self) -> None:
        """Judge a round of votes that has ended, and begin a campaign that is due."""
        if self.round is not None:
            self.settle_round()
        elif self.now_s >= self.campaign_s and self.stands and self.state.end_final:
            self._campaign()

    def _campaign(self) -> None:
        """Ask every member for its vote, this one first and in memory."""
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
        """Act on the round of votes if it has ended: lead, or plan the next campaign."""
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
        """Return the seconds until the next campaign, drawn at random for most kinds of pauses."""
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
        """Send heartbeats that are due; step down if no quorum has answered for too long."""
        if self.now_s >= self.sign_s + self.settings.leak_s:
            self.to_candidate(self.state.term)
        elif self.now_s >= self.beat_s:
            self.send_heartbeats()

    def maintain_transfers(self) -> None:
        """Fail transfers that have taken too long."""
        if self.out is not None and self.now_s >= self.out.deadline_s:
            self.end_out(ResponseCode.TIMEOUT)
        if self.taking is not None and self.now_s >= self.taking.deadline_s:
            self.end_take_over(ResponseCode.TAKE_LEADERSHIP_FAILED)

    def send_heartbeats(self) -> None:
        """Begin a round of heartbeats to every peer. A group of one is its own quorum."""
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
        """Whether this member campaigns as the transferee of a transfer."""
        taking = self.taking
        return taking is not None and taking.index is None and taking.term == self.state.term

    def end_out(self, code: ResponseCode) -> None:
        """Fail this leader's transfer with `code`, and take appends again."""
        self.answer_out(code)
        if self.state.role is Role.LEADER:
            self.draft.hold_appends = False

    def answer_out(self, code: ResponseCode) -> None:
        """End this leader's transfer, and answer the request for it, if there was one."""
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
        """Campaign in the next term, as the transferee, once the log is long enough.

        A provisional voter could end the present leadership and then not be elected, if one member
        is down. So it waits until its vote counts by itself, unless the log of the leader, a Java
        member, is empty.
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
                pass  # `fenced` and `lead_allowed` look again; without candidacy it only votes
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
        """Return the effects of the present input, and begin with none for the next one."""
        draft, self.draft = self.draft, Draft()
        return draft.effects(self._deadline_s())
