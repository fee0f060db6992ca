"""DLedger's votes and terms broken on purpose, one rule at a time; see `broken_core`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from actors.dledger.core import election, roles, votes
from actors.dledger.core.member_state import LedgerEnd, SavedVote
from actors.dledger.core.votes import ParseResult
from actors.log_types import Membership

Patch = pytest.MonkeyPatch
Mutation = Callable[[Patch], None]


def _remember(steps: roles.Roles, vote: SavedVote) -> None:
    steps.state.vote = steps.draft.persist = vote


def _judge_as(patch: Patch, **changes: object) -> None:
    """Votes are given as if the voter's state had these values."""
    real = votes.judge

    def judge(state: Any, asked: Any, **options: bool) -> Any:
        return real(attrs.evolve(state, **changes), asked, **options)

    patch.setattr(election, "judge", judge)
    patch.setattr(roles.Roles, "save", _remember)


def vote_not_persisted(patch: Patch) -> None:
    """A vote is reported and not remembered."""

    def save(steps: roles.Roles, vote: SavedVote) -> None:
        if vote.term > steps.state.vote.term:
            steps.draft.persist = SavedVote(term=vote.term)
        steps.state.vote = vote

    patch.setattr(roles.Roles, "save", save)


def term_not_persisted(patch: Patch) -> None:
    """A larger term is taken and forgotten by a restart; votes are remembered."""

    def save(steps: roles.Roles, vote: SavedVote) -> None:
        steps.state.vote = vote
        if vote.voted_for:
            steps.draft.persist = vote

    patch.setattr(roles.Roles, "save", save)


def vote_of_a_larger_term_not_persisted(patch: Patch) -> None:
    """A vote that is given together with a larger term: only the term is remembered."""
    real = roles.Roles.save

    def save(steps: roles.Roles, vote: SavedVote) -> None:
        raised = steps.draft.persist
        real(steps, vote)
        if raised is not None and vote.voted_for not in ("", steps.state.self_id):
            steps.draft.persist = raised

    patch.setattr(roles.Roles, "save", save)


def votes_for_what_may_still_grow(patch: Patch) -> None:
    """A follower takes a larger term and gives its vote at once: what its leader sent it meanwhile
    is written behind the end that it judged by."""
    real = roles.Roles.to_candidate

    def to_candidate(steps: roles.Roles, term: int) -> None:
        real(steps, term)
        steps.state.end_final = True

    patch.setattr(roles.Roles, "to_candidate", to_candidate)


def next_term_at_a_minority_s_word(patch: Patch) -> None:
    """A probe is content with what one other says."""

    def leaderless(self: votes.VoteRound, now_s: float) -> bool:
        return self.probe_until_s is not None and len(self._answers) > 1

    patch.setattr(votes.VoteRound, "leaderless", leaderless)


def vote_without_the_log_check(patch: Patch) -> None:
    """Rows 3 and 4 are missing."""
    _judge_as(patch, end=LedgerEnd())


def lost_logs_vote_like_others(patch: Patch) -> None:
    """What a member has lost is taken for what it never had."""
    _judge_as(patch, membership=Membership.FULL)


def joined_before_it_holds_the_log(patch: Patch) -> None:
    """A member's vote counts again as soon as it follows a leader."""
    real = roles.Roles.to_follower

    def to_follower(steps: roles.Roles, leader: str) -> None:
        real(steps, leader)
        steps.counts_from_now()

    patch.setattr(roles.Roles, "to_follower", to_follower)


def joined_with_a_vote_left(patch: Patch) -> None:
    """A member that lost its vote in the term may give another once it has caught up."""
    real = roles.Roles.counts_from_now

    def counts_from_now(steps: roles.Roles) -> None:
        vote = steps.state.vote
        real(steps)
        if steps.state.vote != vote:
            steps.state.vote, steps.draft.persist = vote, None

    patch.setattr(roles.Roles, "counts_from_now", counts_from_now)


def second_vote_in_a_term(patch: Patch) -> None:
    """Rows 6 and 7 are missing."""
    real = votes.judge

    def judge(state: Any, asked: Any, **options: bool) -> Any:
        free = attrs.evolve(state, vote=SavedVote(term=state.term), leader="")
        return real(free, asked, **options)

    patch.setattr(election, "judge", judge)
    patch.setattr(roles.Roles, "save", _remember)


def same_term_again_after_a_restart(patch: Patch) -> None:
    """Upstream's rule: a member campaigns in the term that it may have led before."""
    real = election.Election.started

    def started(self: election.Election, now_s: float) -> Any:
        effects = real(self, now_s)
        self.raise_term, self.barred_term = False, -1
        return effects

    patch.setattr(election.Election, "started", started)


def same_term_again_after_a_vote_for_another(patch: Patch) -> None:
    """A member takes only the vote for itself for a sign that it may have led."""
    real = election.Election.started

    def started(self: election.Election, now_s: float) -> Any:
        effects = real(self, now_s)
        self.barred_term = -1
        return effects

    patch.setattr(election.Election, "started", started)


def one_vote_less_is_enough(patch: Patch) -> None:
    """A candidate leads with one vote less than a quorum."""
    real = votes.VoteRound.__init__

    def init(self: votes.VoteRound, *, quorum: int, **fields: Any) -> None:
        real(self, quorum=max(1, quorum - 1), **fields)

    patch.setattr(votes.VoteRound, "__init__", init)


def stale_vote_counts(patch: Patch) -> None:
    """An answer to an older round of votes, of whichever term, counts in the present one."""

    def answered(self: Any, now_s: float, number: int, voter: str, answer: Any) -> Any:
        self.now_s = now_s
        if self.round is not None and answer is not None:
            self.round.answered(voter, answer)
            self.settle_round()
        return self.effects()

    patch.setattr(election.Election, "vote_answered", answered)


def raise_without_a_quorum(patch: Patch) -> None:
    """A member that nobody answers takes one term after the other."""
    real = votes.VoteRound.result

    def result(self: votes.VoteRound, now_s: float) -> Any:
        found = real(self, now_s)
        if found.parse_result is ParseResult.WAIT_TO_REVOTE:
            return attrs.evolve(found, parse_result=ParseResult.WAIT_TO_VOTE_NEXT)
        return found

    patch.setattr(votes.VoteRound, "result", result)


def larger_term_in_an_answer_ignored(patch: Patch) -> None:
    """Bug V1: a leader with a happy quorum does not look at a 403."""

    def larger_term(self: roles.Roles, term: int) -> None:
        if self.state.leader != self.state.self_id and term > self.state.term:
            self.to_candidate(term)

    patch.setattr(roles.Roles, "larger_term", larger_term)


OF_VOTES: tuple[Mutation, ...] = (
    vote_not_persisted,
    term_not_persisted,
    vote_of_a_larger_term_not_persisted,
    votes_for_what_may_still_grow,
    next_term_at_a_minority_s_word,
    vote_without_the_log_check,
    lost_logs_vote_like_others,
    joined_before_it_holds_the_log,
    joined_with_a_vote_left,
    second_vote_in_a_term,
    same_term_again_after_a_restart,
    same_term_again_after_a_vote_for_another,
    one_vote_less_is_enough,
    stale_vote_counts,
    raise_without_a_quorum,
    larger_term_in_an_answer_ignored,
)
