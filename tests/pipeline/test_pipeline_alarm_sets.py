"""The alarms of auto-switch groups: masters of an epoch, leases, sets below the minimum; without
Spark."""

from __future__ import annotations

import msgspec
import pytest
from alarms_kit import LIMITS, Story, brief, facts_of, found, lost, verified
from lines_kit import START_US

from actors.events.ha import EpochBegun, LeaseChanged, RoleGiven, SyncStateSetTaken
from actors.events.node import GroupConfigured, NodeStarted, NodeStopped
from actors.pipeline.alarms.facts import NO_SET
from actors.pipeline.alarms.findings import as_dict, of_dict, sentence
from actors.pipeline.alarms.processor import GroupState

US = 1_000_000


def promise(needs: int) -> GroupConfigured:
    return GroupConfigured(
        mode="autoswitch",
        members=("n0", "n1"),
        java_members=(),
        sure_copies=needs,
        durability="synced",
        store="file",
    )


def begun(epoch: int) -> EpochBegun:
    return EpochBegun(epoch=epoch, start_bytes=0)


def given(role: str, epoch: int) -> RoleGiven:
    return RoleGiven(role=role, epoch=epoch, master="n1")


def in_set(*ids: int) -> SyncStateSetTaken:
    return SyncStateSetTaken(in_sync=ids, set_epoch=1)


def lease(*, holds: bool) -> LeaseChanged:
    return LeaseChanged(epoch=1, holds=holds)


def test_facts_of_a_replica() -> None:
    story = Story()
    for second, event in enumerate(
        (promise(2), given("master", 1), begun(1), in_set(1), lease(holds=True), lease(holds=False))
    ):
        story.say("n0", second, event)
    assert [(fact.what, fact.who, fact.number) for fact in story.facts()][:-1] == [
        ("classic", "", 0),
        ("needs", "", 2),
        ("knows", "", 0),
        ("set", "", NO_SET),
        ("elected", "n0", 1),
        ("knows", "n0", 0),
        ("set", "", 1),
        ("knows", "n0", 0),
        ("knows", "", 0),
    ]


def test_two_masters_of_an_epoch_are_found_at_once() -> None:
    story = Story()
    story.say("n0", 0, begun(3))
    story.say("n0", 1, begun(3))  # its tree has started again
    story.say("n1", 5, begun(3))
    (finding,) = found(story.facts(), 6)
    assert (finding.alarm, finding.value, finding.unit) == ("two_leaders", 3, "epoch")
    assert "n1 leads in epoch 3, and so does n0" in sentence(finding)


def test_a_master_without_a_lease_has_none_until_it_is_back() -> None:
    story = Story()
    story.say("n0", 0, promise(1))
    story.say("n0", 0, begun(1))
    story.say("n0", 10, lease(holds=False))
    story.say("n0", 14, lease(holds=True))
    (finding,) = found(story.facts(), 20)
    assert brief([finding]) == [("failover", "n0", "n0", 4 * US)]
    assert "n0 had no master for 4.0 s after n0" in sentence(finding)


def test_a_replica_whose_new_master_is_not_there_waits_for_it() -> None:
    story = Story()
    story.say("n1", 0, promise(1))
    story.say("n1", 0, verified("n0"))
    story.say("n1", 10, lost())
    story.say("n1", 11, given("slave", 2))
    story.say("n1", 15, verified("n2"))
    assert brief(found(story.facts(), 20)) == [("failover", "n1", "n0", 5 * US)]
    master = Story()
    master.say("n1", 0, begun(1))
    master.say("n1", 10, given("slave", 2))
    master.say("n1", 15, verified("n2"))
    assert brief(found(master.facts(), 20)) == [("failover", "n1", "n1", 5 * US)]


def small(until: object | None, at_s: float = 4.0) -> Story:
    """A master that needs two, and is alone from 1 s on until this event at `at_s`."""
    story = Story()
    story.say("n0", 0, promise(2))
    story.say("n0", 0, begun(1))
    story.say("n0", 0, in_set(1, 2))
    story.say("n0", 1, in_set(1))
    if until is not None:
        story.say("n0", at_s, until)
    return story


def test_a_set_that_is_too_small_for_long_is_told_while_it_lasts() -> None:
    story, state = small(None), GroupState()
    assert list(state.take(story.facts(), LIMITS)) == []
    assert state.sets.due_us(LIMITS) == START_US + 3 * US + 1
    (finding,) = state.pass_time("g", START_US + 6 * US, LIMITS)
    assert (finding.alarm, finding.node, finding.value) == ("below_minimum", "n0", 1)
    assert finding.at_us == START_US + US
    says = "n0 has had 1 of 2 replicas in sync for 5.0 s, and takes no appends (n0/1/4)"
    assert says in sentence(finding)
    assert of_dict(as_dict(finding)) == finding
    kept = msgspec.json.decode(msgspec.json.encode(state), type=GroupState)
    assert list(kept.pass_time("g", START_US + 9 * US, LIMITS)) == []
    more = small(in_set(1, 2), at_s=9.0).facts()[-2:]
    (over,) = kept.take(more, LIMITS)
    assert (over.alarm, over.lasted_us) == ("below_minimum_over", 8 * US)
    assert "n0 lacks no replicas in sync any more, after 8.0 s" in sentence(over)


@pytest.mark.parametrize("end", [in_set(1, 2), given("slave", 2), NodeStopped(reason="ordered")])
def test_what_was_too_long_by_its_end_is_told_and_what_was_not_is_none(end: object) -> None:
    finding, *others = sorted(found(small(end).facts(), 99), key=lambda each: each.alarm)
    assert (finding.alarm, finding.is_over, finding.lasted_us) == ("below_minimum", True, 3 * US)
    assert "n0 had 1 of 2 replicas in sync for 3.0 s, and took no appends" in sentence(finding)
    in_time = found(small(end, at_s=3.0).facts(), 99)
    assert [each.alarm for each in in_time] == [each.alarm for each in others]


def test_a_killed_master_s_set_ends_with_its_boot() -> None:
    story = small(in_set(1), at_s=4.5)
    before = story.restart("n0")
    story.say("n0", 300, NodeStarted(cluster="c", version="1", groups=("g",)), "")
    facts = [*facts_of(before), *story.facts()]
    assert [each.lasted_us for each in found(facts, 301)] == [3_500_000]


def test_a_set_that_is_large_enough_is_none() -> None:
    story = Story()
    story.say("n0", 0, promise(1))
    story.say("n0", 1, in_set(1))
    assert found(story.facts(), 99) == []
