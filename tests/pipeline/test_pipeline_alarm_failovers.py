"""The alarm for nodes without a leader or master; without Spark."""

from __future__ import annotations

import pytest
from alarms_kit import LIMITS, Story, brief, facts_of, found, lost, role, rose, verified
from lines_kit import START_US

from actors.events.node import NodeStarted, NodeStopped
from actors.events.roles import GroupOpened
from actors.pipeline.alarms.processor import GroupState

US = 1_000_000
STARTED = NodeStarted(cluster="c", version="1", groups=("g",))


def test_a_failover_is_measured_by_the_nodes_own_clock() -> None:
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 5, "n0"))
    story.say("n1", 10, role("CANDIDATE", 6, ""))
    story.say("n1", 11, role("CANDIDATE", 7, ""))
    story.say("n1", 12.5, role("FOLLOWER", 7, "n2"))
    (finding,) = found(story.facts(), 0)
    assert brief([finding]) == [("failover", "n1", "n0", 2_500_000)]
    assert (finding.at_us, finding.seq, finding.is_over) == (START_US + 10 * US, 2, True)
    assert brief(found(story.facts(), 13)) == brief([finding])


def test_a_short_failover_and_a_first_election_are_none() -> None:
    story = Story()
    story.say("n1", 0, role("CANDIDATE", 1, ""))
    story.say("n1", 50, role("FOLLOWER", 1, "n0"))
    story.say("n1", 60, role("CANDIDATE", 2, ""))
    story.say("n1", 62, role("LEADER", 2, "n1"))
    assert found(story.facts(), 99) == []


@pytest.mark.parametrize("until_s", [11.9, 12.0])
def test_within_the_limit_nothing_is_told(until_s: float) -> None:
    story = Story()
    story.say("n2", 0, verified("n0"))
    story.say("n2", 10, lost())
    assert found(story.facts(), until_s) == []


def test_what_lasts_is_told_while_it_lasts_and_ends_with_the_boot() -> None:
    story = Story()
    story.say("n2", 0, verified("n0"))
    story.say("n2", 10, lost())
    (finding,) = found(story.facts(), 12.5)
    assert brief([finding]) == [("failover", "n2", "n0", 2_500_000)]
    assert not finding.is_over
    before = story.restart("n2")
    story.say("n2", 100, NodeStarted(cluster="c", version="1", groups=("g",)), "")
    assert found([*facts_of(before), *story.facts()], 200) == []


def test_who_becomes_master_himself_lacks_none() -> None:
    story = Story()
    story.say("n2", 0, verified("n0"))
    story.say("n2", 10, lost())
    story.say("n2", 11, GroupOpened(number=1, token=1, start_bytes=0, heard=()))
    assert found(story.facts(), 99) == []


def leaderless(last: object, place: str = "") -> Story:
    """n1 loses its leader at 10 s, and its boot ends with this event at 12.5 s."""
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 5, "n0"))
    story.say("n1", 10, role("CANDIDATE", 6, ""))
    story.say("n1", 12.5, last, place)
    return story


@pytest.mark.parametrize("last", [NodeStopped(reason="ordered"), NodeStopped(reason="disk")])
def test_what_lasted_to_the_end_of_a_boot_is_told_however_late_it_is_read(last: object) -> None:
    story = leaderless(last)
    (finding,) = found(story.facts(), 99)
    assert brief([finding]) == [("failover", "n1", "n0", 2_500_000)]
    assert not finding.is_over


def test_a_killed_boot_lasted_to_its_last_event() -> None:
    story = leaderless(rose(1), "g/x")
    before = story.restart("n1")
    assert found(facts_of(before), 11) == []
    story.say("n1", 300, STARTED, "")
    story.say("n1", 301, role("FOLLOWER", 7, "n2"))
    facts = [*facts_of(before), *story.facts()]
    assert brief(found(facts, 999)) == [("failover", "n1", "n0", 2_500_000)]


def test_what_ends_within_the_limit_with_its_boot_is_none() -> None:
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 5, "n0"))
    story.say("n1", 10, role("CANDIDATE", 6, ""))
    story.say("n1", 12, NodeStopped(reason="ordered"), "")
    before = story.restart("n1")
    story.say("n1", 300, STARTED, "")
    assert found([*facts_of(before), *story.facts()], 999) == []


def test_what_was_told_while_it_lasted_is_not_told_again_at_its_end() -> None:
    story = leaderless(rose(1), "g/x")
    state = GroupState()
    assert list(state.take(story.facts(), LIMITS)) == []
    (first,) = state.pass_time("g", START_US + 13 * US, LIMITS)
    assert brief([first]) == [("failover", "n1", "n0", 3 * US)]
    story.restart("n1")
    story.say("n1", 300, STARTED, "")
    assert list(state.take(story.facts(), LIMITS)) == []
