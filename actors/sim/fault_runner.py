"""Carries scripts out, keeps the nodes running, and knows which failures it has caused itself."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs
import trio

from actors.config import ClassicGroup
from actors.errors import CorruptLog, TriologError
from actors.log_types import Offsets
from actors.node import Node
from actors.runtime.errors import describe
from actors.sim.action import Action
from actors.sim.atlas import FaultAtlas
from actors.sim.cluster import SimCluster
from actors.sim.failures import Excuses
from actors.sim.history import FaultInjected, History
from actors.sim.log_bytes import DiskLogBytes
from actors.sim.script import Fault, Script
from actors.sim.world import EndedWhileStarting, NodeState
from actors.storage.layout import StoreLayout

STARTS_MAX: Final = 40
"""A node that is killed while it starts, or finds its disk bad, is started again; so often in a row
is a defect."""
START_AGAIN_S: Final = 0.5
"""After a start that a disk fault ended."""
OFFSETS_TIMEOUT_S: Final = 1.0
LOOK_S: Final = 0.1


@attrs.define(eq=False)
class FaultRunner:
    """Carries scripts out on one cluster.

    Attributes:
        cluster: whose nodes and links.
        group: the one group.
        history: is told of everything that took effect.
        actions: by name.
        atlas: what was damaged.
        counts: how often each kind took effect.
    """

    cluster: SimCluster
    group: ClassicGroup
    history: History
    actions: Mapping[str, Action]
    atlas: FaultAtlas = attrs.field(init=False)
    counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _excuses: Excuses = attrs.field(factory=Excuses, init=False)
    _starting: dict[str, None] = attrs.field(factory=dict, init=False)
    _acting: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.atlas = FaultAtlas(
            cluster=self.cluster, group=self.group, logs=DiskLogBytes(self.cluster, self.group)
        )
        for node in self.cluster.world.nodes:
            node.disk.faults.on_effect = partial(self._feel, node.name)

    @property
    def master(self) -> str:
        return self.cluster.master_of(self.group.name)

    async def run(self, script: Script) -> None:
        """Return when every fault has begun and mended itself."""
        begin_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for fault in script:
                await trio.sleep_until(begin_s + fault.at_s)
                if not self.actions[fault.kind].alone:
                    self._acting += 1
                    nursery.start_soon(self._act, fault)
                    continue
                while self._acting:  # noqa: ASYNC110 - virtual time costs nothing
                    await trio.sleep(LOOK_S)
                await self.actions[fault.kind].act(self, fault)

    async def mend(self) -> None:
        """Heal everything, and have every node run."""
        self.cluster.heal()
        self.mended("heal", "all")
        for name in self.cluster.names:
            self.cluster.resume(name)
            self.cluster.world.node(name).disk.faults.clear()
        for name in self.cluster.names:
            self.repair(name)
            await self.up(name)

    async def converged(self, within_s: float) -> Offsets:
        """As the cluster's, of all nodes. Who was on its way down when all was mended, for its disk
        had failed before, ran still and was passed over: it is started again.

        Raises: NotConverged.
        """
        until_s = trio.current_time() + within_s
        while True:
            rest_s = until_s - trio.current_time()
            end = await self.cluster.converged(self.group.name, within_s=max(rest_s, 0.0))
            down = [name for name in self.cluster.names if not self.is_on(name)]
            for name in down:
                await self.up(name)
            if not any(map(self.is_on, down)):
                return end

    # ---- for actions ----

    def rng(self, fault: Fault) -> random.Random:
        """Chance for one line of a script, whatever the other lines are."""
        return self.cluster.world.rng(f"act:{fault}")

    def began(self, fault: Fault) -> None:
        """A fault has taken effect."""
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        self.note(fault.kind, fault.text)

    def mended(self, kind: str, where: str) -> None:
        """Something was undone, or is there again."""
        self.note(kind, where)

    def note(self, kind: str, where: str) -> None:
        self.cluster.world.fingerprint.note(f"{kind} {where}")
        seen = FaultInjected(at_s=trio.current_time(), kind=kind, where=where)
        self._excuses.learn(seen)
        self.history.add(seen)

    def has_died(self, name: str) -> bool:
        """Whether it ended by itself, and nobody has looked why."""
        return self.cluster.world.node(name).failure is not None

    def is_on(self, name: str) -> bool:
        return self.cluster.runs(name)

    def is_ready(self, name: str) -> bool:
        """Whether it runs, is not paused, and nobody is just starting or killing it."""
        if self.cluster.world.node(name).state is not NodeState.RUNNING or name in self._starting:
            return False
        return self.cluster.running(name) is not None

    def runs_still(self, name: str, node: Node) -> bool:
        """Whether it is still this process that runs there."""
        return self.is_on(name) and self.cluster.running(name) is node

    async def master_end(self) -> int | None:
        """The end of the master's log, if it says so at once."""
        offsets: Offsets | None = None
        with trio.move_on_after(OFFSETS_TIMEOUT_S):
            try:
                offsets = await self.cluster.offsets(self.master, self.group.name)
            except TriologError:
                return None
        return offsets.written if offsets is not None else None

    async def up(self, name: str) -> None:
        """Have the node run, whoever else wants the same."""
        if name in self._starting:
            return
        self._starting[name] = None
        try:
            for _ in range(STARTS_MAX):
                if self.cluster.runs(name):
                    return
                self.notice_failure(name)
                if not await self._start(name):
                    return
            raise AssertionError(f"{name} was ended {STARTS_MAX} times while it started")
        finally:
            del self._starting[name]

    def notice_failure(self, name: str) -> None:
        """A node that has died of itself breaks a rule, unless its disk was made to fail."""
        node = self.cluster.world.node(name)
        failure = node.take_failure()
        if failure is None:
            return
        text = describe(failure)
        if self._excuses.cover(name, text):
            self.note("died", f"{name} of its disk")
        else:
            now_s = trio.current_time()
            self.history.violated("NothingFails", now_s, f"{name} died: {text}")

    def repair(self, name: str) -> None:
        """The operator puts the damaged bytes back, from another node's copy."""
        for text in self.atlas.repair(name):
            self.note("repaired", f"{name} {text}")

    def wipe(self, name: str) -> None:
        """The operator removes a slave's data: it copies what the master has."""
        disk = self.cluster.world.node(name).disk
        root = StoreLayout(self.cluster.config.group_dir(name, self.group.name)).root
        if disk.exists(root):
            disk.rmtree(root)
            disk.sync_dir(root.rpartition("/")[0])
        self.atlas.forget(name)
        self.note("wiped", name)

    # ---- inside ----

    async def _act(self, fault: Fault) -> None:
        try:
            await self.actions[fault.kind].act(self, fault)
        finally:
            self._acting -= 1

    async def _start(self, name: str) -> bool:
        """Start it once. False if it is of no use to try again."""
        self.note("start", name)
        try:
            await self.cluster.start(name)
        except EndedWhileStarting:
            await trio.lowlevel.checkpoint()
        except Exception as error:  # noqa: BLE001 - whatever a node may say of its start
            if not self._excuses.cover(name, describe(error)):
                return self._cannot_start(name, error)
            damaged = isinstance(error, CorruptLog)
            self.note("refused to start" if damaged else "start failed", name)
            await trio.sleep(START_AGAIN_S)
            if damaged:
                self._tend(name)
        return True

    def _cannot_start(self, name: str, error: Exception) -> bool:
        now_s = trio.current_time()
        self.history.violated("NodesStart", now_s, f"{name} cannot start: {describe(error)}")
        return False

    def _tend(self, name: str) -> None:
        """A node refuses to start, rightly: mend it as README says, one way or the other."""
        rng = self.cluster.world.rng(f"tend:{name}:{self.cluster.world.node(name).boots}")
        if name != self.master and rng.random() < 0.5 and self.atlas.may_refill(name):
            self.wipe(name)
        else:
            self.repair(name)

    def _feel(self, name: str, what: str) -> None:
        """A disk fault took effect."""
        self.note("felt", f"{name} {what}")
