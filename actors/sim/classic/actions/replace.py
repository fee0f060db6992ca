"""A slave that comes back with less than it had said: its disk, or all of it, was replaced. Or its
master's copy, from which it is to have everything, is damaged.
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
"""Each sync of the new disk takes so much longer, at first."""
SLOW_FOR_S: Final = 6.0
BEFORE, MEANWHILE, AFTER, NEVER = "before", "meanwhile", "after", "never"
"""When there is a new master, of a slave that is replaced."""
STARTS_SLOWLY_S: Final = 0.2
"""Each sync of a new machine: it hears the members while it acts by the cluster file's word still.
"""
HEARD_S: Final = 10.0
"""By then a slave that was started is connected: two attempts."""


class NewDisk(Action[FaultRunner]):
    """All slaves but one are cut off for `extra` seconds, in which appends wait that this one has
    reported. Then it gets a new, empty disk, which is slow at first. As soon as its master has
    heard it the others are back, and have what it lacks: what it said before counts no more.

    Nothing else is broken meanwhile: an operator who empties a node sees that the others are well.
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
    """A slave is replaced by a machine that knows nothing, not even which promotions there were.
    `where` says when another node is made master: before that, while the slave is off, just when
    it is back, or not at all. Appends go on.

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
    """A bit flips in an old file of the master, while another slave's copy is good; then a slave
    gets a new, empty disk, and is to copy it all. After `for_s` the operator mends the master's
    file.

    Nothing else is broken meanwhile: see `NewDisk`.
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
    """Whether a master has heard a slave's first report and begins to send."""
    match seen:
        case SimEvent(event=ha.HATransferStarted(slave=slave)):
            return slave == node
    return False
