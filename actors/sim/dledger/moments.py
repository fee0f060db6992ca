"""A member that dies at the worst moment: about when its sync ends, or while its log is cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import trio

from actors.events.dledger import LedgerTruncated
from actors.sim.action import Action, Ground
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.script import Fault
from actors.sim.world import SimEvent

SYNC_WAIT_S: Final = 10.0
CUT_WAIT_S: Final = 15.0
"""A leader that is back hears of the next one, and has its log compared, within so long."""
ALONE_S: Final = 4.0
"""So long the leader is cut off at least: clients still append there, and the others elect."""


class KillAfterSync(Action[LedgerRunner]):
    """A leader is killed `extra` seconds after a sync of its log has begun, about when it ends and
    before a quorum can have answered: what it holds may be committed, or not.
    """

    name = "kill_after_sync"
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 0.01)

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        leader = runner.groups.leader(runner.ledgers[0].name)
        if leader is None:
            return
        disk, begun = runner.cluster.world.node(leader).disk, trio.Event()

        def see(paths: Sequence[str]) -> None:
            if any(runner.log_part in path for path in paths):
                begun.set()

        disk.on_sync = see
        with trio.move_on_after(SYNC_WAIT_S):
            await begun.wait()
        if disk.on_sync is see:
            disk.on_sync = lambda paths: None
        if not begun.is_set():
            return
        await trio.sleep(disk.sync_duration_s() * 0.5 + fault.extra)
        if runner.is_on(leader):
            runner.began(fault)
            await runner.cluster.kill(leader)
            await trio.sleep(fault.for_s)
            await runner.up(leader)


class KillInCut(Action[LedgerRunner]):
    """The leader is cut off, and comes back with a tail that nobody else has. Whoever has to cut
    its log first then is killed `extra` seconds after it knows.
    """

    name = "kill_in_cut"
    chance = 0.4
    most = 2
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.choice([0.0, rng.uniform(0.0, 0.02)])

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        leader = runner.groups.leader(runner.ledgers[0].name)
        if leader is None:
            return
        begun, cutting = trio.Event(), [""]
        watches = runner.cluster.world.on_event

        def see(seen: SimEvent) -> None:
            if isinstance(seen.event, LedgerTruncated) and not begun.is_set():
                cutting[0] = seen.node
                begun.set()

        watches.append(see)
        runner.cluster.cut(leader)
        await trio.sleep(ALONE_S + fault.for_s)
        runner.cluster.heal(leader)
        runner.mended("heal", leader)
        with trio.move_on_after(CUT_WAIT_S):
            await begun.wait()
            await trio.sleep(fault.extra)
        watches.remove(see)
        node = cutting[0]
        if node and runner.is_on(node):
            runner.began(fault)
            await self.end(runner, node)
            await trio.sleep(fault.for_s)
            await runner.up(node)

    async def end(self, runner: LedgerRunner, node: str) -> None:
        """How it dies."""
        await runner.cluster.kill(node)


class PowerLossInCut(KillInCut):
    """The same, but its machine loses power."""

    name = "power_loss_in_cut"

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.unsteady

    async def end(self, runner: LedgerRunner, node: str) -> None:
        await runner.cluster.power_loss(node)
