"""What alarms say of events that are missing and of clocks that were set; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from alarms_kit import LIMITS, Story, acked, facts_of, found, publish, role, rose, wrote
from lines_kit import START_US, Boot

from actors.events.node import NodeStarted
from actors.pipeline.alarms.doubts import KEPT_MAX, SAID_MAX
from actors.pipeline.alarms.facts import Fact, FactReader
from actors.pipeline.alarms.findings import Finding, as_dict, of_dict, sentence
from actors.pipeline.alarms.processor import GroupState
from actors.pipeline.alarms.reading import LogRead, Position
from actors.pipeline.alarms.source import FactStream, _offset
from actors.pipeline.locations import Location

US = 1_000_000
STARTED = NodeStarted(cluster="c", version="1", groups=("g",))


def doubts(findings: Iterable[Finding]) -> dict[str, str]:
    """By alarm."""
    return {each.alarm: each.doubt for each in findings}


def without(story: Story, node: str, *seqs: int) -> Story:
    """The story, and some lines of a node are gone."""
    lines = story.boots[node].lines
    lines[:] = [line for line in lines if json.loads(line)["seq"] not in seqs]
    return story


# ---- what is told of a log ----


def test_missing_events_and_clocks_are_facts_also_between_files_and_boots() -> None:
    boot, later = Boot("n0"), Boot("n0", 2)
    for at in (0, 1, 2, 30, 20, 21):
        boot.say(at, "g/x", rose(at))
    for at in (19.5, 3, 90):
        later.say(at, "g/x", rose(9))
    reader = FactReader(("g",))
    told = [*reader.read([boot.lines[0], *boot.lines[2:4]]), *reader.read(boot.lines[4:])]
    told += reader.read(later.lines[1:])
    shown = [
        (f.what, f.boot, f.seq, f.number, (f.ts_us - START_US) / US)
        for f in told
        if f.what in ("missing", "clock")
    ]
    assert shown == [
        ("missing", 1, 2, 2, 0),
        ("clock", 1, 4, 28 * US, 30),
        ("clock", 1, 5, -10 * US, 20),
        ("missing", 2, 1, 1, 21),
        ("clock", 2, 2, -18 * US, 3),
        ("clock", 2, 3, 87 * US, 90),
    ]


def test_a_first_file_and_a_new_life_lack_nothing() -> None:
    boot = Boot("n0", seq=7)
    boot.say(0, "g/x", rose(1))
    assert [fact.what for fact in facts_of(boot)] == ["committed", "reached"]
    again = FactReader(("g",), is_anew=True, before=(1, 900, START_US + 99 * US))
    assert [fact.what for fact in again.read(boot.lines)] == ["anew", "committed", "reached"]


def test_a_gap_between_two_batches_is_seen(tmp_path: Path) -> None:
    """Of a file that is missing, of a folder in its place, of one that is damaged."""
    boot = Boot("n0")
    boot.say(0, "", STARTED)
    publish(tmp_path, boot)
    stream = FactStream(Location(str(tmp_path)), 64, 15 * US)
    limit = stream.getDefaultReadLimit()
    first = json.loads(json.dumps(stream.latestOffset(stream.initialOffset(), limit)))
    for place in ("gone", "a folder", "damaged"):
        boot.say(1, "g/x", rose(1))
        boot.say(2, "g/x", rose(2))
        path = publish(tmp_path, boot)
        raw = path.read_bytes()
        path.unlink()
        if place == "a folder":
            path.mkdir()
        elif place == "damaged":
            path.write_bytes(raw[:20])
    boot.say(3, "g/x", rose(3))
    publish(tmp_path, boot)
    end = stream.latestOffset(first, limit)
    (part,) = stream.partitions(first, end)
    rows = [row for batch in stream.read(part) for row in batch.to_pylist()]
    assert [(row["what"], row["seq"], row["number"]) for row in rows] == [
        ("missing", 2, 7), ("committed", 8, 3), ("reached", 8, 0)
    ]  # fmt: skip


def test_a_position_of_an_older_version_is_read_on_without_what_came_before(
    tmp_path: Path,
) -> None:
    boot = Boot("n0")
    for at in (0, 60):
        boot.say(at, "", STARTED)
        publish(tmp_path, boot)
    stream = FactStream(Location(str(tmp_path)), 64, 15 * US)
    (name,) = stream._logs()
    read = LogRead(boot=1, first_seq=1, reached_us=START_US, groups=("g",))
    old = _offset(Position(time_ms=START_US // 1000, logs={name: read}))
    del old["logs"][name]["last"]
    end = stream.latestOffset(old, stream.getDefaultReadLimit())
    (part,) = stream.partitions(old, end)
    assert part.before is None
    assert end["logs"][name]["last"] == (1, 2)


# ---- what is said of an alarm ----


def lost_and_found() -> Story:
    """n1 has a leader, then none, and another one a second later; long after it says something."""
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 1, "n0"))
    story.say("n1", 10, role("CANDIDATE", 2, ""))
    story.say("n1", 11, role("FOLLOWER", 2, "n2"))
    for second in range(12, 24):
        story.say("n1", second, wrote(1))
    story.say("n1", 24, role("FOLLOWER", 3, "n0"))
    return story


def test_a_failover_says_which_events_are_missing_that_could_deny_it() -> None:
    assert found(lost_and_found().facts(), 30) == []
    (finding,) = found(without(lost_and_found(), "n1", 3).facts(), 30)
    assert finding.doubt == "n1/1/3 is missing"
    (finding,) = found(without(lost_and_found(), "n1", 3, 4, 5).facts(), 30)
    assert sentence(finding) == (
        "2027-01-15T08:00:10.000Z g: failover: n1 had no leader for 14.0 s after n0 (n1/1/2); but "
        "n1/1/3 to n1/1/5 are missing"
    )
    assert of_dict(as_dict(finding)) == finding
    state = GroupState()
    early = [f for f in without(lost_and_found(), "n1", 3).facts() if f.ts_us < START_US + 20 * US]
    list(state.take(early, LIMITS))
    (finding,) = state.pass_time("g", START_US + 13 * US, LIMITS)
    assert (finding.is_over, finding.doubt) == (False, "n1/1/3 is missing")


def test_what_is_missing_before_or_after_an_alarm_is_not_its_doubt() -> None:
    story = without(lost_and_found(), "n1", 3)
    story.boots["n1"].lines.pop(0)
    before = facts_of(Boot("n1", lines=story.boots["n1"].lines))
    assert found(before, 30) == [], "nothing is known of it before"
    story = Story()
    for seq, at in enumerate((0, 1, 2, 10, 18, 19), 1):
        leader = {1: "n0", 4: "", 5: "n2"}.get(seq)
        story.say("n1", at, wrote(1) if leader is None else role("FOLLOWER", seq, leader))
    story.say("n1", 20, wrote(1))
    (finding,) = found(without(story, "n1", 2, 6).facts(), 30)
    assert (finding.seq, finding.doubt) == (4, "")


def test_an_alarm_says_that_its_nodes_clock_was_set_or_that_it_stood() -> None:
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 1, "n0"))
    story.say("n1", 1, role("CANDIDATE", 2, ""))
    story.say("n1", 3601, role("FOLLOWER", 2, "n2"))
    (finding,) = found(story.facts(), 4000)
    assert sentence(finding).endswith(
        "(n1/1/2); but n1 said nothing for 3600.0 s until n1/1/3, or its clock was set ahead"
    )


def test_a_member_that_is_silent_is_told_with_when_it_was_read_last() -> None:
    story = Story()
    for second in range(30):
        story.say("n0", second, rose(second * 10))
    story.say("n1", 0, rose(0))
    told = found(story.facts(), 29)
    read = "nothing of n1 is read after 2027-01-15T08:00:00.000Z"
    assert doubts(told) == {"lag": read, "stalled": read}
    story.say("n1", 29, rose(0))
    said = "n1 said nothing for 29.0 s until n1/1/2, or its clock was set ahead"
    assert doubts(found(story.facts(), 29)) == {"lag": said, "stalled": said}


def test_a_follower_that_is_behind_for_want_of_events_is_told_so() -> None:
    """Of a member its own log, of a slave its master's."""
    story, slaves = Story(), Story()
    for second in range(30):
        for node in ("n0", "n1"):
            story.say(node, second, rose(second * 10))
        slaves.say("n0", second, wrote(second * 100))
        slaves.say("n0", second, acked("n1", second * 100))
    assert found(story.facts(), 29) == found(slaves.facts(), 29) == []
    told = found(without(story, "n1", *range(5, 25)).facts(), 29)
    told = doubts(found(without(story, "n1", *range(5, 25)).facts(), 29))
    for alarm in ("lag", "stalled"):
        assert told[alarm].startswith("n1/1/5 to n1/1/24 are missing"), told
    told = found(without(slaves, "n0", *range(10, 31, 2), *range(32, 52, 2)).facts(), 29)
    assert doubts(told)["lag"].startswith("n0/1/10 is missing, and n0/1/12 is missing")
    assert doubts(told)["lag"].count("missing") == SAID_MAX


def test_a_clock_that_was_set_back_is_said_of_its_node_as_long_as_that_lags() -> None:
    """Its times are of the past then, so that all that it lacks seems to last for long."""
    story = Story()
    story.say("n1", 3600, role("FOLLOWER", 1, "n0"))
    story.say("n1", 10, wrote(1))
    story.say("n1", 11, role("CANDIDATE", 2, ""))
    (finding,) = found(story.facts(), 3602)
    assert finding.doubt == (
        "nothing of n1 is read after 2027-01-15T08:00:11.000Z, and the clock of n1 went back by "
        "3590.0 s at n1/1/2"
    )


def test_another_nodes_clock_that_takes_the_time_with_it_is_said() -> None:
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 1, "n0"))
    story.say("n1", 10, role("CANDIDATE", 2, ""))
    story.say("n0", 10, wrote(1))
    story.say("n0", 3610, wrote(1))
    (finding,) = found(story.facts(), 3595)
    assert finding.doubt == (
        "nothing of n1 is read after 2027-01-15T08:00:10.000Z, and n0 said nothing for 3600.0 s "
        "until n0/1/2, or its clock was set ahead"
    )


@pytest.mark.parametrize("late_us", [0, 3000])
def test_a_node_that_is_read_so_far_is_not_silent(late_us: int) -> None:
    """A batch's time may be some milliseconds behind its events."""
    story = Story()
    story.say("n1", 0, role("FOLLOWER", 1, "n0"))
    story.say("n1", 10, role("CANDIDATE", 2, ""))
    story.say("n1", 13, wrote(1))
    (finding,) = found(story.facts(), 13 + late_us / US)
    assert finding.doubt == ""


def test_so_many_doubts_are_kept_and_none_over_a_new_life() -> None:
    state = GroupState()
    facts = [Fact("g", "n1", 1, seq, START_US, "missing", "", seq) for seq in range(2, 151, 2)]
    list(state.take(facts, LIMITS))
    assert [fact.seq for fact in state.doubts.known["n1"]] == [*range(24, 151, 2)]
    assert len(state.doubts.known["n1"]) == KEPT_MAX
    list(state.take([Fact("g", "n1", 1, 1, START_US, "anew")], LIMITS))
    assert state.doubts.known == {}
