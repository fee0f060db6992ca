"""One member's `Election` in the hands of a test: the store answers at once, effects are kept."""

from __future__ import annotations

from random import Random

from actors.dledger.core.election import Election
from actors.dledger.core.election_effects import Effects
from actors.dledger.core.member_state import LedgerEnd, MemberState, Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.votes import VoteAnswer, VoteAsked
from actors.log_types import Membership
from wire.dledger.codes import ResponseCode, VoteResult

END = LedgerEnd(index=7, term=3)


class Kit:
    """n0 of a group, started at 0 s and fenced.

    Attributes:
        election: the thing under test.
        last: what the last input asked for.
    """

    def __init__(
        self,
        members: int = 3,
        vote: SavedVote | None = None,
        end: LedgerEnd = END,
        settings: ElectionSettings | None = None,
        membership: Membership = Membership.FULL,
    ) -> None:
        state = MemberState(
            self_id="n0",
            members=tuple(f"n{i}" for i in range(members)),
            vote=vote or SavedVote(term=5),
            end=end,
            membership=membership,
        )
        self.election = Election(
            settings=settings or ElectionSettings(), state=state, rng=Random(1)
        )
        self.now_s = 0.0
        self.last = self.election.started(0.0)
        self.fence()

    @property
    def state(self) -> MemberState:
        return self.election.state

    def fence(self) -> Effects:
        self.last = self.election.fenced(self.now_s, self.state.session, self.state.end)
        return self.last

    def tick(self) -> Effects:
        """When it is due."""
        assert self.last.deadline_s is not None
        self.now_s = max(self.now_s, self.last.deadline_s)
        self.last = self.election.tick(self.now_s)
        return self.last

    def campaign(self) -> int:
        """Wait for it; its number."""
        for _ in range(3):
            asked = self.tick().ask_votes
            if asked is not None:
                return asked.number
        raise AssertionError("no campaign")

    def answers(
        self,
        number: int,
        *results: VoteResult | None,
        term: int | None = None,
        is_partial: bool = False,
    ) -> Effects:
        """Of n1, n2 and so on, in the term that was asked for if no other is said."""
        said = self.state.term if term is None else term
        for i, result in enumerate(results, 1):
            answer = None
            if result is not None:
                answer = VoteAnswer(result=result, term=said, is_partial=is_partial)
            self.last = self.election.vote_answered(self.now_s, number, f"n{i}", answer)
        return self.last

    def lead(self) -> Effects:
        """By the votes of all."""
        number = self.campaign()
        quorum = len(self.state.members) // 2
        self.answers(number, *[VoteResult.ACCEPT] * quorum)
        assert self.state.role is Role.LEADER
        return self.last

    def hear(self, leader: str, term: int) -> Effects:
        self.last = self.election.heartbeat(self.now_s, leader, term)
        return self.last

    def asked_by(self, candidate: str, term: int, end: LedgerEnd = END) -> Effects:
        asked = VoteAsked(candidate=candidate, term=term, end=end)
        self.last = self.election.vote_requested(self.now_s, asked)
        return self.last

    def beat_answers(self, number: int, *codes: ResponseCode, term: int = -1) -> Effects:
        """Of n1, n2 and so on."""
        for i, code in enumerate(codes, 1):
            self.last = self.election.heartbeat_answered(self.now_s, number, f"n{i}", code, term)
        return self.last
