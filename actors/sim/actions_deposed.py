"""A master that does not know that another one was promoted: what it shows is not fresh."""

from __future__ import annotations

import random
from typing import Final

import trio

from actors.sim.action import Action, Ground
from actors.sim.actions_operator import promoted
from actors.sim.actions_replace import became_whole
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault

PAUSED, CUT_OFF = "pause", "cut"
DEPOSED_FOR_S: Final = (1.0, 4.0)
"""In which its successor acknowledges some appends, and clients of the old one ask it."""


class DeposeUnheard(Action[FaultRunner]):
    """The master stands still, or is cut off (`where`), and another node is promoted; clients that
    have not heard of it ask the old one, which goes on `extra` seconds later.

    Nothing else is broken meanwhile: a promotion would be refused for most of that.
    """

    name = "depose_unheard"
    chance = 0.35
    most = 1
    alone = True

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return () if ground.spare_power or len(ground.names) < 3 else ground.names

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(*DEPOSED_FOR_S)

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice((PAUSED, CUT_OFF))

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        if not await became_whole(runner) or fault.node == runner.master:
            return
        cluster, old, new = runner.cluster, runner.master, fault.node
        if not runner.is_ready(new) or not runner.is_ready(old):
            return
        if fault.where == PAUSED:
            cluster.pause(old)
        else:
            cluster.cut(old)
        if await promoted(runner, new, new):
            runner.began(fault)
            async with runner.flowing():
                await trio.sleep(fault.extra)
                await self._mend(runner, old)
                await trio.sleep(fault.extra)
        await self._mend(runner, old)
        await became_whole(runner)

    async def _mend(self, runner: FaultRunner, old: str) -> None:
        runner.cluster.resume(old)
        runner.cluster.heal(old)
        runner.mended("heal", old)
        await trio.lowlevel.checkpoint()
