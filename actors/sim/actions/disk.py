"""What can happen to a node's disk. OPERATING.md says what each has to lead to. `Runner` plays the
operator: it restarts nodes that a disk error has ended, and mends or empties nodes that refuse to
start.
"""

from __future__ import annotations

import errno
import random
from abc import abstractmethod
from typing import ClassVar

import attrs
import trio

from actors.sim.actions.action import LONG_S, SHORT_S, Action, Ground
from actors.sim.actions.runner import Runner
from actors.sim.actions.script import Fault
from actors.sim.disk.faults import DiskFaults, Operation

SKIP_MAX = 20


class SlowSync(Action[Runner]):
    """Every sync takes `extra` seconds longer."""

    name = "slow_sync"

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.05, 4.0)

    async def act(self, runner: Runner, fault: Fault) -> None:
        runner.began(fault)
        runner.cluster.disk(fault.node).faults.slow_syncs(fault.extra, fault.for_s)
        await trio.lowlevel.checkpoint()


class FailingDisk(Action[Runner]):
    """An operation on certain files fails, after `extra` operations that still worked.

    The node ends itself, or reports the failure and goes on; a node that ended is started again.
    """

    chance = 0.4
    most = 2

    def draw(self, rng: random.Random, ground: Ground) -> Fault:
        return attrs.evolve(super().draw(rng, ground), for_s=round(rng.uniform(SHORT_S, LONG_S), 3))

    def extra(self, rng: random.Random) -> float:
        return float(rng.choice([0, rng.randrange(SKIP_MAX)]))

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice(ground.path_parts)

    @abstractmethod
    def arm(self, faults: DiskFaults, fault: Fault) -> None:
        """Make the disk fail in the action's way."""

    async def act(self, runner: Runner, fault: Fault) -> None:
        disk = runner.cluster.disk(fault.node)
        before = sum(disk.faults.counts.values())
        self.arm(disk.faults, fault)
        runner.note("armed", str(fault))
        await trio.sleep(fault.for_s)
        disk.faults.disarm(str(fault))
        if sum(disk.faults.counts.values()) > before:
            runner.began(fault)
        await runner.up(fault.node)


class FailingOperation(FailingDisk):
    """An operation fails with an errno."""

    operation: ClassVar[Operation]
    code: ClassVar[int] = errno.EIO

    def arm(self, faults: DiskFaults, fault: Fault) -> None:
        faults.fail(
            self.operation,
            self.code,
            path_part=fault.where,
            skip=int(fault.extra),
            name=str(fault),
        )


class EioWrite(FailingOperation):
    """A write fails."""

    name = "eio_write"
    operation = "write"


class EioSync(FailingOperation):
    """A sync fails, and what it covered is not on the disk."""

    name = "eio_sync"
    operation = "sync"


class EioRead(FailingOperation):
    """A read fails."""

    name = "eio_read"
    operation = "read"


class ShortWrite(FailingDisk):
    """A write stores only a part of its bytes."""

    name = "short_write"

    def arm(self, faults: DiskFaults, fault: Fault) -> None:
        faults.shorten_write(path_part=fault.where, skip=int(fault.extra), name=str(fault))


class FilledDisk(FailingDisk):
    """Another program takes the disk's room for a while. No node may end because of that."""

    def extra(self, rng: random.Random) -> float:
        return 0.0

    def where(self, rng: random.Random, ground: Ground) -> str:
        return ""


class DiskFull(FilledDisk):
    """For a while there is no room for another page or name."""

    name = "disk_full"

    def arm(self, faults: DiskFaults, fault: Fault) -> None:
        faults.fill(fault.for_s)


class NoInodes(FilledDisk):
    """For a while there is no inode for another file."""

    name = "no_inodes"

    def arm(self, faults: DiskFaults, fault: Fault) -> None:
        faults.use_up_inodes(fault.for_s)


class BitRot(Action[Runner]):
    """A bit of a record flips, on the disk and in the cache. A node that reads it ends, or does not
    start, until the bit is put back.
    """

    name = "bit_rot"
    nodes_min = 2
    most = 2

    async def act(self, runner: Runner, fault: Fault) -> None:
        where = runner.atlas.flip_bit(fault.node, runner.rng(fault))
        if where is not None:
            runner.began(fault)
            runner.damaged(fault.node, where)
        await trio.sleep(fault.for_s)
        runner.repair(fault.node)
        if runner.has_died(fault.node):
            await runner.up(fault.node)


class OldSector(Action[Runner]):
    """The machine loses power, and a page that had been synced has its older content again."""

    name = "old_sector"
    nodes_min = 2
    restarts = True
    cuts_power = True

    async def act(self, runner: Runner, fault: Fault) -> None:
        if not runner.is_on(fault.node):
            return
        # noted before, because judges may look while it takes effect
        runner.note("power_loss", fault.node)
        await runner.cluster.power_loss(fault.node)
        where = runner.atlas.revert_page(fault.node, runner.rng(fault))
        if where is not None:
            runner.began(fault)
            runner.damaged(fault.node, where)
        await trio.sleep(fault.for_s)
        await runner.up(fault.node)
