"""dledger.md 4.1 to 4.4: how a member campaigns, follows, leads and leaves its role."""

from __future__ import annotations

import pytest
from election_kit import END, Kit

from actors.dledger.core.heartbeats import Heard, HeartbeatRound, RoundOutcome, judge_heartbeat
from actors.dledger.core.member_state import LedgerEnd, Role, SavedVote
from actors.dledger.core.settings import REVOTE_PAUSE_S
from actors.events import dledger as events
from wire.dledger.codes import ResponseCode as C
from wire.dledger.codes import VoteResult as V

# ---- campaigns ----


def test_a_member_starts_as_candidate_and_asks_in_its_term() -> None:
    kit = Kit()
    assert kit.state.role is Role.CANDIDATE
    effects = kit.tick()
    assert 0.3 <= kit.now_s < 1.0
    assert effects.ask_votes is not None
    assert (effects.ask_votes.term, effects.ask_votes.end) == (5, END)
    assert effects.persist == SavedVote(term=5, voted_for="n0")


def test_a_fresh_group_campaigns_in_term_0() -> None:
    kit = Kit(vote=SavedVote(term=0), end=LedgerEnd())
    effects = kit.tick()
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 0


def test_no_campaign_before_the_store_has_said_the_end() -> None:
    kit = Kit()
    kit.asked_by("n1", 6)
    assert kit.last.deadline_s is None
    kit.election.tick(50.0)
    assert kit.state.vote == SavedVote(term=6)
    kit.now_s = 50.0
    assert kit.election.fenced(50.0, kit.state.session - 1, END).deadline_s is None
    kit.fence()
    assert kit.campaign() > 0


def test_who_voted_for_itself_before_a_restart_never_campaigns_in_that_term_again() -> None:
    """It may have led and lost its unsynced tail; the same index and term would name two entries.

    The peer n1 holds what was lost, n2 does not and would vote for it again.
    """
    kit = Kit(vote=SavedVote(term=5, voted_for="n0"))
    effects = kit.tick()
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 6
    assert effects.persist == SavedVote(term=6, voted_for="n0")


def test_who_voted_for_another_before_a_restart_never_leads_in_that_term() -> None:
    """The votes of others may have made it the leader all the same."""
    kit = Kit(members=5, vote=SavedVote(term=5, voted_for="n4"))
    effects = kit.answers(kit.campaign(), V.ACCEPT, V.ACCEPT, V.ACCEPT)
    assert kit.state.term == 5
    assert effects.role is None
    effects = kit.tick()
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 6
    kit.answers(effects.ask_votes.number, V.ACCEPT, V.ACCEPT)
    assert kit.state.role is Role.LEADER


@pytest.mark.checklist(8, of="dledger")
def test_the_first_campaign_after_a_time_out_keeps_the_term() -> None:
    kit = Kit()
    kit.hear("n1", 5)
    assert kit.state.role is Role.FOLLOWER
    effects = kit.tick()
    assert kit.now_s == pytest.approx(6.0)
    assert effects.role is not None
    assert (effects.role.role, effects.role.term) == (Role.CANDIDATE, 5)
    kit.fence()
    assert kit.campaign() > 0
    assert kit.state.term == 5


@pytest.mark.checklist(8, of="dledger")
def test_wait_to_vote_next_raises_the_term() -> None:
    kit = Kit()
    kit.answers(kit.campaign(), V.REJECT_ALREADY_VOTED, V.REJECT_ALREADY_VOTED)
    assert kit.state.term == 5
    session = kit.state.session
    effects = kit.tick()
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 6
    assert effects.persist == SavedVote(term=6, voted_for="n0")
    assert kit.state.session == session + 1


@pytest.mark.checklist(8, of="dledger")
def test_revote_immediately_keeps_the_term_and_a_small_pause() -> None:
    kit = Kit()
    kit.answers(kit.campaign(), V.REJECT_TERM_NOT_READY)
    before_s = kit.now_s
    effects = kit.tick()
    assert kit.now_s == pytest.approx(before_s + REVOTE_PAUSE_S)
    assert effects.ask_votes is not None
    assert effects.ask_votes.term == 5


def test_a_larger_term_among_the_answers_is_taken() -> None:
    kit = Kit()
    number = kit.campaign()
    effects = kit.answers(number, V.REJECT_EXPIRED_VOTE_TERM, term=9)
    assert effects.persist is None, "n2 has not answered yet"
    effects = kit.election.vote_answered(kit.now_s, number, "n2", None)
    assert effects.persist == SavedVote(term=9)
    assert kit.state.role is Role.CANDIDATE


def test_a_silent_group_leaves_the_term_alone() -> None:
    """A member that is cut off does not raise its term: nobody is deposed when it returns."""
    kit = Kit()
    for _ in range(10):
        kit.answers(kit.campaign(), None, None)
    assert kit.state.term == 5


def test_a_round_without_answers_ends_by_the_clock() -> None:
    kit = Kit()
    kit.campaign()
    begin_s = kit.now_s
    kit.tick()
    assert 2.0 <= kit.now_s - begin_s <= 3.0
    assert kit.election.round is None
    assert kit.campaign() > 0


def test_answers_to_an_older_round_are_not_counted() -> None:
    kit = Kit()
    old = kit.campaign()
    kit.answers(old, None, None)
    kit.campaign()
    kit.answers(old, V.ACCEPT, V.ACCEPT)
    assert kit.state.role is Role.CANDIDATE


def test_a_larger_term_is_taken_in_the_middle_of_a_round() -> None:
    kit = Kit()
    number = kit.campaign()
    effects = kit.asked_by("n1", 6)
    assert effects.persist == SavedVote(term=6)
    assert effects.vote is not None
    assert effects.vote.result is V.REJECT_TERM_NOT_READY
    kit.answers(number, V.ACCEPT, V.ACCEPT)
    assert kit.state.role is Role.CANDIDATE


def test_a_vote_is_on_the_disk_before_it_is_sent_and_puts_the_own_campaign_off() -> None:
    kit = Kit()
    kit.now_s = 0.29
    effects = kit.asked_by("n1", 5)
    assert effects.persist == SavedVote(term=5, voted_for="n1")
    assert effects.vote is not None
    assert effects.vote.result is V.ACCEPT
    assert effects.deadline_s is not None
    assert effects.deadline_s >= 0.29 + 0.3
    again = kit.asked_by("n1", 5)
    assert again.persist is None
    assert again.vote == effects.vote
    assert kit.asked_by("n2", 5).vote != effects.vote


@pytest.mark.parametrize("members", [1, 2, 3, 4, 5])
@pytest.mark.checklist(36, of="dledger")
def test_quorums_of_votes(members: int) -> None:
    kit = Kit(members=members)
    needed = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3}[members]
    if members == 1:
        kit.tick()
    else:
        number = kit.campaign()
        kit.answers(number, *[V.ACCEPT] * (needed - 2))
        assert kit.state.role is Role.CANDIDATE
        voter = f"n{needed - 1}"
        answer = kit.asked_by("n1", 4).vote
        assert answer is not None
        kit.election.vote_answered(kit.now_s, number, voter, type(answer)(result=V.ACCEPT, term=5))
    assert kit.state.role is Role.LEADER


# ---- heartbeats, the receiver's side ----


@pytest.mark.parametrize(
    ("leader", "term", "heard", "code", "reported"),
    [
        ("n9", 9, Heard.NOTHING, C.UNKNOWN_MEMBER, 5),
        ("n0", 9, Heard.NOTHING, C.UNEXPECTED_MEMBER, 5),
        ("n1", 4, Heard.NOTHING, C.EXPIRED_TERM, 5),
        ("n1", 5, Heard.FOLLOW, C.SUCCESS, -1),
        ("n1", 6, Heard.RAISE, C.TERM_NOT_READY, -1),
    ],
)
def test_a_candidate_hears(leader: str, term: int, heard: Heard, code: C, reported: int) -> None:
    verdict = judge_heartbeat(Kit().state, leader, term)
    assert (verdict.heard, verdict.code, verdict.term) == (heard, code, reported)


def test_a_follower_and_a_leader_hear() -> None:
    kit = Kit()
    kit.hear("n1", 5)
    assert judge_heartbeat(kit.state, "n1", 5).heard is Heard.REFRESH
    verdict = judge_heartbeat(kit.state, "n2", 5)
    assert (verdict.heard, verdict.code) == (Heard.NOTHING, C.INCONSISTENT_LEADER)
    kit = Kit()
    kit.lead()
    assert judge_heartbeat(kit.state, "n1", 5).code is C.INCONSISTENT_LEADER


@pytest.mark.checklist(9, of="dledger")
def test_a_heartbeat_of_a_larger_term_is_followed_only_by_the_next() -> None:
    kit = Kit()
    kit.hear("n1", 5)
    effects = kit.hear("n2", 6)
    assert effects.heartbeat is not None
    assert effects.heartbeat.code is C.TERM_NOT_READY
    assert effects.persist == SavedVote(term=6)
    assert (kit.state.role, kit.state.leader) == (Role.CANDIDATE, "")
    effects = kit.hear("n2", 6)
    assert effects.heartbeat is not None
    assert effects.heartbeat.code is C.SUCCESS
    assert (kit.state.role, kit.state.leader) == (Role.FOLLOWER, "n2")


@pytest.mark.checklist(10, of="dledger")
def test_only_heartbeats_refresh_the_clock() -> None:
    kit = Kit()
    kit.hear("n1", 5)
    kit.now_s = 5.0
    kit.last = kit.election.saw_term(5.0, 5)  # all that a push can say
    kit.last = kit.election.grew(5.0, kit.state.session, LedgerEnd(index=8, term=5))
    assert kit.last.deadline_s == pytest.approx(6.0)
    assert kit.hear("n1", 5).deadline_s == pytest.approx(11.0)


# ---- heartbeats, the leader's side ----


def test_a_new_leader_sends_heartbeats_at_once_and_each_interval() -> None:
    kit = Kit()
    effects = kit.lead()
    assert effects.send_heartbeats is not None
    first_s = kit.now_s
    kit.beat_answers(effects.send_heartbeats.number, C.SUCCESS, C.SUCCESS)
    effects = kit.tick()
    assert effects.send_heartbeats is not None
    assert kit.now_s == pytest.approx(first_s + 2.0)


def test_a_new_leader_without_a_quorum_leads_for_three_intervals() -> None:
    """Counted from the election: upstream's clock starts at -1, and it steps down at once."""
    kit = Kit()
    begin_s = kit.now_s
    effects = kit.lead()
    begin_s = kit.now_s
    while kit.state.role is Role.LEADER:
        if effects.send_heartbeats is not None:
            number = effects.send_heartbeats.number
            kit.beat_answers(number, C.NETWORK_ERROR, C.NETWORK_ERROR)
        effects = kit.tick()
    assert kit.now_s == pytest.approx(begin_s + 6.0)
    assert kit.state.term == 5


def test_the_quorum_is_of_when_the_heartbeat_was_sent() -> None:
    kit = Kit()
    effects = kit.lead()
    begin_s = kit.now_s
    assert effects.send_heartbeats is not None
    kit.now_s += 1.5
    kit.beat_answers(effects.send_heartbeats.number, C.SUCCESS)
    assert kit.election.sign_s == begin_s


@pytest.mark.checklist(33, of="dledger")
def test_a_larger_term_ends_a_leadership_though_a_quorum_is_happy() -> None:
    """Bug V1: a member that raised its term alone could never come back."""
    kit = Kit(members=5)
    effects = kit.lead()
    assert effects.send_heartbeats is not None
    number = effects.send_heartbeats.number
    kit.beat_answers(number, C.SUCCESS, C.SUCCESS, C.SUCCESS)
    assert kit.state.role is Role.LEADER
    effects = kit.election.heartbeat_answered(kit.now_s, number, "n4", C.EXPIRED_TERM, 9)
    assert effects.persist == SavedVote(term=9)
    assert kit.state.role is Role.CANDIDATE


def test_a_late_answer_with_a_larger_term_counts() -> None:
    kit = Kit()
    effects = kit.lead()
    assert effects.send_heartbeats is not None
    kit.beat_answers(effects.send_heartbeats.number, C.SUCCESS)
    kit.tick()
    kit.beat_answers(effects.send_heartbeats.number, C.EXPIRED_TERM, term=6)
    assert kit.state.vote == SavedVote(term=6)


def a_beat(members: int = 3) -> HeartbeatRound:
    return HeartbeatRound(number=1, peers=members - 1, quorum=members // 2 + 1, sent_s=0.0)


def test_a_quorum_that_is_not_ready_is_asked_again_soon() -> None:
    beat = a_beat(5)
    assert beat.answered("n1", C.TERM_NOT_READY) is RoundOutcome.OPEN
    assert beat.answered("n2", C.TERM_NOT_READY) is RoundOutcome.AGAIN
    kit = Kit()
    effects = kit.lead()
    assert effects.send_heartbeats is not None
    begin_s = kit.now_s
    kit.beat_answers(effects.send_heartbeats.number, C.TERM_NOT_READY)
    assert kit.tick().send_heartbeats is not None
    assert kit.now_s == pytest.approx(begin_s + REVOTE_PAUSE_S)


def test_another_leader_of_the_term_counts_only_without_a_quorum() -> None:
    beat = a_beat()
    assert beat.answered("n1", C.INCONSISTENT_LEADER) is RoundOutcome.OPEN
    assert beat.answered("n2", C.SUCCESS) is RoundOutcome.QUORUM
    kit = Kit()
    effects = kit.lead()
    assert effects.send_heartbeats is not None
    kit.beat_answers(effects.send_heartbeats.number, C.INCONSISTENT_LEADER, C.NETWORK_ERROR)
    assert (kit.state.role, kit.state.term) == (Role.CANDIDATE, 5)


def test_a_group_of_one_leads_by_itself_for_ever() -> None:
    kit = Kit(members=1)
    kit.tick()
    for _ in range(10):
        assert kit.tick().send_heartbeats is None
    assert kit.state.role is Role.LEADER
    assert kit.now_s > 15.0


# ---- other reasons ----


def test_a_push_of_a_larger_term_is_heard() -> None:
    kit = Kit()
    kit.hear("n1", 5)
    assert kit.election.saw_term(1.0, 7).persist == SavedVote(term=7)
    assert kit.state.role is Role.CANDIDATE
    assert kit.election.saw_term(1.0, 6).role is None


def test_who_cannot_append_neither_leads_nor_campaigns() -> None:
    """Bug V10."""
    kit = Kit()
    kit.lead()
    effects = kit.election.lead_allowed(kit.now_s, False)
    assert effects.role is not None
    assert effects.role.role is Role.CANDIDATE
    assert kit.fence().deadline_s is None
    kit.now_s = 100.0
    kit.last = kit.election.lead_allowed(100.0, True)
    assert kit.campaign() > 0


def test_a_disk_that_fills_during_a_round_ends_it() -> None:
    kit = Kit()
    number = kit.campaign()
    kit.election.lead_allowed(kit.now_s, False)
    kit.answers(number, V.ACCEPT, V.ACCEPT)
    assert kit.state.role is Role.CANDIDATE


def test_sessions_rise_and_events_say_every_role() -> None:
    kit = Kit()
    effects = kit.lead()
    (said,) = effects.events
    assert said == events.RoleChanged(session=2, role="LEADER", term=5, leader="n0")
    assert effects.role is not None
    assert effects.role.session == 2
    assert kit.hear("n1", 6).role is not None
    assert kit.state.session == 3


def test_the_end_of_a_log_that_grows_is_kept_for_its_session_only() -> None:
    kit = Kit()
    kit.hear("n1", 5)
    longer = LedgerEnd(index=9, term=5)
    kit.election.grew(0.5, kit.state.session, longer)
    assert kit.state.end == longer
    kit.election.grew(0.5, kit.state.session - 1, END)
    assert kit.state.end == longer
    kit.hear("n1", 6)
    kit.election.grew(0.5, kit.state.session, END)  # a candidate's log does not grow
    assert kit.state.end == longer
