"""What can happen to processes and machines: kills, stops, power losses, pauses, clocks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import attrs
import trio

from actors.runtime import TreeNode
from actors.sim.actions.action import Action, Ground
from actors.sim.actions.runner import Runner, came
from actors.sim.actions.script import Fault

IN_SYNC_WAIT_S: Final = 10.0
"""How long to wait for a sync; a node that syncs nothing in that time keeps its power."""


class Kill(Action[Runner]):
    """A node is killed (SIGKILL), and started again."""

    name = "kill"
    restarts = True

    async def act(self, runner: Runner, fault: Fault) -> None:
        await runner.strike(fault, fault.node)


class KillStarting(Action[Runner]):
    """A node is killed, and again `extra` seconds after its restart has begun."""

    name = "kill_starting"
    chance = 0.4
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 0.05)

    async def act(self, runner: Runner, fault: Fault) -> None:
        if not runner.is_on(fault.node):
            return
        runner.began(fault)
        await runner.cluster.kill(fault.node)
        await trio.sleep(fault.for_s)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runner.up, fault.node)
            await trio.sleep(fault.extra)
            if runner.is_on(fault.node):
                await runner.cluster.kill(fault.node)
        await runner.up(fault.node)


class Stop(Action[Runner]):
    """A node is stopped in order, and started again."""

    name = "stop"
    restarts = True

    async def act(self, runner: Runner, fault: Fault) -> None:
        if not runner.is_ready(fault.node):
            return
        runner.began(fault)
        await runner.stop(fault.node)
        await trio.sleep(fault.for_s)
        await runner.up(fault.node)


class PowerLoss(Action[Runner]):
    """Some nodes lose power at the same moment.

    Any part of what they had not synced remains, and their peers are not told (half-open
    connections).
    """

    name = "power_loss"
    restarts = True
    cuts_power = True

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        more = [name for name in ground.unsteady if name != node]
        return tuple(sorted(rng.sample(more, rng.choice([0, 0, rng.randint(0, len(more))]))))

    async def act(self, runner: Runner, fault: Fault) -> None:
        hit = [name for name in fault.nodes if runner.is_on(name)]
        if not hit:
            return
        runner.began(fault)
        if len(hit) > 1:
            runner.counts["power_loss of several"] = (
                runner.counts.get("power_loss of several", 0) + 1
            )
        for name in hit:
            await runner.cluster.power_loss(name)
        await trio.sleep(fault.for_s)
        for name in hit:
            await runner.up(name)


class PowerLossAll(PowerLoss):
    """All nodes lose power at the same moment."""

    name = "power_loss_all"
    nodes_min = 2
    chance = 0.2
    most = 1
    all_lose_power = True

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        return tuple(name for name in ground.names if name != node)


class PowerLossInSync(PowerLoss):
    """A machine loses power during a sync.

    Syncs take `extra` seconds longer. It is not the first sync, so that bytes that were written
    during the first are on their way to the disk.
    """

    name = "power_loss_in_sync"
    chance = 0.4

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        return ()

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.2, 2.0)

    async def act(self, runner: Runner, fault: Fault) -> None:
        disk = runner.cluster.disk(fault.node)
        with disk.syncing(runner.log_part, number=2) as begun:
            disk.faults.slow_syncs(fault.extra, IN_SYNC_WAIT_S)
            await came(begun, IN_SYNC_WAIT_S)
        if begun.is_set():
            await trio.sleep(runner.rng(fault).uniform(0.0, fault.extra))
            await super().act(runner, fault)


class Pause(Action[Runner]):
    """A node's process is stopped (SIGSTOP), and later continued (SIGCONT)."""

    name = "pause"

    async def act(self, runner: Runner, fault: Fault) -> None:
        if runner.is_ready(fault.node):
            runner.began(fault)
            runner.cluster.pause(fault.node)
            await trio.sleep(fault.for_s)
            runner.cluster.resume(fault.node)
            runner.mended("resume", fault.node)


@attrs.frozen
class Crash:
    """A message that no actor knows: the actor that gets it crashes, as by a bug of its own."""


class CrashActor(Action[Runner]):
    """One actor of a node crashes, and its supervisor restarts it.

    Args:
        names: the last part of the paths of actors that may crash without ending their node.
    """

    name = "crash_actor"

    def __init__(self, *names: str) -> None:
        self._names = names

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice(self._names)

    async def act(self, runner: Runner, fault: Fault) -> None:
        node = runner.cluster.running(fault.node)
        if node is None or not runner.is_ready(fault.node):
            return
        system = runner.cluster.system(node)
        paths = sorted(each.path for each in _running(system.tree(), fault.where))
        if paths:
            path = runner.rng(fault).choice(paths)
            runner.began(fault)
            runner.note("crashed", f"{fault.node} {path}")
            await system.ref(path).tell(Crash())


def _running(node: TreeNode, name: str) -> Iterator[TreeNode]:
    if node.path.endswith(f"/{name}") and node.mailbox is not None:
        yield node
    for child in node.children:
        yield from _running(child, name)


class ClockJump(Action[Runner]):
    """The machine's wall clock jumps by `extra` seconds, and back after a while."""

    name = "clock_jump"
    chance = 0.3
    most = 2

    def extra(self, rng: random.Random) -> float:
        return float(rng.choice([-3600, -60, -1, 1, 60, 3600]))

    async def act(self, runner: Runner, fault: Fault) -> None:
        runner.began(fault)
        node = runner.cluster.world.node(fault.node)
        jump_ms = int(fault.extra * 1000)
        node.skew_ms += jump_ms
        await trio.sleep(fault.for_s)
        node.skew_ms -= jump_ms
        runner.mended("clock set", fault.node)
