"""An ordered stop waits for peers that lack something, and no longer than `drain_timeout_s`."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.config import ClusterConfig
from actors.errors import Closed
from actors.sim.cluster import SimCluster, classic_config

pytest_plugins = ["actors.sim.plugin"]
GROUP = "orders"
DRAIN_S = 2.0


@pytest.fixture
def cluster_config() -> ClusterConfig:
    return attrs.evolve(classic_config(), drain_timeout_s=DRAIN_S)


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
    await node.drain()
    assert trio.current_time() - begun_s == pytest.approx(DRAIN_S, abs=0.1)
