"""One simulated machine: its disk, and the process that runs on it until it ends, or is killed.

See `world` for how a kill is made abrupt.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import attrs
import trio

from actors.env.protocols import Env
from actors.sim.disk import SimDisk, virtual_wall_clock_ms
from actors.sim.fence import FencedDisk
from actors.sim.scheduler import cancel_through_shields, node_label
from actors.sim.secret_files import SimSecretStore
from actors.sim.sockets import HostNetwork

if TYPE_CHECKING:
    from actors.sim.world import World


UNWIND_ROUNDS_MAX = 100_000
"""Passes of the run loop in which a cancelled node must have ended. One pass unwinds a level of
nesting, or one task where the policy runs only one; this is far above any tree."""


NodeMain = Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]
"""A node: `async def main(env, task_status)`; calls `task_status.started(value)` when ready."""


class NodeState(enum.Enum):
    OFF = "off"  # never started, killed, stopped, or ended by itself
    RUNNING = "running"
    PAUSED = "paused"


class EndedWhileStarting(Exception):
    """The process was killed, stopped or lost power before it was ready."""


@attrs.define(eq=False)
class _Ready:
    """Passes `started` on, and remembers that it came."""

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
        """From here on nothing that this process does has an effect. Harmless when fenced."""
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
                    raise  # to whoever starts it
                # Else it was killed: what it says while it falls is not heard.
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
        disk: outlives every process. Tests may look into it while the node is off.
        failure: what the last process died of, until `take_failure`.
        boots: how often the node was started.
        secret_files: by path; they too outlive every process.
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
        """What one program on this machine knows; its name tells its chance from the others'."""
        rng = self.world.rng(f"{self.name}:{program}:secrets")
        return SimSecretStore(rng, self.secret_files)

    def wall_clock_ms(self) -> int:
        return virtual_wall_clock_ms() + self.skew_ms

    def take_failure(self) -> Exception | None:
        """What the node died of; the caller has expected it, so the world does not raise it."""
        failure, self.failure = self.failure, None
        return failure

    async def start(self, nursery: trio.Nursery, main: NodeMain) -> Any:
        assert self._process is None, f"{self.name} runs"
        assert self.failure is None, f"{self.name} failed and nobody asked why: {self.failure!r}"
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
