"""After a promotion, delayed and half messages wait on the new master as its old one had them: in
queues made from the log, from the cursors of the metadata on.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from node_roles_kit import GROUP, becomes, cluster_in, promote
from pending_kit import (
    CHECKER,
    HALF,
    OP,
    delayed,
    half,
    op,
    pending_in,
    records_of,
    said,
    summed_up,
)

from actors.config import ClassicGroup
from actors.env.protocols import Disk
from actors.metadata.config_folder import ConfigFolder
from actors.sim.cluster import SimCluster
from actors.sim.world import open_world
from actors.storage.files.stepping import finish
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path
from actors.storage.tools.commitlog.backup import synced_mark
from actors.storage.tools.commitlog.pending import Cursors, Pending, find_pending
from actors.storage.tools.target import find_target
from wire.files.commit_log import Record

DELAY = {1: 2, 2: 0, 4: 1}
HALVES, OPS = 3, 1
"""The cursors that the old master has."""
SETTINGS: dict[str, Any] = {
    "broker_port": 10_921,
    "message_delay_level": "2s 6s 1m 3d",
    "segment_bytes": 1 << 20,
}
BEFORE = (
    *(delayed(level) for level in (1, 2, 3, 4, 1, 1, 4, 2)),
    *(half(f"h{number}") for number in range(6)),
    op(0, 1),
    op(2, 4),
    b"plain",
)
AFTER = (delayed(1), delayed(3), half("h6"), op(5), delayed(4))


def root_of(cluster: SimCluster, name: str) -> str:
    return cluster.config.group_dir(name, GROUP)


def give_cursors(disk: Disk, root: str) -> None:
    """In the files of its `config/`, as a broker leaves them."""
    config = StoreLayout(root).config
    disk.mkdir(config)
    half_at, op_at = f'"{HALF}@{CHECKER}":{{0:{HALVES}}}', f'"{OP}@{CHECKER}":{{0:{OPS}}}'
    levels = ",".join(f"{level}:{offset}" for level, offset in DELAY.items())
    for name, rows in (
        ("delayOffset.json", levels),
        ("consumerOffset.json", f"{half_at},{op_at}"),
    ):
        path = f"{config}/{name}"
        file = disk.open(path, "w" if disk.exists(path) else "x")
        data = b'{"offsetTable":{%b}}' % rows.encode()
        file.pwrite(data, 0)
        file.resize(len(data))
        file.sync()
        file.close()
    disk.sync_dir(config)


def has_cursors(cluster: SimCluster, name: str) -> bool:
    config = StoreLayout(root_of(cluster, name)).config
    disk = cluster.world.node(name).disk
    tables = ConfigFolder(disk, config, name).read()
    found = Cursors.of(tables.delay_offsets, tables.consumer_offsets)
    return (found.delay, found.half, found.op) == (DELAY, {0: HALVES}, {0: OPS})


def pending_on(cluster: SimCluster, name: str) -> Pending:
    """What `triolog storage pending` finds there."""
    disk, root = cluster.world.node(name).disk, root_of(cluster, name)
    (store,) = find_target(disk, root).stores
    tables = ConfigFolder(disk, StoreLayout(root).config, name).read()
    cursors = Cursors.of(tables.delay_offsets, tables.consumer_offsets)
    found: Pending = finish(find_pending(disk, store, cursors, synced_mark(disk, store)))  # type: ignore[arg-type]
    return found


def log_on(cluster: SimCluster, name: str) -> list[Record]:
    folder = StoreLayout(root_of(cluster, name)).commit_log
    disk = cluster.world.node(name).disk
    return records_of(disk.inode(segment_path(folder, 0)).read(0, 1 << 20))


async def settled(cluster: SimCluster, *names: str) -> None:
    """All hold the same log and the cursors, and their queues are on their disks."""
    await cluster.converged(GROUP)
    await trio.sleep(5.0)
    assert all(has_cursors(cluster, name) for name in names)


@pytest.mark.parametrize("ends", ["kill", "power loss"])
async def test_the_new_master_has_what_waits(autojump_clock: object, ends: str) -> None:
    async with open_world(7) as world:
        cluster = cluster_in(world, **SETTINGS)
        await cluster.start()
        await cluster.stop("n0")
        give_cursors(world.node("n0").disk, root_of(cluster, "n0"))
        await cluster.start("n0")
        for record in BEFORE:
            await cluster.log(GROUP).append([record])
        await settled(cluster, "n0", "n1", "n2")
        before = log_on(cluster, "n0")
        await (cluster.kill("n0") if ends == "kill" else world.power_loss("n0"))
        await promote(cluster, 1, "n1", "n2")
        await becomes(cluster, "n1", "open")
        group = cluster.config.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        levels = group.delay_levels_ms
        wanted = pending_in(before, levels, DELAY, HALVES, OPS)
        assert said(pending_on(cluster, "n1")) == summed_up(wanted)
        assert wanted[1] == [3, 5], "of which the old master had decided the others"
        for record in AFTER:
            await cluster.log(GROUP, "n1").append([record])
        await cluster.start("n0")
        await becomes(cluster, "n0", "following")
        await settled(cluster, "n0", "n1", "n2")
        wanted = pending_in(log_on(cluster, "n1"), levels, DELAY, HALVES, OPS)
        assert wanted[1] == [3, 6]
        for name in cluster.names:
            found = pending_on(cluster, name)
            assert said(found) == summed_up(wanted), name
            assert found.problems == ()
