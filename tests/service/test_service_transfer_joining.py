"""Five members of a DLedger group, two of them down, and one that comes back on an empty disk: a
hand-over asked for meanwhile must not end the only leadership that it can catch up with."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.api.failures import RequestRefused
from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.errors import OutcomeUnknown
from actors.sim.cluster import SimCluster, classic_config

pytest_plugins = ["actors.sim.plugin"]
GROUP = "ledger"
MEMBERS = tuple(f"n{number}" for number in range(5))
ASKED_S = 20.0


@pytest.fixture
def cluster_config() -> ClusterConfig:
    ledger = DLedgerGroup(
        name=GROUP, members=MEMBERS, data_file_bytes=64 << 10, index_file_bytes=64 << 10
    )
    nodes = {name: f"10.0.0.{number}" for number, name in enumerate(MEMBERS, 1)}
    config = attrs.evolve(classic_config(), nodes=nodes, groups={GROUP: ledger})
    validate(config)
    return config


def empty_disk(cluster: SimCluster, name: str) -> None:
    disk, root = cluster.world.node(name).disk, cluster.config.node_dir(name)
    for folder in ("groups", "events"):
        disk.rmtree(f"{root}/{folder}")
    disk.unlink(f"{root}/identity.json")
    disk.sync_dir(root)


@pytest.mark.parametrize("pause_s", [0.02, 0.3, 1.0])
async def test_a_hand_over_beside_one_that_joins_leaves_the_group_a_leader(
    cluster: SimCluster, pause_s: float
) -> None:
    leader = cluster.master_of(GROUP)
    chosen, *down, joiner = [name for name in MEMBERS if name != leader]
    await cluster.log(GROUP).append([b"%d" % number for number in range(3000)])
    await cluster.converged(GROUP)
    for name in down:
        await cluster.kill(name)
    await trio.sleep(5)  # their heartbeats had no answer
    await cluster.kill(joiner)
    empty_disk(cluster, joiner)
    refusals = set[str]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.start, joiner)
        with trio.fail_after(ASKED_S):
            while True:
                await trio.sleep(pause_s)
                try:
                    await cluster.node(leader).transfer_leader(GROUP, chosen)
                    break
                except RequestRefused as refused:
                    refusals.add(str(refused))
                except OutcomeUnknown:
                    continue
    lacks = ", ".join(
        (*(f"{name} (is silent)" for name in down), f"{joiner} (is new or lacks its log)")
    )
    text = f"{chosen} could not be elected in {GROUP}: no votes of {lacks}"
    assert refusals <= {text}
    assert refusals or pause_s > 0.02
    with trio.fail_after(ASKED_S):
        while not cluster.node(chosen).is_open(GROUP):  # noqa: ASYNC110
            await trio.sleep(0.1)
    assert (await cluster.node(chosen).log(GROUP).append([b"after"])).count == 1
