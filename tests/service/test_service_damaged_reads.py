"""A reader goes on with another node where one has a record damaged and does not know it yet."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
from test_service_group_door import HOME, members, opened

from actors.client import reading
from actors.client.group_door import open_door
from actors.client.members import Members
from actors.config import ClusterConfig
from actors.errors import CorruptLog
from actors.log import Log
from actors.sim.cluster import SimCluster, classic_config
from actors.storage.commit_log import segment_path
from actors.storage.layout import StoreLayout

pytest_plugins = ["actors.sim.plugin"]
GROUP = "orders"
LINES = [b"line %d" % number * 20 for number in range(9)]


@pytest.fixture
def cluster_config() -> ClusterConfig:
    config = classic_config(nodes=3, group=GROUP, copies=3)
    return attrs.evolve(config, nodes={**config.nodes, HOME: "10.0.0.9"})


async def written(cluster: SimCluster, *, damaged: tuple[str, ...]) -> None:
    """The lines, of which the sixth is damaged in the log's last range on these nodes."""
    async with opened(cluster, GROUP) as (_, log):
        positions = [(await log.append([line])).first for line in LINES]
    await cluster.converged(GROUP)
    for name in damaged:
        layout = StoreLayout(cluster.config.group_dir(name, GROUP))
        path = segment_path(layout.commit_log, 0)
        cluster.world.node(name).disk.inode(path).flip_bit(positions[5] + 100, 1)


def first_n1(cluster: SimCluster, wait_s: float | None = None) -> Members:
    one = members(cluster, GROUP, wait_s=wait_s)
    one._order[:] = ["n1", "n0", "n2"]
    return one


async def test_read(cluster: SimCluster) -> None:
    await written(cluster, damaged=("n1",))
    one = partial(first_n1, cluster)
    async with open_door(one(), one()) as door:
        found, at = [], 0
        while len(found) < len(LINES):
            batch = await Log(door, GROUP).read(at)
            found += [each.body for each in batch.records]
            at = batch.next
        assert found == LINES
        assert door.reading.node != "n1"


async def test_tail(cluster: SimCluster) -> None:
    await written(cluster, damaged=("n1",))
    one = partial(first_n1, cluster)
    shown = bytearray()

    async def write(data: bytes) -> None:
        shown.extend(data)

    async with open_door(one(), one()) as door, trio.open_nursery() as nursery:
        nursery.start_soon(partial(reading.tail, door, GROUP, write, start=0, json=False))
        with trio.fail_after(30.0):
            while shown.count(b"\n") < len(LINES):  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert bytes(shown) == b"".join(line + b"\n" for line in LINES)


async def test_what_all_have_damaged_is_said(cluster: SimCluster) -> None:
    await written(cluster, damaged=("n0", "n1", "n2"))
    one = partial(first_n1, cluster, wait_s=3.0)
    async with open_door(one(), one()) as door:
        batch = await Log(door, GROUP).read(0)
        assert [each.body for each in batch.records] == LINES[:5]
        with pytest.raises(CorruptLog, match=f"record at {batch.next}"):
            await Log(door, GROUP).read(batch.next)
