"""The machines of one configuration in a world, and what can be done to each of them: the process
on it is started, stopped and killed, and the network between them is cut and healed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import attrs
import trio

from actors.api.credentials import secret_path
from actors.config import ClusterConfig, Group, validate
from actors.env.local_secrets import SECRET_BYTES
from actors.env.protocols import Env
from actors.errors import Closed, NodeStopped, TriologError, UnknownName
from actors.log_types import Offsets
from actors.runtime import System
from actors.sim.disk import SimDisk
from actors.sim.world import NodeState, World

N = TypeVar("N")
R = TypeVar("R")

DATA_DIR = "/data"


def sim_config(nodes: int, groups: Iterable[Group], api_port: int | None = None) -> ClusterConfig:
    """Make the configuration of a cluster of nodes n0, n1, ... with an address each, and these
    groups.
    """
    config = ClusterConfig(
        name="sim",
        data_dir=DATA_DIR,
        nodes={f"n{number}": f"10.0.0.{number + 1}" for number in range(nodes)},
        groups={group.name: group for group in groups},
        api_port=api_port,
    )
    validate(config)
    return config


@attrs.define(eq=False)
class SimProcess(Generic[N]):
    """One start of a node.

    Attributes:
        name: the node's name.
        node: what runs.
        killed: whether it was killed or lost power; then none of its answers is heard.
    """

    name: str
    node: N
    killed: bool = False

    def death(self) -> NodeStopped | None:
        """Return the error that a caller gets instead of an answer, if the process was killed or
        lost power.
        """
        return NodeStopped(f"{self.name} died before it answered") if self.killed else None


class SimMachines(ABC, Generic[N]):
    """The nodes of one configuration in a world; a subclass says what runs on them (`main`).

    Args:
        world: the world; the machines are added to it.
        config: the cluster's configuration; `data_dir` is a path on every simulated disk.
        skews_ms: how far each node's clock is ahead, by name.

    Attributes:
        world: see above.
        config: see above.
    """

    def __init__(
        self, world: World, config: ClusterConfig, *, skews_ms: Mapping[str, int] | None = None
    ) -> None:
        self.world = world
        self.config = config
        self._processes: dict[str, SimProcess[N]] = {}
        skews = skews_ms or {}
        secret = world.rng("cluster secret").randbytes(SECRET_BYTES)
        for name in config.python_nodes:
            node = world.add_node(name, config.nodes[name], skew_ms=skews.get(name, 0))
            # as an operator copies it to all nodes
            node.secret_files[secret_path(config)] = secret

    @abstractmethod
    def system(self, node: N) -> System:
        """Return the actors of a running node."""

    @abstractmethod
    def main(self, name: str) -> Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]:
        """Return the program that runs on a node."""

    # ---- nodes ----

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, in the configuration's order."""
        return self.config.python_nodes

    def runs(self, name: str) -> bool:
        """Whether the node's process runs; a paused process does."""
        return self.world.node(name).state is not NodeState.OFF

    async def start(self, *names: str) -> None:
        """Start these nodes (without names, all that are off), and return when they are ready.

        Raises: what `main` raises for the first node that cannot start.
        """
        for name in names or [each for each in self.names if not self.runs(each)]:
            await self.world.start_node(name, self.main(name))

    async def stop(self, *names: str) -> None:
        """Stop these nodes in order, one after the other, as SIGTERM does (without names, all that
        run).
        """
        for name in names or [each for each in self.names if self.runs(each)]:
            await self.world.stop_node(name)

    async def kill(self, name: str) -> None:
        """Kill a process, as SIGKILL does: it has no effect any more, and what it wrote stays."""
        self._killed(name)
        await self.world.kill_node(name)

    async def power_loss(self, name: str) -> None:
        """Cut a machine's power: of everything that was not synced, any part survives."""
        self._killed(name)
        await self.world.power_loss(name)

    async def restart(self, name: str) -> None:
        """Start a node, after killing it if it runs."""
        if self.runs(name):
            await self.kill(name)
        await self.start(name)

    def pause(self, name: str) -> None:
        """Hold a process still, as SIGSTOP does, until `resume`."""
        self._check(name)
        self.world.pause_node(name)

    def resume(self, name: str) -> None:
        """Let a paused process go on, as SIGCONT does. Harmless if it is not paused."""
        self.world.resume_node(name)

    def node(self, name: str) -> N:
        """Return the running node. Raises: Closed: it is off."""
        return self.process(name).node

    def running(self, name: str) -> N | None:
        """The running node of that name; None if it is off, or still starting."""
        process = self._processes.get(name)
        return None if process is None else process.node

    def process(self, name: str) -> SimProcess[N]:
        """Return the process that runs on the node now. Raises: Closed: it is off; UnknownName."""
        process = self._processes.get(name)
        if process is None:
            self._check(name)
            raise Closed(f"{name} does not run")
        return process

    async def heard(self, name: str, call: Callable[[N], Awaitable[R]]) -> R:
        """Return a node's answer, if the node still runs when it is given.

        Raises: what `call` raises; Closed: the node is off; NodeStopped: it died before it
            answered.
        """
        process = self.process(name)
        try:
            answer = await call(process.node)
        except TriologError as error:
            raise process.death() or error from error
        death = process.death()
        if death is not None:
            raise death
        return answer

    def disk(self, name: str) -> SimDisk:
        """The disk of the node's machine."""
        return self.world.node(name).disk

    def began(self, name: str, node: N) -> None:
        """Record what runs on the node now; `main` calls this as soon as it is ready."""
        self._processes[name] = SimProcess(name, node)

    def ended(self, name: str) -> None:
        """Record that a node does not run any more, whatever ended it."""
        self._processes.pop(name, None)

    def _killed(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.killed = True

    # ---- network ----

    def cut(self, name: str, other: str | None = None) -> None:
        """Let nothing pass between `name` and `other` (None: all others), in either direction."""
        for each in self._others(name, other):
            self.world.network.cut_both(name, each)

    def cut_one_way(self, source: str, target: str) -> None:
        """Let nothing get from `source` to `target`; the other way is not touched."""
        self.world.network.cut(source, target)

    def heal(self, name: str | None = None, other: str | None = None) -> None:
        """Undo the cuts of a node, those between two nodes, or (None) everything that is wrong with
        the network.
        """
        if name is None:
            self.world.network.heal_all()
            return
        for each in self._others(name, other):
            self.world.network.heal_both(name, each)

    def reset(self, one: str, other: str) -> int:
        """Break all connections between two nodes, and return how many there were."""
        return self.world.network.reset(one, other)

    def forget(self, one: str, other: str) -> int:
        """Break the first node's ends of the connections between two nodes, and return how many
        there were.
        """
        return self.world.network.forget(one, other)

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise UnknownName(self.config.name, "node", name, self.names)

    def _others(self, name: str, other: str | None) -> list[str]:
        for each in (name, *([other] if other is not None else ())):
            self._check(each)
        return [other] if other is not None else [each for each in self.names if each != name]


class NotConverged(Exception):
    """The members still differ although they had time. The text says how far each one is."""

    def __init__(
        self, group: str, within_s: float, found: Mapping[str, Offsets], said: str = ""
    ) -> None:
        each = said or "; ".join(
            f"{name}: written {offsets.written}, synced {offsets.synced},"
            f" acknowledged {offsets.acknowledged}"
            for name, offsets in found.items()
        )
        super().__init__(f"{group}: not equal after {within_s:g} virtual seconds: {each}")
