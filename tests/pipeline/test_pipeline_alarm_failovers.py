"""The alarm for nodes without a leader or master; without Spark."""

from __future__ import annotations

import attrs
import pytest
from alarms_kit import LIMITS, Story, brief, facts_of, found, lost, role, rose, verified
from lines_kit import START_US, Boot

from actors.events.node import GroupConfigured, NodeStarted, NodeStopped
from actors.events.roles import GroupOpened, MasterFenced
from actors.pipeline.alarms.findings import sentence
from actors.pipeline.alarms.processor import GroupState

US = 1_000_000
SOON = attrs.evolve(LIMITS, start_s=20.0)
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
    state = GroupState()
    told = [*state.take(story.facts(), LIMITS), *state.pass_time("g", START_US + 13 * US, LIMITS)]
    assert brief(told) == [("failover", "n2", "n0", 3_000_000)]
    again = Story({"n2": Boot("n2", seq=3)})
    again.say("n2", 14, verified("n1"))
    (over,) = state.take(again.facts(), LIMITS)
    assert (over.alarm, over.node, over.lasted_us) == ("failover_over", "n2", 4_000_000)
    assert sentence(over).endswith("n2 has a leader again, after 4.0 s without (n2/1/3)")
    assert list(state.take(again.facts(), LIMITS)) == []
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


def started(*then: tuple[float, object]) -> Story:
    story = Story()
    story.say("n1", 100, STARTED, "")
    for at, event in then:
        story.say("n1", at, event)
    return story


NEVER = [
    started(),
    started((101, role("CANDIDATE", 1, "")), (110, role("CANDIDATE", 9, ""))),
    started((101, lost()), (119, lost())),
    started((101, MasterFenced(reason="SHORTER_THAN_MARK", detail=""))),
]


@pytest.mark.parametrize("story", NEVER, ids=["silent", "candidate", "slave", "fenced"])
def test_who_never_had_a_leader_since_its_start_is_told(story: Story) -> None:
    assert found(story.facts(), 120, SOON) == []
    (finding,) = found(story.facts(), 120.1, SOON)
    assert brief([finding]) == [("leaderless", "n1", "", 20_100_000)]
    assert (finding.seq, finding.at_us, finding.is_over) == (1, START_US + 100 * US, False)
    assert sentence(attrs.evolve(finding, doubt="")).endswith(
        "leaderless: n1 has had no leader since it started, for 20.1 s (n1/1/1)"
    )


@pytest.mark.parametrize(
    "event",
    [
        role("LEADER", 1, "n1"),
        role("FOLLOWER", 1, "n0"),
        verified("n0"),
        GroupOpened(number=1, token=1, start_bytes=0, heard=()),
    ],
)
def test_a_first_leader_that_comes_late_is_told_and_one_in_time_is_not(event: object) -> None:
    assert found(started((119, event)).facts(), 999, SOON) == []
    (finding,) = found(started((121, event)).facts(), 999, SOON)
    assert brief([finding]) == [("leaderless", "n1", "", 21 * US)]
    assert finding.is_over
    assert "n1 had no leader for 21.0 s after it started" in sentence(finding)


def configured(mode: str, *java: str) -> GroupConfigured:
    return GroupConfigured(
        mode=mode,
        members=("j0", "n1"),
        java_members=java,
        sure_copies=2,
        durability="synced",
        store="file",
    )


@pytest.mark.parametrize(("mode", "lacked"), [("classic", "master"), ("dledger", "leader")])
def test_a_classic_group_lacks_a_master_and_another_a_leader(mode: str, lacked: str) -> None:
    first = (100, configured(mode))
    (never,) = found(started(first).facts(), 999, SOON)
    assert f"n1 has had no {lacked} since it started, for" in sentence(never)
    (late,) = found(started(first, (121, verified("n0"))).facts(), 999, SOON)
    assert f"n1 had no {lacked} for 21.0 s after it started" in sentence(late)
    story = started(first, (101, verified("n0")), (110, lost()))
    (lasting,) = found(story.facts(), 113, SOON)
    assert f"n1 has had no {lacked} for 3.0 s, since it lost n0" in sentence(lasting)
    story.say("n1", 114, verified("n0"))
    (over,) = found(story.facts(), 999, SOON)
    assert f"n1 had no {lacked} for 4.0 s after n0" in sentence(over)


@pytest.mark.parametrize(("mode", "count"), [("classic", 0), ("dledger", 1)])
def test_a_slave_of_a_java_master_says_nothing_of_it_and_is_not_told(mode: str, count: int) -> None:
    group = configured(mode, "j0")
    assert len(found(started((100, group)).facts(), 999, SOON)) == count
