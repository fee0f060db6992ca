"""Stops, kills, cancellation by the host, and how failures reach it."""

import attrs
import pytest
import trio
from runtime_probe import Boom, Crash, Events, Finish, Hang, Log, Note, Probe, settle

from actors.events import runtime as events
from actors.runtime import (
    Actor,
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    Restart,
    RestartIntensityExceeded,
    SignificantChildFailed,
    StopReason,
    Strategy,
    SupervisorSpec,
    describe,
    dynamic,
    open_system,
    serve,
)


def nest(name: str, *children: ChildSpec) -> ChildSpec:
    return ChildSpec(name=name, start=SupervisorSpec(children=children))


async def test_cancelling_the_host_is_an_ordered_stop(autojump_clock):
    log = Log()
    slow = {"stop_s": 1.0}
    inner = nest("inner", log.child("x", probe=slow), log.child("y", probe=slow))
    spec = SupervisorSpec(children=(log.child("a", probe=slow), inner))
    with trio.move_on_after(10.0) as scope:
        async with open_system("n0", spec):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert log[3:] == ["-y shutdown", "-x shutdown", "-a shutdown"]
    assert trio.current_time() == pytest.approx(13.0)


async def test_serve_for_who_has_a_nursery(autojump_clock):
    log = Log()
    async with trio.open_nursery() as nursery:
        system = await nursery.start(serve, "n0", SupervisorSpec(children=(log.child("a"),)))
        assert system.ref("/n0/a").alive
        nursery.cancel_scope.cancel()
    assert log == ["+a#1", "-a shutdown"]


async def test_stop_waits_until_all_has_ended(autojump_clock):
    log = Log()
    spec = SupervisorSpec(children=(log.child("a", probe={"stop_s": 4.0}),))
    async with open_system("n0", spec) as system:
        await system.stop()
        assert trio.current_time() == pytest.approx(4.0)
        assert not system.ref("/n0/a").alive
        await system.stop()  # once more is harmless


async def test_an_error_of_the_body_stops_the_system_and_passes_unchanged(autojump_clock):
    log = Log()
    spec = SupervisorSpec(children=(log.child("a", probe={"stop_s": 1.0}),))
    with pytest.raises(ZeroDivisionError):
        async with open_system("n0", spec):
            raise ZeroDivisionError
    assert log == ["+a#1", "-a shutdown"]


async def test_an_error_of_the_body_and_one_of_the_stop_travel_together(autojump_clock):
    log = Log()
    spec = SupervisorSpec(children=(log.child("a", probe={"fails_stop": True}),))
    with pytest.RaisesGroup(ZeroDivisionError, Boom, flatten_subgroups=True):
        async with open_system("n0", spec):
            raise ZeroDivisionError


@pytest.mark.parametrize("cancelled", [False, True])
async def test_crash_during_stop_reaches_the_host_and_stops_the_rest(autojump_clock, cancelled):
    log, seen = Log(), Events()
    inner = nest("inner", log.child("x"), log.child("y", probe={"fails_stop": True}))
    spec = SupervisorSpec(children=(log.child("a"), inner))
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        with trio.move_on_after(5.0):
            async with open_system("n0", spec, events=seen):
                await trio.sleep(10.0 if cancelled else 1.0)
    assert log[3:] == ["-y shutdown", "-x shutdown", "-a shutdown"]
    assert [path for path, _, e in seen if isinstance(e, events.ActorCrashed)] == [
        "/n0/inner/y",
        "/n0/inner",
        "/n0",
    ]


async def test_crash_during_the_stop_of_a_restart_is_reported_and_no_more(autojump_clock):
    log, seen = Log(), Events()
    spec = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL,
        children=(log.child("a"), log.child("b", probe={"fails_stop": True})),
    )
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):  # from b's last stop
        async with open_system("n0", spec, events=seen) as system:
            await system.ref("/n0/a").tell(Crash())
            await settle()
            assert log == ["+a#1", "+b#1", "-a crashed", "-b shutdown", "+a#2", "+b#2"]
            assert [(p, n) for p, n, e in seen if isinstance(e, events.ActorCrashed)] == [
                ("/n0/a", 1),
                ("/n0/b", 1),
            ]


async def test_a_crash_and_a_crash_in_on_stop_are_both_reported(autojump_clock):
    log, seen = Log(), Events()
    child = log.child("a", probe={"fails_stop": True}, restart=Restart.TEMPORARY)
    async with open_system("n0", SupervisorSpec(children=(child,)), events=seen) as system:
        await system.ref("/n0/a").tell(Crash())
        await settle()
    assert [event.error for event in seen.of(events.ActorCrashed)] == ["Boom: a; Boom: a stopping"]


async def test_a_crash_that_a_stop_overtakes_is_reported_and_no_more(autojump_clock):
    log, seen = Log(), Events()
    spec = SupervisorSpec(children=(log.child("a"), log.child("b")))
    async with open_system("n0", spec, events=seen) as system:
        system.request_stop()
        await system.ref("/n0/b").tell(Crash())
    assert log[2:] in (["-b crashed", "-a shutdown"], ["-b shutdown", "-a shutdown"])
    crashes = [path for path, _, event in seen if isinstance(event, events.ActorCrashed)]
    assert crashes == (["/n0/b"] if log[2] == "-b crashed" else [])


async def test_started_then_cancelled_does_not_hang(autojump_clock):
    """The child calls started() in the same moment in which the host is cancelled."""
    log = Log()
    scope = trio.CancelScope()

    @attrs.define
    class CancelsItsHost(Actor[object]):
        async def on_start(self) -> None:
            log.append("+a")
            scope.cancel()

        async def on_stop(self, reason: StopReason) -> None:
            log.append(f"-a {reason.value}")

    spec = SupervisorSpec(
        children=(log.child("z"), nest("inner", ChildSpec(name="a", start=CancelsItsHost)))
    )
    with trio.fail_after(60.0), scope:
        async with open_system("n0", spec):
            raise AssertionError("never entered")
    assert scope.cancelled_caught
    assert log == ["+z#1", "+a", "-a killed", "-z shutdown"]
    assert trio.current_time() == 0.0


async def test_cancelled_while_a_child_starts(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        children=(
            log.child("a"),
            nest("inner", log.child("x"), log.child("y", probe={"start_s": 9.0})),
        )
    )
    with trio.move_on_after(2.0):
        async with open_system("n0", spec):
            raise AssertionError("never entered")
    assert log == ["+a#1", "+x#1", "-x shutdown", "-a shutdown"]
    assert trio.current_time() == pytest.approx(2.0)


async def test_an_error_raised_in_a_kill_is_caught_and_reported(autojump_clock):
    """It travels with Cancelled in one group inside the scope, and must not escape with it."""
    log, seen = Log(), Events()

    @attrs.define
    class Sore(Probe):
        async def handle(self, message: object) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise Boom("sore")

    spec = SupervisorSpec(
        children=(
            log.child("a"),
            ChildSpec(name="sore", start=lambda: Sore("sore", log), shutdown_s=1.0),
        )
    )
    async with open_system("n0", spec, events=seen) as system:
        await system.ref("/n0/sore").tell(Note(text=""))
        await settle()
    assert log[2:] == ["-sore killed", "-a shutdown"]
    assert next(p for p, _, e in seen if isinstance(e, events.ActorCrashed)) == "/n0/sore"


async def test_keyboard_interrupt_of_a_child_passes_and_stops_in_order(autojump_clock):
    log = Log()

    @attrs.define
    class Interrupted(Actor[object]):
        async def handle(self, message: object) -> None:
            raise KeyboardInterrupt

    spec = SupervisorSpec(
        children=(
            log.child("a"),
            nest("inner", log.child("x"), ChildSpec(name="k", start=Interrupted)),
        )
    )
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        async with open_system("n0", spec) as system:
            await system.ref("/n0/inner/k").tell(object())
            await trio.sleep_forever()
    assert log == ["+a#1", "+x#1", "-x shutdown", "-a shutdown"]


async def test_a_supervisor_is_stopped_in_the_middle_of_its_backoff(autojump_clock):
    log = Log()
    slow = Backoff(first_s=100.0, max_s=100.0)
    inner = nest("inner", log.child("x", backoff=slow), log.child("y"))
    async with open_system("n0", SupervisorSpec(children=(inner,))) as system:
        await system.ref("/n0/inner/x").tell(Crash())
        await settle()
    assert log[2:] == ["-x crashed", "-y shutdown"]
    assert trio.current_time() < 1.0


async def test_on_exit_runs_once_after_all_children_however_it_ends(autojump_clock):
    log = Log()

    def connection(name: str) -> ChildSpec:
        return ChildSpec(
            name=name,
            restart=Restart.TEMPORARY,
            start=SupervisorSpec(
                intensity=0,
                children=(log.child(f"{name}r"), log.child(f"{name}w", shutdown_s=1.0)),
                on_exit=lambda: log.append(f"closed {name}"),
            ),
        )

    spec = SupervisorSpec(children=(connection("p"), connection("q"), connection("k")))
    async with open_system("n0", spec) as system:
        log.new()
        await system.ref("/n0/p/pr").tell(Crash())  # intensity 0: p fails
        await settle()
        assert log.new() == ["-pr crashed", "-pw shutdown", "closed p"]
        await system.ref("/n0/k/kr").tell(Hang())  # it is killed after its 5 s
        await settle()
    assert log.new() == [
        *["-kw shutdown", "-kr killed", "closed k"],
        *["-qw shutdown", "-qr shutdown", "closed q"],
    ]


async def test_on_exit_runs_in_a_supervisor_that_is_killed(autojump_clock):
    log = Log()
    inner = SupervisorSpec(
        children=(log.child("x"), log.child("y")), on_exit=lambda: log.append("closed")
    )
    spec = SupervisorSpec(children=(ChildSpec(name="inner", start=inner),))
    async with open_system("n0", spec, stop_timeout_s=1.0) as system:
        log.new()
        for name in "xy":
            await system.ref(f"/n0/inner/{name}").tell(Hang())
        await settle()
    fresh = log.new()
    assert (sorted(fresh[:2]), fresh[2:]) == (["-x killed", "-y killed"], ["closed"])


async def test_dynamic_children_are_stopped_at_once(autojump_clock):
    log = Log()
    spec = SupervisorSpec(children=(ChildSpec(name="dyn", start=DynamicSpec()),))
    async with open_system("n0", spec) as system:
        for name in "abc":
            child = log.child(name, probe={"stop_s": 3.0})
            await system.ref("/n0/dyn").tell(dynamic.StartChild(child=child))
        await settle()
        began_s = trio.current_time()
    assert log[:3] == ["+a#1", "+b#1", "+c#1"]
    assert sorted(log[3:]) == ["-a shutdown", "-b shutdown", "-c shutdown"]
    assert trio.current_time() - began_s == pytest.approx(3.0)


async def test_task_names_bear_path_and_incarnation(autojump_clock):
    log = Log()
    names: list[str] = []

    class Collect(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            names.append(task.name)

    instrument = Collect()
    trio.lowlevel.add_instrument(instrument)
    async with open_system("n0", SupervisorSpec(children=(nest("i", log.child("a")),))) as system:
        await system.ref("/n0/i/a").tell(Crash())
        await settle()
    trio.lowlevel.remove_instrument(instrument)
    assert [name for name in names if "#" in name] == [
        *["/n0#1", "/n0/i#1", "/n0/i/a#1", "/n0/i/a#2"]
    ]


async def test_finish_then_stop_runs_on_stop_once(autojump_clock):
    log = Log()
    child = log.child("a", restart=Restart.TRANSIENT)
    async with open_system("n0", SupervisorSpec(children=(child,))) as system:
        await system.ref("/n0/a").tell(Finish())
        system.request_stop()
        await system.wait_ended()
    assert len(log) == 2
    assert log[1] in ("-a normal", "-a shutdown")


async def test_an_on_stop_that_raises_after_a_normal_end_is_a_failed_incarnation(autojump_clock):
    log, seen = Log(), Events()
    child = log.child("a", restart=Restart.TRANSIENT, probe={"fails_stop": True})
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):  # of the second life's ordered stop
        async with open_system("n0", SupervisorSpec(children=(child,)), events=seen) as system:
            await system.ref("/n0/a").tell(Finish())
            await settle()
            assert log == ["+a#1", "-a normal", "+a#2"]


async def test_a_significant_failure_carries_what_the_stop_raised(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        children=(
            log.child("a", probe={"fails_stop": True}),
            log.child("b", restart=Restart.TEMPORARY, significant=True),
        ),
    )
    with pytest.raises(ExceptionGroup) as caught:
        async with open_system("n0", spec) as system:
            await system.ref("/n0/b").tell(Crash())
            await trio.sleep_forever()
    assert describe(caught.value) == "Boom: b; Boom: a stopping"
    assert caught.value.subgroup(SignificantChildFailed) is not None


async def test_giving_up_and_failing_to_stop_are_both_reported(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        intensity=0, children=(log.child("a", probe={"fails_stop": True}), log.child("b"))
    )
    with pytest.RaisesGroup(RestartIntensityExceeded, Boom, flatten_subgroups=True):
        async with open_system("n0", spec) as system:
            await system.ref("/n0/b").tell(Crash())
            await trio.sleep_forever()


async def test_a_group_of_the_body_that_holds_a_cancellation_passes_through(autojump_clock):
    log = Log()

    async def sore() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Boom("in the body")

    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        with trio.move_on_after(1.0):
            async with open_system("n0", SupervisorSpec(children=(log.child("a"),))):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(sore)
                    await trio.sleep_forever()
    assert log == ["+a#1", "-a shutdown"]
