"""A child restarted on request: whole sequences of starts and stops; specifications made late."""

from typing import Any

import pytest
import trio
from runtime_probe import Boom, Crash, Events, Finish, Log, settle

from actors.events import runtime as events
from actors.runtime import (
    ActorDown,
    AutoShutdown,
    Backoff,
    ChildSpec,
    LazySpec,
    Restart,
    RestartIntensityExceeded,
    State,
    Strategy,
    SupervisorSpec,
    System,
    Unread,
    open_system,
    render_spec,
    requests,
)


def three(log: Log, **spec: Any) -> SupervisorSpec:
    b = {"restart": spec.pop("restart", Restart.PERMANENT), "probe": spec.pop("probe", None)}
    more = {name: spec.pop(name) for name in ("significant", "backoff") if name in spec}
    return SupervisorSpec(
        children=(log.child("a"), log.child("b", **b, **more), log.child("c")),
        takes_requests=True,
        **spec,
    )


async def restart(system: System, name: str = "b") -> requests.Restarted | requests.Refused:
    return await system.ref("/n0").ask(
        (requests.Restarted, requests.Refused),
        lambda reply_to: requests.RestartChild(name=name, reply_to=reply_to),
        timeout_s=20.0,
    )


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("kind", list(Restart))
async def test_only_the_child_itself_whatever_strategy_and_restart_say(
    autojump_clock, strategy, kind
):
    log, seen = Log(), Events()
    spec = three(log, strategy=strategy, restart=kind, intensity=0)
    async with open_system("n0", spec, events=seen) as system:
        log.new()
        for life in (2, 3):  # no intensity is used up by it
            assert await restart(system) == requests.Restarted(name="b", incarnation=life)
            assert log.new() == ["-b shutdown", f"+b#{life}"]
        assert seen.of(events.ActorRestarted)[-1].restarts == 2
        found = system.tree().find("/n0/b")
        assert found is not None
        assert (found.incarnation, found.restarts) == (3, 0), "it did not end by itself"
    assert log.new() == ["-c shutdown", "-b shutdown", "-a shutdown"]


async def test_the_old_incarnation_has_ended_before_the_new_one_begins(autojump_clock):
    log = Log()
    async with open_system("n0", three(log, probe={"start_s": 2.0, "stop_s": 3.0})) as system:
        log.new()
        began_s = trio.current_time()
        await restart(system)
        assert trio.current_time() - began_s == pytest.approx(5.0)
        assert log.new() == ["-b shutdown", "+b#2"]


async def test_a_whole_subtree(autojump_clock):
    log = Log()
    inner = SupervisorSpec(children=(log.child("x"), log.child("y")))
    spec = SupervisorSpec(children=(ChildSpec(name="i", start=inner),), takes_requests=True)
    async with open_system("n0", spec) as system:
        log.new()
        await restart(system, "i")
        assert log.new() == ["-y shutdown", "-x shutdown", "+x#2", "+y#2"]


async def test_a_child_that_ended_for_good_is_started_again(autojump_clock):
    log = Log()
    async with open_system("n0", three(log, restart=Restart.TRANSIENT)) as system:
        await system.ref("/n0/b").tell(Finish())
        await settle()
        log.new()
        assert await restart(system) == requests.Restarted(name="b", incarnation=2)
        assert log.new() == ["+b#2"]


async def test_an_unknown_child_is_refused(autojump_clock):
    log = Log()
    async with open_system("n0", three(log)) as system:
        log.new()
        assert await restart(system, "z") == requests.Refused(reason="there is no z")
        assert log.new() == []


async def test_a_child_that_waits_for_its_restart_is_left_to_it(autojump_clock):
    log = Log()
    spec = three(log, backoff=Backoff(first_s=10.0, max_s=20.0))
    async with open_system("n0", spec) as system:
        await system.ref("/n0/b").tell(Crash())
        await settle()
        log.new()
        assert await restart(system) == requests.Refused(reason="b waits for its restart")
        assert log.new() == []
        await trio.sleep(11.0)
        assert log.new() == ["+b#2"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Restart.PERMANENT, ["-b shutdown", "!b#2", "+b#3"]),
        (Restart.TRANSIENT, ["-b shutdown", "!b#2", "+b#3"]),
        (Restart.TEMPORARY, ["-b shutdown", "!b#2"]),
    ],
)
async def test_a_start_that_fails_is_a_failed_incarnation(autojump_clock, kind, expected):
    log = Log()
    failing: list[Exception] = []
    async with open_system("n0", three(log, restart=kind, probe={"failing": failing})) as system:
        log.new()
        failing.append(Boom("no socket"))
        refused = await restart(system)
        await settle()
        assert isinstance(refused, requests.Refused)
        assert refused.reason == "could not start: Boom: no socket"
        assert log.new() == expected


async def test_a_failed_start_counts_towards_the_intensity(autojump_clock):
    log = Log()
    failing: list[Exception] = []
    with pytest.raises(ExceptionGroup) as raised:
        async with open_system("n0", three(log, probe={"failing": failing}, intensity=0)) as system:
            failing.append(Boom())
            assert isinstance(await restart(system), requests.Refused)
            await trio.sleep_forever()
    assert raised.group_contains(RestartIntensityExceeded, match="after 0 restarts")
    assert log == [
        *["+a#1", "+b#1", "+c#1", "-b shutdown", "!b#2"],
        *["-c shutdown", "-a shutdown"],
    ]


async def test_a_significant_child_whose_start_fails_ends_the_supervisor(autojump_clock):
    log = Log()
    failing: list[Exception] = []
    spec = three(
        log,
        restart=Restart.TEMPORARY,
        significant=True,
        probe={"failing": failing},
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )
    with pytest.raises(ExceptionGroup):
        async with open_system("n0", spec) as system:
            failing.append(Boom())
            await restart(system)
            await trio.sleep_forever()
    assert log[-4:] == ["-b shutdown", "!b#2", "-c shutdown", "-a shutdown"]


@pytest.mark.parametrize("asked", [True, False], ids=["on request", "after a crash"])
async def test_a_tree_whose_significant_child_cannot_start_again_is_not_tried_again(
    autojump_clock, asked
):
    """As a significant child that fails later: no restart cures it."""
    log, seen = Log(), Events()
    failing: list[Exception] = []
    group = SupervisorSpec(
        children=(
            log.child(
                "store",
                restart=Restart.TEMPORARY,
                significant=True,
                probe={"failing": failing},
            ),
            log.child("reader"),
        ),
        intensity=0,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )
    spec = SupervisorSpec(
        children=(
            ChildSpec(name="orders", start=group, restart=Restart.TRANSIENT, significant=True),
        ),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        takes_requests=True,
    )
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        async with open_system("n0", spec, events=seen) as system:
            failing.append(Boom("damage"))
            if asked:
                assert isinstance(await restart(system, "orders"), requests.Refused)
            else:
                await system.ref("/n0/orders/reader").tell(Crash())
            await trio.sleep_forever()
    ends = ["-reader shutdown"] if asked else ["-reader crashed"]
    assert log == ["+store#1", "+reader#1", *ends, "-store shutdown", "!store#2"]


async def test_a_start_that_fails_elsewhere_is_tried_again(autojump_clock):
    log = Log()
    failing: list[Exception] = []
    group = SupervisorSpec(
        children=(
            log.child("store", restart=Restart.TEMPORARY, significant=True),
            log.child("reader", probe={"failing": failing}),
        ),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )
    spec = SupervisorSpec(
        children=(
            ChildSpec(name="orders", start=group, restart=Restart.TRANSIENT, significant=True),
        ),
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        takes_requests=True,
    )
    async with open_system("n0", spec) as system:
        log.new()
        failing.append(Boom("a port in use"))
        await restart(system, "orders")
        await settle()
        assert log.new() == [
            *["-reader shutdown", "-store shutdown", "+store#2", "!reader#2", "-store shutdown"],
            *["+store#3", "+reader#3"],
        ]


async def test_requests_are_carried_out_one_by_one_and_a_crash_between_them_counts(autojump_clock):
    log = Log()
    async with open_system("n0", three(log)) as system:
        log.new()
        root = system.ref("/n0")
        for name in ("c", "a", "c"):
            await root.tell(requests.RestartChild(name=name))
        await system.ref("/n0/b").tell(Crash())
        await settle()
        lines = log.new()
        assert [line for line in lines if "b" not in line] == [
            *["-c shutdown", "+c#2", "-a shutdown", "+a#2", "-c shutdown", "+c#3"]
        ]
        assert [line for line in lines if "b" in line] == ["-b crashed", "+b#2"]


async def test_what_a_stop_finds_unread_is_not_done_and_fails(autojump_clock):
    log = Log()
    async with open_system("n0", three(log, probe={"stop_s": 1.0})) as system:
        root = system.ref("/n0")
        outcomes: list[object] = []

        async def ask(name: str) -> None:
            try:
                outcomes.append(await restart(system, name))
            except ActorDown as error:
                outcomes.append(type(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "b")
            await settle()
            nursery.start_soon(ask, "a")
            await settle()
            system.request_stop()
        assert outcomes == [Unread, ActorDown]
        await system.wait_ended()
        assert not root.alive
    assert log == ["+a#1", "+b#1", "+c#1", "-b shutdown", "-c shutdown", "-a shutdown"]


async def test_a_supervisor_without_requests_has_no_mailbox(autojump_clock):
    log = Log()
    async with open_system("n0", SupervisorSpec(children=(log.child("a"),))) as system:
        assert not system.ref("/n0").alive


async def test_a_late_specification_is_made_for_each_incarnation_and_printed(autojump_clock):
    log, role = Log(), ["master"]

    def build() -> SupervisorSpec:
        names = ("store", "accept_socket") if role == ["master"] else ("store", "ha_client")
        return SupervisorSpec(
            strategy=Strategy.REST_FOR_ONE, children=tuple(log.child(name) for name in names)
        )

    spec = SupervisorSpec(
        children=(ChildSpec(name="orders", start=LazySpec(build)),), takes_requests=True
    )
    picture = render_spec(spec, "n0")
    assert "orders [rest_for_one" in picture
    assert "accept_socket" in picture
    async with open_system("n0", spec) as system:
        role[0] = "slave"
        assert "ha_client" in render_spec(spec, "n0")
        assert log.new() == ["+store#1", "+accept_socket#1"]
        await restart(system, "orders")
        assert log.new() == [
            *["-accept_socket shutdown", "-store shutdown", "+store#2", "+ha_client#1"]
        ]
        (orders,) = system.tree().children
        assert (orders.kind, orders.type, orders.state) == (
            "supervisor",
            "rest_for_one",
            State.RUNNING,
        )


async def test_a_late_specification_that_cannot_be_made_is_a_failed_start(autojump_clock):
    log, errors = Log(), [Boom("unknown role")]

    def build() -> SupervisorSpec:
        if errors:
            raise errors.pop()
        return SupervisorSpec(children=(log.child("x"),))

    spec = SupervisorSpec(
        children=(ChildSpec(name="g", start=LazySpec(build)),), takes_requests=True
    )
    with pytest.raises(ExceptionGroup):
        async with open_system("n0", spec):
            raise AssertionError("it has started")
    async with open_system("n0", spec) as system:
        errors.append(Boom("unknown role"))
        refused = await restart(system, "g")
        assert isinstance(refused, requests.Refused)
        await settle()
        assert log == ["+x#1", "-x shutdown", "+x#2"]
