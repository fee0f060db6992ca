"""A killed node that is a whole supervision tree: gone at once, and no orderly stop has effect."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from actors.env import Env
from actors.runtime import Actor, ChildSpec, StopReason, SupervisorSpec, open_system
from actors.sim.scheduler import Priorities
from actors.sim.world import open_world

STOP_S = 3.0


@attrs.frozen(kw_only=True)
class Write:
    text: bytes


@attrs.define
class Keeper(Actor[Write]):
    """Writes what it is sent, and a farewell when it is stopped in order."""

    env: Env
    name: str

    async def on_start(self) -> None:
        path = f"/data/{self.name}"
        self.env.disk.mkdir("/data")
        file = self.env.disk.open(path, "w" if self.env.disk.exists(path) else "x")
        file.pwrite(b"started", 0)

    async def handle(self, message: Write) -> None:
        self.env.disk.open(f"/data/{self.name}", "w").pwrite(message.text, 0)

    async def on_stop(self, reason: StopReason) -> None:
        await trio.sleep(STOP_S)
        self.env.disk.open(f"/data/{self.name}", "w").pwrite(b"farewell", 0)


async def node(env: Env, task_status: trio.TaskStatus[Any]) -> None:
    inner = SupervisorSpec(
        children=tuple(
            ChildSpec(name=name, start=lambda name=name: Keeper(env, name)) for name in ("a", "b")
        )
    )
    spec = SupervisorSpec(children=(ChildSpec(name="inner", start=inner),))
    async with open_system("n0", spec, rng=env.rng, events=env.events) as system:
        await system.ref("/n0/inner/a").tell(Write(text=b"told   "))
        task_status.started()
        await trio.sleep_forever()


@pytest.mark.parametrize("policy", [None, Priorities()], ids=["random", "priorities"])
async def test_stop_is_orderly_and_kill_is_not(policy: Any, autojump_clock: trio.abc.Clock) -> None:
    async with open_world(3, policy=policy) as world:
        machine = world.add_node("n0", "10.0.0.1")

        def kept(name: str) -> bytes:
            return machine.disk.open(f"/data/{name}", "r").pread(0, 100)

        await world.start_node("n0", node)
        await trio.sleep(1)
        await world.kill_node("n0")
        assert trio.current_time() == pytest.approx(1)
        assert kept("a") == b"told   "
        assert kept("b") == b"started"
        events = len(world.events)
        await trio.sleep(100)
        assert len(world.events) == events

        await world.start_node("n0", node)
        before_s = trio.current_time()
        await world.stop_node("n0")
        assert trio.current_time() - before_s == pytest.approx(2 * STOP_S)
        assert kept("a") == kept("b") == b"farewell"
