"""Carries scripts out on a classic cluster: what an operator of one does, besides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import attrs
import trio

from actors.config import ClassicGroup
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
    """See `Runner`.

    Attributes:
        cluster: whose nodes and links.
        group: the one group.
        flowing: has small appends go on for as long as a block.
        atlas: what was damaged.
    """

    cluster: SimCluster
    group: ClassicGroup
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
        """As the cluster's, of all nodes. A node that was going down when all was mended, for its
        disk had failed before, ran still and was passed over: it is started again.

        Raises: NotConverged.
        """
        until_s = trio.current_time() + within_s
        while True:
            rest_s = until_s - trio.current_time()
            boots = self._boots()
            end = await self.cluster.converged(self.group.name, within_s=max(rest_s, 0.0))
            if self._boots() != boots:
                continue  # whom the operator has started meanwhile was not looked at
            down = [name for name in self.cluster.names if not self.is_on(name)]
            for name in down:
                await self.up(name)
            if any(name in self._starting for name in down):  # by the operator
                await trio.sleep(LOOK_S)
            elif not any(map(self.is_on, down)):
                return end

    def _boots(self) -> list[int]:
        return [self.cluster.world.node(name).boots for name in self.cluster.names]

    # ---- for actions ----

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

    def wipe(self, name: str, *, whole: bool = False) -> None:
        """The operator removes a slave's data: it copies what the master has.

        Args:
            whole: also what the node remembers of itself and of promotions.
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
        """A node refuses to start, rightly: mend it as OPERATING.md says, one way or the other."""
        rng = self.cluster.world.rng(f"tend:{name}:{self.cluster.world.node(name).boots}")
        if name != self.master and rng.random() < 0.5 and self.atlas.may_refill(name):
            self.wipe(name)
        else:
            self.repair(name)
