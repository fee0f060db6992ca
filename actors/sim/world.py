"""A world of simulated machines from one seed: nodes are started, killed, paused, lose power.

A node is an async callable that gets an `Env`; what it does is none of the world's business. Every
source of chance is a stream of its own, `random.Random(f"{seed}:{purpose}")`, so that another kind
of fault does not disturb the others.

How a kill is made abrupt. Supervisors shield their children and stop them in order, so cancelling
a node would be the opposite of SIGKILL. And coroutines cannot simply be dropped: Python runs their
`finally` blocks in any case. So a kill first **fences** the node, in one step without a checkpoint:
its network ends as a process's does (peers get FIN or reset), its disk handles die, its locks are
released, its events are dropped. From then on nothing it still does has an effect. Then it is
cancelled through all shields, again and again until no task is left, on the spot: every await
raises, so no virtual time passes (a node that outlives `UNWIND_ROUNDS_MAX` rounds swallows
cancellation, which is an error of its own). What its code says while it unwinds against dead
resources is ignored.

`power_loss` does the same with the machine instead of the process: peers hear nothing, and what
was not synced may be gone. `pause` is SIGSTOP: the scheduler runs none of the node's tasks while
the machine's kernel goes on taking bytes in.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from actors.errors import UnknownName
from actors.sim.disk import DiskOptions, SimDisk
from actors.sim.machine import NodeMain, SimNode
from actors.sim.network import NetworkOptions, SimNetwork
from actors.sim.scheduler import (
    Fingerprint,
    Policy,
    Schedule,
    settled,
    yields_sometimes,
)


class NodeFailed(Exception):
    """A node ended by an error that nobody has asked for. `__cause__` has it."""


@attrs.frozen(kw_only=True)
class SimEvent:
    """One event that a node emitted."""

    at_s: float
    node: str
    boot: int
    path: str
    incarnation: int
    event: Any


class World:
    """Machines, their network and their faults. Made by `open_world`.

    Attributes:
        network: cut, heal, reset, clog ... by node name.
        schedule: holds and releases nodes, has the fingerprint.
        events: everything the nodes emitted, in order.
        on_event: called for each as it comes (checkers); they note what is wrong, never raise.
        counts: kills, power losses, pauses, starts; those of network and disks are kept there.
    """

    def __init__(
        self,
        seed: object,
        schedule: Schedule,
        nursery: trio.Nursery,
        network: NetworkOptions | None,
        disk: DiskOptions | None,
        tell_yields: float,
    ) -> None:
        self.seed = seed
        self.schedule = schedule
        self.events: list[SimEvent] = []
        self.on_event: list[Callable[[SimEvent], None]] = []
        self.counts: dict[str, int] = {}
        self.network = SimNetwork(self.rng("network"), network)
        self._disk_options = disk
        self._tell_yields = tell_yields
        self._nursery = nursery
        self._nodes: dict[str, SimNode] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        return self.schedule.fingerprint

    def rng(self, purpose: str) -> random.Random:
        """A new stream of chance for one purpose; equal for equal seeds and purposes."""
        return random.Random(f"{self.seed}:{purpose}")

    def tell_hook(self, process: str) -> Callable[[], Awaitable[None]] | None:
        """What makes a process's tells yield now and then."""
        return yields_sometimes(self.rng(f"{process}:tell"), self._tell_yields)

    def add_node(self, name: str, address: str, *more: str, skew_ms: int = 0) -> SimNode:
        """A new machine, switched on and without a process."""
        self.network.add_host(name, address, *more)
        kernel = self.rng(f"{name}:writeback")
        disk = SimDisk(self.rng(f"{name}:disk"), self._disk_options, kernel=kernel)
        node = SimNode(self, name, address, disk, skew_ms)
        node.disk.wall_clock_ms = node.wall_clock_ms
        self._nodes[name] = node
        return node

    def node(self, name: str) -> SimNode:
        """Raises: UnknownName."""
        if name not in self._nodes:
            raise UnknownName("the world", "node", name, self._nodes)
        return self._nodes[name]

    @property
    def nodes(self) -> list[SimNode]:
        return list(self._nodes.values())

    async def start_node(self, name: str, main: NodeMain) -> Any:
        """Start a process on the machine. Returns what it calls `started` with.

        Raises: what `main` raises before it is ready. EndedWhileStarting.
        """
        node = self.node(name)
        self._count("start")
        self.network.power_on(name)
        return await node.start(self._nursery, main)

    async def stop_node(self, name: str) -> None:
        """SIGTERM: cancel the node and wait for its own ordered end."""
        node = self.node(name)
        self._count("stop")
        await node.stop()

    async def kill_node(self, name: str) -> None:
        """SIGKILL: no more effect from now on; all tasks are gone on return. The disk stays."""
        node = self.node(name)
        self._count("kill")
        await node.end(silently=False)

    async def power_loss(self, name: str) -> None:
        """As a kill, but peers hear nothing, and of what was not synced any part survives."""
        node = self.node(name)
        self._count("power_loss")
        self.network.power_off(name)
        node.disk.power_loss(self.rng(f"{name}:power:{self.counts['power_loss']}"))
        await node.end(silently=True)

    def pause_node(self, name: str) -> None:
        """SIGSTOP: none of its tasks runs until `resume_node`; its kernel still takes bytes in."""
        self._count("pause")
        self.schedule.hold(name)

    def resume_node(self, name: str) -> None:
        self.schedule.release(name)

    def took_event(self, node: str, boot: int, path: str, incarnation: int, event: Any) -> None:
        taken = SimEvent(
            at_s=trio.current_time(),
            node=node,
            boot=boot,
            path=path,
            incarnation=incarnation,
            event=event,
        )
        self.events.append(taken)
        for watch in self.on_event:
            watch(taken)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    async def _end(self) -> None:
        for node in self._nodes.values():
            await node.end(silently=False)


@asynccontextmanager
async def open_world(
    seed: object,
    *,
    network: NetworkOptions | None = None,
    disk: DiskOptions | None = None,
    policy: Policy | None = None,
    tell_yields: float = 0.0,
) -> AsyncIterator[World]:
    """A world for the length of a block, inside a Trio run with an autojump clock.

    At the end all nodes that still run are killed; stop them before if their end matters.

    Args:
        seed: anything with a stable `str`.
        network: how fast and bad the network is.
        disk: how slow and large the disks are.
        policy: how the scheduler orders runnable tasks; random by default.
        tell_yields: share of tells between actors that yield, which code may not rely on their
            not doing.

    Raises:
        NodeFailed: in a group, for each node that died of an error which nobody took with
            `take_failure`.
    """
    await settled()
    over = trio.Event()

    async def keep(schedule: Schedule, *, task_status: trio.TaskStatus[World]) -> None:
        # Shielded: cancelling whoever opened the world ends the block, and only then the machines.
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as machines:
                world = World(seed, schedule, machines, network, disk, tell_yields)
                await machines.start(world.network.run, name="sim-network")
                task_status.started(world)
                await over.wait()
                await world._end()
                machines.cancel_scope.cancel()

    with Schedule(f"{seed}:schedule", policy) as schedule:
        async with trio.open_nursery() as nursery:
            world = await nursery.start(keep, schedule, name="sim-world")
            try:
                yield world
            finally:
                over.set()
    failures = []
    for node in world.nodes:
        if node.failure is not None:
            failure = NodeFailed(f"{node.name}: {node.failure!r}")
            failure.__cause__ = node.failure
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"seed {seed}: nodes failed", failures)
