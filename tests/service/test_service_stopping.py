"""An ordered stop waits for peers that lack something, and no longer than `drain_timeout_s`."""

from __future__ import annotations

import re

import attrs
import pytest
import trio
from service_kit import ledger_alone

from actors.config import ClusterConfig
from actors.config.model import DRAIN_STANDS_S
from actors.errors import Closed
from actors.sim.cluster import SimCluster, classic_config

pytest_plugins = ["actors.sim.plugin"]
GROUP, LEDGER = "orders", "ledger"
DRAIN_S = 2.0


@pytest.fixture
def cluster_config() -> ClusterConfig:
    classic = classic_config()
    groups = {**classic.groups, **ledger_alone().groups}
    return attrs.evolve(classic, groups=groups, drain_timeout_s=DRAIN_S)


async def test_who_is_behind_is_waited_for_once(cluster: SimCluster) -> None:
    """A run ends the appends, waits, and looks at all of its nodes before it stops the first."""
    node = cluster.node("n0")
    cluster.world.network.cut_both("n0", "n1")
    await cluster.log(GROUP).append([b"n1 does not get it"])
    node.end_appends()
    with pytest.raises(Closed, match="n0 is stopping"):
        await cluster.log(GROUP).append([b"too late"])
    begun_s = trio.current_time()
    await trio.sleep(DRAIN_S / 2)
    node.end_appends()
    offsets = await cluster.log(GROUP, "n1").offsets()
    lag = (await cluster.log(GROUP, "n0").offsets()).written - offsets.written
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.drain)
        await trio.sleep(DRAIN_S / 4)
        assert node.drains_for == f"n1 lacks {lag} bytes of {GROUP}"
    assert node.drains_for == ""
    assert trio.current_time() - begun_s == pytest.approx(DRAIN_S, abs=0.1)


async def test_all_groups_are_waited_for_at_once(cluster: SimCluster) -> None:
    """And a status says for whom."""
    leader = cluster.master_of(LEDGER)
    if leader != "n0":
        await cluster.node(leader).transfer_leader(LEDGER, "n0")
    node = cluster.node("n0")
    node.config = attrs.evolve(node.config, drain_timeout_s=60.0)
    for name in ("n1", "n2"):
        cluster.world.network.cut_both("n0", name)
    async with trio.open_nursery() as nursery:
        for group in (GROUP, LEDGER):
            await node.submit(group, (b"nobody gets it",), lambda outcome: None)
        await trio.sleep(0.2)
        begun_s = trio.current_time()
        nursery.start_soon(node.drain)
        await trio.sleep(DRAIN_STANDS_S / 2)
        waits = (await node.status())["waits_for"]
        assert re.search(rf", a majority lacks \d+ entries of {LEDGER}$", waits)
        assert all(f"{name} lacks " in waits for name in ("n1", "n2"))
    assert trio.current_time() - begun_s == pytest.approx(DRAIN_STANDS_S, abs=0.5)
    assert (await node.status())["waits_for"] == ""


async def test_who_leads_says_that_a_majority_lacks_something(cluster: SimCluster) -> None:
    leader = cluster.master_of(LEDGER)
    node = cluster.node(leader)
    for name in cluster.names:
        if name != leader:
            cluster.world.network.cut_both(leader, name)
    async with trio.open_nursery() as nursery:
        await node.submit(LEDGER, (b"nobody gets it",), lambda outcome: None)
        await trio.sleep(DRAIN_S / 4)
        nursery.start_soon(node.drain)
        await trio.sleep(DRAIN_S / 4)
        assert node.drains_for == f"a majority lacks 1 entry of {LEDGER}"


async def test_who_takes_nothing_is_not_waited_for_long(cluster: SimCluster) -> None:
    """It hangs, or its machine has gone, and its connection stands until housekeeping ends that."""
    node = cluster.node("n0")
    node.config = attrs.evolve(node.config, drain_timeout_s=60.0)
    cluster.world.network.cut_both("n0", "n1")
    await cluster.log(GROUP).append([b"n1 does not get it"])
    begun_s = trio.current_time()
    await node.drain()
    assert trio.current_time() - begun_s == pytest.approx(DRAIN_STANDS_S, abs=0.5)
