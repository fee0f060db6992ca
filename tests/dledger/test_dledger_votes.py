"""dledger.md 4.2 and 4.3: the table that gives a vote, and what a round of votes comes to."""

from __future__ import annotations

import attrs
import pytest

from actors.dledger.core.member_state import LedgerEnd, MemberState, Role, SavedVote
from actors.dledger.core.votes import (
    Judgement,
    ParseResult,
    Pause,
    RoundResult,
    VoteAnswer,
    VoteAsked,
    VoteRound,
    judge,
)
from actors.log_types import Membership
from wire.dledger.codes import VoteResult as V

OWN = LedgerEnd(index=7, term=3)


def voter(**changes: object) -> MemberState:
    """n0 in term 5, with eight entries, that has voted for nobody."""
    state = MemberState(
        self_id="n0",
        members=("n0", "n1", "n2"),
        vote=SavedVote(term=5),
        end=OWN,
        end_final=True,
    )
    return attrs.evolve(state, **changes)


ASKED = VoteAsked(candidate="n1", term=5, end=OWN)


def said(
    state: MemberState, asked: VoteAsked = ASKED, *, internal: bool = False, taking: bool = False
) -> Judgement:
    return judge(state, asked, internal=internal, taking_leadership=taking)


def refused(judgement: Judgement, result: V, term: int = 5) -> bool:
    """And nothing changes."""
    return judgement == Judgement(answer=VoteAnswer(result=result, term=term))


def test_row_1_a_stranger() -> None:
    asked = attrs.evolve(ASKED, candidate="n9", term=99)
    assert refused(said(voter(), asked), V.REJECT_UNKNOWN_LEADER)


def test_row_2_oneself_from_outside() -> None:
    asked = attrs.evolve(ASKED, candidate="n0", term=99)
    assert refused(said(voter(), asked), V.REJECT_UNEXPECTED_LEADER)
    own = attrs.evolve(ASKED, candidate="n0")
    assert said(voter(), own, internal=True).answer.result is V.ACCEPT


@pytest.mark.checklist(6, of="dledger")
def test_row_3_an_older_log_and_its_larger_term_changes_nothing() -> None:
    asked = attrs.evolve(ASKED, term=99, end=LedgerEnd(index=99, term=2))
    assert refused(said(voter(), asked), V.REJECT_EXPIRED_LEDGER_TERM)


def test_row_4_a_shorter_log() -> None:
    asked = attrs.evolve(ASKED, term=99, end=LedgerEnd(index=6, term=3))
    assert refused(said(voter(), asked), V.REJECT_SMALL_LEDGER_END_INDEX)


def test_row_5_an_older_term() -> None:
    assert refused(said(voter(), attrs.evolve(ASKED, term=4)), V.REJECT_EXPIRED_VOTE_TERM)


@pytest.mark.parametrize("voted_for", ["n2", ""])
def test_row_6_another_leads(voted_for: str) -> None:
    vote = SavedVote(term=5, voted_for=voted_for)
    state = voter(vote=vote, leader="n2", role=Role.FOLLOWER)
    assert refused(said(state), V.REJECT_ALREADY_HAS_LEADER)


def test_row_6_a_leader_refuses() -> None:
    state = voter(vote=SavedVote(term=5, voted_for="n0"), leader="n0", role=Role.LEADER)
    assert refused(said(state), V.REJECT_ALREADY_HAS_LEADER)


def test_row_7_another_has_the_vote() -> None:
    assert refused(said(voter(vote=SavedVote(term=5, voted_for="n2"))), V.REJECT_ALREADY_VOTED)


def test_row_8_a_larger_term_is_taken_before_anybody_gets_a_vote_in_it() -> None:
    judgement = said(voter(), attrs.evolve(ASKED, term=8))
    answer = VoteAnswer(result=V.REJECT_TERM_NOT_READY, term=5)
    assert judgement == Judgement(answer=answer, raise_to=8)


def test_row_9_a_term_below_that_of_the_own_log() -> None:
    state = voter(end=LedgerEnd(index=7, term=6))
    asked = attrs.evolve(ASKED, end=LedgerEnd(index=9, term=6))
    assert refused(said(state, asked), V.REJECT_TERM_SMALL_THAN_LEDGER, term=6)


def test_row_10_this_member_takes_over_and_its_log_is_as_good() -> None:
    assert refused(said(voter(), taking=True), V.REJECT_TAKING_LEADERSHIP)
    longer = attrs.evolve(ASKED, end=LedgerEnd(index=8, term=3))
    assert said(voter(), longer, taking=True).answer.result is V.ACCEPT
    own = attrs.evolve(ASKED, candidate="n0")
    assert said(voter(), own, internal=True, taking=True).answer.result is V.ACCEPT


@pytest.mark.parametrize("voted_for", ["n1", ""])
def test_row_11_the_vote_is_remembered_and_given(voted_for: str) -> None:
    judgement = said(voter(vote=SavedVote(term=5, voted_for=voted_for)))
    assert judgement.answer == VoteAnswer(result=V.ACCEPT, term=5)
    assert judgement.vote == SavedVote(term=5, voted_for="n1")
    assert judgement.raise_to is None


@pytest.mark.parametrize("end", [LedgerEnd(index=0, term=4), LedgerEnd(index=8, term=3), OWN])
def test_a_log_that_is_as_good_is_enough(end: LedgerEnd) -> None:
    assert said(voter(), attrs.evolve(ASKED, end=end)).answer.result is V.ACCEPT


def test_who_may_still_write_for_its_leader_gives_no_vote() -> None:
    """The leader itself asks: the voter is fenced first, and asked again."""
    vote = SavedVote(term=5, voted_for="n1")
    state = voter(vote=vote, leader="n1", role=Role.FOLLOWER, end_final=False)
    judgement = said(state)
    assert judgement.answer.result is V.REJECT_TERM_NOT_READY
    assert judgement.raise_to == 5
    assert judgement.vote is None


def test_a_candidate_that_is_being_fenced_is_asked_again() -> None:
    judgement = said(voter(end_final=False))
    assert refused(judgement, V.REJECT_TERM_NOT_READY)


ROWS = {
    V.REJECT_UNKNOWN_LEADER: attrs.evolve(ASKED, candidate="n9"),
    V.REJECT_UNEXPECTED_LEADER: attrs.evolve(ASKED, candidate="n0"),
    V.REJECT_EXPIRED_LEDGER_TERM: attrs.evolve(ASKED, end=LedgerEnd(index=7, term=2)),
    V.REJECT_SMALL_LEDGER_END_INDEX: attrs.evolve(ASKED, end=LedgerEnd(index=6, term=3)),
    V.REJECT_EXPIRED_VOTE_TERM: attrs.evolve(ASKED, term=4),
}


@pytest.mark.checklist(6, of="dledger")
def test_the_order_of_the_rows() -> None:
    """A request that several rows refuse is refused by the first of them."""
    own = attrs.evolve(voter(), vote=SavedVote(term=5, voted_for="n2"))
    led = attrs.evolve(own, leader="n2", role=Role.FOLLOWER)
    old = LedgerEnd(index=6, term=2)
    assert said(led, VoteAsked(candidate="n9", term=4, end=old)).answer.result is (
        V.REJECT_UNKNOWN_LEADER
    )
    assert said(led, VoteAsked(candidate="n0", term=4, end=old)).answer.result is (
        V.REJECT_UNEXPECTED_LEADER
    )
    for term in (4, 5, 6):
        asked = VoteAsked(candidate="n1", term=term, end=old)
        assert said(led, asked, taking=True).answer.result is V.REJECT_EXPIRED_LEDGER_TERM
        asked = VoteAsked(candidate="n1", term=term, end=LedgerEnd(index=6, term=3))
        assert said(led, asked, taking=True).answer.result is V.REJECT_SMALL_LEDGER_END_INDEX
    asked = attrs.evolve(ASKED, term=4)
    assert said(led, asked, taking=True).answer.result is V.REJECT_EXPIRED_VOTE_TERM
    assert said(led, taking=True).answer.result is V.REJECT_ALREADY_HAS_LEADER
    assert said(own, taking=True).answer.result is V.REJECT_ALREADY_VOTED
    late = attrs.evolve(own, end=LedgerEnd(index=7, term=8))
    asked = VoteAsked(candidate="n1", term=7, end=late.end)
    assert said(late, asked, taking=True).answer.result is V.REJECT_TERM_NOT_READY
    late = attrs.evolve(late, vote=SavedVote(term=5))
    asked = attrs.evolve(asked, term=5)
    assert said(late, asked, taking=True).answer.result is V.REJECT_TERM_SMALL_THAN_LEDGER


@pytest.mark.parametrize("result", ROWS)
def test_refusals_change_nothing(result: V) -> None:
    assert refused(said(voter(), ROWS[result]), result)


# ---- rounds ----


def a_round(members: int = 5) -> VoteRound:
    voters = tuple(f"n{i}" for i in range(members))
    return VoteRound(number=1, term=5, voters=voters, quorum=members // 2 + 1, deadline_s=9.0)


def after(*results: V | None, terms: tuple[int, ...] = (), members: int = 5) -> VoteRound:
    votes = a_round(members)
    for i, result in enumerate(results):
        term = terms[i] if i < len(terms) else 5
        answer = None if result is None else VoteAnswer(result=result, term=term)
        votes.answered(f"n{i}", answer)
    return votes


A, N, L = V.ACCEPT, V.REJECT_TERM_NOT_READY, V.REJECT_ALREADY_HAS_LEADER
OLD, SMALL, VOTED = (
    V.REJECT_EXPIRED_LEDGER_TERM,
    V.REJECT_SMALL_LEDGER_END_INDEX,
    V.REJECT_ALREADY_VOTED,
)


@pytest.mark.parametrize("result", [V.REJECT_EXPIRED_VOTE_TERM, V.REJECT_TERM_SMALL_THAN_LEDGER])
def test_line_1_a_larger_term_comes_before_a_quorum(result: V) -> None:
    found = after(A, result, A, A, L, terms=(5, 8)).result(0.0)
    assert found == RoundResult(
        parse_result=ParseResult.WAIT_TO_VOTE_NEXT, pause=Pause.RANDOM, larger_term=8
    )


def test_a_larger_term_in_other_refusals_is_not_taken() -> None:
    """Who refuses an old log tells its term for nothing: issue 325, and bug V1."""
    found = after(A, OLD, A, A, terms=(5, 8)).result(0.0)
    assert found.parse_result is ParseResult.PASSED


def test_line_2_somebody_follows_a_leader() -> None:
    found = after(A, L, A, A).result(0.0)
    assert found == RoundResult(parse_result=ParseResult.WAIT_TO_REVOTE, pause=Pause.LEADER_SEEN)


@pytest.mark.parametrize("results", [(A, None), (A, A), (A, V.UNKNOWN, V.UNKNOWN, None, None)])
def test_line_3_too_few_answers(results: tuple[V | None, ...]) -> None:
    found = after(*results).result(0.0)
    assert found == RoundResult(parse_result=ParseResult.WAIT_TO_REVOTE, pause=Pause.RANDOM)


def test_line_4_too_many_are_ahead() -> None:
    found = after(A, OLD, SMALL, A, None).result(0.0)
    assert found == RoundResult(parse_result=ParseResult.WAIT_TO_REVOTE, pause=Pause.BEHIND)


def test_line_5_a_quorum_accepts() -> None:
    found = after(A, A, A, OLD, VOTED).result(0.0)
    assert found == RoundResult(parse_result=ParseResult.PASSED, pause=Pause.NONE)


@pytest.mark.checklist(8, of="dledger")
def test_line_6_a_quorum_will_accept_the_same_term() -> None:
    found = after(A, N, N, VOTED, VOTED).result(0.0)
    assert found == RoundResult(parse_result=ParseResult.REVOTE_IMMEDIATELY, pause=Pause.NONE)


def test_line_7_the_next_term() -> None:
    found = after(A, A, VOTED, VOTED, VOTED).result(0.0)
    assert found == RoundResult(parse_result=ParseResult.WAIT_TO_VOTE_NEXT, pause=Pause.RANDOM)


def test_when_a_round_is_over() -> None:
    assert not after(A, A, VOTED).over(8.9)
    assert after(A, A, VOTED).over(9.0)
    assert after(A, A, A).over(0.0)
    assert after(A, N, N).over(0.0)
    assert after(A, L).over(0.0)
    assert after(A, VOTED, VOTED, None, None).over(0.0)


def test_the_first_answer_of_a_voter_counts() -> None:
    votes = after(A, VOTED, A)
    votes.answered("n1", VoteAnswer(result=A, term=5))
    votes.answered("n1", None)
    assert not votes.over(0.0)


FULL, PARTIAL = False, True


def given(*partial: bool, rest: tuple[V | None, ...] = (), members: int = 3) -> VoteRound:
    """The first accept; some of those are new, or have lost their log."""
    votes = after(members=members)
    for i, each in enumerate(partial):
        votes.answered(f"n{i}", VoteAnswer(result=A, term=5, is_partial=each))
    for i, result in enumerate(rest, len(partial)):
        answer = None if result is None else VoteAnswer(result=result, term=5)
        votes.answered(f"n{i}", answer)
    return votes


@pytest.mark.parametrize("membership", Membership)
def test_row_11_a_voter_says_whether_its_vote_counts_alone(membership: Membership) -> None:
    is_partial = membership is not Membership.FULL
    answer = VoteAnswer(result=V.ACCEPT, term=5, is_partial=is_partial)
    assert said(voter(membership=membership)).answer == answer


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (given(FULL, FULL), ParseResult.PASSED),
        (given(PARTIAL, FULL, rest=(A,)), ParseResult.PASSED),
        (given(PARTIAL, PARTIAL, PARTIAL), ParseResult.PASSED),
        (given(PARTIAL, PARTIAL, FULL), ParseResult.PASSED),
        (given(PARTIAL, FULL, rest=(None,)), ParseResult.WAIT_TO_REVOTE),
        (given(FULL, PARTIAL, rest=(None,)), ParseResult.WAIT_TO_REVOTE),
        (given(PARTIAL, PARTIAL, rest=(None,)), ParseResult.WAIT_TO_REVOTE),
        (given(PARTIAL, PARTIAL, rest=(N,)), ParseResult.REVOTE_IMMEDIATELY),
        (given(PARTIAL, FULL, rest=(N,)), ParseResult.REVOTE_IMMEDIATELY),
        (given(PARTIAL, PARTIAL, rest=(VOTED,)), ParseResult.WAIT_TO_VOTE_NEXT),
        (given(PARTIAL, PARTIAL, rest=(OLD,)), ParseResult.WAIT_TO_REVOTE),
        (given(PARTIAL, FULL, FULL, rest=(N, None), members=5), ParseResult.REVOTE_IMMEDIATELY),
        (given(PARTIAL, FULL, FULL, rest=(A, None), members=5), ParseResult.PASSED),
        (given(FULL, FULL, PARTIAL, PARTIAL, rest=(None,), members=5), ParseResult.WAIT_TO_REVOTE),
        (given(*[PARTIAL] * 4, rest=(None,), members=5), ParseResult.WAIT_TO_REVOTE),
        (given(*[PARTIAL] * 5, members=5), ParseResult.PASSED),
        (given(FULL, FULL, PARTIAL, PARTIAL, rest=(A,), members=5), ParseResult.PASSED),
    ],
)
def test_new_ones_and_lost_logs_count_only_with_everybodys_vote(
    votes: VoteRound, expected: ParseResult
) -> None:
    assert votes.over(9.0)
    assert votes.result(0.0).parse_result is expected


def test_a_round_waits_for_the_rest_while_partial_votes_are_needed() -> None:
    assert not given(PARTIAL, PARTIAL).over(0.0)
    assert given(FULL, FULL).over(0.0)
    assert not given(FULL, PARTIAL).over(0.0)
