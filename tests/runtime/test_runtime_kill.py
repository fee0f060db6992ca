"""Kills, the time a child gets to stop, and the budget of the whole stop."""

import attrs
import pytest
import trio
from runtime_probe import Crash, Events, Hang, Log, settle

from actors.events import runtime as events
from actors.runtime import (
    ChildSpec,
    DynamicSpec,
    Strategy,
    SupervisorSpec,
    dynamic,
    open_system,
)


def nest(name: str, *children: ChildSpec) -> ChildSpec:
    return ChildSpec(name=name, start=SupervisorSpec(children=children))


async def test_a_kill_passes_nested_shields(autojump_clock):
    """Four stuck grandchildren below two supervisors: the kill must reach all of them at once."""
    log, seen = Log(), Events()
    stuck = tuple(log.child(name, shutdown_s=5.0) for name in "abcd")
    spec = SupervisorSpec(children=(nest("outer", nest("inner", *stuck)),))
    began_s = trio.current_time()
    async with open_system("n0", spec, stop_timeout_s=6.0, events=seen) as system:
        for name in "abcd":
            await system.ref(f"/n0/outer/inner/{name}").tell(Hang())
        await settle()
        began_s = trio.current_time()
    assert trio.current_time() - began_s == pytest.approx(6.0)
    assert sorted(log[4:]) == ["-a killed", "-b killed", "-c killed", "-d killed"]
    assert [event.paths for event in seen.of(events.StopTimedOut)] == [
        tuple(f"/n0/outer/inner/{name}" for name in "abc")  # d was killed after its own 5 s
    ]
    assert seen.of(events.ChildKilled) == [events.ChildKilled(shutdown_s=5.0)]


async def test_a_child_that_outlasts_its_time_is_killed_and_the_stop_goes_on(autojump_clock):
    log, seen = Log(), Events()
    spec = SupervisorSpec(children=(log.child("a"), log.child("b", shutdown_s=2.0), log.child("c")))
    async with open_system("n0", spec, events=seen) as system:
        await system.ref("/n0/b").tell(Hang())
        await settle()
        log.new()
        began_s = trio.current_time()
    assert log.new() == ["-c shutdown", "-b killed", "-a shutdown"]
    assert trio.current_time() - began_s == pytest.approx(2.0)
    assert [(p, e) for p, _, e in seen if isinstance(e, events.ChildKilled)] == [
        ("/n0/b", events.ChildKilled(shutdown_s=2.0))
    ]


async def test_a_supervisor_gets_its_childrens_time_and_one_second_more(autojump_clock):
    log = Log()
    slow = {"stop_s": 3.0}
    inner = nest("inner", log.child("x", probe=slow), log.child("y", probe=slow))
    spec = SupervisorSpec(children=(log.child("a"), inner))
    began_s = trio.current_time()
    async with open_system("n0", spec) as system:
        assert system._root._shutdown_times_s() == [5.0, 5.0 + 5.0 + 1.0]
    assert log[3:] == ["-y shutdown", "-x shutdown", "-a shutdown"]
    assert trio.current_time() - began_s == pytest.approx(6.0)


async def test_the_stop_budget_names_the_paths_that_still_ran(autojump_clock):
    log, seen = Log(), Events()
    spec = SupervisorSpec(
        children=(
            log.child("a", shutdown_s=100.0),
            nest("inner", log.child("x", shutdown_s=100.0), log.child("y")),
            log.child("z", shutdown_s=100.0),
        )
    )
    async with open_system("n0", spec, events=seen, stop_timeout_s=7.0) as system:
        for path in ("/n0/a", "/n0/inner/x"):
            await system.ref(path).tell(Hang())
        await settle()
        log.new()
        began_s = trio.current_time()
    assert trio.current_time() - began_s == pytest.approx(7.0)
    assert log.new() == ["-z shutdown", "-y shutdown", "-x killed", "-a killed"]
    assert seen.of(events.StopTimedOut) == [events.StopTimedOut(paths=("/n0/a", "/n0/inner/x"))]


async def test_a_child_asked_twice_gets_its_time_once(autojump_clock):
    """Asked first when its group restarts, again when the host is cancelled 3 s later."""
    log = Log()
    spec = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL, children=(log.child("a"), log.child("b", shutdown_s=5.0))
    )
    with trio.move_on_after(3.0):
        async with open_system("n0", spec) as system:
            await system.ref("/n0/b").tell(Hang())
            await system.ref("/n0/a").tell(Crash())
            await trio.sleep_forever()
    assert log[2:] == ["-a crashed", "-b killed"]
    assert trio.current_time() == pytest.approx(5.0)


async def test_a_process_that_stood_still_gives_those_that_stop_their_time_again(autojump_clock):
    """A pause (SIGSTOP) in the middle of a stop is nobody's slowness; a hung child still ends."""
    log, seen = Log(), Events()
    slow = {"stop_s": 3.0}
    children = (log.child("hung"), log.child("b", probe=slow))
    spec = SupervisorSpec(children=(nest("inner", *children),))
    async with open_system("n0", spec, events=seen) as system:
        await system.ref("/n0/inner/hung").tell(Hang())
        await settle()
        log.new()
        system.request_stop()
        await trio.sleep(1.0)
        assert log.new() == ["-b shutdown"]
        autojump_clock.jump(20.0)  # inner's time is over too
        began_s = trio.current_time()
        await system.wait_ended()
    assert log.new() == ["-hung killed"]
    assert seen.of(events.ChildKilled) == [events.ChildKilled(shutdown_s=5.0)]
    assert trio.current_time() - began_s == pytest.approx(5.0)


async def test_no_child_gets_its_time_a_third_time(mock_clock):
    log, seen = Log(), Events()
    spec = SupervisorSpec(children=(log.child("a", shutdown_s=2.0),))
    async with open_system("n0", spec, events=seen) as system:
        await system.ref("/n0/a").tell(Hang())
        await settle()
        system.request_stop()
        for pause_s in (5.0, 1.0, 5.0):
            await settle()
            assert seen.of(events.ChildKilled) == []
            mock_clock.jump(pause_s)
        await system.wait_ended()
    assert seen.of(events.ChildKilled) == [events.ChildKilled(shutdown_s=2.0)]


async def test_children_stopped_together_all_get_their_time_again(autojump_clock):
    log, seen = Log(), Events()
    slow = log.child("x", probe={"stop_s": 3.0})
    spec = SupervisorSpec(children=(ChildSpec(name="d", start=DynamicSpec()),))
    async with open_system("n0", spec, events=seen) as system:
        for name in ("d1", "d2"):
            child = attrs.evolve(slow, name=name)
            await system.ref("/n0/d").ask(
                dynamic.Started,
                lambda reply_to, child=child: dynamic.StartChild(child=child, reply_to=reply_to),
                timeout_s=5.0,
            )
        system.request_stop()
        await trio.sleep(1.0)
        autojump_clock.jump(20.0)
        await system.wait_ended()
    assert seen.of(events.ChildKilled) == []


async def test_hurry_uses_up_the_budget_at_once(autojump_clock):
    log, seen = Log(), Events()
    spec = SupervisorSpec(children=(log.child("a", shutdown_s=50.0), log.child("b")))
    async with open_system("n0", spec, events=seen) as system:
        await system.ref("/n0/a").tell(Hang())
        await settle()
        began_s = trio.current_time()
        system.request_stop()
        await trio.sleep(3.0)
        assert log[2:] == ["-b shutdown"]
        system.hurry()
        await system.wait_ended()
        assert trio.current_time() - began_s == pytest.approx(3.0)
    assert log[2:] == ["-b shutdown", "-a killed"]
    assert seen.of(events.StopTimedOut) == [events.StopTimedOut(paths=("/n0/a",))]
