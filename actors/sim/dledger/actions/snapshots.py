"""Faults of DLedger groups with a state machine: members end while a snapshot is written, received
or loaded, and a snapshot is damaged.
"""

from __future__ import annotations

import errno
import random
from functools import partial
from typing import Final

import attrs
import trio

from actors.events.dledger import DispatcherChanged, SnapshotLoaded, SnapshotSaved
from actors.sim.actions.action import Action, Ground
from actors.sim.actions.runner import Seen, came
from actors.sim.actions.script import Fault
from actors.sim.disk import SimDisk
from actors.sim.dledger.judges.machine import durable_snapshots, log_begin
from actors.sim.dledger.runner import LedgerRunner
from actors.sim.history import MachineDid
from actors.sim.world import SimEvent
from actors.storage.ledger.snapshots import INSTALLED, TAKEN
from wire.dledger.snapshot import DATA, folder_name

TAKING_WAIT_S: Final = 15.0
OUTGROW_S: Final = 30.0
INSTALL_WAIT_S: Final = 20.0
RECOVERY_WAIT_S: Final = 5.0
LOOK_S: Final = 0.0005
LOOKS_MAX: Final = 4000

INSTALLS: Final = f"/snapshot/{INSTALLED}/"
"""A part of the path of a snapshot that is being installed."""
PIECE: Final = "piece"
"""The moment when a part of it has arrived."""
SYNC: Final = "sync"
"""The moment when all of it has arrived and is being synced."""
SAVED: Final = "saved"
"""The moment when it is on the disk, under its name."""
LOADING: Final = "loading"
"""The moment when the state machine reads it."""
LOADED: Final = "loaded"
"""The moment when the state machine has loaded it, and the log has still to begin anew."""
MOMENTS: Final = (PIECE, SYNC, SAVED, LOADING, LOADED)
ENDS: Final = ("kill", "kill", "power", "power", "wipe", "leader")


class KillInSnapshot(Action[LedgerRunner]):
    """A member ends while it writes a snapshot of its own: the delay after the sync has begun is
    `extra` times a sync's duration. At the latest it has just given the snapshot its name.
    """

    name = "snapshot_kill"
    restarts = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 1.3)

    def where(self, rng: random.Random, ground: Ground) -> str:
        return "kill" if ground.spare_power else rng.choice(["kill", "power"])

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        disk = runner.cluster.disk(fault.node)
        with disk.syncing(f"/snapshot/{TAKEN}/") as begun:
            await came(begun, TAKING_WAIT_S)
        if begun.is_set():
            await trio.sleep(disk.sync_duration_s() * fault.extra)
            await runner.strike(fault, fault.node, fault.where)


class KillInInstall(Action[LedgerRunner]):
    """A member is down until the other members' logs begin after everything that it has.

    Then it gets a snapshot, and meanwhile it ends, loses its disk, or its leader ends: `where`
    names the moment and what happens.
    """

    name = "install_kill"
    chance = 0.8
    alone = True
    restarts = True
    nodes_min = 3

    def where(self, rng: random.Random, ground: Ground) -> str:
        how = rng.choice(ENDS)
        moments = MOMENTS[:-1] if how == "wipe" else MOMENTS
        if ground.spare_power and how == "power":
            how = "kill"
        return f"{rng.choice(moments)}-{how}"

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        moment, _, how = fault.where.partition("-")
        node, group = fault.node, runner.ledgers[0]
        if runner.atlas.damaged or not await runner.all_well():
            return
        await runner.cluster.kill(node)
        ends = {each.name: runner.chosen[each.name].end for each in runner.ledgers}
        wiped = how == "wipe" and await runner.others_hold(node, ends)
        if wiped:
            runner.wipe(node)
        if await runner.outgrow(group, runner.rng(fault), OUTGROW_S):
            disk = runner.cluster.disk(node)
            with runner.watching(_Moment(node, moment)) as come, disk.syncing(INSTALLS) as synced:
                if moment == SYNC:
                    come = synced
                await runner.up(node)
                await came(come, INSTALL_WAIT_S)
                if moment == PIECE:
                    folder = runner.logs[0].layout(node).snapshot
                    await _wait_path(disk, f"{folder}/{INSTALLED}", synced)
            if come.is_set() and runner.is_on(node):
                runner.began(fault)
                await self._strike(runner, fault, how, wiped=wiped)
        await runner.up(node)
        await runner.all_well()

    async def _strike(self, runner: LedgerRunner, fault: Fault, how: str, *, wiped: bool) -> None:
        """End the struck member. A disk is emptied again only if nothing on it was acknowledged."""
        leader = runner.cluster.leader(runner.ledgers[0].name)
        struck = leader if how == "leader" and leader is not None else fault.node
        await runner.end(struck, how)
        if wiped and runner.holds_nothing(fault.node):
            runner.wipe(fault.node)
        await trio.sleep(fault.for_s)
        await runner.up(struck)


class KillInRecovery(Action[LedgerRunner]):
    """A member ends, is started again, and ends while its state machine reads the snapshot from
    which it starts.
    """

    name = "recovery_kill"
    restarts = True

    def where(self, rng: random.Random, ground: Ground) -> str:
        return "kill" if ground.spare_power else rng.choice(["kill", "power"])

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        node = fault.node
        if not runner.is_on(node):
            return
        await runner.end(node, fault.where)
        await trio.sleep(fault.for_s)
        with runner.watching(partial(_loads, node)) as come:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runner.up, node)
                if await came(come, RECOVERY_WAIT_S) and runner.is_on(node):
                    runner.began(fault)
                    await runner.end(node, fault.where)
        await runner.up(node)


class SnapshotRot(Action[LedgerRunner]):
    """A bit of a member's newest snapshot flips while the member is down. An older snapshot exists,
    and the log after it; the member has to recover from these.
    """

    name = "snapshot_rot"
    restarts = True

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        node = fault.node
        if not runner.is_on(node):
            return
        await runner.cluster.kill(node)
        for log in runner.logs:
            disk, layout = log.disk(node), log.layout(node)
            kept = durable_snapshots(disk, layout)
            begin = log_begin(runner.chosen[log.group.name], log, node)
            if len(kept) > 1 and kept[-2] >= begin - 1:
                path = f"{layout.snapshot}/{folder_name(kept[-1])}/{DATA}"
                disk.flip_bits(path, 0, disk.stat(path).size_bytes)
                runner.began(fault)
        await trio.sleep(fault.for_s)
        await runner.up(node)


# ---- moments ----


@attrs.define
class _Moment:
    """Tells from events, and from what state machines do, whether a member that gets a snapshot has
    just reached a moment; for PIECE, whether it is about to. A snapshot that a start loads is not
    an installation.
    """

    node: str
    moment: str
    _saved: bool = False

    def __call__(self, seen: Seen) -> bool:
        if isinstance(seen, SimEvent) and isinstance(seen.event, DispatcherChanged):
            event = seen.event
            comes = event.peer == self.node and event.state == "INSTALL_SNAPSHOT"
            return comes and self.moment == PIECE
        if seen.node != self.node:
            return False
        match seen:
            case MachineDid(what="made"):
                self._saved = False
            case MachineDid(what="loads"):
                return self.moment == LOADING and self._saved
            case SimEvent(event=SnapshotSaved(installed=True)):
                self._saved = True
                return self.moment == SAVED
            case SimEvent(event=SnapshotLoaded()):
                return self.moment == LOADED and self._saved
        return False


def _loads(node: str, seen: Seen) -> bool:
    return isinstance(seen, MachineDid) and (seen.node, seen.what) == (node, "loads")


async def _wait_path(disk: SimDisk, path: str, synced: trio.Event) -> None:
    """Return when the path exists, at the latest when a sync of it is about to begin."""
    for _ in range(LOOKS_MAX):
        if disk.exists(path):
            return
        with trio.move_on_after(LOOK_S):
            await synced.wait()


THIS_ONE_S: Final = 1e-6
"""A time so short that only one sync begins within it."""
MANY: Final = 1 << 30


class PassInstall(Action[LedgerRunner]):
    """A follower is down until its leader's log begins after everything that it has, and gets a
    snapshot, whose sync takes `extra` seconds longer.

    Meanwhile the leader ends for a while. Another member leads, which had no room for snapshots and
    so has the whole log: the follower's state machine gets past the snapshot by entries.
    """

    name = "pass_install"
    alone = True
    restarts = True

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        group = runner.ledgers[0]
        if not await runner.all_well():
            return
        leader = runner.cluster.leader(group.name)
        followers = [name for name in runner.cluster.names if name != leader]
        node = fault.node if fault.node in followers else followers[0]
        for name in followers:
            runner.cluster.disk(name).faults.fail(
                "write", errno.ENOSPC, path_part=f"/snapshot/{TAKEN}/", times=MANY, name=self.name
            )
        await runner.cluster.kill(node)
        if await runner.outgrow(group, runner.rng(fault), OUTGROW_S):
            begun = await self._install(runner, fault, node)
            if begun and leader is not None:
                await runner.strike(fault, leader)
        for name in followers:
            runner.cluster.disk(name).faults.disarm(self.name)
        await runner.up(node)
        await runner.all_well()

    async def _install(self, runner: LedgerRunner, fault: Fault, node: str) -> bool:
        """Whether the sync of a snapshot has begun on the node."""
        disk = runner.cluster.disk(node)
        slow = partial(disk.faults.slow_syncs, fault.extra, THIS_ONE_S)
        with disk.syncing(INSTALLS, then=slow) as begun:
            await runner.up(node)
            return await came(begun, INSTALL_WAIT_S)
