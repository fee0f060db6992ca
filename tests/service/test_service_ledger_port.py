"""Several DLedger groups of a node behind one port."""

from __future__ import annotations

import attrs
import pytest
from test_service_ledger import GROUP, bodies
from test_service_ledger import cluster_config as one_group

from actors.config import ClusterConfig, validate
from actors.sim.cluster import SimCluster

__all__ = ["one_group"]

pytest_plugins = ["actors.sim.plugin"]
SECOND, PAIR = "second", "pair"


@pytest.fixture
def cluster_config(one_group: ClusterConfig) -> ClusterConfig:
    """Three groups with one port; the third has not all nodes."""
    ledger = one_group.groups[GROUP]
    pair = attrs.evolve(ledger, name=PAIR, members=("n0", "n1"))
    second = attrs.evolve(ledger, name=SECOND)
    found = attrs.evolve(one_group, groups={**one_group.groups, SECOND: second, PAIR: pair})
    validate(found)
    return found


async def test_each_group_has_its_own_log(cluster: SimCluster) -> None:
    for group in (GROUP, SECOND, PAIR):
        await cluster.log(group).append([group.encode()])
    for group in (GROUP, SECOND, PAIR):
        await cluster.converged(group)
        for name in cluster.config.groups[group].members:
            assert await bodies(cluster.log(group, name)) == [group.encode()]


async def test_one_server_stands_behind_the_groups(cluster: SimCluster) -> None:
    tree = await cluster.node("n0").tree()
    names = [child["path"] for child in tree["children"]]
    port = cluster.config.groups[GROUP].port
    assert names.index(f"/n0/{PAIR}") < names.index("/n0/rpc") < names.index("/n0/api")
    [rpc] = [child for child in tree["children"] if child["path"] == "/n0/rpc"]
    assert [child["path"] for child in rpc["children"]] == [f"/n0/rpc/port-{port}"]
    for child in tree["children"]:
        assert not any(each["path"].endswith("/rpc_server") for each in child["children"])


async def test_the_groups_go_on_after_a_restart_of_a_node(cluster: SimCluster) -> None:
    old = cluster.master_of(GROUP)
    for group in (GROUP, SECOND):
        await cluster.log(group).append([b"one"])
    await cluster.stop(old)
    await cluster.start(old)
    for group in (GROUP, SECOND):
        await cluster.converged(group)
        await cluster.log(group).append([b"two"])
        await cluster.converged(group)
        assert await bodies(cluster.log(group, old)) == [b"one", b"two"]
