"""Votes: which candidate gets this member's, and what a round of votes comes to.

Source: openmessaging/dledger, DLedgerLeaderElector.java (handleVote, maintainAsCandidate), 0.3.1.2;
dledger.md 4.2 and 4.3, whose rows and lines are named below. Raft section 5.2 and 5.4.1.

Differs from upstream:
- Row 6 also holds where this member has not voted in the term but follows its leader: upstream
  gives such a vote away, which elects nobody and disturbs a healthy group (bug V9;
  `CompatSettings.votes_beside_leader`). It does not hold where the leader itself asks: it leads no
  more, and row 7 or 11 decides.
- Before row 11 a vote is put off with REJECT_TERM_NOT_READY until the store has said the end of the
  log for this session. Such an answer is asked again at once by candidates of either kind. A
  follower becomes a candidate first: its leader, or whom it voted for, asks for votes, so nobody
  leads, and what it acknowledges from here on must not grow its log.
- With `ElectionSettings.raft_votes` the table is gone through again after row 8, in the term that
  was taken; and a round in a term that this candidate cannot lead, or whose leader it has missed,
  is a probe: over once a quorum has answered that it sees no leader. A vote says so too; but a Java
  follower that has its vote gives it beside a leader (bug V9): who is cut from that one alone still
  takes the next term, as upstream's candidate does, only a pause sooner. A probe goes on where
  somebody sees a leader, until a quorum cannot deny it any more: one that still hears a leader
  without a quorum would prolong the outage by up to `leak_s` and a pause. Of the deniers no vote is
  one then, for it may be such a follower's.
- The vote of a member that has lost its log, or is new (`MemberState.membership`), counts only
  together with those of all others: what it acknowledged is then in the candidate's log, or no
  member has it. So a new group elects its first leader only after all its members have answered:
  nobody else can say that none of them has ever held anything. Known gap: a member that also lost
  its vote, and that reaches within `leak_s` only a leader whom a later term has superseded, may
  help that leader commit beside the later one; nothing on the wire tells the two apart. A member
  that led the term may be elected in it once more, by all: then nobody has what it appended
  before, for a member that has it refuses the empty log.
"""

from __future__ import annotations

import enum

import attrs

from actors.dledger.core.member_state import LedgerEnd, MemberState, Role, SavedVote
from wire.dledger.codes import VoteResult


@attrs.frozen(kw_only=True)
class VoteAsked:
    """A candidate's request.

    Attributes:
        candidate: the member that wants the vote.
        term: in this term.
        end: of its log.
    """

    candidate: str
    term: int
    end: LedgerEnd


@attrs.frozen(kw_only=True)
class VoteAnswer:
    """`term` is the voter's own, in row 9 that of its log's end.

    Attributes:
        is_partial: of ACCEPT: it counts only with the votes of all others.
    """

    result: VoteResult
    term: int
    is_partial: bool = False


@attrs.frozen(kw_only=True)
class Judgement:
    """What a request comes to.

    Attributes:
        answer: to send, after `vote` is on the disk.
        vote: to be remembered first; None if nothing changes.
        raise_to: row 8: become a candidate of this term; None otherwise.
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
    """The table of dledger.md 4.2, first matching row.

    Args:
        internal: this member asks itself, in memory.
        taking_leadership: this member is itself taking leadership over in the present term.
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
    """Upstream's names for what a round of votes came to."""

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
    """What a round of votes came to.

    Attributes:
        larger_term: of a voter; the candidate takes it next. None if nobody has one.
    """

    parse_result: ParseResult
    pause: Pause
    larger_term: int | None = None


@attrs.define(kw_only=True)
class VoteRound:
    """The answers to one round of requests.

    Attributes:
        number: answers to another number are not of this round.
        term: of the candidate.
        deadline_s: it is not waited for longer.
        probe_until_s: the term had a leader, or the candidate's vote is another's: it asks whether
            anybody still sees a leader. A quorum's word by then is enough; None: it wants to lead.
    """

    number: int
    term: int
    voters: tuple[str, ...]
    quorum: int
    deadline_s: float
    probe_until_s: float | None = None
    _answers: dict[str, VoteAnswer | None] = attrs.field(factory=dict, init=False)

    def answered(self, voter: str, answer: VoteAnswer | None) -> None:
        """`None`: no answer can be expected any more (upstream: UNKNOWN).

        A vote in another term is none for this candidate, whatever it was asked for: all versions
        give theirs in the term of the request.
        """
        assert voter in self.voters
        if answer is not None and answer.result is VoteResult.ACCEPT and answer.term != self.term:
            answer = None
        self._answers.setdefault(voter, answer)

    def _count(self, *results: VoteResult) -> int:
        return sum(a is not None and a.result in results for a in self._answers.values())

    def _enough(self, words: int) -> bool:
        """So many would do: all votes are among them, and words that may yet become votes."""
        partial = sum(a is not None and a.is_partial for a in self._answers.values())
        return words - partial >= self.quorum or words == len(self.voters)

    @property
    def _passed(self) -> bool:
        return self._enough(self._count(VoteResult.ACCEPT))

    @property
    def _nearly(self) -> bool:
        """Once those that are not ready are."""
        return self._enough(self._count(VoteResult.ACCEPT, VoteResult.REJECT_TERM_NOT_READY))

    @property
    def _lacks_the_rest(self) -> bool:
        """More votes would do without another term: nobody has given his to another."""
        accepts = self._count(VoteResult.ACCEPT, VoteResult.REJECT_TERM_NOT_READY)
        elsewhere = self._count(VoteResult.REJECT_ALREADY_VOTED)
        return accepts >= self.quorum and not self._passed and not elsewhere

    @property
    def _leader_seen(self) -> bool:
        return self._count(VoteResult.REJECT_ALREADY_HAS_LEADER) > 0

    @property
    def ends_s(self) -> float:
        """When it is over at the latest. A leader that is seen is denied in a probe's time only."""
        if self.probe_until_s is not None and self._leader_seen:
            return min(self.deadline_s, self.probe_until_s)
        return self.deadline_s

    def over(self, now_s: float) -> bool:
        """Whether more answers would change nothing, or are not waited for."""
        return (
            now_s >= self.ends_s
            or len(self._answers) == len(self.voters)
            or (self._leader_seen and not self._may_be_denied)
            or self._nearly
            or self.leaderless(now_s)
        )

    @property
    def _may_be_denied(self) -> bool:
        """Whether a quorum may say yet that it sees no leader."""
        missing = len(self.voters) - len(self._answers)
        return self.probe_until_s is not None and self._denials + missing >= self.quorum

    @property
    def _denials(self) -> int:
        """Voters that see no leader; a vote is no such word while another sees one (bug V9).

        Nor is the vote of a member of ours: nothing in it says that it has not that bug. A quorum
        of such words can end a leader that has one: where two of five are cut off from it and a
        third has started again and not heard it yet, always, as with Raft's pre-vote.
        """
        words = [VoteResult.REJECT_ALREADY_VOTED, VoteResult.REJECT_TERM_NOT_READY]
        if self._leader_seen:
            return self._count(*words)
        return self._count(VoteResult.ACCEPT, *words)

    def leaderless(self, now_s: float) -> bool:
        """A probe has heard in time that a quorum sees no leader, and would follow this candidate.

        Of voters with bug V9, Java's among them: that it would follow. Not to count their votes
        would put the next term off by a pause, and with it every election that needs them.
        Later answers may be as old as a candidate that stood still.
        """
        if self.probe_until_s is None or now_s >= self.probe_until_s:
            return False
        if self._leader_seen:  # no vote is among the words
            return self._denials >= self.quorum
        return self._enough(self._denials)

    def gives_way(self, state: MemberState, asked: VoteAsked, answer: VoteAnswer) -> bool:
        """Another probes meanwhile, and comes first: by its log, else by its name.

        Both would be told that nobody leads, take the next term and divide its votes.
        """
        if self.probe_until_s is None or answer.result is not VoteResult.REJECT_ALREADY_VOTED:
            return False
        return asked.end != state.end or asked.candidate < state.self_id

    def result(self, now_s: float) -> RoundResult:
        """The lines of dledger.md 4.3, first match; unless a leader that is seen is denied."""
        known = [a for a in self._answers.values() if a is not None]
        valid = sum(a.result is not VoteResult.UNKNOWN for a in known)
        bigger = self._count(
            VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        )
        told = (VoteResult.REJECT_EXPIRED_VOTE_TERM, VoteResult.REJECT_TERM_SMALL_THAN_LEDGER)
        term_max = max((a.term for a in known if a.result in told), default=self.term)
        wait, random = ParseResult.WAIT_TO_REVOTE, Pause.RANDOM
        if term_max > self.term:
            next_term = ParseResult.WAIT_TO_VOTE_NEXT
            return RoundResult(parse_result=next_term, pause=random, larger_term=term_max)
        if self._leader_seen and not self.leaderless(now_s):
            waited = self.probe_until_s is not None and now_s >= self.probe_until_s
            pause = random if waited else Pause.LEADER_SEEN  # which is an interval longer
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
