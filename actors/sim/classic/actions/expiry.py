"""Log files become old, and are deleted while a slave is away."""

from __future__ import annotations

import errno
import random
from typing import Final

import trio

from actors.sim.actions.action import Action, Ground
from actors.sim.actions.script import Fault
from actors.sim.classic.actions.operator import refill
from actors.sim.classic.runner import FaultRunner
from actors.sim.disk import SimDisk
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.storage.log.expiry import HOUR_MS

READS_MAX: Final = 10_000
"""A bad sector stays bad, however often it is read."""
YEARS_MS: Final = 10 * 365 * 24 * HOUR_MS
AHEAD_MS: Final = HOUR_MS + 5 * 60_000
"""By how much clocks are set ahead: a file whose own time is wrong goes by its records', which its
master dated, whose clock may be two minutes ahead of the node's.
"""
LAG_MIN_S: Final = 2.0
LAG_MAX_S: Final = 12.0
REFUSED_S: Final = 6.0
"""In this time a slave that is back was refused if it needs what was deleted: it tries every
5 s."""


class Expire(Action[FaultRunner]):
    """A slave is cut off while its master deletes log files.

    `extra` seconds later every node's log files become an hour older, except the last, and `for_s`
    after that the slave is back. If it needs what its master has deleted, the operator empties it.
    """

    name = "expire"
    chance = 0.9

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[1:] if ground.expires else ()

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(LAG_MIN_S, LAG_MAX_S)

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        if fault.node == runner.master or not runner.is_on(fault.node):
            return
        runner.cluster.cut(fault.node)
        runner.cluster.reset(fault.node, runner.master)  # otherwise it gets what is under way
        await trio.sleep(fault.extra)
        if age(runner):
            runner.began(fault)
        await trio.sleep(fault.for_s)
        runner.cluster.heal(fault.node)
        runner.mended("heal", fault.node)
        await trio.sleep(REFUSED_S)
        await refill(runner)


class Misdate(Action[FaultRunner]):
    """The oldest log file of a node, if another full one follows, gets a time ten years ahead, as
    from a wrong clock.

    `for_s` later all clocks are more than an hour ahead. Nodes that then need what their master has
    deleted are emptied.
    """

    name = "misdate"
    chance = 0.8
    most = 1

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names if ground.expires else ()

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        layout = runner.cluster.layout(fault.node, runner.group.name)
        disk = runner.cluster.disk(fault.node)
        bases = segment_bases(disk, layout.commit_log)
        if not runner.is_ready(fault.node) or len(bases) < 3:
            return
        self.spoil(disk, segment_path(layout.commit_log, bases[0]), fault)
        await trio.sleep(fault.for_s)
        for name in runner.cluster.names:
            runner.cluster.world.node(name).skew_ms += AHEAD_MS
        runner.began(fault)
        await trio.sleep(REFUSED_S)
        self.mend(runner, disk, fault)
        await refill(runner)

    def spoil(self, disk: SimDisk, path: str, fault: Fault) -> None:
        """Spoil the oldest file in the action's way."""
        disk.inode(path).modified_ms += YEARS_MS

    def mend(self, runner: FaultRunner, disk: SimDisk, fault: Fault) -> None:
        """Undo what would otherwise last."""


class BadSector(Misdate):
    """The oldest log file of a node, if another full one follows, cannot be read, and is soon old.

    A node that does not need the file must not end because of that.
    """

    name = "bad_sector"
    alone = True

    def spoil(self, disk: SimDisk, path: str, fault: Fault) -> None:
        disk.faults.fail("read", errno.EIO, path_part=path, times=READS_MAX, name=str(fault))

    def mend(self, runner: FaultRunner, disk: SimDisk, fault: Fault) -> None:
        disk.faults.disarm(str(fault))
        runner.mended("readable", fault.node)


def age(runner: FaultRunner) -> int:
    """Make the full files of all logs an hour older. Returns: how many files there are."""
    count = 0
    for name in runner.cluster.names:
        disk = runner.cluster.disk(name)
        layout = runner.cluster.layout(name, runner.group.name)
        for base in segment_bases(disk, layout.commit_log)[:-1]:
            disk.inode(segment_path(layout.commit_log, base)).modified_ms -= HOUR_MS
            count += 1
    return count
