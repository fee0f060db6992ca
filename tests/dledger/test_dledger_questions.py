"""How many may wait for what a leader answers later, and what is kept for those who have gone."""

from __future__ import annotations

from typing import Any

import pytest

from actors.dledger.core.election_effects import Effects
from actors.dledger.core.leader_proof import LeaderProof, Proven
from actors.dledger.election import open_questions
from actors.dledger.election.open_questions import OpenQuestions, OpenReads
from actors.dledger.replication.append_messages import ReadIndex
from actors.dledger.session_messages import LeaderProven, ProveLeader
from actors.errors import Overloaded
from actors.runtime import ReplyTo

MOST = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_questions, "WAITING_MAX", MOST)


class Asker:
    """One who asks, and what is said to it."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.reply: ReplyTo[Any] = ReplyTo.local(self.said.append)


def asked(count: int, add: Any) -> list[Asker]:
    askers = [Asker() for _ in range(count)]
    for each in askers:
        add(each.reply)
    return askers


def test_so_many_wait_for_an_index_and_no_more() -> None:
    reads = OpenReads()
    *waiting, last = asked(MOST + 1, reads.add)
    assert [type(each) for each in last.said] == [Overloaded]
    reads.answer(3, None)
    assert not any(each.said for each in waiting)
    reads.answer(3, 7)
    assert all(each.said == [ReadIndex(term=3, index=7)] for each in waiting)
    assert len(last.said) == 1


def test_who_waits_for_an_index_no_more_leaves_room() -> None:
    reads = OpenReads()
    for gone in asked(MOST, reads.add):
        gone.reply.abandon()
    waiting = asked(MOST, reads.add)
    assert not any(each.said for each in waiting)
    reads.answer(3, 7)
    assert all(each.said for each in waiting)


def prove(questions: OpenQuestions, proof: LeaderProof, tokens: list[int]) -> Any:
    """As the maintainer does it, with a leader's proof."""

    def add(reply: ReplyTo[LeaderProven]) -> None:
        token = questions.proof(ProveLeader(reply_to=reply), proof)
        if token is not None:
            tokens.append(token)
            proof.asked(token)

    return add


def test_so_many_wait_for_a_proof_and_no_more() -> None:
    questions, proof, tokens = OpenQuestions(), LeaderProof(), list[int]()
    *waiting, last = asked(MOST + 1, prove(questions, proof, tokens))
    assert [type(each) for each in last.said] == [Overloaded]
    proof.began(1)
    proven = proof.quorum(1, term=3)
    assert proven == tuple(Proven(token, 3) for token in tokens)
    questions.answer(Effects(proven=proven))
    assert all(each.said == [LeaderProven(term=3)] for each in waiting)
    assert not asked(1, prove(questions, proof, tokens))[0].said, "there is room again"


@pytest.mark.parametrize("began", [False, True])
def test_who_waits_for_a_proof_no_more_is_forgotten(began: bool) -> None:
    questions, proof, tokens = OpenQuestions(), LeaderProof(), list[int]()
    for _ in range(10):
        for gone in asked(MOST, prove(questions, proof, tokens)):
            gone.reply.abandon()
        if began:
            proof.began(1)
    (waiting,) = asked(1, prove(questions, proof, tokens))
    assert not waiting.said
    proven = proof.lost()
    assert len(proven) <= MOST, "the leader keeps nothing for those who have gone"
    questions.answer(Effects(proven=proven))
    assert waiting.said == [LeaderProven(term=-1)]


def test_a_proof_for_who_has_gone_disturbs_nobody() -> None:
    """It was on its way when room was made."""
    questions, proof, tokens = OpenQuestions(), LeaderProof(), list[int]()
    for gone in asked(MOST, prove(questions, proof, tokens)):
        gone.reply.abandon()
    proven = proof.lost()
    (waiting,) = asked(1, prove(questions, proof, tokens))
    questions.answer(Effects(proven=proven))
    assert not waiting.said
