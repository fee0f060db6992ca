"""What only scripts do to DLedger groups: no seed draws it, for it is about one moment that a drawn
run hardly comes to.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

import trio

from actors.sim.action import Action
from actors.sim.dledger.actions_machine import INSTALL_WAIT_S, OUTGROW_S
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.script import Fault
from actors.storage.ledger.snapshots import INSTALLED, TAKEN

THIS_ONE_S: Final = 1e-6
"""Only one sync begins within so long."""
MANY: Final = 1 << 30


class PassInstall(Action[LedgerRunner]):
    """A follower is down until its leader's log begins behind all that it has. It gets a snapshot,
    whose sync takes `extra` seconds longer. Meanwhile the leader ends for a while, and another
    member leads, which had no room for snapshots and so has the whole log: the follower's machine
    passes the snapshot.
    """

    name = "pass_install"
    alone = True
    restarts = True

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        group = runner.ledgers[0]
        if not await runner.all_well():
            return
        leader = runner.groups.leader(group.name)
        followers = [name for name in runner.cluster.names if name != leader]
        node = fault.node if fault.node in followers else followers[0]
        for name in followers:
            faults = runner.cluster.world.node(name).disk.faults
            faults.fail(
                "write", errno.ENOSPC, path_part=f"/snapshot/{TAKEN}/", times=MANY, name=self.name
            )
        await runner.cluster.kill(node)
        if await runner.outgrow(group, runner.rng(fault), OUTGROW_S):
            begun = await self._install(runner, fault, node)
            if begun and leader is not None and runner.is_on(leader):
                runner.began(fault)
                await runner.cluster.kill(leader)
                await trio.sleep(fault.for_s)
                await runner.up(leader)
        for name in followers:
            runner.cluster.world.node(name).disk.faults.disarm(self.name)
        await runner.up(node)
        await runner.all_well()

    async def _install(self, runner: LedgerRunner, fault: Fault, node: str) -> bool:
        """Whether the sync of a snapshot has begun there."""
        disk, begun = runner.cluster.world.node(node).disk, trio.Event()

        def see(paths: Sequence[str]) -> None:
            if any(f"/snapshot/{INSTALLED}/" in path for path in paths):
                disk.faults.slow_syncs(fault.extra, THIS_ONE_S)
                begun.set()

        disk.on_sync = see
        await runner.up(node)
        with trio.move_on_after(INSTALL_WAIT_S):
            await begun.wait()
        disk.on_sync = lambda paths: None
        return begun.is_set()


SCRIPTED_ACTIONS: Final[dict[str, Action[LedgerRunner]]] = {PassInstall.name: PassInstall()}
"""By name."""
