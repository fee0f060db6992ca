"""Intensity, back-off, significant children, failing starts, stale notices."""

import pytest
import trio
from runtime_probe import Boom, Crash, Events, Finish, Log, settle

from actors.events import runtime as events
from actors.runtime import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    Restart,
    RestartIntensityExceeded,
    SignificantChildFailed,
    SpecError,
    State,
    Strategy,
    SupervisorSpec,
    open_system,
)
from actors.runtime.child import Exit, RestartWindow
from actors.runtime.ref import Registry
from actors.runtime.supervisor import Supervisor
from actors.runtime.system import launch

TEMPORARY, TRANSIENT = Restart.TEMPORARY, Restart.TRANSIENT


async def test_intensity_exceeded_stops_the_siblings_and_escalates(autojump_clock):
    log, seen = Log(), Events()
    inner = SupervisorSpec(intensity=1, period_s=10.0, children=(log.child("x"), log.child("y")))
    spec = SupervisorSpec(
        intensity=0, children=(log.child("a"), ChildSpec(name="inner", start=inner))
    )
    with pytest.RaisesGroup(RestartIntensityExceeded, flatten_subgroups=True) as caught:
        async with open_system("n0", spec, events=seen) as system:
            x = system.ref("/n0/inner/x")
            await x.tell(Crash())
            await settle()
            log.new()
            await x.tell(Crash())
            await trio.sleep_forever()
    assert log.new() == ["-x crashed", "-y shutdown", "-a shutdown"]
    outer = caught.value
    while isinstance(outer, ExceptionGroup):
        outer = outer.exceptions[0]
    assert "/n0/inner ended once more after 0 restarts in 30 s" in str(outer)
    assert isinstance(outer.__cause__, RestartIntensityExceeded)  # inner's
    cause = outer.__cause__.__cause__
    assert isinstance(cause, ExceptionGroup)  # the whole crash
    assert cause.subgroup(Boom) is not None
    gave_up = [(p, e) for p, _, e in seen if isinstance(e, events.RestartIntensityExceeded)]
    assert gave_up == [
        (
            "/n0/inner",
            events.RestartIntensityExceeded(child="/n0/inner/x", intensity=1, period_s=10.0),
        ),
        ("/n0", events.RestartIntensityExceeded(child="/n0/inner", intensity=0, period_s=30.0)),
    ]


async def test_restarts_that_lie_apart_never_exceed_the_intensity(autojump_clock):
    log = Log()
    spec = SupervisorSpec(intensity=1, period_s=10.0, children=(log.child("a"),))
    async with open_system("n0", spec) as system:
        for _ in range(5):
            await system.ref("/n0/a").tell(Crash())
            await trio.sleep(10.5)
    assert log.count("-a crashed") == 5


def test_the_restart_window_keeps_what_lies_within_the_period():
    window = RestartWindow(intensity=2, period_s=10.0)
    assert [window.add(t) for t in (0.0, 5.0, 10.0)] == [True, True, False]
    window = RestartWindow(intensity=2, period_s=10.0)
    assert [window.add(t) for t in (0.0, 5.0, 10.1, 14.9, 15.2)] == [True, True, True, False, False]


async def test_backoff_grows_to_its_maximum_and_begins_again_after_a_long_run(autojump_clock):
    log = Log()
    times: list[float] = []
    backoff = Backoff(first_s=1.0, max_s=4.0)
    spec = SupervisorSpec(intensity=100, children=(log.child("a", backoff=backoff),))
    async with open_system("n0", spec) as system:
        a = system.ref("/n0/a")
        for life_s in (0.0, 0.0, 0.0, 0.0, 5.0, 0.0):
            await trio.sleep(life_s)
            await a.tell(Crash())
            crashed_s = trio.current_time()
            await settle()
            assert system.tree().children[0].state is State.WAITING
            due_s = system._root._children[0].due_s
            times.append(due_s - crashed_s)
            await trio.sleep_until(due_s - 0.01)
            assert not a.alive
            await trio.sleep(0.02)
            assert a.alive
    assert times == pytest.approx([1, 2, 4, 4, 1, 2])


async def test_a_sibling_crashes_and_returns_during_a_backoff(autojump_clock):
    log = Log()
    slow = Backoff(first_s=5.0, max_s=5.0)
    spec = SupervisorSpec(children=(log.child("a", backoff=slow), log.child("b")))
    async with open_system("n0", spec) as system:
        log.new()
        await system.ref("/n0/a").tell(Crash())
        await system.ref("/n0/b").tell(Crash())
        await trio.sleep(4.9)
        assert sorted(log.new()) == ["+b#2", "-a crashed", "-b crashed"]
        await trio.sleep(0.2)
        assert log.new() == ["+a#2"]


async def test_an_elder_sibling_that_crashes_during_a_backoff_takes_the_group_along(autojump_clock):
    log = Log()
    slow = Backoff(first_s=5.0, max_s=5.0)
    spec = SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(log.child("a"), log.child("b", backoff=slow), log.child("c")),
    )
    async with open_system("n0", spec) as system:
        log.new()
        await system.ref("/n0/b").tell(Crash())
        await trio.sleep(1.0)
        await system.ref("/n0/a").tell(Crash())
        await trio.sleep(3.9)
        assert log.new() == ["-b crashed", "-c shutdown", "-a crashed"]
        await trio.sleep(0.2)
        assert log.new() == ["+a#2", "+b#2", "+c#2"]


def test_backoff_with_jitter_stays_within_its_share():
    import random

    backoff = Backoff(first_s=1.0, max_s=8.0, jitter=0.25)
    rng = random.Random(1)
    delays = [backoff.delay_s(2, rng) for _ in range(200)]
    assert 3.0 <= min(delays) < 3.2 < 4.8 < max(delays) <= 5.0
    assert Backoff(first_s=1.0, max_s=8.0).delay_s(10**9, rng) == 8.0


@pytest.mark.parametrize(
    ("auto", "message", "expected"),
    [
        (AutoShutdown.ANY_SIGNIFICANT, Finish(), ["-x normal", "-z shutdown", "-y shutdown"]),
        (AutoShutdown.ALL_SIGNIFICANT, Finish(), ["-x normal"]),
    ],
)
async def test_a_significant_child_that_ends_may_end_its_supervisor(
    autojump_clock, auto, message, expected
):
    log = Log()
    inner = SupervisorSpec(
        auto_shutdown=auto,
        children=(
            log.child("x", restart=TRANSIENT, significant=True),
            log.child("y", restart=TEMPORARY, significant=True),
            log.child("z"),
        ),
    )
    spec = SupervisorSpec(
        children=(ChildSpec(name="inner", start=inner, restart=TRANSIENT), log.child("b"))
    )
    async with open_system("n0", spec) as system:
        log.new()
        await system.ref("/n0/inner/x").tell(message)
        await settle()
        assert log.new() == expected
        if auto is AutoShutdown.ALL_SIGNIFICANT:
            await system.ref("/n0/inner/y").tell(message)
            await settle()
            assert log.new() == ["-y normal", "-z shutdown"]
        assert system.tree().children[0].state is State.STOPPED  # a shutdown is no failure
        assert system.tree().children[1].state is State.RUNNING


async def test_a_significant_child_that_is_restarted_ends_nothing(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        children=(log.child("x", restart=TRANSIENT, significant=True),),
    )
    async with open_system("n0", spec) as system:
        await system.ref("/n0/x").tell(Crash())
        await settle()
        assert log == ["+x#1", "-x crashed", "+x#2"]


async def test_a_crash_of_the_store_ends_the_node_with_its_error(autojump_clock):
    """Significant all the way up: no restart on the way, and the host gets the error itself."""
    log = Log()
    significant = {"restart": TRANSIENT, "significant": True}
    any_significant = AutoShutdown.ANY_SIGNIFICANT
    storage = SupervisorSpec(
        strategy=Strategy.ONE_FOR_ALL,
        auto_shutdown=any_significant,
        children=(
            log.child("store", restart=TEMPORARY, significant=True),
            log.child("syncer", restart=TEMPORARY, significant=True),
        ),
    )
    group = SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        auto_shutdown=any_significant,
        children=(ChildSpec(name="storage", start=storage, **significant), log.child("dispatcher")),
    )
    spec = SupervisorSpec(
        auto_shutdown=any_significant,
        children=(
            log.child("events"),
            ChildSpec(name="orders", start=group, **significant),
            log.child("api"),
        ),
    )
    with pytest.raises(ExceptionGroup) as caught:
        async with open_system("n0", spec) as system:
            log.new()
            await system.ref("/n0/orders/storage/store").tell(Crash())
            await trio.sleep_forever()
    assert log.new() == [
        *["-store crashed", "-syncer shutdown", "-dispatcher shutdown"],
        *["-api shutdown", "-events shutdown"],
    ]
    assert caught.value.subgroup(Boom) is not None
    assert caught.value.subgroup(SignificantChildFailed) is not None


async def test_a_root_that_shuts_itself_down_ends_the_system_quietly(autojump_clock):
    log = Log()
    spec = SupervisorSpec(
        auto_shutdown=AutoShutdown.ALL_SIGNIFICANT,
        children=(log.child("a", restart=TRANSIENT, significant=True),),
    )
    async with open_system("n0", spec) as system:
        await system.ref("/n0/a").tell(Finish())
        await system.wait_ended()
        assert system.tree().state is State.STOPPED


async def test_crash_during_on_start_stops_what_had_started(autojump_clock):
    log, seen = Log(), Events()
    exits: list[str] = []
    inner = SupervisorSpec(
        children=(log.child("x"), log.child("y", probe={"failing": [Boom("first")]})),
        on_exit=lambda: exits.append("inner"),
    )
    spec = SupervisorSpec(children=(log.child("a"), ChildSpec(name="inner", start=inner)))
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        async with open_system("n0", spec, events=seen):
            raise AssertionError("never entered")
    assert log == ["+a#1", "+x#1", "!y#1", "-x shutdown", "-a shutdown"]
    assert exits == ["inner"]
    assert next((p, e) for p, _, e in seen if isinstance(e, events.ActorCrashed)) == (
        "/n0/inner/y",
        events.ActorCrashed(error="Boom: first", starting=True),
    )


async def test_a_factory_that_raises_is_a_start_that_failed(autojump_clock):
    log = Log()

    def factory():
        raise Boom("no actor")

    spec = SupervisorSpec(children=(log.child("a"), ChildSpec(name="b", start=factory)))
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        async with open_system("n0", spec):
            pass
    assert log == ["+a#1", "-a shutdown"]


async def test_a_factory_must_make_a_fresh_actor(autojump_clock):
    from runtime_probe import Probe

    log = Log()
    same = Probe("a", log)
    spec = SupervisorSpec(intensity=1, children=(ChildSpec(name="a", start=lambda: same),))
    with pytest.raises(ExceptionGroup) as caught:
        async with open_system("n0", spec) as system:
            await system.ref("/n0/a").tell(Crash())
            await trio.sleep_forever()
    error = caught.value.exceptions[0].exceptions[0]
    assert "fresh Actor" in str(error.__cause__)


async def test_a_start_that_keeps_failing_exhausts_the_intensity(autojump_clock):
    log = Log()
    failing: list[Exception] = []
    spec = SupervisorSpec(intensity=3, children=(log.child("a", probe={"failing": failing}),))
    with pytest.raises(ExceptionGroup):
        async with open_system("n0", spec) as system:
            failing += [Boom()] * 100
            await system.ref("/n0/a").tell(Crash())
            await trio.sleep_forever()
    assert log == ["+a#1", "-a crashed", "!a#2", "!a#3", "!a#4"]


async def test_a_notice_of_a_stale_incarnation_is_ignored(autojump_clock):
    log = Log()
    registry = Registry(rng=__import__("random").Random(0))
    supervisor = Supervisor(
        registry, "/n0", 1, SupervisorSpec(children=(log.child("a"), log.child("b"))), launch
    )
    async with trio.open_nursery() as nursery:

        async def run(*, task_status):
            await supervisor.run(task_status.started)

        await nursery.start(run)
        log.new()
        for name, incarnation in (("a", 0), ("a", 2), ("nobody", 1)):
            notice = Exit(name=name, incarnation=incarnation, error=Boom("stale"))
            assert await supervisor._on_exit_notice(notice) is False
        await settle()
        assert log.new() == []
        registry.ref("/n0/a").offer(Crash())
        await settle()
        assert log.new() == ["-a crashed", "+a#2"]
        supervisor.request_stop()


def test_specifications_that_contradict_themselves_are_refused():
    log = Log()
    with pytest.raises(SpecError, match="two children bear one name"):
        SupervisorSpec(children=(log.child("a"), log.child("a")))
    with pytest.raises(SpecError, match="auto_shutdown is NEVER"):
        SupervisorSpec(children=(log.child("a", restart=TEMPORARY, significant=True),))
    with pytest.raises(SpecError, match="permanent"):
        log.child("a", significant=True)
    for name in ("", "a/b", "-a", "a b"):
        with pytest.raises(SpecError, match="expected a name of letters"):
            log.child(name)
    with pytest.raises(SpecError, match="negative"):
        log.child("a", shutdown_s=-1.0)
    with pytest.raises(SpecError, match="intensity"):
        SupervisorSpec(intensity=-1)
    with pytest.raises(SpecError, match="expected 0 < first_s <= max_s"):
        Backoff(first_s=2.0, max_s=1.0)
