"""What members ask each other goes over the links that they have: no new connection, and how many
round trips a fresh read takes.
"""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.control.members import MemberLinks
from actors.events.client import APIConnectionOpened
from actors.log import Log
from actors.sim.cluster import SimCluster, classic_config

pytest_plugins = ["actors.sim.plugin"]
CLASSIC, LEDGER = "orders", "ledger"
ONE_WAY_S = 0.1
ROUND_TRIP_S = 2 * ONE_WAY_S


@pytest.fixture
def cluster_config() -> ClusterConfig:
    """Three nodes with a group of either kind, and so one link between each two."""
    classic = classic_config()
    ledger = DLedgerGroup(
        name=LEDGER,
        members=("n0", "n1", "n2"),
        data_file_bytes=64 << 10,
        index_file_bytes=64 << 10,
    )
    config = ClusterConfig(
        name=classic.name,
        data_dir=classic.data_dir,
        nodes=classic.nodes,
        groups={**classic.groups, LEDGER: ledger},
        api_port=classic.api_port,
    )
    validate(config)
    return config


def connections(cluster: SimCluster) -> list[str]:
    """Whose have come to the nodes' APIs so far."""
    events = [seen.event for seen in cluster.world.events]
    return [each.client for each in events if isinstance(each, APIConnectionOpened)]


def follower(cluster: SimCluster, group: str) -> str:
    return next(name for name in cluster.names if name != cluster.master_of(group))


async def settled(cluster: SimCluster) -> list[str]:
    """All links are there, and both groups have something."""
    for group in (CLASSIC, LEDGER):
        await cluster.log(group).append([b"one"])
        await cluster.converged(group)
    await trio.sleep(10)
    return connections(cluster)


async def test_two_nodes_have_one_link_in_each_direction(cluster: SimCluster) -> None:
    found = await settled(cluster)
    assert sorted(found) == [f"member {name}" for name in cluster.names for _ in range(2)]


@pytest.mark.parametrize("group", [CLASSIC, LEDGER])
async def test_a_fresh_read_opens_no_connection(cluster: SimCluster, group: str) -> None:
    before = await settled(cluster)
    log = cluster.log(group, follower(cluster, group))
    for _ in range(10):
        assert (await log.read(0, fresh=True)).records
    assert connections(cluster) == before


async def test_a_promotion_opens_no_connection(cluster: SimCluster) -> None:
    before = await settled(cluster)
    for coordinator, node in (("n0", "n1"), ("n2", "n0")):
        found = await cluster.node(coordinator).promote(CLASSIC, node, False)
        assert (found["master"], found["handed_over"]) == (node, True)
    assert connections(cluster) == before


async def test_fresh_reads_of_a_follower_share_their_questions(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that come during a question wait for the next: its answer must be younger than them."""
    await settled(cluster)
    asked, committed = [], MemberLinks.committed

    async def counted(links: MemberLinks, member: str, group: str) -> int:
        asked.append(member)
        return await committed(links, member, group)

    monkeypatch.setattr(MemberLinks, "committed", counted)
    log = cluster.log(LEDGER, follower(cluster, LEDGER))
    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(fresh_read, log)
    assert len(asked) <= 2


async def fresh_read(log: Log) -> None:
    assert (await log.read(0, fresh=True)).records


@pytest.mark.parametrize(("group", "round_trips"), [(CLASSIC, 1), (LEDGER, 2)])
async def test_a_fresh_read_takes_one_round_trip_and_what_confirms_it(
    cluster: SimCluster, group: str, round_trips: int
) -> None:
    """A slave asks all members at once; a DLedger leader asks a majority whether it still leads."""
    await settled(cluster)
    network = cluster.world.network
    network.options = attrs.evolve(
        network.options, latency_min_s=ONE_WAY_S, latency_mean_s=ONE_WAY_S, fragment_share=0.0
    )
    await trio.sleep(1)
    log = cluster.log(group, follower(cluster, group))
    before_s = trio.current_time()
    assert (await log.read(0, fresh=True)).records
    took = (trio.current_time() - before_s) / ROUND_TRIP_S
    assert took == pytest.approx(round_trips, abs=0.1)
