"""An operator who mends what has changed on a disk with `repair`, as README says."""

from __future__ import annotations

import random
from typing import Final

import trio

from actors.sim.action import Action, Ground
from actors.sim.actions_operator import TEND_LOOK_S, TEND_TIMEOUT_S, ask_repair, view_of
from actors.sim.actions_replace import became_whole
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault
from actors.storage.scrub.scrubber import ROUND_FIRST_S, ROUND_PAUSE_S

FOUND_S: Final = ROUND_FIRST_S + ROUND_PAUSE_S + 10.0
"""By then the scrub has read all, as these logs are short."""
MEMBERS_MIN: Final = 3
"""So many, and one has a good range where two are damaged."""
SLOW_S: Final = 1.0
SLOW_FOR_S: Final = 20.0
"""Syncs, so that a kill may come before the one of what was mended."""
KILL, POWER_LOSS, NEITHER = "kill", "power_loss", "neither"


class RotRepaired(Action[FaultRunner]):
    """A bit flips in an old file of a node, and in a group of three another one in the same file of
    another node. The scrubs find it, and `repair` is asked for both. In the middle of the first
    repair, after `extra` seconds, `where` happens to the node; it is started and asked again.

    Nothing else is broken meanwhile: see `NewDisk`.
    """

    name = "rot_repaired"
    chance = 0.3
    most = 1
    alone = True

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        if len(ground.names) < MEMBERS_MIN:
            return ()
        return (rng.choice([name for name in ground.names if name != node]),)

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 1.5)

    def where(self, rng: random.Random, ground: Ground) -> str:
        when = rng.choice((KILL, POWER_LOSS, NEITHER))
        return NEITHER if ground.spare_power else when

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        if not await became_whole(runner) or runner.atlas.damaged:
            return
        rng = runner.rng(fault)
        where = runner.atlas.flip_old_bit(fault.node, rng)
        if where is None:
            return
        runner.began(fault)
        runner.damaged(fault.node, where)
        nodes = [fault.node]
        for other in fault.others:
            there = runner.atlas.flip_old_bit(other, rng, beside=int(where.split()[0]))
            if there is not None:
                runner.damaged(other, there)
                nodes.append(other)
        await _found(runner, nodes)
        async with runner.flowing():
            if fault.where != NEITHER:
                await _broken_off(runner, fault)
            for name in nodes:
                await _repaired(runner, name)
        for name in nodes:
            _check(runner, name)
            runner.repair(name)
            await runner.up(name)


async def _found(runner: FaultRunner, names: list[str]) -> None:
    """Wait until each node that runs says that it is damaged."""
    with trio.move_on_after(FOUND_S):
        while not all(_is_told(runner, name) for name in names):  # noqa: ASYNC110 - virtual time
            await trio.sleep(TEND_LOOK_S)


def _is_told(runner: FaultRunner, name: str) -> bool:
    view = view_of(runner, name)
    return view is None or bool(view.damage)


async def _broken_off(runner: FaultRunner, fault: Fault) -> None:
    name = fault.node
    if not runner.is_ready(name):
        return
    runner.cluster.world.node(name).disk.faults.slow_syncs(SLOW_S, SLOW_FOR_S)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_repair, runner, name)
        await trio.sleep(fault.extra)
        if runner.is_ready(name):
            await (runner.cluster.kill if fault.where == KILL else runner.cluster.power_loss)(name)
    await runner.up(name)


async def _repaired(runner: FaultRunner, name: str) -> None:
    """Ask again and again, as long as there is damage, within an operator's patience."""
    with trio.move_on_after(TEND_TIMEOUT_S):
        while (view := view_of(runner, name)) is None or view.damage:
            await ask_repair(runner, name)
            await trio.sleep(TEND_LOOK_S)


def _check(runner: FaultRunner, name: str) -> None:
    """What a node calls good, and has still, is what was there before."""
    view = view_of(runner, name)
    if view is None or view.damage:
        return
    for damage in runner.atlas.damaged.get(name, []):
        now = runner.atlas.logs.durable(name, damage.start, damage.end)
        if now and now != damage.good and runner.atlas.is_there(name, damage):
            text = f"{name} calls its copy good, which is damaged from {damage.start} on"
            runner.history.violated("RepairedIsGood", trio.current_time(), text)
