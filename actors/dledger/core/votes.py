"""Votes: which candidate gets this member's vote, and the result of a round of votes.

Source: openmessaging/dledger, DLedgerLeaderElector.java (handleVote, maintainAsCandidate), 0.3.1.2;
dledger.md 4.2 and 4.3, whose rows and lines are named below. Raft section 5.2 and 5.4.1.

Differs from upstream:
- Row 6 also holds where this member has not voted in the term but follows its leader: upstream
  gives such a vote away, which elects nobody and disturbs a healthy group (bug V9;
  `CompatSettings.votes_beside_leader`). It does not hold where the leader itself asks: it leads no
  more, and row 7 or 11 decides.
- Before row 11 a vote is put off with REJECT_TERM_NOT_READY until the store has said the end of the
  log for this session. Candidates of either kind ask again at once after such an answer. A follower
  becomes a candidate first: the member that asks is its leader, or the one that it voted for, so
  nobody leads, and its log must not grow any more.
- With `ElectionSettings.raft_votes` the table is gone through again after row 8, in the term that
  was taken. A round in a term that this candidate cannot lead, or whose leader it has missed, is a
  probe, which ends once a quorum has answered that it sees no leader. A vote counts as such an
  answer; but a Java follower that still has its vote gives it although it has a leader (bug V9), so
  a candidate that is cut off from the leader alone still takes the next term, as upstream's
  candidate does, only a pause sooner. If a member answers that it sees a leader, the probe goes on
  until a quorum cannot deny it any more: a member that still hears a leader without a quorum would
  prolong the outage by up to `leak_s` and a pause. Votes do not count as denials then, for they may
  come from such a follower.
- A member that has lost its log, or is new (`MemberState.membership`), is a provisional voter: its
  vote counts only if all members vote. What it acknowledged is then in the candidate's log, or no
  member has it. So a new group elects its first leader only after all its members have answered,
  because only then is it known that none of them has ever held anything. Known gap: a member that
  also lost its vote, and that reaches within `leak_s` only a leader which a later term has
  superseded, may help it commit; nothing on the wire distinguishes the two leaders. A member that
  led the term may be elected in it again, if all members vote for it: then none has what it
  appended before, for a member that has it refuses the empty log.
"""

from __future__ import annotations

import enum

import attrs

from actors.dledger.core.member_state import LedgerEnd, MemberState, Role, SavedVote
from wire.dledger.codes import VoteResult


@attrs.frozen(kw_only=True)
class VoteAsked:
    """A candidate's request for a vote.

    Attributes:
        candidate: the member that asks.
        term: the term in which it asks.
        end: the end of its log.
    """

    candidate: str
    term: int
    end: LedgerEnd


@attrs.frozen(kw_only=True)
class VoteAnswer:
    """The answer to a request for a vote.

    Attributes:
        term: the voter's own term; in row 9 of the table in dledger.md 4.2, that of its last entry.
        is_partial: whether an ACCEPT is of a provisional voter, and counts only if all vote.
    """

    result: VoteResult
    term: int
    is_partial: bool = False


@attrs.frozen(kw_only=True)
class Judgement:
    """How a member answers a request for its vote.

    Attributes:
        answer: to be sent once `vote` is on the disk.
        vote: to be saved first; None if it does not change.
        raise_to: in row 8 of that table, the term in which this member becomes a candidate; else
            None.
    """

    answer: VoteAnswer
    vote: SavedVote | None = None
    raise_to: int | None = None


def judge(
    state: MemberState,
    asked: VoteAsked,
    *,
    internal: bool,
    taking_leadership: bool,
    beside_leader: bool = False,
) -> Judgement:
    """Judge a request by the first row that fits of the table in dledger.md 4.2.

    Args:
        internal: whether this member asks itself, in memory.
        taking_leadership: whether this member takes the leadership over in the present term.
        beside_leader: `CompatSettings.votes_beside_leader`.
    """
    own, term = state.end, state.term

    def refuse(result: VoteResult, said_term: int = term) -> Judgement:
        return Judgement(answer=VoteAnswer(result=result, term=said_term))

    if asked.candidate not in state.members:
        return refuse(VoteResult.REJECT_UNKNOWN_LEADER)  # row 1
    if asked.candidate == state.self_id and not internal:
        return refuse(VoteResult.REJECT_UNEXPECTED_LEADER)  # row 2
    if asked.end.term < own.term:
        return refuse(VoteResult.REJECT_EXPIRED_LEDGER_TERM)  # row 3
    if asked.end.term == own.term and asked.end.index < own.index:
        return refuse(VoteResult.REJECT_SMALL_LEDGER_END_INDEX)  # row 4
    if asked.term < term:
        return refuse(VoteResult.REJECT_EXPIRED_VOTE_TERM)  # row 5
    voted = state.vote.voted_for not in ("", asked.candidate)
    led = state.leader not in ("", asked.candidate)
    if asked.term == term and led and (voted or not beside_leader):
        return refuse(VoteResult.REJECT_ALREADY_HAS_LEADER)  # row 6
    if asked.term == term and voted:
        return refuse(VoteResult.REJECT_ALREADY_VOTED)  # row 7
    if asked.term > term:
        answer = VoteAnswer(result=VoteResult.REJECT_TERM_NOT_READY, term=term)
        return Judgement(answer=answer, raise_to=asked.term)  # row 8
    if asked.term < own.term:
        return refuse(VoteResult.REJECT_TERM_SMALL_THAN_LEDGER, own.term)  # row 9
    even = asked.end.term == own.term and own.index >= asked.end.index
    if not internal and taking_leadership and even:
        return refuse(VoteResult.REJECT_TAKING_LEADERSHIP)  # row 10
    if not state.end_final and not beside_leader:
        fence = term if state.role is not Role.CANDIDATE else None
        answer = VoteAnswer(result=VoteResult.REJECT_TERM_NOT_READY, term=term)
        return Judgement(answer=answer, raise_to=fence)
    return Judgement(  # row 11
        answer=VoteAnswer(result=VoteResult.ACCEPT, term=term, is_partial=state.is_partial),
        vote=SavedVote(term=term, voted_for=asked.candidate),
    )


class ParseResult(enum.Enum):
    """The result of a round of votes, with upstream's names."""

    WAIT_TO_REVOTE = enum.auto()
    REVOTE_IMMEDIATELY = enum.auto()
    PASSED = enum.auto()
    WAIT_TO_VOTE_NEXT = enum.auto()


class Pause(enum.Enum):
    """How long a candidate waits before it asks again."""

    NONE = enum.auto()
    RANDOM = enum.auto()
    LEADER_SEEN = enum.auto()
    BEHIND = enum.auto()


@attrs.frozen(kw_only=True)
class RoundResult:
    """What a candidate does after a round of votes.

    Attributes:
        larger_term: a voter's larger term, which the candidate takes next; None if there is none.
    """

    parse_result: ParseResult
    pause: Pause
    larger_term: int | None = None


@attrs.define(kw_only=True)
class VoteRound:
    """Counts the answers to one round of requests for votes.

    Attributes:
        number: stands in the answers; one with another number is not of this round.
        term: the candidate's.
        deadline_s: when the round ends at the latest.
        probe_until_s: None if the candidate wants to lead. Else the round is a probe, because the
            term had a leader or the candidate voted for another member: a quorum has to answer by
            then that it sees no leader.
    """

    number: int
    term: int
    voters: tuple[str, ...]
    quorum: int
    deadline_s: float
    probe_until_s: float | None = None
    _answers: dict[str, VoteAnswer | None] = attrs.field(factory=dict, init=False)

    def answered(self, voter: str, answer: VoteAnswer | None) -> None:
        """Count a voter's answer; None if no answer can come any more (upstream: UNKNOWN).

        A vote in another term does not count: all versions vote in the term of the request.
        """
        assert voter in self.voters
        if answer is not None and answer.result is VoteResult.ACCEPT and answer.term != self.term:
            answer = None
        self._answers.setdefault(voter, answer)

    def _count(self, *results: VoteResult) -> int:
        return sum(a is not None and a.result in results for a in self._answers.values())

    def _enough(self, answers: int) -> bool:
        """Return whether that number of votes, with answers that may become votes, would elect."""
        partial = sum(a is not None and a.is_partial for a in self._answers.values())
        return answers - partial >= self.quorum or answers == len(self.voters)

    @property
    def _passed(self) -> bool:
        return self._enough(self._count(VoteResult.ACCEPT))

    @property
    def _nearly(self) -> bool:
        """Whether the candidate will be elected once the voters are ready that are not yet."""
        return self._enough(self._count(VoteResult.ACCEPT, VoteResult.REJECT_TERM_NOT_READY))

    @property
    def _lacks_the_rest(self) -> bool:
        """Whether the missing votes can still come in this term, as nobody voted for another."""
        accepts = self._count(VoteResult.ACCEPT, VoteResult.REJECT_TERM_NOT_READY)
        elsewhere = self._count(VoteResult.REJECT_ALREADY_VOTED)
        return accepts >= self.quorum and not self._passed and not elsewhere

    @property
    def _leader_seen(self) -> bool:
        return self._count(VoteResult.REJECT_ALREADY_HAS_LEADER) > 0

    @property
    def ends_s(self) -> float:
        """When the round ends at the latest; a probe that meets a leader ends with its own time."""
        if self.probe_until_s is not None and self._leader_seen:
            return min(self.deadline_s, self.probe_until_s)
        return self.deadline_s

    def over(self, now_s: float) -> bool:
        """Return whether the round has ended: its time is over, or no answer can change it now."""
        return (
            now_s >= self.ends_s
            or len(self._answers) == len(self.voters)
            or (self._leader_seen and not self._may_be_denied)
            or self._nearly
            or self.leaderless(now_s)
        )

    @property
    def _may_be_denied(self) -> bool:
        """Whether a quorum may still answer that it sees no leader."""
        missing = len(self.voters) - len(self._answers)
        return self.probe_until_s is not None and self._denials + missing >= self.quorum

    @property
    def _denials(self) -> int:
        """How many voters see no leader. Votes do not count once a voter sees one (bug V9).

        The votes of our own members do not either: nothing in them shows that they lack the bug. A
        quorum of denials can end the leadership of a leader that has a quorum: if two of five
        members are cut off from it, and a third has restarted and not heard it yet. Raft's pre-vote
        has that, too.
        """
        denials = [VoteResult.REJECT_ALREADY_VOTED, VoteResult.REJECT_TERM_NOT_READY]
        if self._leader_seen:
            return self._count(*denials)
        return self._count(VoteResult.ACCEPT, *denials)

    def leaderless(self, now_s: float) -> bool:
        """Return whether a probe has learned in time that a quorum sees no leader.

        Votes count, though a voter with bug V9, such as a Java member, may see a leader: without
        them the next term would begin a pause later, and so would every election that needs them.
        Answers after the probe's time do not count, because the candidate may have been suspended.
        """
        if self.probe_until_s is None or now_s >= self.probe_until_s:
            return False
        if self._leader_seen:  # votes do not count as denials then
            return self._denials >= self.quorum
        return self._enough(self._denials)

    def gives_way(self, state: MemberState, asked: VoteAsked, answer: VoteAnswer) -> bool:
        """Return whether this candidate's probe yields to that of another candidate.

        The one with the longer log comes first or, if they are equal, the one with the smaller
        name. Otherwise both would learn that nobody leads, take the next term and split its votes.
        """
        if self.probe_until_s is None or answer.result is not VoteResult.REJECT_ALREADY_VOTED:
            return False
        return asked.end != state.end or asked.candidate < state.self_id

    def result(self, now_s: float) -> RoundResult:
        """Return the result: the first line of dledger.md 4.3 that fits.

        A leader that some voter reports is ignored if a quorum denies it.
        """
        known = [a for a in self._answers.values() if a is not None]
        valid = sum(a.result is not VoteResult.UNKNOWN for a in known)
        bigger = self._count(
            VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        )
        with_term = (VoteResult.REJECT_EXPIRED_VOTE_TERM, VoteResult.REJECT_TERM_SMALL_THAN_LEDGER)
        term_max = max((a.term for a in known if a.result in with_term), default=self.term)
        wait, random = ParseResult.WAIT_TO_REVOTE, Pause.RANDOM
        if term_max > self.term:
            next_term = ParseResult.WAIT_TO_VOTE_NEXT
            return RoundResult(parse_result=next_term, pause=random, larger_term=term_max)
        if self._leader_seen and not self.leaderless(now_s):
            waited = self.probe_until_s is not None and now_s >= self.probe_until_s
            pause = random if waited else Pause.LEADER_SEEN  # LEADER_SEEN is an interval longer
            return RoundResult(parse_result=wait, pause=pause)
        if valid < self.quorum:
            return RoundResult(parse_result=wait, pause=random)
        if valid - bigger < self.quorum:
            return RoundResult(parse_result=wait, pause=Pause.BEHIND)
        if self._passed:
            return RoundResult(parse_result=ParseResult.PASSED, pause=Pause.NONE)
        if self._nearly:
            return RoundResult(parse_result=ParseResult.REVOTE_IMMEDIATELY, pause=Pause.NONE)
        if self._lacks_the_rest:
            return RoundResult(parse_result=wait, pause=random)
        return RoundResult(parse_result=ParseResult.WAIT_TO_VOTE_NEXT, pause=random)
