"""Slaves that come back with less than they had reported, because disk or machine was replaced; and
a master whose copy is damaged when such a slave needs it.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from actors.events import ha
from actors.sim.actions.action import Action, Ground, PairAction
from actors.sim.actions.runner import Seen, came
from actors.sim.actions.script import Fault
from actors.sim.classic.actions.operator import (
    became_whole,
    caught_up,
    follows,
    promoted,
)
from actors.sim.classic.runner import FaultRunner
from actors.sim.world import SimEvent

SLOW_S: Final = 1.5
"""How much longer each sync of the new disk takes at first, in seconds."""
SLOW_FOR_S: Final = 6.0
BEFORE, MEANWHILE, AFTER, NEVER = "before", "meanwhile", "after", "never"
"""When a new master is promoted, relative to the replacement of the slave."""
STARTS_SLOWLY_S: Final = 0.2
"""How much longer each sync of a new machine takes, in seconds, so that members reach it while it
still acts by the cluster file alone."""
HEARD_S: Final = 10.0
"""In this time a slave that was started is connected: two attempts."""


class NewDisk(Action[FaultRunner]):
    """A slave gets a new, empty disk, while appends wait that only it has reported.

    All other slaves are cut off for `extra` seconds before. The new disk is slow at first. As soon
    as the master has heard the slave, the others are back; what the slave reported before must not
    count any more.

    Nothing else is broken meanwhile, because an operator who empties a node makes sure that the
    others are well.
    """

    name = "new_disk"
    chance = 0.4
    alone = True

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[1:] if len(ground.names) > 2 else ()

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.5, 2.0)

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        cluster, node = runner.cluster, fault.node
        if not await became_whole(runner) or node == runner.master or runner.atlas.damaged:
            return
        others = [name for name in cluster.names if name not in (node, runner.master)]
        for name in others:
            cluster.cut(runner.master, name)
        await trio.sleep(fault.extra)
        end = await runner.master_end()
        if end is not None and runner.is_ready(node) and runner.atlas.may_refill(node):
            runner.began(fault)
            await cluster.kill(node)
            runner.wipe(node)
            runner.cluster.disk(node).faults.slow_syncs(SLOW_S, SLOW_FOR_S)
            with runner.watching(partial(_heard, node)) as event:
                await runner.up(node)
                await came(event, HEARD_S)
        for name in others:
            cluster.heal(runner.master, name)
        runner.mended("heal", " ".join(others))
        await caught_up(runner, node, end)


class NewMachine(PairAction[FaultRunner]):
    """A slave is replaced by a machine that knows nothing, not even past promotions, while appends
    go on.

    `where` says when another node is made master: before that, while the slave is off, just when it
    is back, or not at all.

    Nothing else is broken meanwhile, as for a new disk.
    """

    name = "new_machine"
    chance = 0.4
    most = 2
    alone = True
    restarts = True
    nodes_min = 3

    def where(self, rng: random.Random, ground: Ground) -> str:
        when = rng.choice((BEFORE, BEFORE, MEANWHILE, AFTER, NEVER))
        return NEVER if ground.spare_power else when

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        node, chosen, when = fault.node, fault.others[0], fault.where
        if not await became_whole(runner) or runner.atlas.damaged:
            return
        if when == BEFORE and chosen != runner.master:
            await promoted(runner, chosen, chosen)
        if not await became_whole(runner) or node == runner.master:
            return
        end = await runner.master_end()
        if end is None or not runner.is_ready(node) or not runner.atlas.may_refill(node):
            return
        runner.began(fault)
        async with runner.flowing():
            await runner.cluster.kill(node)
            runner.wipe(node, whole=True)
            runner.cluster.disk(node).faults.slow_syncs(STARTS_SLOWLY_S, SLOW_FOR_S)
            if when == MEANWHILE and chosen != runner.master:
                await promoted(runner, chosen, chosen)
            await runner.up(node)
            if when == AFTER and chosen != runner.master:
                await promoted(runner, chosen, chosen)
            await follows(runner, node)
        await caught_up(runner, node, end)


class RottenSource(Action[FaultRunner]):
    """A bit flips in an old file of the master, and then a slave gets a new, empty disk and has to
    copy that file.

    Another slave's copy is good. After `for_s` the operator mends the master's file. Nothing else
    is broken meanwhile: see `NewDisk`.
    """

    name = "rotten_source"
    chance = 0.3
    alone = True

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[1:] if len(ground.names) > 2 else ()

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        cluster, node = runner.cluster, fault.node
        if not await became_whole(runner) or node == runner.master or runner.atlas.damaged:
            return
        if not runner.is_ready(node) or not runner.atlas.may_refill(node):
            return
        source, end = runner.master, await runner.master_end()
        where = runner.atlas.flip_old_bit(source, runner.rng(fault))
        if where is None or end is None:
            runner.repair(source)
            return
        runner.began(fault)
        runner.damaged(source, where)
        await cluster.kill(node)
        runner.wipe(node)
        await runner.up(node)
        await trio.sleep(fault.for_s)
        runner.repair(source)
        await runner.up(source)
        await caught_up(runner, node, end)


def _heard(node: str, seen: Seen) -> bool:
    """Whether an observation is that a master has heard a slave's first report and begins to
    send.
    """
    match seen:
        case SimEvent(event=ha.HATransferStarted(slave=slave)):
            return slave == node
    return False
