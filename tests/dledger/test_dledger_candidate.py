"""A member with `candidate = false` follows, acknowledges and votes, and never leads."""

from __future__ import annotations

from election_kit import Kit

from actors.dledger.core.member_state import Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.transfer import TransferAsked
from wire.dledger.codes import ResponseCode as C
from wire.dledger.codes import VoteResult as V


def test_it_votes_follows_and_never_campaigns() -> None:
    kit = Kit(settings=ElectionSettings(candidate=False))
    assert kit.last.deadline_s is None
    kit.asked_by("n1", 5)
    assert kit.last.vote is not None
    assert kit.last.vote.result is V.ACCEPT
    kit.hear("n1", 5)
    assert kit.state.role is Role.FOLLOWER
    kit.tick()  # the leader is silent
    assert kit.state.role is Role.CANDIDATE
    kit.fence()
    assert kit.last.deadline_s is None
    assert kit.election.lead_allowed(kit.now_s, True).deadline_s is None
    later = kit.election.tick(kit.now_s + 100.0)
    assert later.ask_votes is None
    assert kit.state.vote == SavedVote(term=5, voted_for="n1")
    kit.now_s += 100.0
    assert kit.asked_by("n2", 6).role is not None
    kit.fence()
    kit.asked_by("n2", 6)
    assert kit.last.vote is not None
    assert kit.last.vote.result is V.ACCEPT


def test_it_takes_nothing_over() -> None:
    kit = Kit(settings=ElectionSettings(candidate=False))
    kit.hear("n1", 5)
    asked = TransferAsked(token=8, transferer="n1", transferee="n0", term=5, index=0)
    [answer] = kit.election.transfer_requested(kit.now_s, asked, {}).transfers
    assert (answer.token, answer.code) == (8, C.TAKE_LEADERSHIP_FAILED)
    assert kit.state.role is Role.FOLLOWER
    assert kit.election.taking is None
