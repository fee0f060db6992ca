"""The alarms of a node that begins anew, and of those beside it; without Spark."""

from __future__ import annotations

import attrs
from alarms_kit import LIMITS, Story, brief, role, rose
from lines_kit import START_US

from actors.events.node import NodeStarted
from actors.events.store import RotFound
from actors.pipeline.alarms.facts import Fact, FactReader
from actors.pipeline.alarms.findings import sentence
from actors.pipeline.alarms.processor import GroupState

US = 1_000_000
STARTED = NodeStarted(cluster="c", version="1", groups=("g",))


def life(*, is_anew: bool) -> Story:
    """n1 leads in term 1 and knows of 1000 entries; then it knows no leader."""
    story = Story()
    at = 500.0 if is_anew else 0.0
    story.say("n1", at, STARTED, "")
    story.say("n1", at + 1, role("LEADER", 1, "n1"))
    story.say("n1", at + 2, rose(5 if is_anew else 1000))
    if not is_anew:
        story.say("n1", at + 3, role("CANDIDATE", 2, ""))
    return story


def anew(story: Story) -> list[Fact]:
    reader = FactReader(is_anew=True)
    return list(reader.read(story.boots["n1"].lines))


def test_a_node_that_begins_anew_is_told_and_nothing_of_its_earlier_life() -> None:
    state = GroupState()
    first = [*state.take(life(is_anew=False).facts(), LIMITS)]
    first += state.pass_time("g", START_US + 4 * US, LIMITS)
    assert first == []
    (finding,) = state.take(reversed(anew(life(is_anew=True))), LIMITS)
    assert brief([finding]) == [("begun_anew", "n1", "n1", 1)]
    assert (finding.seq, finding.at_us, finding.unit) == (1, START_US + 500 * US, "boot")
    assert list(state.pass_time("g", START_US + 999 * US, LIMITS)) == []


def test_an_earlier_life_is_no_second_leader_and_nobody_is_behind_it() -> None:
    """All nodes were emptied: terms and indexes begin at 1 again."""
    state = GroupState()
    list(state.take(life(is_anew=False).facts(), LIMITS))
    list(state.take([attrs.evolve(f, node="n2", who="n2") for f in committed(1000)], LIMITS))
    list(state.pass_time("g", START_US + 4 * US, LIMITS))
    again = [fact for fact in anew(life(is_anew=True)) if fact.what not in ("leads", "knows")]
    both = [*again, *(attrs.evolve(fact, node="n2") for fact in again if fact.what == "anew")]
    both += [attrs.evolve(fact, node="n2", who="n2") for fact in committed(5, at_s=503)]
    both.append(Fact("g", "n2", 1, 90, START_US + 504 * US, "leads", "n2", 1))
    assert {each.alarm for each in state.take(both, LIMITS)} == {"begun_anew"}
    assert list(state.pass_time("g", START_US + 999 * US, LIMITS)) == []


def committed(index: int, at_s: float = 2) -> list[Fact]:
    return [Fact("g", "n1", 1, 50, START_US + round(at_s * US), "committed", "n1", index)]


def test_one_that_comes_back_empty_is_behind_the_others() -> None:
    state = GroupState()
    list(state.take(life(is_anew=False).facts(), LIMITS))
    list(state.take([attrs.evolve(f, node="n2", who="n2") for f in committed(1000)], LIMITS))
    list(state.take(anew(life(is_anew=True)), LIMITS))
    told = list(state.pass_time("g", START_US + 504 * US, LIMITS))
    assert brief(each for each in told if each.alarm == "lag") == [("lag", "n1", "n1", 995)]


def test_a_damaged_copy_is_told_with_its_place_and_reason() -> None:
    story = Story()
    story.say("n1", 0, STARTED, "")
    story.say("n1", 1, RotFound(first_bytes=65536, next_bytes=131072, why="it cannot be read"))
    (finding,) = GroupState().take(story.facts(), LIMITS)
    assert brief([finding]) == [("rotten", "n1", "it cannot be read", 65536)]
    assert sentence(finding).endswith(
        "the copy of n1 is damaged from byte 65536 on, and does not count: it cannot be read"
        " (n1/1/2)"
    )
