"""A world of simulated machines from one seed: nodes are started, killed, paused, and lose power.

A node is an async callable that gets an `Env`; the world does not know what it does. Every source
of chance is a stream of its own, `random.Random(f"{seed}:{purpose}")`, so that another kind of
fault does not change the others.

How a kill is made abrupt. Supervisors shield their children and stop them in order, so cancelling a
node would be the opposite of SIGKILL. And coroutines cannot simply be dropped, because Python runs
their `finally` blocks in any case. So a kill first **fences** the node, in one step without a
checkpoint: its network ends as a process's does (peers get FIN or reset), its disk handles die, its
locks are released, its events are dropped. From then on nothing that it still does has an effect.
Then it is cancelled through all shields, again and again until no task remains, on the spot: every
await raises, so no virtual time passes (a node that outlives `UNWIND_ROUNDS_MAX` rounds swallows
cancellation, which is an error of its own). Errors of its code while it unwinds against dead
resources are ignored.

`power_loss` does the same with the machine instead of the process: peers get no packet, and what
was not synced may be gone. `pause` is SIGSTOP: the scheduler runs none of the node's tasks while
the machine's kernel goes on receiving bytes.
"""

from __future__ import annotations

import enum
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from actors.env.protocols import Env
from actors.errors import UnknownName
from actors.sim.disk import DiskOptions, SimDisk
from actors.sim.disk.disk import virtual_wall_clock_ms
from actors.sim.disk.fence import FencedDisk
from actors.sim.network import NetworkOptions, SimNetwork
from actors.sim.network.network import HostNetwork
from actors.sim.scheduler import (
    Fingerprint,
    Policy,
    Schedule,
    cancel_through_shields,
    node_label,
    settled,
    yields_sometimes,
)


@attrs.define
class SimSecretStore:
    """The secrets of one process; implements `SecretStore`.

    Attributes:
        rng: a stream of chance of its own, so that no other history depends on it.
        files: the machine's secret files, by path; an operator puts the cluster's secret there.
    """

    rng: random.Random
    files: dict[str, bytes]

    def fresh(self, size: int) -> bytes:
        return self.rng.randbytes(size)

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def make(self, path: str) -> None:
        self.files.setdefault(path, self.fresh(32).hex().encode())


UNWIND_ROUNDS_MAX = 100_000
"""How many passes of the run loop a cancelled node may take to end. One pass unwinds a level of
nesting, or one task where the policy runs only one; this is far above any tree."""


NodeMain = Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]
"""The program of a node, `async def main(env, task_status)`; it calls `task_status.started(value)`
when it is ready."""


class NodeState(enum.Enum):
    OFF = "off"  # never started, killed, stopped, or ended by itself
    RUNNING = "running"
    PAUSED = "paused"


class EndedWhileStarting(Exception):
    """The process was killed, stopped or lost power before it was ready."""


@attrs.define(eq=False)
class _Ready:
    """Passes `started` on, and remembers that it was called."""

    _inner: trio.TaskStatus[Any]
    called: bool = attrs.field(init=False, default=False)

    def started(self, value: Any = None) -> None:
        self._inner.started(value)
        self.called = True


@attrs.define(eq=False)
class _Process:
    """One start of a node, until it ends."""

    node: SimNode
    main: NodeMain
    boot: int
    network: HostNetwork
    disk: FencedDisk
    rng: random.Random
    scope: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)
    ended: trio.Event = attrs.field(init=False, factory=trio.Event)
    fenced: bool = attrs.field(init=False, default=False)

    def env(self) -> Env:
        return Env(
            network=self.network,
            disk=self.disk,
            rng=self.rng,
            wall_clock_ms=self.node.wall_clock_ms,
            events=self._event,
            secret_store=self.node.secret_store(str(self.boot)),
            tell_hook=self.node.world.tell_hook(f"{self.node.name}:{self.boot}"),
        )

    def _event(self, path: str, incarnation: int, event: Any) -> None:
        if not self.fenced:
            self.node.world.took_event(self.node.name, self.boot, path, incarnation, event)

    def fence(self, *, silently: bool = False) -> None:
        """End all effects of this process; harmless if it is fenced already."""
        if not self.fenced:
            self.fenced = True
            self.disk.fence()
            self.network.end(silently=silently)
            self.node.disk.kill()

    async def run(self, *, task_status: trio.TaskStatus[Any]) -> None:
        node_label.set(self.node.name)
        ready = _Ready(task_status)
        try:
            try:
                with self.scope:
                    await self.main(self.env(), ready)
            except Exception as error:
                if not self.fenced and ready.called:
                    self.node.failure = error
                elif not self.fenced:
                    raise  # to the caller that starts it
                # Else it was killed, and an error while it unwinds is ignored.
            if self.scope.cancel_called and not ready.called:
                raise EndedWhileStarting(self.node.name)
        finally:
            self.fence()
            self.node.ended(self)
            self.ended.set()


@attrs.define(eq=False)
class SimNode:
    """One machine.

    Attributes:
        disk: the disk, which outlives every process. Tests may read it while the node is off.
        failure: the error that ended the last process, until `take_failure`; None: there is none.
        boots: how often the node was started.
        secret_files: the secret files by path, which outlive every process too.
    """

    world: World
    name: str
    address: str
    disk: SimDisk
    skew_ms: int
    failure: Exception | None = attrs.field(init=False, default=None)
    boots: int = attrs.field(init=False, default=0)
    secret_files: dict[str, bytes] = attrs.field(init=False, factory=dict)
    _process: _Process | None = attrs.field(init=False, default=None)

    @property
    def state(self) -> NodeState:
        if self._process is None:
            return NodeState.OFF
        if self.world.schedule.is_held(self.name):
            return NodeState.PAUSED
        return NodeState.RUNNING

    def secret_store(self, program: str) -> SimSecretStore:
        """Return the secrets of one program on this machine, with a random stream that its name
        determines.
        """
        rng = self.world.rng(f"{self.name}:{program}:secrets")
        return SimSecretStore(rng, self.secret_files)

    def wall_clock_ms(self) -> int:
        return virtual_wall_clock_ms() + self.skew_ms

    def take_failure(self) -> Exception | None:
        """Return the error that ended the node. The caller expects it, so the world does not raise
        it.
        """
        failure, self.failure = self.failure, None
        return failure

    async def start(self, nursery: trio.Nursery, main: NodeMain) -> Any:
        assert self._process is None, f"{self.name} runs"
        assert self.failure is None, f"{self.name} failed with an error not taken: {self.failure!r}"
        self.boots += 1
        process = self._process = _Process(
            self,
            main,
            self.boots,
            self.world.network.open(self.name),
            FencedDisk(self.disk),
            self.world.rng(f"{self.name}:{self.boots}"),
        )
        return await nursery.start(process.run, name=self.name)

    async def end(self, *, silently: bool) -> None:
        process = self._process
        if process is None:
            return
        process.fence(silently=silently)
        for _ in range(UNWIND_ROUNDS_MAX):
            if process.ended.is_set():
                return
            self.world.schedule.release(self.name)  # it may be paused meanwhile
            cancel_through_shields(process.scope)
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
        raise AssertionError(f"{self.name} swallows cancellation and cannot be killed")

    async def stop(self) -> None:
        if self._process is not None:
            assert self.state is NodeState.RUNNING, f"{self.name} is paused and would never end"
            process = self._process
            process.scope.cancel()
            await process.ended.wait()

    async def wait_ended(self) -> None:
        if self._process is not None:
            await self._process.ended.wait()

    def ended(self, process: _Process) -> None:
        assert self._process is process
        self._process = None


class NodeFailed(Exception):
    """A node was ended by an error that no caller has taken. `__cause__` has the error."""


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
    """The machines, their network and their faults. Use `open_world` to make one.

    Attributes:
        network: the network, with its faults by node name: cut, heal, reset, clog and others.
        schedule: holds and releases nodes, and has the fingerprint.
        events: all events of the nodes, in order.
        on_event: functions that are called with each event as it comes; they record what is wrong,
            and never raise.
        counts: how many kills, power losses, pauses, starts and stops there were; network and disks
            have counts of their own.
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
        """Return a new stream of chance for one purpose; it is equal for equal seeds and
        purposes.
        """
        return random.Random(f"{self.seed}:{purpose}")

    def tell_hook(self, process: str) -> Callable[[], Awaitable[None]] | None:
        """Return a hook that makes a process's tells yield now and then."""
        return yields_sometimes(self.rng(f"{process}:tell"), self._tell_yields)

    def add_node(self, name: str, address: str, *more: str, skew_ms: int = 0) -> SimNode:
        """Add a machine, switched on and without a process."""
        self.network.add_host(name, address, *more)
        kernel = self.rng(f"{name}:writeback")
        disk = SimDisk(self.rng(f"{name}:disk"), self._disk_options, kernel=kernel)
        node = SimNode(self, name, address, disk, skew_ms)
        node.disk.wall_clock_ms = node.wall_clock_ms
        self._nodes[name] = node
        return node

    def node(self, name: str) -> SimNode:
        """Return a machine. Raises: UnknownName: there is none with this name."""
        if name not in self._nodes:
            raise UnknownName("the world", "node", name, self._nodes)
        return self._nodes[name]

    @property
    def nodes(self) -> list[SimNode]:
        return list(self._nodes.values())

    async def start_node(self, name: str, main: NodeMain) -> Any:
        """Start a process on the machine. Returns: the value with which it called `started`.

        Raises:
            EndedWhileStarting: it was killed, stopped or lost power before it was ready.
            Exception: what `main` raises before it is ready.
        """
        node = self.node(name)
        self._count("start")
        self.network.power_on(name)
        return await node.start(self._nursery, main)

    async def stop_node(self, name: str) -> None:
        """Stop a process as SIGTERM does: cancel it and wait for its own ordered end."""
        node = self.node(name)
        self._count("stop")
        await node.stop()

    async def kill_node(self, name: str) -> None:
        """Kill a process as SIGKILL does: it has no effect from now on, and all its tasks are gone
        on return. The disk stays.
        """
        node = self.node(name)
        self._count("kill")
        await node.end(silently=False)

    async def power_loss(self, name: str) -> None:
        """Cut a machine's power: its peers get no packet, and of what was not synced any part
        survives.
        """
        node = self.node(name)
        self._count("power_loss")
        self.network.power_off(name)
        node.disk.power_loss(self.rng(f"{name}:power:{self.counts['power_loss']}"))
        await node.end(silently=True)

    def pause_node(self, name: str) -> None:
        """Hold a process still, as SIGSTOP does: none of its tasks runs until `resume_node`, and
        its kernel still receives bytes.
        """
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
    """Open a world for the length of a block, inside a Trio run with an autojump clock.

    At the end all nodes that still run are killed; stop them before that if their end matters.

    Args:
        seed: anything with a stable `str`.
        network: how fast and bad the network is.
        disk: how slow and large the disks are.
        policy: how the scheduler orders runnable tasks; random by default.
        tell_yields: the share of tells between actors that yield; code must not rely on a tell that
            does not yield.

    Raises:
        NodeFailed: in a group, for each node that an error ended which no caller took with
            `take_failure`.
    """
    await settled()
    over = trio.Event()

    async def keep(schedule: Schedule, *, task_status: trio.TaskStatus[World]) -> None:
        # Shielded: cancelling the task that opened the world ends the block, and only then the
        # machines.
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
