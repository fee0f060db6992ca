"""Faults in which members lose what they held, and in which the heads of logs expire."""

from __future__ import annotations

import random
from typing import Final

import trio

from actors.sim.actions.action import Action, Ground
from actors.sim.actions.script import Fault
from actors.sim.dledger.runner import ANSWER_S, LedgerRunner
from actors.storage.ledger.store import CLEAN_S
from actors.trees.ledger_setup import election_settings

OUTGROW_S: Final = 20.0
"""How long clients append more than usual, so that what a member lacks leaves the other members'
logs."""


class ExpireHead(Action[LedgerRunner]):
    """A node deletes the head of its logs, as after a snapshot of all that is committed.

    If the fault names another node, that node is down before, for a while, and all running nodes
    delete what it lacks. With a state machine only its snapshots may delete the head, so clients
    append until they have.
    """

    name = "expire"
    most = 3
    restarts = True

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        more = [name for name in ground.names if name != node]
        return (rng.choice(more),) if more and rng.random() < 0.6 else ()

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        away = [name for name in fault.others if runner.is_on(name)]
        for name in away:
            await runner.cluster.kill(name)
        await trio.sleep(fault.for_s)
        dropping = (fault.node,) if not away else runner.cluster.names
        if runner.cluster.with_machines:
            for group in runner.ledgers:
                if await runner.outgrow(group, runner.rng(fault), OUTGROW_S):
                    runner.began(fault)
            dropping = ()
        for name in dropping:
            if runner.is_ready(name):
                runner.began(fault)
                await self._drop(runner, name)
        await trio.sleep(CLEAN_S)
        for name in away:
            await runner.up(name)

    async def _drop(self, runner: LedgerRunner, name: str) -> None:
        for group in runner.ledgers:
            member = runner.cluster.running(name)
            if member is not None:
                with trio.move_on_after(ANSWER_S):
                    await member.drop_below(group.name, runner.chosen[group.name].end)


class LoseDisk(Action[LedgerRunner]):
    """A member gets an empty disk. Everything that it had acknowledged is gone with the old one, so
    an operator does this only while all members are well, and waits until the others hold all of
    it.
    """

    name = "lose_disk"
    chance = 0.4
    most = 2
    alone = True
    restarts = True
    nodes_min = 3

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        if runner.atlas.damaged or not await runner.all_well():
            return
        runner.began(fault)
        await runner.cluster.kill(fault.node)
        ends = {group.name: runner.chosen[group.name].end for group in runner.ledgers}
        if await runner.others_hold(fault.node, ends):
            runner.wipe(fault.node)
        await runner.up(fault.node)
        await runner.all_well()


class NewDisk(Action[LedgerRunner]):
    """A machine gets a new disk, or has its logs removed and its votes kept, while everything else
    goes on.

    What it held counts as lost until the member has caught up, and only a minority may lose its
    logs. So one machine at a time gets a new disk, some time after all members were well. Replacing
    a whole disk takes longer than a leader that gets no answers stays one (`core.votes`).
    """

    name = "new_disk"
    chance = 0.5
    most = 2
    restarts = True
    nodes_min = 3

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice(("disk", "logs"))

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        whole = fault.where == "disk"
        ends_s = [election_settings(group, fault.node).leak_s for group in runner.ledgers]
        async with runner.one_forgets:
            well = await runner.all_well()  # from now on every vote counts
            await trio.sleep(fault.for_s)  # and others may fall behind
            if not well or runner.atlas.damaged or not runner.is_on(fault.node):
                return
            runner.began(fault)
            await runner.cluster.kill(fault.node)
            runner.lose(fault.node, whole=whole)
            await trio.sleep(max(ends_s) if whole else fault.for_s)
            await runner.up(fault.node)
            await runner.all_well()


class Forget(Action[LedgerRunner]):
    """A member of groups in memory is killed, and starts with only its terms and votes.

    What it held counts as lost until the member has caught up, and only a minority may lose its
    logs. So this happens to one member at a time, once all are well. Meanwhile everything else goes
    on, and may separate the members that still hold their logs.
    """

    name = "forget"
    chance = 0.9
    restarts = True
    nodes_min = 3

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        async with runner.one_forgets:
            if not await runner.all_well():
                return
            runner.began(fault)
            await runner.cluster.kill(fault.node)
            await trio.sleep(fault.for_s)
            await runner.up(fault.node)
            await runner.all_well()
