"""The rules of the live alarms, and the facts that they take; without Spark."""

from __future__ import annotations

import argparse
import random

import msgspec
import pytest
from alarms_kit import (
    LIMITS,
    Story,
    acked,
    brief,
    facts_of,
    found,
    lost,
    role,
    rose,
    verified,
    wrote,
)
from lines_kit import START_US, Boot

from actors.events.codec import KINDS
from actors.events.node import NodeStarted, NodeStopped
from actors.events.roles import GroupOpened, MasterFenced
from actors.pipeline.alarms import event_logs, source
from actors.pipeline.alarms import facts as facts_module
from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import sentence
from actors.pipeline.alarms.leaders import TERMS_MAX, Leaders
from actors.pipeline.alarms.limits import Limits, add_options, given_options, limits_of
from actors.pipeline.alarms.processor import GroupState
from actors.pipeline.event_files import MOMENT_MAX_US, NUMBER_MAX, Kind

US = 1_000_000


def told(story: Story) -> list[tuple[str, str, int]]:
    return [(fact.what, fact.who, fact.number) for fact in story.facts()]


# ---- facts ----


def test_facts_are_of_kinds_that_there_are_and_of_fields_that_they_have() -> None:
    assert {*facts_module.TOLD, *facts_module.OF_THE_NODE} <= set(KINDS)
    story = Story()
    story.say("n0", 0, role("LEADER", 5, "n0"))
    story.say("n0", 1, GroupOpened(number=3, token=1, start_bytes=0, heard=()))
    story.say("n0", 2, verified("n1"))
    story.say("n0", 3, lost())
    story.say("n0", 4, MasterFenced(reason="SILENT", detail=""))
    story.say("n0", 5, NodeStarted(cluster="c", version="1", groups=("g", "h")), "")
    story.say("n0", 6, wrote(10))
    story.say("n0", 7, acked("n2", 9))
    story.say("n0", 8, rose(7))
    story.say("n0", 9, NodeStopped(reason="ordered"), "")
    assert told(story) == [
        ("leads", "n0", 5),
        ("knows", "n0", 0),
        ("masters", "n0", 3),
        ("knows", "n0", 0),
        ("knows", "n1", 0),
        ("knows", "", 0),
        ("fenced", "", 0),
        ("started", "", 0),
        ("started", "", 0),
        ("stopped", "", 0),
        ("stopped", "", 0),
        ("wrote", "", 10),
        ("acked", "n2", 9),
        ("committed", "n0", 7),
        ("reached", "", 0),
        ("reached", "", 0),
    ]
    assert {fact.group for fact in story.facts()} == {"g", "h"}


def test_of_a_busy_second_ten_places_are_left_and_the_last_is_among_them() -> None:
    story = Story()
    for number in range(1000):
        story.say("n0", number / 1000, wrote(number))
    places = [number for what, _, number in told(story) if what == "wrote"]
    assert places == [99, 199, 299, 399, 499, 599, 699, 799, 899, 999]


def test_lines_that_are_no_events_or_mean_something_else_are_passed_over() -> None:
    boot = Boot("n0")
    boot.say(0, "g/x", rose(1))
    other = boot.lines[0].replace('"index"', '"place"').replace('"seq":1', '"seq":2')
    boot.lines += [other, "half a li", '{"x":1}', ""]
    assert [fact.what for fact in facts_of(boot)] == ["committed", "reached"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"seq":1', f'"seq":{2**63}'),
        ('"boot":1', f'"boot":{2**63}'),
        ('"seq":1', '"seq":-1'),
        (f'"ts_us":{START_US}', f'"ts_us":{2**60}'),
        ('"index":1', f'"index":{2**63}'),
        ('"index":1', f'"index":-{2**63}'),
        ('"index":1', '"index":1e300'),
    ],
)
def test_a_number_that_no_column_holds_is_damage(right: str, wrong: str) -> None:
    """It ended the watch, and each that was started after it."""
    boot = Boot("n0")
    boot.say(0, "g/x", rose(1))
    assert right in boot.lines[0]
    boot.lines = [boot.lines[0].replace(right, wrong), *boot.lines]
    told_ = facts_of(boot)
    assert [(fact.what, fact.number) for fact in told_] == [("committed", 1), ("reached", 0)]
    (batch,) = source.batches(iter(told_), MOMENT_MAX_US // 1000)
    assert batch.num_rows == 2
    last = facts_of(Boot("n0", lines=[boot.lines[0]]))
    assert all(abs(fact.number) <= NUMBER_MAX for fact in last)
    assert event_logs.ending([[boot.lines[0]]]).last_us in (None, START_US)


def test_a_kind_that_silver_has_no_folder_for_is_damage() -> None:
    boot = Boot("n0")
    boot.say(0, "g/x", rose(1))
    bad = boot.lines[0].replace("CommittedRose", "")
    assert event_logs.head_of(boot.lines[0]) is not None
    assert event_logs.head_of(bad) is None


def test_every_kind_of_the_catalogue_is_one() -> None:
    decode = msgspec.json.Decoder(Kind).decode
    assert [decode(f'"{kind}"') for kind in KINDS] == list(KINDS)


# ---- leaders ----


def test_two_leaders_in_a_term_are_found_and_one_that_says_it_twice_is_not() -> None:
    story = Story()
    story.say("n0", 0, role("LEADER", 5, "n0"))
    story.say("n0", 1, role("LEADER", 5, "n0", session=2))
    story.say("n1", 1, role("LEADER", 6, "n1"))
    assert found(story.facts(), 9) == []
    story.say("n2", -50, role("LEADER", 5, "n2"))
    (finding,) = found(story.facts(), 9)
    assert brief([finding]) == [("two_leaders", "n2", "n0", 5)]
    assert (finding.boot, finding.seq, finding.unit) == (1, 1, "term")


def test_two_masters_of_a_promotion_are_found() -> None:
    story = Story()
    for node in ("n0", "n1"):
        story.say(node, 0, GroupOpened(number=3, token=1, start_bytes=0, heard=()))
    assert [each.unit for each in found(story.facts(), 9)] == ["promotion"]


def test_only_so_many_terms_are_remembered() -> None:
    leaders = Leaders()
    for term in range(TERMS_MAX + 5):
        assert list(leaders.take(Fact("g", "n0", 1, term, 0, "leads", "n0", term))) == []
    assert min(leaders.known["leads"]) == 5


# ---- followers ----


def test_a_lag_is_told_once_and_again_when_it_was_half_gone() -> None:
    story = Story()
    story.say("n0", 0, acked("n1", 0))
    steps = ((1, 900, 0), (2, 1001, 0), (3, 1400, 380), (4, 1500, 1001), (5, 2101, 1001))
    for at, end, got in steps:
        story.say("n0", at, wrote(end))
        story.say("n0", at + 0.5, acked("n1", got))
    told_ = found(story.facts(), 9)
    assert brief(told_) == [
        ("lag", "n0", "n1", 1001),
        ("lag", "n0", "n1", 1100),
        ("lag_over", "n0", "n1", 1400),
    ]
    assert [(each.alarm, each.seq, each.lasted_us) for each in told_] == [
        ("lag", 4, 0), ("lag_over", 9, 2_500_000), ("lag", 10, 0)
    ]  # fmt: skip
    assert sentence(told_[1]) == (
        "2027-01-15T08:00:04.500Z g: lag_over: n1 is no longer behind, after 2.5 s and up to "
        "1,400 bytes (n0/1/9)"
    )


def test_a_slave_that_stands_is_told_by_its_masters_log_alone() -> None:
    story = Story()
    story.say("n0", 0, wrote(100))
    story.say("n0", 1, acked("n1", 100))
    story.say("n0", 2, acked("n2", 60))
    story.say("n0", 3, wrote(200))
    story.say("n0", 4, acked("n1", 200))
    assert found(story.facts(), 1000) == [], "the master was killed at 4 s"
    story.say("n0", 7.2, acked("n1", 200))
    (finding,) = found(story.facts(), 1000)
    assert brief([finding]) == [("stalled", "n0", "n2", 140)]
    assert (finding.at_us, finding.seq) == (START_US + 2 * US, 3)
    story.say("n0", 8, acked("n2", 60))
    assert found(story.facts(), 1000) == [finding]
    story.say("n0", 9, acked("n2", 70))
    _, over = found(story.facts(), 1000)
    assert brief([over]) == [("stalled_over", "n0", "n2", 130)]
    assert (over.seq, over.lasted_us) == (8, 7_000_000)
    assert sentence(over).endswith("n2 moves again after 7.0 s, 130 bytes behind (n0/1/8)")


def test_a_master_that_is_none_any_more_has_no_slaves() -> None:
    for end in (
        MasterFenced(reason="SILENT", detail=""),
        NodeStarted(cluster="c", version="1", groups=("g",)),
        NodeStopped(reason="ordered"),
    ):
        story = Story()
        story.say("n0", 0, acked("n1", 0))
        story.say("n0", 1, wrote(900))
        story.say("n0", 2, end)
        story.say("n0", 50, lost())
        assert found(story.facts(), 1000) == []


def test_members_are_compared_when_all_are_read_up_to_there() -> None:
    story = Story()
    for number in range(1, 50):
        story.say("n0", number / 10, rose(number * 10))
        story.say("n1", number / 10 + 0.05, rose(number * 10))
    story.say("n1", 20.1, rose(2000))
    story.say("n0", 20, rose(2000))
    assert found(story.facts(), 19.9) == []
    assert brief(found(story.facts(), 20)) == [("lag", "n0", "n1", 1510)]


def test_a_member_that_says_nothing_while_others_go_on_stands() -> None:
    story = Story()
    story.say("n1", 0, rose(5))
    story.say("n0", 0, rose(5))
    story.say("n0", 1, rose(6))
    assert found(story.facts(), 5.9) == []
    assert brief(found(story.facts(), 6)) == [("stalled", "n1", "n1", 1)]
    story.say("n1", 5, NodeStopped(reason="ordered"), "")
    assert found(story.facts(), 60) == []


def test_who_stood_still_and_goes_on_is_told_once_for_that() -> None:
    """What it did last before it stood is read when it goes on, long after it was told."""
    story = Story()
    for number in range(1, 60):
        story.say("n0", number, rose(number * 10))
        if number <= 13 or number >= 50:
            story.say("n1", number + 0.1, rose(number * 10))
    kept = [fact for fact in story.facts() if fact.node == "n1" and fact.what == "committed"][5:]
    others = [fact for fact in story.facts() if fact not in kept]
    state = GroupState()
    told_ = [*state.take([fact for fact in others if fact.ts_us < START_US + 35 * US], LIMITS)]
    told_ += state.pass_time("g", START_US + 17 * US, LIMITS)
    assert brief(told_) == [("lag", "n0", "n1", 110), ("stalled", "n1", "n1", 50)]
    late = [fact for fact in kept if fact.ts_us < START_US + 35 * US]
    over = [*state.take(late, LIMITS), *state.pass_time("g", START_US + 17 * US, LIMITS)]
    assert over == [], "before it was told it had moved, and then it stood"
    rest = [fact for fact in others + kept if fact.ts_us >= START_US + 35 * US]
    over = [*state.take(rest, LIMITS), *state.pass_time("g", START_US + 59 * US, LIMITS)]
    assert brief(over) == [("lag_over", "n1", "n1", 370), ("stalled_over", "n1", "n1", 0)]
    (moves,) = (each for each in over if each.alarm == "stalled_over")
    assert (moves.at_us, moves.lasted_us) == (START_US + 50_100_000, 37_000_000)


def slave_that_ends(end: object) -> Story:
    """A master goes on after its slave's end, which comes when that has all."""
    story = Story()
    story.say("n0", 0, wrote(100))
    story.say("n0", 1, acked("n1", 100))
    story.say("n1", 2, end, "")
    for second in range(3, 40):
        story.say("n0", second, wrote(200))
    return story


def test_a_slave_that_was_stopped_in_order_is_left_alone_until_it_starts() -> None:
    story = slave_that_ends(NodeStopped(reason="ordered"))
    story.say("n0", 39.5, wrote(5000))
    assert found(story.facts(), 99) == []
    before = story.restart("n1")
    story.say("n1", 40, NodeStarted(cluster="c", version="1", groups=("g",)), "")
    story.say("n0", 44.9, wrote(5001))
    facts = [*facts_of(before), *story.facts()]
    assert brief(found(facts, 99)) == [("lag", "n0", "n1", 4901)], "5 s from its start on"
    story.say("n0", 45, wrote(5002))
    facts = [*facts_of(before), *story.facts()]
    assert brief(found(facts, 99)) == [("lag", "n0", "n1", 4901), ("stalled", "n0", "n1", 4901)]


def test_a_slave_that_gave_up_or_was_killed_is_told() -> None:
    for end in (NodeStopped(reason="no space left on device"), rose(1)):
        told_ = found(slave_that_ends(end).facts(), 99)
        assert brief(told_) == [("stalled", "n0", "n1", 100)]


def test_an_end_that_comes_after_the_next_beginning_is_an_old_one() -> None:
    """The clock was set back between a slave's two boots."""
    story = slave_that_ends(NodeStopped(reason="ordered"))
    before = story.restart("n1")
    story.say("n1", 1.5, NodeStarted(cluster="c", version="1", groups=("g",)), "")
    facts = [*facts_of(before), *story.facts()]
    assert brief(found(facts, 99)) == [("stalled", "n0", "n1", 100)]


def test_the_order_in_which_rows_come_changes_nothing() -> None:
    rng = random.Random(7)
    story = Story()
    for number in range(1, 300):
        at = number / 10
        for node in ("n0", "n1", "n2"):
            if rng.random() < 0.3:
                story.say(node, at, rose(number * rng.randrange(1, 9)))
            if rng.random() < 0.1:
                leader = rng.choice(("", "", "n0", "n1"))
                story.say(node, at, role("FOLLOWER", number, leader, session=number))
        story.say("n0", at, wrote(number * 100))
        if rng.random() < 0.1:
            story.say("n0", at, acked(rng.choice(("n1", "n2")), number * 90))
    facts = story.facts()
    expected = found(facts, 40)
    assert {each.alarm for each in expected} == {"failover", "lag", "lag_over", "stalled"}
    for _ in range(5):
        rng.shuffle(facts)
        assert brief(found(facts, 40)) == brief(expected)


def test_limits_are_options_and_have_to_be_above_zero(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    asked = parser.parse_args(["--lag-bytes", "7", "--stall-s", "2.5", "--seconds", "0"])
    assert limits_of(asked) == Limits(lag_bytes=7, stall_s=2.5)
    assert asked.seconds == 0
    assert limits_of(parser.parse_args([])) == Limits()
    assert given_options(parser.parse_args([])) == []
    assert given_options(asked) == ["--seconds", "--lag-bytes", "--stall-s"]
    whole, above, zero = (
        f"expected {what}, found "
        for what in ("a whole number above 0", "seconds, above 0", "seconds, 0 or above")
    )
    for name, given, said in (
        ("--lag-bytes", "0", whole),
        ("--lag-bytes", "64MB", whole),
        ("--stall-s", "-1", above),
        ("--start-s", "0", above),
        ("--stall-s", "nan", above),
        ("--silent-s", "1e300", above),
        ("--seconds", "inf", zero),
        ("--seconds", "soon", zero),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args([name, given])
        assert f"argument {name}: {said}{given!r}\n" in capsys.readouterr().err


def test_limits_of_the_tests_are_not_the_defaults() -> None:
    """So that a rule that ignores its limit fails above."""
    assert LIMITS.failover_us == 2 * US
    assert LIMITS.start_us == 9999 * US
    assert LIMITS.stall_us == 5 * US
