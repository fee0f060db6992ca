"""A member that comes back with a vote of its own in the present term (`raft_votes`)."""

from __future__ import annotations

import pytest
from core_world import Faults, World
from election_kit import END, Kit

from actors.dledger.core.member_state import Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.votes import VoteAnswer
from wire.dledger.codes import VoteResult as V

OWN = SavedVote(term=5, voted_for="n0")
NAMES = ("n0", "n1", "n2")


def back(members: int = 3) -> Kit:
    return Kit(members=members, vote=OWN, settings=ElectionSettings(raft_votes=True))


def test_it_asks_first_whether_the_term_has_a_leader_and_follows_it() -> None:
    """It may have lost the term's votes to another, which leads a healthy group."""
    kit = back()
    number = kit.campaign()
    assert kit.last.ask_votes is not None
    assert (kit.last.ask_votes.term, kit.state.vote) == (5, OWN)
    effects = kit.answers(number, None, V.REJECT_ALREADY_HAS_LEADER)
    assert (effects.ask_votes, kit.state.vote) == (None, OWN)
    kit.hear("n1", 5)
    assert (kit.state.role, kit.state.term) == (Role.FOLLOWER, 5)


@pytest.mark.parametrize("free", [V.ACCEPT, V.REJECT_ALREADY_VOTED])
def test_at_a_quorum_s_word_that_nobody_leads_it_takes_the_next_term_at_once(free: V) -> None:
    """It may have led this one: the votes of all do not make it lead it again."""
    kit = back()
    effects = kit.answers(kit.campaign(), free)
    assert effects.ask_votes is not None
    assert (effects.ask_votes.term, effects.ask_votes.end) == (6, END)
    assert effects.persist == SavedVote(term=6, voted_for="n0")
    assert kit.state.role is Role.CANDIDATE
    kit.answers(effects.ask_votes.number, V.ACCEPT, term=6)
    assert (kit.state.role, kit.state.term) == (Role.LEADER, 6)


def test_the_votes_of_all_do_not_make_it_lead_in_that_term() -> None:
    kit = back(members=5)
    number = kit.campaign()
    for name in ("n1", "n2", "n3", "n4"):
        late = VoteAnswer(result=V.ACCEPT, term=5)
        kit.election.vote_answered(kit.now_s, number, name, late)
        assert kit.state.role is Role.CANDIDATE
    assert kit.state.vote == SavedVote(term=6, voted_for="n0")


def test_its_vote_in_that_term_is_nobody_else_s() -> None:
    kit = back()
    for _ in range(3):
        effects = kit.asked_by("n1", 5)
        assert effects.vote == VoteAnswer(result=V.REJECT_ALREADY_VOTED, term=5)
        assert effects.persist is None
        kit.answers(kit.campaign(), None, None)
    assert kit.state.vote == OWN


def test_a_group_of_one_takes_the_next_term_at_once() -> None:
    kit = back(members=1)
    kit.tick()
    assert (kit.state.role, kit.state.vote) == (Role.LEADER, SavedVote(term=6, voted_for="n0"))


def test_without_answers_it_stays_in_its_term() -> None:
    kit = back()
    for _ in range(5):
        kit.answers(kit.campaign(), None, None)
    assert kit.state.vote == OWN


@pytest.mark.parametrize("seed", range(5))
def test_its_return_ends_no_leadership(seed: int) -> None:
    faults = Faults(lost=0.0, twice=0.0, delay_max_s=0.005)
    world = World(seed=seed, faults=faults, raft_votes=frozenset(NAMES))
    world.start_all()
    world.run(20.0)
    leader = world.leader
    assert leader is not None
    leader.append("all have it")
    world.run(world.now_s + 3.0)
    term = leader.election.state.term
    back = next(each for each in world.members.values() if each is not leader)
    back.stop()
    back.disk.vote = SavedVote(term=term, voted_for=back.name)  # lost to the other two's
    back.start()
    world.run(world.now_s + 30.0)
    assert world.leader is leader
    assert leader.election.state.term == term
    assert back.election.state.role is Role.FOLLOWER
    assert max(world.leaders) == term
