"""A data directory as real nodes leave it: event logs of a simulated cluster with a hard day.

Three nodes with a classic group and a DLedger group write through the real event log onto simulated
disks; the files are then copied, as they are, to a real folder.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import trio

from actors.config import ClusterConfig
from actors.errors import TriologError
from actors.events.codec import LoggedEvent
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.dledger.members import ledger_config
from actors.sim.scheduler import seed_schedule, virtual_clock
from actors.sim.world import open_world
from actors.storage.node import event_files
from actors.storage.node.event_reader import read_events

ORDERS = "orders"
LEDGER = "ledger"
PAUSE_S = 0.05


def two_groups() -> ClusterConfig:
    """`orders` on n0 with two slaves, `ledger` on the same three nodes; files of two seconds."""
    classic = classic_config(group=ORDERS)
    ledger = ledger_config(3, {LEDGER: {}})
    events = attrs.evolve(classic.events, roll_interval_s=2.0)
    return attrs.evolve(classic, groups={**classic.groups, **ledger.groups}, events=events)


async def feed(cluster: SimCluster, group: str, count: int) -> int:
    """Append one record after the other to whoever is master; returns how many were acknowledged.

    Errors are part of the day: the next record is tried a little later.
    """
    good = 0
    for number in range(count):
        with trio.move_on_after(5):
            try:
                await cluster.log(group).append([b"record %d" % number])
                good += 1
            except TriologError:
                await trio.sleep(4 * PAUSE_S)
        await trio.sleep(PAUSE_S)
    return good


async def hard_day(cluster: SimCluster) -> None:
    """A slave is cut off and comes back; the ledger's leader is killed and comes back."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed, cluster, ORDERS, 60)
        nursery.start_soon(feed, cluster, LEDGER, 60)
        await trio.sleep(1)
        cluster.cut("n2")
        await trio.sleep(1.5)
        cluster.heal("n2")
        await trio.sleep(0.5)
        leader = cluster.master_of(LEDGER)
        await cluster.kill(leader)
        await trio.sleep(3)
        await cluster.start(leader)
    await feed(cluster, ORDERS, 5)
    await cluster.converged(ORDERS)
    await cluster.stop()


@attrs.frozen
class Day:
    """A day's event logs on the real disk, and what is in them."""

    folder: Path
    events: dict[str, list[LoggedEvent]]

    @property
    def keys(self) -> list[tuple[str, int, int]]:
        """Of all events, sorted."""
        return sorted((e.node, e.boot, e.seq) for told in self.events.values() for e in told)

    @property
    def date(self) -> str:
        return event_files.date_of(self.events["n0"][0].ts_us)


def simulate(
    folder: Path, day: Callable[[SimCluster], Awaitable[None]] = hard_day, seed: str = "pipeline"
) -> dict[str, list[LoggedEvent]]:
    """Run a day and leave its event logs as `folder/NODE/events`; returns the events by node."""

    async def run() -> dict[str, list[LoggedEvent]]:
        async with open_world(seed) as world:
            cluster = SimCluster(world, two_groups())
            await cluster.start()
            await day(cluster)
            found = {}
            for node in cluster.names:
                disk = world.node(node).disk
                root = f"{cluster.config.data_dir}/{node}/events"
                found[node] = list(read_events(disk, root))
                for file in event_files.published(disk, root, node):
                    path = folder / node / "events" / file.path.removeprefix(f"{root}/")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(event_files.read_all(disk, file.path))
            return found

    seed_schedule(seed)
    return trio.run(run, clock=virtual_clock())
