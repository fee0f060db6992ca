"""Nodes of a world: started, stopped, killed through shields, paused, without power, failing."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio

from actors.env import Env, Stream
from actors.sim.disk import EPOCH_MS
from actors.sim.scheduler import Priorities, Starve
from actors.sim.world import NodeFailed, NodeState, World, open_world

ADDRESS = "10.0.0.1"


def add_pair(world: World) -> None:
    world.add_node("n0", ADDRESS)
    world.add_node("n1", "10.0.0.2", skew_ms=-500)


async def idle(env: Env, task_status: trio.TaskStatus[Any]) -> None:
    task_status.started(env)
    await trio.sleep_forever()


class Stubborn:
    """A node that resists: nested shields, an orderly stop that writes, sends and sleeps."""

    def __init__(self) -> None:
        self.after_kill: list[str] = []

    async def main(self, env: Env, task_status: trio.TaskStatus[Any]) -> None:
        env.disk.mkdir("/data")
        file = env.disk.open("/data/f", "x")
        file.pwrite(b"before", 0)
        stream = await env.network.connect("10.0.0.2", 1)
        _, send = stream.halves()
        try:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.child, env)
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            env.events("/n0", 1, "stopping")
            for name, effect in {
                "write": lambda: file.pwrite(b"zombie", 0),
                "create": lambda: env.disk.open("/data/zombie", "x"),
                "lock": lambda: env.disk.lock("/data/lock"),
            }.items():
                try:
                    effect()
                except OSError:
                    self.after_kill.append(name)
            with trio.CancelScope(shield=True):
                try:
                    await send.send_all(b"zombie")
                except trio.ClosedResourceError:
                    self.after_kill.append("send")
                await trio.sleep(1000)

    async def child(self, env: Env) -> None:
        try:
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()
        finally:
            raise ValueError("said while it falls")


@pytest.mark.parametrize(
    "policy", [None, Priorities(), Starve("n0")], ids=["random", "pct", "starve"]
)
async def test_a_kill_is_abrupt_whatever_the_node_does_about_it(
    policy: Any, autojump_clock: trio.abc.Clock
) -> None:
    node = Stubborn()
    received: list[bytes] = []

    async def peer(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        listener = await env.network.listen("10.0.0.2", 1)
        task_status.started()
        receive, _ = (await listener.accept()).halves()
        while data := await receive.receive_some(100):
            received.append(data)
        received.append(b"FIN")
        await trio.sleep_forever()

    async with open_world(1, policy=policy) as world:
        add_pair(world)
        await world.start_node("n1", peer)
        await world.start_node("n0", node.main)
        before_s = trio.current_time()
        await world.kill_node("n0")
        assert trio.current_time() == before_s
        assert world.node("n0").state is NodeState.OFF
        await trio.sleep(10)
        assert node.after_kill == ["write", "create", "lock", "send"]
        assert received == [b"FIN"]
        disk = world.node("n0").disk
        assert disk.listdir("/data") == ["f"]
        assert disk.open("/data/f", "r").pread(0, 100) == b"before"
        assert world.events == []
        await world.kill_node("n0")


async def test_a_stop_is_orderly_and_events_are_kept(autojump_clock: trio.abc.Clock) -> None:
    async def polite(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            env.events("/n0/a", 2, "stopped in order")

    seen: list[str] = []
    async with open_world(1) as world:
        add_pair(world)
        world.on_event.append(lambda event: seen.append(event.event))
        await world.start_node("n0", polite)
        await world.stop_node("n0")
        await world.stop_node("n0")
        assert trio.current_time() == pytest.approx(3)
        (event,) = world.events
        assert (event.node, event.boot, event.path, event.incarnation, event.event) == (
            "n0",
            1,
            "/n0/a",
            2,
            "stopped in order",
        )
        assert event.at_s == trio.current_time()
        assert seen == ["stopped in order"]
        await world.start_node("n0", polite)
        assert world.node("n0").boots == 2
        assert world.counts == {"start": 2, "stop": 2}


async def test_locks_and_ports_are_free_after_any_end(autojump_clock: trio.abc.Clock) -> None:
    async def locking(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        env.disk.mkdir("/data")
        env.disk.lock("/data/lock")
        await env.network.listen(ADDRESS, 1)
        task_status.started()
        await trio.sleep_forever()

    async with open_world(1) as world:
        add_pair(world)
        for end in (world.kill_node, world.power_loss, world.stop_node):
            await world.start_node("n0", locking)
            await end("n0")


async def test_power_loss_forgets_what_was_not_synced_and_notifies_nobody(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def writer(env: Env, task_status: trio.TaskStatus[Stream]) -> None:
        stream = await env.network.connect("10.0.0.2", 1)
        env.disk.mkdir("/data")
        file = env.disk.open("/data/f", "x")
        env.disk.sync_dir("/data")
        file.pwrite(b"s" * 4096, 0)
        await env.disk.syncer().sync(["/data/f"])
        file.pwrite(b"u" * 4096 * 20, 0)
        task_status.started(stream)
        await trio.sleep_forever()

    async def peer(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        listener = await env.network.listen("10.0.0.2", 1)
        task_status.started()
        receive, _ = (await listener.accept()).halves()
        await receive.receive_some(1)
        raise AssertionError("a machine without power said something")

    async with open_world(1) as world:
        add_pair(world)
        await world.start_node("n1", peer)
        await world.start_node("n0", writer)
        await world.power_loss("n0")
        await trio.sleep(10_000)
        data = world.node("n0").disk.open("/data/f", "r").pread(0, 100_000)
        pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
        assert pages[0] in (b"s" * 4096, b"u" * 4096)
        assert pages != [b"u" * 4096] * 20


async def test_a_paused_node_stands_still_while_its_kernel_takes_bytes_in(
    autojump_clock: trio.abc.Clock,
) -> None:
    got: list[tuple[float, bytes]] = []

    async def server(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        listener = await env.network.listen(ADDRESS, 1)
        task_status.started()
        receive, _ = (await listener.accept()).halves()
        while data := await receive.receive_some(100):
            got.append((trio.current_time(), data))

    async def client(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        stream = await env.network.connect(ADDRESS, 1)
        task_status.started()
        await trio.sleep(1)
        await stream.halves()[1].send_all(b"taken in")
        await trio.sleep_forever()

    async with open_world(1) as world:
        add_pair(world)
        await world.start_node("n0", server)
        await world.start_node("n1", client)
        world.pause_node("n0")
        assert world.node("n0").state is NodeState.PAUSED
        with pytest.raises(AssertionError, match="paused"):
            await world.stop_node("n0")
        await trio.sleep(50)
        assert got == []
        world.resume_node("n0")
        await trio.sleep(0.1)
        assert b"".join(data for _, data in got) == b"taken in"
        assert got[0][0] == pytest.approx(50, abs=0.1)
        world.pause_node("n0")
        await world.kill_node("n0")
        assert world.node("n0").state is NodeState.OFF


async def test_every_node_has_its_own_clock_disk_and_chance(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_world(5) as world:
        add_pair(world)
        first: Env = await world.start_node("n0", idle)
        second: Env = await world.start_node("n1", idle)
        await trio.sleep(1)
        assert first.wall_clock_ms() == EPOCH_MS + 1000
        assert second.wall_clock_ms() == EPOCH_MS + 500
        first.disk.mkdir("/data")
        assert not second.disk.exists("/data")
        assert first.rng.random() == world.rng("n0:1").random() != second.rng.random()
        second.disk.open("/f", "x")
        assert second.disk.stat("/f").modified_ms == EPOCH_MS + 500
        assert [node.name for node in world.nodes] == ["n0", "n1"]


async def test_a_failure_nobody_took_fails_the_world(autojump_clock: trio.abc.Clock) -> None:
    async def failing(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        task_status.started()
        await trio.sleep(1)
        raise OSError("the disk is broken")

    async def use(take: bool) -> None:
        async with open_world(1) as world:
            add_pair(world)
            await world.start_node("n0", failing)
            await world.node("n0").wait_ended()
            with pytest.raises(AssertionError, match="failed with an error not taken"):
                await world.start_node("n0", failing)
            if take:
                failure = world.node("n0").take_failure()
                assert str(failure) == "the disk is broken"
                await world.start_node("n0", idle)

    await use(take=True)
    with pytest.RaisesGroup(pytest.RaisesExc(NodeFailed, match="disk is broken")):
        await use(take=False)


async def test_a_start_that_fails_raises_at_who_starts(autojump_clock: trio.abc.Clock) -> None:
    async def failing(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        await trio.sleep(1)
        raise OSError("no such luck")

    async with open_world(1) as world:
        add_pair(world)
        with pytest.raises(OSError, match="no such luck"):
            await world.start_node("n0", failing)
        assert world.node("n0").state is NodeState.OFF
        await world.start_node("n0", idle)


async def test_a_node_that_swallows_cancellation_is_reported(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.sim.world.UNWIND_ROUNDS_MAX", 50)
    give_up = False

    async def swallowing(env: Env, task_status: trio.TaskStatus[Any]) -> None:
        task_status.started()
        while not give_up:
            with contextlib.suppress(trio.Cancelled):
                await trio.sleep_forever()

    async with open_world(1) as world:
        add_pair(world)
        await world.start_node("n0", swallowing)
        with pytest.raises(AssertionError, match="swallows cancellation"):
            await world.kill_node("n0")
        give_up = True


async def test_cancelling_the_block_ends_the_world_in_peace(autojump_clock: trio.abc.Clock) -> None:
    """The machines outlive the block that was cancelled, so that they can be killed as always."""
    stubborn = Stubborn()
    with trio.move_on_after(1) as scope:
        async with open_world(1) as world:
            add_pair(world)
            listener = await world.start_node("n1", listening)
            assert listener is not None
            await world.start_node("n0", stubborn.main)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert stubborn.after_kill == ["write", "create", "lock", "send"]


async def listening(env: Env, task_status: trio.TaskStatus[Any]) -> None:
    task_status.started(await env.network.listen("10.0.0.2", 1))
    await trio.sleep_forever()
