"""A cluster in a simulated world: every node is the real `open_node`, unchanged.

Nodes are named as in the configuration. Each is a machine of its own, with its own address, disk
and clock. A test or a workload holds the same `Log` as an embedding program; here it stands in
front of whatever process runs on the node now, so it outlives restarts.

The caller is outside the machines. So an answer that a dying process still gives while it is being
unwound is not heard: the outcome is unknown (`NodeStopped`), as for a client whose server was
killed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import attrs
import trio

from actors.config import ClassicGroup, ClusterConfig, CommitLogGroup, Group, SlaveNode
from actors.env.protocols import Env
from actors.errors import Closed, NodeStopped, UnknownName
from actors.events import dledger as ledgers
from actors.events import ha, roles, store
from actors.log import AppendOutcome, Log
from actors.log_types import Chain, Found, NewRecord, Offsets, Receipt
from actors.node.node import Node
from actors.runtime import System
from actors.service import open_node
from actors.sim.disk.pages import Inode
from actors.sim.machines import NotConverged, SimMachines, SimProcess, sim_config
from actors.sim.world import SimEvent, World
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path

R = TypeVar("R")

API_PORT: Final = 8790
LOOK_S: Final = 0.1
"""How often `converged` checks, in virtual time, which costs nothing while nothing happens."""

OPEN_S: Final = 5.0
OPEN_LOOK_S: Final = 0.01

SMALL: Final[Mapping[str, Any]] = {
    "segment_bytes": 64 << 10,
    "consume_queue_bytes": 20 * 1024,
    "index_slots_count": 512,
    "index_units_count": 2048,
}
"""Settings with which files are so small that a short run fills several of each kind."""


@attrs.define(eq=False)
class ExpiredFiles:
    """Keeps log files that the nodes of one cluster have deleted for their age, so that checkers
    still compare whole logs.
    """

    _world: World
    _config: ClusterConfig
    _files: dict[tuple[str, str, int], Inode] = attrs.field(factory=dict, init=False)

    def see(self, seen: SimEvent) -> None:
        """Take an event as it comes, and keep the file if a node has deleted one for its age."""
        if not isinstance(seen.event, store.SegmentExpired):
            return
        group = self._config.groups[seen.path.split("/")[2]]
        if isinstance(group, CommitLogGroup):
            base = seen.event.min_bytes - group.segment_bytes
            folder = StoreLayout(self._config.group_dir(seen.node, group.name)).commit_log
            file = self._world.node(seen.node).disk.unlinked[segment_path(folder, base)]
            self._files[seen.node, group.name, base] = file

    def own(self, node: str, group: str, base: int) -> Inode | None:
        """Return the file that the node had at log offset `base`, if it has deleted it."""
        return self._files.get((node, group, base))

    def of(self, node: str, group: str, base: int) -> Inode | None:
        """Return a log file that a node has deleted, or, if the node's log began later, that
        another node has deleted.
        """
        others = [file for (_, *position), file in self._files.items() if position == [group, base]]
        return self.own(node, group, base) or next(iter(others), None)

    def forget(self, node: str) -> None:
        """Keep the files of a node that was emptied as nobody's: others' logs begin behind them."""
        files = {key: file for key, file in self._files.items() if key[0] != node}
        for (owner, group, base), file in self._files.items():
            if owner == node:
                files.setdefault(("", group, base), file)
        self._files = files


def classic_config(
    *, nodes: int = 3, group: str = "orders", api_port: int | None = API_PORT, **settings: Any
) -> ClusterConfig:
    """Make the configuration of `nodes` nodes: n0 is the master of one group, all others are its
    slaves.

    Args:
        settings: the group's settings, as in `[groups.NAME]`; `SMALL` and the defaults hold for the
            others.
    """
    assert 1 <= nodes <= 200, nodes
    names = [f"n{number}" for number in range(nodes)]
    one = ClassicGroup(
        name=group,
        master=names[0],
        slaves=tuple(SlaveNode(name) for name in names[1:]),
        **{**SMALL, **settings},
    )
    return sim_config(nodes, [one], api_port)


class SimCluster(SimMachines[Node]):
    """The nodes of one configuration in a world.

    Args:
        world: the world; the machines are added to it.
        config: the cluster's configuration; `data_dir` is a path on every simulated disk.
        skews_ms: how far each node's clock is ahead, by name.

    Attributes:
        world: see above.
        config: see above.
        expired: the log files that nodes have deleted for their age.
    """

    def __init__(
        self, world: World, config: ClusterConfig, *, skews_ms: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(world, config, skews_ms=skews_ms)
        self._masters = {
            name: next(each for each in group.members if group.role_of(each).appends)
            for name, group in config.groups.items()
        }
        self._numbers = dict.fromkeys(config.groups, 0)
        self.expired = ExpiredFiles(world, config)
        world.on_event += [self._saw, self.expired.see]

    # ---- nodes ----

    def master_of(self, group: str) -> str:
        """Return the member that opened the group last, by the newest promotion; at first the
        configured master, or any member if there is none.

        In a DLedger group it is the last elected leader. Raises: UnknownName: there is no such
        group.
        """
        return self._masters[self._group(group).name]

    def _saw(self, seen: SimEvent) -> None:
        match seen.event:
            case roles.GroupOpened(number=number):
                group = seen.path.rpartition("/")[2]
                # else an old one that has not learned of the newest promotion
                if number >= self._numbers[group]:
                    self._masters[group], self._numbers[group] = seen.node, number
            case ha.EpochBegun(epoch=number):
                group = seen.path.split("/")[2]
                if number >= self._numbers[group]:
                    self._masters[group], self._numbers[group] = seen.node, number
            case ledgers.RoleChanged(role="LEADER"):
                self._masters[seen.path.split("/")[2]] = seen.node
            case _:
                pass

    async def start(self, *names: str) -> None:
        """Start these nodes, all that are off if none is named; return when they are ready.

        With all members up, a group is ready when its master has heard them and takes appends. If
        it is not ready within `OPEN_S`, this returns all the same, and the test will meet the
        reason.

        Raises: what `open_node` raises for the first that cannot start.
        """
        await super().start(*names)
        with trio.move_on_after(OPEN_S):
            for group in self.config.groups:
                await self._wait_open(group)

    # ---- logs ----

    def log(self, group: str, node: str | None = None) -> Log:
        """Return a group's log as `node` shows it (None: as the present master does). It stays
        usable over restarts.

        While the node is off, its methods raise `Closed`.

        Raises: UnknownName: there is no such group, or the node is no member of it.
        """
        members = self._group(group).members
        if node is not None and node not in members:
            raise UnknownName(group, "member", node, members)
        return Log(NodeBackend(self, node), group)

    def layout(self, name: str, group: str) -> StoreLayout:
        """Return where a node has a group's files."""
        return StoreLayout(self.config.group_dir(name, group))

    async def offsets(self, name: str, group: str) -> Offsets:
        """Return how far a running node is in a group's log."""
        return await self.log(group, name).offsets()

    async def converged(self, group: str, *, within_s: float = 60.0) -> Offsets:
        """Wait until every running member holds, and shows, all that the master has written.

        Returns: the master's offsets.

        Raises:
            NotConverged: this takes longer than `within_s` of virtual time; the text says how far
                each member is.
            UnknownName: there is no such group.
        """
        synced = self._group(group).durability == "synced"
        found: dict[str, Offsets] = {}
        with trio.move_on_after(within_s):
            while True:
                members = [n for n in self._group(group).members if self.runs(n)]
                try:
                    found = {name: await self.offsets(name, group) for name in members}
                except (Closed, NodeStopped):  # it, or its group, is just being started again
                    found = {}
                master = self.master_of(group)
                if _equal(found, master, synced):
                    return found[master]
                await trio.sleep(LOOK_S)
        raise NotConverged(group, within_s, found)

    # ---- inside ----

    def _group(self, name: str) -> Group:
        if name not in self.config.groups:
            raise UnknownName(self.config.name, "group", name, self.config.groups)
        return self.config.groups[name]

    async def _wait_open(self, group: str) -> None:
        members = [each for each in self.config.groups[group].members if each in self.names]
        while nodes := [self.running(each) for each in members]:
            if None in nodes or any(node and node.is_open(group) for node in nodes):
                return
            await trio.sleep(OPEN_LOOK_S)

    def system(self, node: Node) -> System:
        return node.system

    def main(self, name: str) -> Callable[[Env, trio.TaskStatus[Any]], Awaitable[object]]:
        async def main(env: Env, task_status: trio.TaskStatus[Any]) -> None:
            try:
                async with open_node(self.config, name, env=env) as node:
                    self.began(name, node)
                    task_status.started(node)
                    await node.wait_stop_requested()
            finally:
                self.ended(name)

        return main


@attrs.frozen
class NodeBackend:
    """Implements `LogBackend` with the process that runs on one node now; a call stays with the
    process that took it.
    """

    _cluster: SimCluster
    _name: str | None  # None: the master

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        return await self._heard(group, lambda node: node.append(group, records))

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        process = self._process(group)
        await process.node.submit(
            group, records, lambda outcome: on_done(process.death() or outcome), chain
        )

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Found:
        return await self._heard(group, lambda node: node.read(group, start, max_bytes, fresh))

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        return await self._heard(group, lambda node: node.wait_acknowledged(group, above))

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        return await self._heard(group, lambda node: node.wait_offsets(group, known))

    def _process(self, group: str) -> SimProcess[Node]:
        return self._cluster.process(self._name or self._cluster.master_of(group))

    async def _heard(self, group: str, call: Callable[[Node], Awaitable[R]]) -> R:
        return await self._cluster.heard(self._name or self._cluster.master_of(group), call)


def _equal(found: Mapping[str, Offsets], master: str, synced: bool) -> bool:
    """Whether all members hold, and show, what the master has written."""
    if master not in found:
        return False
    end = found[master].written
    return all(
        (each.synced if synced else each.written) == each.written == each.acknowledged == end
        for each in found.values()
    )
