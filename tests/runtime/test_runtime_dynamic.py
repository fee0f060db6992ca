"""Dynamic supervisors."""

from typing import Any

import pytest
import trio
from runtime_probe import Boom, Crash, Events, Finish, Log, Note, settle

from actors.events import runtime as events
from actors.runtime import (
    ActorDown,
    ActorRef,
    AutoShutdown,
    ChildSpec,
    DynamicSpec,
    Restart,
    SpecError,
    State,
    SupervisorSpec,
    dynamic,
    open_system,
)


async def start(ref: ActorRef[Any], child: ChildSpec) -> dynamic.Started | dynamic.Refused:
    return await ref.ask(
        (dynamic.Started, dynamic.Refused),
        lambda reply_to: dynamic.StartChild(child=child, reply_to=reply_to),
        timeout_s=20.0,
    )


async def stop(ref: ActorRef[Any], name: str) -> dynamic.Stopped | dynamic.Refused:
    return await ref.ask(
        (dynamic.Stopped, dynamic.Refused),
        lambda reply_to: dynamic.StopChild(name=name, reply_to=reply_to),
        timeout_s=20.0,
    )


def spec(**dynamic_spec: Any) -> SupervisorSpec:
    return SupervisorSpec(children=(ChildSpec(name="d", start=DynamicSpec(**dynamic_spec)),))


async def test_children_come_and_go(autojump_clock):
    log = Log()
    async with open_system("n0", spec()) as system:
        d = system.ref("/n0/d")
        outcome = await start(d, log.child("x"))
        assert isinstance(outcome, dynamic.Started)
        assert (outcome.ref.path, outcome.incarnation) == ("/n0/d/x", 1)
        await outcome.ref.tell(Note(text="hello"))
        assert isinstance(await start(d, log.child("y")), dynamic.Started)
        assert await stop(d, "x") == dynamic.Stopped(name="x")
        assert not outcome.ref.alive
        assert [node.path for node in system.tree().children[0].children] == ["/n0/d/y"]
        assert isinstance(await start(d, log.child("x")), dynamic.Started)  # the name is free
    assert log[:5] == ["+x#1", "hello", "+y#1", "-x shutdown", "+x#1"]


async def test_what_is_refused(autojump_clock):
    log = Log()
    async with open_system("n0", spec(children_max=2)) as system:
        d = system.ref("/n0/d")
        await start(d, log.child("x"))
        assert await start(d, log.child("x")) == dynamic.Refused(reason="x is running already")
        assert await stop(d, "y") == dynamic.Refused(reason="there is no y")
        await start(d, log.child("y"))
        assert await start(d, log.child("z")) == dynamic.Refused(reason="2 children run")
        error = Boom("no socket")
        await stop(d, "y")
        outcome = await start(d, log.child("y", probe={"failing": [error]}))
        assert isinstance(outcome, dynamic.Refused)
        assert outcome.reason == "could not start: Boom: no socket"
        assert isinstance(outcome.error, ExceptionGroup)
        assert outcome.error.exceptions == (error,)
        assert isinstance(await start(d, log.child("y")), dynamic.Started)


async def test_messages_without_a_reply(autojump_clock):
    log = Log()
    async with open_system("n0", spec()) as system:
        d = system.ref("/n0/d")
        await d.tell(dynamic.StartChild(child=log.child("x")))
        await d.tell(dynamic.StopChild(name="x"))
        await d.tell(dynamic.StopChild(name="x"))
        await settle()
        assert log == ["+x#1", "-x shutdown"]


@pytest.mark.parametrize(
    ("restart", "message", "expected"),
    [
        (Restart.PERMANENT, Crash(), ["-x crashed", "+x#2"]),
        (Restart.PERMANENT, Finish(), ["-x normal", "+x#2"]),
        (Restart.TRANSIENT, Crash(), ["-x crashed", "+x#2"]),
        (Restart.TRANSIENT, Finish(), ["-x normal"]),
        (Restart.TEMPORARY, Crash(), ["-x crashed"]),
        (Restart.TEMPORARY, Finish(), ["-x normal"]),
    ],
)
async def test_children_are_restarted_one_for_one_by_their_type(
    autojump_clock, restart, message, expected
):
    log = Log()
    async with open_system("n0", spec()) as system:
        d = system.ref("/n0/d")
        for name in ("w", "x", "y"):
            await start(d, log.child(name, restart=restart))
        log.new()
        await system.ref("/n0/d/x").tell(message)
        await settle()
        assert log.new() == expected
        names = [node.path[-1] for node in system.tree().children[0].children]
        assert names == (["w", "x", "y"] if len(expected) == 2 else ["w", "y"])


async def test_too_many_restarts_end_the_supervisor_and_its_restart_forgets(autojump_clock):
    log, seen = Log(), Events()
    async with open_system("n0", spec(intensity=1), events=seen) as system:
        d = system.ref("/n0/d")
        await start(d, log.child("x"))
        await start(d, log.child("y"))
        for _ in range(2):
            await system.ref("/n0/d/x").tell(Crash())
            await settle()
        assert log == ["+x#1", "+y#1", "-x crashed", "+x#2", "-x crashed", "-y shutdown"]
        node = system.tree().children[0]
        assert (node.state, node.incarnation, node.children) == (State.RUNNING, 2, ())
        assert len(seen.of(events.RestartIntensityExceeded)) == 1
        assert isinstance(await start(d, log.child("x")), dynamic.Started)


async def test_a_connection_ends_with_the_first_of_its_two(autojump_clock):
    """The tree of a master's connection: temporary, any significant child ends it."""
    log = Log()
    pair = SupervisorSpec(
        intensity=0,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
        children=(
            log.child("write_socket", restart=Restart.TEMPORARY, significant=True),
            log.child("read_socket", restart=Restart.TEMPORARY, significant=True),
        ),
        on_exit=lambda: log.append("stream closed"),
    )
    async with open_system("n0", spec()) as system:
        d = system.ref("/n0/d")
        for name in ("n1-1", "n2-2"):
            child = ChildSpec(name=name, start=pair, restart=Restart.TEMPORARY)
            assert isinstance(await start(d, child), dynamic.Started)
        log.new()
        await system.ref("/n0/d/n1-1/read_socket").tell(Crash())
        await settle()
        assert log.new() == ["-read_socket crashed", "-write_socket shutdown", "stream closed"]
        assert [node.path for node in system.tree().children[0].children] == ["/n0/d/n2-2"]


async def test_questions_fail_and_messages_are_dead_letters_when_it_stops(autojump_clock):
    log, seen = Log(), Events()
    down: list[str] = []

    async with trio.open_nursery() as nursery:
        async with open_system("n0", spec(), events=seen) as system:
            d = system.ref("/n0/d")

            async def asker(name: str) -> None:
                with pytest.raises(ActorDown):
                    await start(d, log.child(name, probe={"start_s": 10.0}))
                down.append(name)

            nursery.start_soon(asker, "x")
            await settle()
            nursery.start_soon(asker, "y")
            await settle()
    assert sorted(down) == ["x", "y"]
    assert log == []
    assert trio.current_time() < 1.0
    assert [(e.message_type, e.count) for e in seen.of(events.DeadLettered)] == [("StartChild", 1)]


async def test_while_it_stops_it_takes_no_messages(autojump_clock):
    log = Log()
    async with open_system("n0", spec()) as system:
        d = system.ref("/n0/d")
        for name in "xyz":
            await start(d, log.child(name, probe={"stop_s": 3.0}))
        assert system._root._shutdown_times_s() == [5.0 + 1.0]  # all at once
        system.request_stop()
        await trio.sleep(1.0)
        with pytest.raises(ActorDown):
            await start(d, log.child("w"))
        assert trio.current_time() < 2.0


async def test_its_mailbox_is_in_the_tree(autojump_clock):
    log = Log()
    async with open_system("n0", spec()) as system:
        await start(system.ref("/n0/d"), log.child("x"))
        node = system.tree().children[0]
        assert node.kind == "dynamic"
        assert node.mailbox is not None
        assert node.mailbox.received == 1


def test_impossible_bounds_are_refused():
    with pytest.raises(SpecError, match="expected children_max >= 1"):
        DynamicSpec(children_max=0)
