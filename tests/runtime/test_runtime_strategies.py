"""Whole sequences of starts and stops, for every strategy, restart type and way to end."""

import pytest
import trio
import trio.testing
from runtime_probe import Boom, Crash, Finish, Log, settle

from actors.runtime import ChildSpec, Restart, Strategy, SupervisorSpec, open_system

BEGIN = ["+a#1", "+b#1", "+c#1"]
END = ["-c shutdown", "-b shutdown", "-a shutdown"]

ALL, ONE, REST = Strategy.ONE_FOR_ALL, Strategy.ONE_FOR_ONE, Strategy.REST_FOR_ONE
CRASHED = {
    ONE: ["-b crashed", "+b#2"],
    ALL: ["-b crashed", "-c shutdown", "-a shutdown", "+a#2", "+b#2", "+c#2"],
    REST: ["-b crashed", "-c shutdown", "+b#2", "+c#2"],
}
FINISHED = {
    ONE: ["-b normal", "+b#2"],
    ALL: ["-b normal", "-c shutdown", "-a shutdown", "+a#2", "+b#2", "+c#2"],
    REST: ["-b normal", "-c shutdown", "+b#2", "+c#2"],
}


def three(log: Log, strategy: Strategy, restart: Restart) -> SupervisorSpec:
    return SupervisorSpec(
        strategy=strategy,
        children=(log.child("a"), log.child("b", restart=restart), log.child("c")),
    )


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize(
    ("restart", "message", "expected"),
    [
        (Restart.PERMANENT, Crash(), CRASHED),
        (Restart.PERMANENT, Finish(), FINISHED),
        (Restart.TRANSIENT, Crash(), CRASHED),
        (Restart.TRANSIENT, Finish(), {each: ["-b normal"] for each in Strategy}),
        (Restart.TEMPORARY, Crash(), {each: ["-b crashed"] for each in Strategy}),
        (Restart.TEMPORARY, Finish(), {each: ["-b normal"] for each in Strategy}),
    ],
)
async def test_an_exit_restarts_exactly_whom_the_strategy_names(
    autojump_clock, strategy, restart, message, expected
):
    log = Log()
    async with open_system("n0", three(log, strategy, restart)) as system:
        assert log.new() == BEGIN
        await system.ref("/n0/b").tell(message)
        await settle()
        assert log.new() == expected[strategy]
    gone = [] if len(expected[strategy]) > 1 else ["-b shutdown"]
    assert log.new() == [each for each in END if each not in gone]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ONE, ["-a crashed", "+a#2"]),
        (ALL, ["-a crashed", "-c shutdown", "-b shutdown", "+a#2", "+c#2"]),
        (REST, ["-a crashed", "-c shutdown", "-b shutdown", "+a#2", "+c#2"]),
    ],
)
async def test_a_temporary_sibling_that_goes_down_with_the_group_stays_down(
    autojump_clock, strategy, expected
):
    log = Log()
    async with open_system("n0", three(log, strategy, Restart.TEMPORARY)) as system:
        log.new()
        await system.ref("/n0/a").tell(Crash())
        await settle()
        assert log.new() == expected
        names = [child.path for child in system.tree().children]
        assert names == (["/n0/a", "/n0/b", "/n0/c"] if strategy is ONE else ["/n0/a", "/n0/c"])


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ONE, ["-a crashed", "+a#2"]),
        (ALL, ["-a crashed", "-c shutdown", "+a#2", "+b#2", "+c#2"]),
        (REST, ["-a crashed", "-c shutdown", "+a#2", "+b#2", "+c#2"]),
    ],
)
async def test_a_transient_sibling_that_had_finished_is_started_again_with_its_group(
    autojump_clock, strategy, expected
):
    log = Log()
    async with open_system("n0", three(log, strategy, Restart.TRANSIENT)) as system:
        await system.ref("/n0/b").tell(Finish())
        await settle()
        log.new()
        await system.ref("/n0/a").tell(Crash())
        await settle()
        assert log.new() == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ONE, ["-a crashed", "!a#2", "+a#3"]),
        (ALL, ["-a crashed", "-c shutdown", "-b shutdown", "!a#2", "+a#3", "+b#2", "+c#2"]),
        (REST, ["-a crashed", "-c shutdown", "-b shutdown", "!a#2", "+a#3", "+b#2", "+c#2"]),
    ],
)
async def test_a_start_that_fails_in_a_restart_is_tried_again(autojump_clock, strategy, expected):
    log = Log()
    failing: list[Exception] = []
    spec = SupervisorSpec(
        strategy=strategy,
        children=(log.child("a", probe={"failing": failing}), log.child("b"), log.child("c")),
    )
    async with open_system("n0", spec) as system:
        log.new()
        failing.append(Boom())
        await system.ref("/n0/a").tell(Crash())
        await settle()
        assert log.new() == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (
            ALL,
            [
                *["-a crashed", "-c shutdown", "-b shutdown", "+a#2", "!b#2", "-a shutdown"],
                *["+a#3", "+b#3", "+c#2"],
            ],
        ),
        (REST, ["-a crashed", "-c shutdown", "-b shutdown", "+a#2", "!b#2", "+b#3", "+c#2"]),
    ],
)
async def test_a_later_start_that_fails_takes_down_whom_the_strategy_names(
    autojump_clock, strategy, expected
):
    log = Log()
    failing: list[Exception] = []
    spec = SupervisorSpec(
        strategy=strategy,
        children=(log.child("a"), log.child("b", probe={"failing": failing}), log.child("c")),
    )
    async with open_system("n0", spec) as system:
        log.new()
        failing.append(Boom())
        await system.ref("/n0/a").tell(Crash())
        await settle()
        assert log.new() == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ONE, ["-a crashed", "-b crashed", "+a#2", "+b#2"]),
        (ALL, ["-a crashed", "-b crashed", "-c shutdown", "+a#2", "+b#2", "+c#2"]),
        (REST, ["-a crashed", "-b crashed", "-c shutdown", "+a#2", "+b#2", "+c#2"]),
    ],
)
async def test_two_crashes_at_once_are_one_restart_of_a_group(autojump_clock, strategy, expected):
    log = Log()
    async with open_system("n0", three(log, strategy, Restart.PERMANENT)) as system:
        log.new()
        assert system.ref("/n0/a").offer(Crash())
        assert system.ref("/n0/b").offer(Crash())
        await settle()
        # Which of the two runs first is Trio's choice; everything after is the supervisor's.
        fresh = log.new()
        assert sorted(fresh[:2]) == expected[:2]
        if strategy is ONE:
            assert sorted(fresh[2:]) == expected[2:]
        elif strategy is ALL or fresh[0] == "-a crashed":
            assert fresh[2:] == expected[2:]
        else:  # b's notice came first: b restarts with c, then a restarts with both
            assert fresh[2:] in (
                expected[2:],
                [
                    *["-c shutdown", "+b#2", "+c#2", "-c shutdown", "-b shutdown"],
                    *["+a#2", "+b#3", "+c#3"],
                ],
            )


async def test_a_nested_supervisor_is_restarted_as_a_whole(autojump_clock):
    log = Log()
    inner = SupervisorSpec(strategy=ONE, intensity=1, children=(log.child("x"), log.child("y")))
    spec = SupervisorSpec(
        strategy=REST,
        children=(log.child("a"), ChildSpec(name="inner", start=inner), log.child("z")),
    )
    async with open_system("n0", spec) as system:
        assert log.new() == ["+a#1", "+x#1", "+y#1", "+z#1"]
        x = system.ref("/n0/inner/x")
        await x.tell(Crash())
        await settle()
        assert log.new() == ["-x crashed", "+x#2"]
        await x.tell(Crash())  # the second within the period: inner gives up, n0 restarts it
        await settle()
        assert log.new() == [
            *["-x crashed", "-y shutdown"],
            "-z shutdown",
            *["+x#3", "+y#2", "+z#2"],
        ]
        await x.tell(Crash())
        await settle()
        assert log.new() == ["-x crashed", "+x#4"]
        inner_node = system.tree().find("/n0/inner")
        assert inner_node is not None
        assert (inner_node.incarnation, inner_node.restarts) == (2, 1)
    assert log.new() == ["-z shutdown", "-y shutdown", "-x shutdown", "-a shutdown"]


async def test_children_start_left_to_right_each_after_the_one_before_is_ready(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        children=(log.child("slow", probe={"start_s": 5.0}), log.child("b"), log.child("c"))
    )
    async with open_system("n0", spec):
        assert log == ["+slow#1", "+b#1", "+c#1"]
        assert trio.current_time() == pytest.approx(5.0)
