"""The election: how a member campaigns, votes, follows, leads and hands its leadership over.

Source: openmessaging/dledger, DLedgerLeaderElector.java, 0.3.1.2; dledger.md 4.1 to
4.5; Raft sections 5.1 and 5.2. `votes`, `heartbeats` and `transfer` judge single requests and
rounds; `roles` has the steps from one role to another.

Inputs: `started`, `renew`, `fenced`, `grew`, `vote_requested`, `vote_answered`, `heartbeat`,
`heartbeat_answered`, `caught_up`, `saw_term`, `lead_allowed`, `proof_requested`, `tick`, and those
of a transfer: `transfer_requested`, `held`, `transfer_answered`, `look_for_preferred`. Each gives
Effects. `now_s` never goes back.

Differs from upstream:
- A larger term is taken at once, also in the middle of a round of votes; upstream's candidate first
  waits the round out. One that no elections can have come to is not taken (`_leaps`).
- With `ElectionSettings.raft_votes` a member takes a larger term and votes in it in one step. A
  candidate that has heard from a quorum that it sees no leader begins the next term's round of
  votes at once, without a pause. Of two candidates that probe at the same time one gives way.
  Members with and without it, and upstream's, elect each other: nothing on the wire is new.
- A candidate asks for votes only once the store has reported the end of the log for this session.
- A leader whose disk is full or fails steps down; such a member neither campaigns nor takes
  leadership over (bug V10; `CompatSettings.lead_without_disk`).
- A member may be no candidate (`ElectionSettings.candidate`).
- A member that had a vote in the present term before it was restarted does not lead in it. It may
  have led, and its peers may hold what a kill took from it: leading the same term again, it would
  give the same index and term to another entry. With `raft_votes` it probes there first, for others
  may have a leader; else, if the vote is its own, it takes the next term before it campaigns.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from actors.dledger.core.election_effects import Effects, HeartbeatAnswer, SendTransfer
from actors.dledger.core.heartbeats import Heard, RoundOutcome, judge_heartbeat
from actors.dledger.core.leader_proof import Proven
from actors.dledger.core.member_state import TERM_LEAP_MAX, TERM_NONE, LedgerEnd, Role
from actors.dledger.core.preferred import preferred
from actors.dledger.core.roles import Roles
from actors.dledger.core.settings import REVOTE_PAUSE_S, TRANSFER_TIMEOUT_S
from actors.dledger.core.transfer import (
    TakeOver,
    TransferAsked,
    TransferOut,
    may_be_elected,
    refuse_take_over,
    refuse_transfer,
)
from actors.dledger.core.votes import Judgement, Pause, VoteAnswer, VoteAsked, judge
from actors.events import dledger as events
from wire.dledger.codes import ResponseCode, VoteResult


@attrs.define(kw_only=True)
class Election(Roles):
    """A member's election. See the module's text."""

    _leapt: set[str] = attrs.field(factory=set, init=False)  # peers whose leap was reported

    def started(self, now_s: float) -> Effects:
        """Join the group as a candidate, now that the log is recovered."""
        self.now_s = now_s
        self.begin()
        vote = self.state.vote
        own = vote.voted_for == self.state.self_id
        self.raise_term = own and not self.settings.raft_votes
        self.barred_term = vote.term if vote.voted_for else -1  # others may have made it the leader
        return self.effects()

    def renew(self, now_s: float) -> Effects:
        """Begin a new session of the same role and term, because an actor was restarted.

        It has forgotten what it did in the old session. The actors of a candidate rest, so there
        is nothing to forget.
        """
        self.now_s = now_s
        self.enter_again()
        return self.effects()

    def fenced(self, now_s: float, session: int, end: LedgerEnd) -> Effects:
        """Note that the store acts by `session`, and where its log ended when it began to."""
        self.now_s = now_s
        if session == self.state.session:
            self.state.end = end
            self.state.end_final = self.state.role is Role.CANDIDATE
            self.look_at_take_over()
        return self.effects()

    def grew(self, now_s: float, session: int, end: LedgerEnd) -> Effects:
        """Note the log's end in `session`; in a synced group, the end of what is synced."""
        self.now_s = now_s
        state = self.state
        if session == state.session and state.role is not Role.CANDIDATE:
            state.end, state.end_final = end, False
            self.look_at_membership()
        self.look_at_take_over()
        return self.effects()

    def vote_requested(self, now_s: float, asked: VoteAsked) -> Effects:
        """Judge a candidate's request; `Effects.vote` is the answer."""
        self.now_s = now_s
        if self._leaps(asked.candidate, asked.term):
            self.draft.vote = VoteAnswer(result=VoteResult.UNKNOWN, term=self.state.term)
            return self.effects()
        judgement = self._judge(asked)
        if judgement.raise_to is not None:
            self.to_candidate(judgement.raise_to)
            if self.settings.raft_votes:
                judgement = self._judge(asked)  # now in the candidate's term
        if judgement.vote is not None:
            self.save(judgement.vote)
            self.campaign_s = max(self.campaign_s, now_s + self.pause(Pause.RANDOM))
        elif self.round is not None and self.round.gives_way(self.state, asked, judgement.answer):
            self.round = None
            self.campaign_s = now_s + self.pause(Pause.RANDOM)
        self.draft.vote = judgement.answer
        return self.effects()

    def _leaps(self, peer: str, term: int) -> bool:
        """Return whether elections cannot have raised a term to this one; if so, emit TermRefused.

        Such a term is not adopted. The event is emitted once for each peer.

        Args:
            peer: the name in its request, whether it is a member's or not; "" for a leader whose
                push or answer bore the term.
        """
        state = self.state
        leaps = term > state.term + TERM_LEAP_MAX and (not peer or peer in state.peers)
        if leaps and peer not in self._leapt:
            self._leapt.add(peer)
            refused = events.TermRefused(peer=peer, term=term, known=state.term)
            self.draft.events.append(refused)
        return leaps

    def _judge(self, asked: VoteAsked) -> Judgement:
        return judge(
            self.state,
            asked,
            internal=False,
            taking_leadership=self.takes_leadership,
            beside_leader=self.compat.votes_beside_leader,
        )

    def vote_answered(
        self, now_s: float, number: int, voter: str, answer: VoteAnswer | None
    ) -> Effects:
        """Take an answer to `AskVotes`; None if no answer can come any more."""
        self.now_s = now_s
        if self.round is not None and self.round.number == number:
            if answer is not None and self._leaps(voter, answer.term):
                answer = None
            self.round.answered(voter, answer)
            self.settle_round()
        return self.effects()

    def heartbeat(self, now_s: float, leader: str, term: int) -> Effects:
        """Judge a leader's heartbeat; `Effects.heartbeat` is the answer."""
        self.now_s = now_s
        if self._leaps(leader, term):
            code = ResponseCode.UNEXPECTED_ARGUMENT
            self.draft.heartbeat = HeartbeatAnswer(code=code, term=self.state.term)
            return self.effects()
        verdict = judge_heartbeat(self.state, leader, term)
        match verdict.heard:
            case Heard.RAISE:
                self.to_candidate(term)
            case Heard.FOLLOW:
                self.to_follower(leader)
                self.preferred_pauses.took_over(leader)
            case Heard.REFRESH:
                self.sign_s = now_s
            case Heard.NOTHING:
                pass
        joins = verdict.code is ResponseCode.SUCCESS and self.state.is_partial
        self.draft.heartbeat = HeartbeatAnswer(code=verdict.code, term=verdict.term, joins=joins)
        return self.effects()

    def heartbeat_answered(
        self,
        now_s: float,
        number: int,
        peer: str,
        code: ResponseCode,
        term: int,
        *,
        joins: bool = False,
    ) -> Effects:
        """Take an answer to `SendHeartbeats`; NETWORK_ERROR if no answer can come any more."""
        self.now_s = now_s
        if self._leaps(peer, term):
            code, term = ResponseCode.UNKNOWN, TERM_NONE
        if code is ResponseCode.SUCCESS and term not in (TERM_NONE, self.state.term):
            code = ResponseCode.UNKNOWN  # it follows somebody, but not the leader of this term
        self.heard.answered(peer, number, code, joins=joins)
        self._look_at_hand_over()
        if code is ResponseCode.EXPIRED_TERM and not self.compat.quorum_hides_terms:
            self.larger_term(term)  # a late answer's term is as true
        if self.beats is None or self.beats.number != number:
            return self.effects()
        match self.beats.answered(peer, code, term):
            case RoundOutcome.QUORUM:
                self.sign_s = max(self.sign_s, self.beats.sent_s)
                self.draft.proven += self.proof.quorum(number, self.state.term)
                if self.proof.wants_round:
                    self.send_heartbeats()
            case RoundOutcome.AGAIN:
                self.beat_s = min(self.beat_s, now_s + REVOTE_PAUSE_S)
            case RoundOutcome.OTHER_LEADER:
                self.to_candidate(self.state.term)
            case RoundOutcome.OPEN if self.beats.all_answered:
                self.larger_term(self.beats.term_max)
            case RoundOutcome.OPEN:
                pass
        return self.effects()

    def caught_up(self, now_s: float, session: int) -> Effects:
        """Note that this follower holds all that its leader's log had when both were compared."""
        self.now_s = now_s
        if session == self.state.session and self.state.role is Role.FOLLOWER:
            self.whole_session = session
            self.look_at_membership()
            self.look_at_take_over()
        return self.effects()

    def saw_term(self, now_s: float, term: int) -> Effects:
        """Note that a push, or the answer to one, bore this term."""
        self.now_s = now_s
        if not self._leaps("", term) and not self.compat.quorum_hides_terms:
            self.larger_term(term)
        return self.effects()

    def lead_allowed(self, now_s: float, allowed: bool) -> Effects:
        """Note whether the store takes appends; if not, the member neither leads nor campaigns."""
        self.now_s = now_s
        allowed = allowed or self.compat.lead_without_disk
        self.may_lead = allowed
        if not allowed:
            self.round = None
            if self.taking is not None:
                self.end_take_over(ResponseCode.TAKE_LEADERSHIP_FAILED)
            if self.state.role is Role.LEADER:
                self.to_candidate(self.state.term)
        return self.effects()

    def proof_requested(self, now_s: float, token: int) -> Effects:
        """Ask whether this member leads now; `Effects.proven` has the answer, now or later."""
        self.now_s = now_s
        if self.state.role is not Role.LEADER:
            self.draft.proven.append(Proven(token, TERM_NONE))
        elif self.proof.asked(token):
            self.send_heartbeats()
        return self.effects()

    def tick(self, now_s: float) -> Effects:
        """Do what is due, because `Effects.deadline_s` has passed."""
        self.now_s = now_s
        match self.state.role:
            case Role.CANDIDATE:
                self.maintain_as_candidate()
            case Role.FOLLOWER:
                if now_s >= self.sign_s + self.settings.leak_s:
                    self.lost_term = self.state.term
                    self.to_candidate(self.state.term)
            case Role.LEADER:
                self.maintain_as_leader()
        self.maintain_transfers()
        return self.effects()

    def campaign_due(self, now_s: float) -> bool:
        """Return whether `tick` would give the leader up for lost, or begin a round of votes."""
        if len(self.state.members) == 1 or self.takes_leadership:
            return False
        match self.state.role:
            case Role.CANDIDATE:
                ready = self.round is None and self.stands and self.state.end_final
                return ready and now_s >= self.campaign_s
            case Role.FOLLOWER:
                return now_s >= self.sign_s + self.settings.leak_s
            case Role.LEADER:
                return False

    def transfer_requested(
        self, now_s: float, asked: TransferAsked, watermarks: Mapping[str, int]
    ) -> Effects:
        """Hand the leadership over, or take it over as the transferee.

        `Effects.transfers` has the answer, now or later.

        Args:
            watermarks: by peer, the highest index that it acknowledged in the present term, if this
                member leads.
        """
        self.now_s = now_s
        if asked.transferer == self.state.self_id:
            running = self.out is not None
            code = refuse_transfer(
                self.state,
                self.settings,
                asked,
                watermarks=watermarks,
                heard=self.heard,
                running=running,
            )
            if code is None:
                self._hand_over(asked.transferee, asked.token)
        elif asked.transferee == self.state.self_id:
            code = refuse_take_over(self.state, asked)
            if code is None and self.taking is not None:
                code = ResponseCode.LEADER_TRANSFERRING
            if code is None and not self.stands:
                code = ResponseCode.TAKE_LEADERSHIP_FAILED
            if code is None:
                deadline_s = now_s + self.settings.transfer_wait_s
                self.taking = TakeOver(
                    token=asked.token,
                    term=self.state.term + 1,
                    index=asked.index,
                    deadline_s=deadline_s,
                )
                self.look_at_take_over()
        else:
            code = ResponseCode.UNEXPECTED_ARGUMENT
        if code is not None:
            self.answer_transfer(asked.token, code)
        return self.effects()

    def _hand_over(self, transferee: str, token: int | None) -> None:
        """Begin to hand over: hold appends, so that the log's end stays, and ask who follows."""
        self.send_heartbeats()
        self.out = TransferOut(
            transferee=transferee,
            token=token,
            deadline_s=self.now_s + TRANSFER_TIMEOUT_S,
            beats=self.number,
        )
        self.draft.hold_appends = True

    def held(self, now_s: float, session: int, end: LedgerEnd) -> Effects:
        """Note that no append is taken since `Effects.hold_appends`, and where the log ends."""
        self.now_s = now_s
        out, state = self.out, self.state
        if session == state.session and out is not None and out.end is None:
            state.end = out.end = end
            self._look_at_hand_over()
        return self.effects()

    def _look_at_hand_over(self) -> None:
        """Send the transferee its request once no append is taken and it may be elected."""
        out, state = self.out, self.state
        if out is None or out.end is None or out.number is not None:
            return
        if state.role is Role.LEADER and may_be_elected(
            state, out.transferee, self.heard, out.beats
        ):
            out.number, out.term = self.next_number(), state.term
            self.draft.send_transfer = SendTransfer(
                number=out.number, transferee=out.transferee, term=state.term, index=out.end.index
            )

    def transfer_answered(
        self, now_s: float, number: int, code: ResponseCode, term: int
    ) -> Effects:
        """Take the transferee's answer to `SendTransfer`, and the term in which it answered."""
        self.now_s = now_s
        if self.out is not None and self.out.number == number:
            if code is ResponseCode.SUCCESS and term <= self.out.term:
                code = ResponseCode.UNKNOWN  # the present leader leads in a later term
            if code is ResponseCode.SUCCESS and self.state.role is Role.LEADER:
                # It leads in the next term, of which this member hears by heartbeat or vote.
                self.answer_out(ResponseCode.SUCCESS)
                self.to_candidate(self.state.term + 1)
            elif code is ResponseCode.SUCCESS:
                self.answer_out(code)
            else:
                self.end_out(code)
        return self.effects()

    def look_for_preferred(self, now_s: float, watermarks: Mapping[str, int]) -> Effects:
        """Hand over to a preferred leader that is near enough; called each `preferred_check_s`."""
        self.now_s = now_s
        waiting = self.preferred_pauses.waiting(now_s)
        best = preferred(self.state, self.settings, watermarks, self.heard, waiting)
        if best is not None and self.out is None:
            self._hand_over(best, None)
        return self.effects()
