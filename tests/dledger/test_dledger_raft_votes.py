"""`ElectionSettings.raft_votes`: votes and campaigns without upstream's refusals and pauses."""

from __future__ import annotations

import pytest
from core_run import converge
from core_world import Faults, World
from election_kit import END, Kit

from actors.config import DLedgerGroup
from actors.dledger.core.member_state import LedgerEnd, Role, SavedVote
from actors.dledger.core.settings import ElectionSettings
from actors.dledger.core.votes import VoteAnswer, VoteAsked, VoteRound
from actors.trees.ledger_setup import election_settings
from wire.dledger.codes import VoteResult as V

RAFT = ElectionSettings(raft_votes=True)
LED_BY_N1 = SavedVote(term=5, voted_for="n1")


def a_kit(**options: object) -> Kit:
    return Kit(settings=RAFT, **options)  # type: ignore[arg-type]


def without_a_leader(members: int = 3, vote: SavedVote = LED_BY_N1) -> Kit:
    """Its leader n1 was missed."""
    kit = a_kit(members=members, vote=vote)
    kit.hear("n1", 5)
    kit.tick()
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 5)
    kit.fence()
    return kit


# ---- the voter ----


def test_a_larger_term_and_the_vote_in_it_are_one_step() -> None:
    kit = a_kit()
    session = kit.state.session
    effects = kit.asked_by("n1", 6)
    assert effects.vote == VoteAnswer(result=V.ACCEPT, term=6)
    assert effects.persist == SavedVote(term=6, voted_for="n1"), "both, before the answer"
    assert effects.role is not None
    assert (effects.role.term, effects.role.session) == (6, session + 1)


def test_the_vote_of_that_term_is_given_once() -> None:
    kit = a_kit()
    kit.asked_by("n1", 6)
    effects = kit.asked_by("n2", 6)
    assert effects.vote == VoteAnswer(result=V.REJECT_ALREADY_VOTED, term=6)
    assert effects.persist is None
    effects = kit.asked_by("n2", 7)
    assert effects.vote == VoteAnswer(result=V.ACCEPT, term=7)


def test_a_vote_for_itself_in_an_older_term_is_no_hindrance() -> None:
    kit = a_kit()
    kit.campaign()
    effects = kit.asked_by("n1", 6)
    assert effects.vote == VoteAnswer(result=V.ACCEPT, term=6)
    assert kit.election.round is None, "its own campaign is over"


def test_an_older_log_gets_no_vote_and_its_term_is_not_taken() -> None:
    kit = a_kit()
    effects = kit.asked_by("n1", 6, LedgerEnd(index=6, term=3))
    assert effects.vote == VoteAnswer(result=V.REJECT_SMALL_LEDGER_END_INDEX, term=5)
    assert (effects.persist, effects.role) == (None, None)


def test_a_term_below_that_of_the_own_log_is_raised_and_refused() -> None:
    late = LedgerEnd(index=7, term=8)
    kit = a_kit(end=late)
    effects = kit.asked_by("n1", 7, late)
    assert effects.vote == VoteAnswer(result=V.REJECT_TERM_SMALL_THAN_LEDGER, term=8)
    assert effects.persist == SavedVote(term=7)


def test_a_follower_s_log_is_final_before_it_votes() -> None:
    """What its leader sent may still be on its way into the log that would be judged."""
    kit = a_kit(vote=LED_BY_N1)
    kit.hear("n1", 5)
    kit.fence()
    effects = kit.asked_by("n2", 6)
    assert effects.vote == VoteAnswer(result=V.REJECT_TERM_NOT_READY, term=6)
    assert effects.persist == SavedVote(term=6)
    grown = LedgerEnd(index=8, term=5)
    kit.election.fenced(kit.now_s, kit.state.session, grown)
    refusal = V.REJECT_EXPIRED_LEDGER_TERM
    assert kit.asked_by("n2", 6).vote == VoteAnswer(result=refusal, term=6)
    assert kit.asked_by("n2", 6, grown).vote == VoteAnswer(result=V.ACCEPT, term=6)


def test_who_gave_its_vote_gives_the_candidate_time() -> None:
    kit = a_kit()
    for _ in range(20):
        kit.asked_by("n1", kit.state.term + 1)
        assert kit.last.deadline_s is not None
        assert kit.last.deadline_s >= kit.now_s + RAFT.vote_interval_min_s


# ---- the candidate ----


@pytest.mark.parametrize("vote", [LED_BY_N1, SavedVote(term=5)], ids=["voted", "had no vote"])
@pytest.mark.parametrize("other", [V.REJECT_ALREADY_VOTED, V.ACCEPT, V.REJECT_TERM_NOT_READY])
def test_a_lost_leader_s_term_is_left_at_a_quorum_s_word(vote: SavedVote, other: V) -> None:
    """n1 is silent, and not waited for."""
    kit = without_a_leader(vote=vote)
    number = kit.campaign()
    assert kit.state.term == 5, "it asks in the old term first: nobody is disturbed by that"
    free = VoteAnswer(result=other, term=5)
    effects = kit.election.vote_answered(kit.now_s, number, "n2", free)
    if vote.voted_for == "" and other is not V.REJECT_ALREADY_VOTED:
        assert kit.state.term == 5, "n2 votes for it, or will: the term may be won"
        return
    assert effects.ask_votes is not None
    assert (effects.ask_votes.term, effects.ask_votes.end) == (6, END)
    assert effects.ask_votes.number > number
    assert effects.persist == SavedVote(term=6, voted_for="n0")
    number = effects.ask_votes.number
    kit.election.vote_answered(kit.now_s, number, "n2", VoteAnswer(result=V.ACCEPT, term=6))
    assert (kit.state.role, kit.state.term) == (Role.LEADER, 6)


def test_the_word_of_a_minority_is_not_enough() -> None:
    kit = without_a_leader(members=5)
    number = kit.campaign()
    kit.answers(number, None, V.REJECT_ALREADY_VOTED)
    assert kit.election.round is not None
    effects = kit.answers(number, None, None, V.REJECT_ALREADY_VOTED)
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 6


@pytest.mark.parametrize(
    "refusal", [V.REJECT_ALREADY_HAS_LEADER, V.REJECT_SMALL_LEDGER_END_INDEX, None]
)
def test_the_term_stays_where_a_leader_is_seen_or_a_log_is_longer_or_nobody_answers(
    refusal: V | None,
) -> None:
    kit = without_a_leader()
    for _ in range(5):
        number = kit.campaign()
        kit.answers(number, None, refusal)
        assert kit.election.round is None
        assert kit.state.vote == LED_BY_N1


@pytest.mark.parametrize("stale_first", [True, False])
def test_a_quorum_s_word_that_nobody_leads_outweighs_a_stale_one(stale_first: bool) -> None:
    """One that still hears the old leader, which has no quorum, kept four from electing."""
    kit = without_a_leader(members=5)
    number = kit.campaign()
    words = [("n2", V.REJECT_ALREADY_HAS_LEADER), ("n3", V.REJECT_ALREADY_VOTED)]
    for voter, result in words if stale_first else reversed(words):
        kit.election.vote_answered(kit.now_s, number, voter, VoteAnswer(result=result, term=5))
    last = VoteAnswer(result=V.REJECT_ALREADY_VOTED, term=5)
    effects = kit.election.vote_answered(kit.now_s, number, "n4", last)
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 6


def test_votes_beside_a_leader_that_is_seen_are_no_such_word() -> None:
    """Java's voters may give them while they follow that leader (bug V9)."""
    kit = without_a_leader(members=5)
    number = kit.campaign()
    kit.answers(number, None, V.REJECT_ALREADY_HAS_LEADER, V.ACCEPT, V.ACCEPT)
    assert (kit.election.round, kit.state.term, kit.last.ask_votes) == (None, 5, None)


def test_two_of_five_that_see_a_leader_are_believed_at_once() -> None:
    kit = without_a_leader(members=5)
    number = kit.campaign()
    seen = V.REJECT_ALREADY_HAS_LEADER
    kit.answers(number, None, seen, seen)
    assert kit.election.round is None, "no quorum can say otherwise any more"


def test_a_leader_that_is_seen_is_asked_about_no_later_where_others_are_silent() -> None:
    kit = without_a_leader(members=5)
    number = kit.campaign()
    began_s = kit.now_s
    kit.answers(number, None, V.REJECT_ALREADY_HAS_LEADER)
    assert kit.election.round is not None
    kit.campaign()
    assert 2.3 <= kit.now_s - began_s < 3.0


def test_a_leader_that_others_see_is_asked_about_an_interval_later() -> None:
    kit = without_a_leader()
    kit.answers(kit.campaign(), None, V.REJECT_ALREADY_HAS_LEADER)
    before_s = kit.now_s
    kit.campaign()
    assert 2.3 <= kit.now_s - before_s < 3.0


def test_two_that_ask_in_one_term_draw_again() -> None:
    """Their votes are for themselves: without a pause they would collide for ever."""
    kit = without_a_leader()
    number = kit.answers(kit.campaign(), None, V.REJECT_ALREADY_VOTED).ask_votes
    assert number is not None
    effects = kit.answers(number.number, None, V.REJECT_ALREADY_VOTED, term=6)
    assert effects.ask_votes is None
    assert kit.state.term == 6
    before_s = kit.now_s
    again = kit.tick().ask_votes
    assert again is not None
    assert again.term == 7, "nothing is asked in a term that is lost"
    assert 0.3 <= kit.now_s - before_s < 1.0


def test_a_vote_that_came_to_nothing_is_left_at_a_quorum_s_word() -> None:
    """Whom it voted for did not become the leader."""
    kit = a_kit()
    kit.asked_by("n1", 6)
    effects = kit.answers(kit.campaign(), None, V.REJECT_ALREADY_VOTED, term=6)
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 7


LONGER = LedgerEnd(index=8, term=3)


@pytest.mark.parametrize(
    ("me", "other", "end", "goes_on"),
    [
        ("n0", "n2", END, True),
        ("n2", "n0", END, False),
        ("n0", "n2", LONGER, False),
        ("n2", "n0", LedgerEnd(index=6, term=3), True),
        ("n2", "n9", LONGER, True),
    ],
)
def test_of_two_that_ask_at_a_time_one_gives_way(
    me: str, other: str, end: LedgerEnd, goes_on: bool
) -> None:
    """By the log, then the name; a stranger and an older log are nobody to give way to."""
    kit = without_a_leader()
    kit.state.self_id = me
    number = kit.campaign()
    effects = kit.asked_by(other, 5, end)
    assert effects.vote is not None
    assert effects.persist is None
    assert (kit.election.round is not None) == goes_on
    free = VoteAnswer(result=V.REJECT_ALREADY_VOTED, term=5)
    peer = next(name for name in kit.state.peers if name != "n1")
    effects = kit.election.vote_answered(kit.now_s, number, peer, free)
    assert (effects.ask_votes is not None) == goes_on
    assert effects.deadline_s is not None
    if not goes_on:
        assert effects.deadline_s >= kit.now_s + RAFT.vote_interval_min_s


def test_who_wants_a_term_itself_gives_way_to_nobody() -> None:
    kit = a_kit()
    kit.state.self_id = "n2"
    kit.campaign()
    kit.asked_by("n0", 5)
    assert kit.election.round is not None


def test_a_late_word_is_no_word() -> None:
    """The candidate stood still; a leader may have been there since."""
    kit = without_a_leader()
    number = kit.campaign()
    kit.now_s += RAFT.heartbeat_interval_s
    kit.answers(number, None, V.REJECT_ALREADY_VOTED)
    assert kit.state.term == 5
    assert kit.last.ask_votes is None
    assert kit.last.deadline_s is not None
    assert kit.last.deadline_s >= kit.now_s + RAFT.vote_interval_min_s, "it listens first"


def test_who_may_not_lead_takes_no_term() -> None:
    kit = without_a_leader()
    number = kit.campaign()
    kit.election.lead_allowed(kit.now_s, False)
    kit.answers(number, None, V.REJECT_ALREADY_VOTED)
    assert kit.state.term == 5


def test_a_larger_term_leaves_a_candidate_s_log_final() -> None:
    """Nothing can be written for a leader meanwhile: it may vote, and ask, at once."""
    kit = without_a_leader()
    kit.election.saw_term(kit.now_s, 9)
    assert kit.state.end_final
    assert kit.asked_by("n2", 9).vote == VoteAnswer(result=V.ACCEPT, term=9)


def test_a_probe_counts_a_vote_that_needs_all_others_like_such_a_vote() -> None:
    votes = VoteRound(
        number=1,
        term=5,
        voters=("n0", "n1", "n2"),
        quorum=2,
        deadline_s=9.0,
        probe_until_s=2.0,
    )
    votes.answered("n0", VoteAnswer(result=V.REJECT_ALREADY_VOTED, term=5))
    votes.answered("n1", VoteAnswer(result=V.ACCEPT, term=5, is_partial=True))
    assert not votes.leaderless(1.0)
    votes.answered("n2", VoteAnswer(result=V.REJECT_ALREADY_VOTED, term=5))
    assert votes.leaderless(1.0)


# ---- a group of them ----


def a_group(raft: tuple[str, ...], seed: int) -> World:
    world = World(
        seed=seed,
        faults=Faults(lost=0.0, twice=0.0, delay_max_s=0.005),
        raft_votes=frozenset(raft),
    )
    world.start_all()
    world.run(20.0)
    return world


def test_a_voter_that_was_killed_knows_whom_it_voted_for() -> None:
    world = a_group(("n0", "n1", "n2"), 1)
    leader = world.leader
    assert leader is not None
    voter = next(each for each in world.members.values() if each is not leader)
    other = next(each for each in world.names if each not in (leader.name, voter.name))
    term = leader.election.state.term + 1

    def asked_by(name: str) -> V:
        asked = VoteAsked(candidate=name, term=term, end=voter.disk.end)
        effects = voter.election.vote_requested(world.now_s, asked)
        voter.role_effects(effects)
        assert effects.vote is not None
        return effects.vote.result

    world.cut |= {(a, b) for a in world.names for b in world.names}
    world.run(world.now_s + 7.0)
    assert voter.election.state.role is Role.CANDIDATE
    assert asked_by(leader.name) is V.ACCEPT
    voter.stop()
    voter.start()
    world.run(world.now_s + 0.01)
    assert asked_by(other) is V.REJECT_ALREADY_VOTED


@pytest.mark.parametrize("raft", [("n0", "n1", "n2"), ("n0",), ("n0", "n1"), ()])
def test_a_lost_leader_is_replaced_whoever_votes_how(raft: tuple[str, ...]) -> None:
    for seed in range(5):
        world = a_group(raft, seed)
        leader = world.leader
        assert leader is not None
        leader.stop()
        world.run(world.now_s + 20.0)
        new = world.leader
        assert new is not None
        assert new is not leader
        leader.start()
        converge(world)


def test_an_election_takes_one_pause() -> None:
    """After the time-out a draw, and the way there and back twice; again if two have collided."""
    alone = 0
    for seed in range(20):
        world = a_group(("n0", "n1", "n2"), seed)
        leader, begin_s = world.leader, world.now_s
        assert leader is not None
        leader.stop()
        terms = max(world.leaders)
        while world.leader is None:
            world.run(world.now_s + 0.01)
        rounds = max(world.leaders) - terms
        longest_s = world.election.leak_s + rounds * (world.election.vote_interval_max_s + 0.1)
        assert world.now_s - begin_s <= longest_s
        alone += rounds == 1
    assert alone > 10


# ---- a group's settings ----


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, True),
        ({"raft_votes": False}, False),
        ({"compat": "upstream"}, False),
        ({"compat": "upstream", "raft_votes": True}, True),
    ],
)
def test_a_group_votes_so_unless_it_is_as_upstream_s(
    keys: dict[str, object], expected: bool
) -> None:
    group = DLedgerGroup(name="g", members=("n0", "n1", "n2"), **keys)  # type: ignore[arg-type]
    assert election_settings(group, "n0").raft_votes is expected
    assert not ElectionSettings().raft_votes, "the core's own default is upstream's"
