"""Carries scripts out on a classic cluster, and does what only an operator of one does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import attrs
import trio

from actors.config import CommitLogGroup
from actors.errors import TriologError
from actors.log_types import Offsets
from actors.node.node import Node
from actors.sim.actions.runner import LOOK_S, Runner
from actors.sim.classic.atlas import FaultAtlas
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster

OFFSETS_TIMEOUT_S: Final = 1.0


@attrs.define(eq=False, kw_only=True)
class FaultRunner(Runner):
    """The runner of a classic cluster; see `Runner`.

    Attributes:
        cluster: the machines.
        group: the only group.
        flowing: makes small appends go on within a block.
        atlas: damages bytes, and knows what was damaged.
    """

    cluster: SimCluster
    group: CommitLogGroup
    flowing: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    atlas: FaultAtlas = attrs.field(init=False)
    log_part: str = attrs.field(default="commitlog", init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.atlas = FaultAtlas(
            cluster=self.cluster, group=self.group, logs=DiskLogBytes(self.cluster, self.group)
        )

    @property
    def master(self) -> str:
        return self.cluster.master_of(self.group.name)

    async def converged(self, within_s: float) -> Offsets:
        """Wait until all nodes hold the same, as `SimCluster.converged` does.

        A node whose disk had failed may have been still going down when all faults were undone: it
        is started again.

        Raises: NotConverged: they do not within `within_s`.
        """
        until_s = trio.current_time() + within_s
        while True:
            rest_s = until_s - trio.current_time()
            boots = self._boots()
            end = await self.cluster.converged(self.group.name, within_s=max(rest_s, 0.0))
            if self._boots() != boots:
                continue  # a node that the operator has started meanwhile was not compared
            down = [name for name in self.cluster.names if not self.is_on(name)]
            for name in down:
                await self.up(name)
            if any(name in self._starting for name in down):  # the operator is starting it
                await trio.sleep(LOOK_S)
            elif not any(map(self.is_on, down)):
                return end

    def _boots(self) -> list[int]:
        return [self.cluster.world.node(name).boots for name in self.cluster.names]

    # ---- for actions ----

    def runs_still(self, name: str, node: Node) -> bool:
        """Whether the node's process is still this one."""
        return self.is_on(name) and self.cluster.running(name) is node

    async def master_end(self) -> int | None:
        """Return the end of the master's log; None if it does not answer at once."""
        offsets: Offsets | None = None
        with trio.move_on_after(OFFSETS_TIMEOUT_S):
            try:
                offsets = await self.cluster.offsets(self.master, self.group.name)
            except TriologError:
                return None
        return offsets.written if offsets is not None else None

    def wipe(self, name: str, *, whole: bool = False) -> None:
        """Remove a slave's data, as an operator does; it then copies what the master has.

        Args:
            whole: whether to remove also what the node remembers of itself and of promotions.
        """
        disk = self.cluster.disk(name)
        root = self.cluster.layout(name, self.group.name).root
        if whole:
            root = self.cluster.config.node_dir(name)
        if disk.exists(root):
            disk.rmtree(root)
            with disk.faults.spared():
                disk.sync_dir(root.rpartition("/")[0])
        self.atlas.forget(name)
        self.cluster.expired.forget(name)
        self.note("wiped", name)

    # ---- inside ----

    def _tend(self, name: str) -> None:
        """Mend a node that rightly refuses to start, in one of the two ways of OPERATING.md."""
        rng = self.cluster.world.rng(f"tend:{name}:{self.cluster.world.node(name).boots}")
        if name != self.master and rng.random() < 0.5 and self.atlas.may_refill(name):
            self.wipe(name)
        else:
            self.repair(name)
