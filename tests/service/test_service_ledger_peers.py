"""What the status of a DLedger member says of the others."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Any

import pytest
import trio
from service_kit import GROUP, ledger_alone

from actors.config import ClusterConfig
from actors.dledger.leader_status import LATELY_S
from actors.errors import LogFull
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]
SOON_S = 5.0
"""Two of the heartbeats by which a leader hears of its peers."""


@pytest.fixture
def cluster_config() -> ClusterConfig:
    return ledger_alone()


async def said_by(cluster: SimCluster, node: str) -> dict[str, Any]:
    found: dict[str, Any] = (await cluster.node(node).status())["groups"][GROUP]
    return found


async def peer_of(cluster: SimCluster, peer: str) -> dict[str, Any]:
    """As the leader sees it."""
    said = await said_by(cluster, cluster.master_of(GROUP))
    return next(each for each in said["peers"] if each["node"] == peer)


def follower(cluster: SimCluster) -> str:
    return next(name for name in cluster.names if name != cluster.master_of(GROUP))


async def test_peers_of_a_healthy_leader(cluster: SimCluster) -> None:
    receipt = await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    said = await said_by(cluster, cluster.master_of(GROUP))
    others = [name for name in cluster.names if name != cluster.master_of(GROUP)]
    assert [peer["node"] for peer in said["peers"]] == others
    for peer in said["peers"]:
        assert 0 <= peer.pop("heard_age_s") < SOON_S
        assert peer == {
            "node": peer["node"],
            "state": "following",
            "is_well": True,
            "reason": "",
            "end": receipt.next,
            "lag": 0,
            "has_copy": True,
            "awaited": False,
            "refused": False,
            "bytes_per_s": None,
            "details": {},
        }


async def test_a_member_that_died_in_an_idle_group_is_seen(cluster: SimCluster) -> None:
    """Nothing is sent to it but heartbeats, and what it has acknowledged stays so."""
    receipt = await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    dead = follower(cluster)
    await cluster.kill(dead)
    await trio.sleep(60)
    found = await peer_of(cluster, dead)
    assert (found["state"], found["end"], found["lag"]) == ("silent", receipt.next, 0)
    assert found["heard_age_s"] > 50
    assert "refused" in found["reason"], "nobody listens there"
    await cluster.start(dead)
    await trio.sleep(SOON_S)
    found = await peer_of(cluster, dead)
    assert (found["state"], found["lag"], found["reason"]) == ("following", 0, "")


async def test_a_member_behind_a_cut_is_silent_and_then_catches_up(cluster: SimCluster) -> None:
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    leader, away = cluster.master_of(GROUP), follower(cluster)
    for ends in ((leader, away), (away, leader)):
        cluster.world.network.cut(*ends)
    for number in range(20):
        last = (await cluster.log(GROUP).append([b"%d" % number])).last
    await trio.sleep(SOON_S)
    found = await peer_of(cluster, away)
    assert cluster.master_of(GROUP) == leader
    assert (found["state"], found["lag"]) == ("silent", last + 1 - found["end"])
    assert found["lag"] >= 20
    assert found["reason"]
    cluster.world.network.heal_all()
    await cluster.converged(GROUP)
    await trio.sleep(SOON_S)
    found = await peer_of(cluster, away)
    assert (found["state"], found["lag"]) == ("following", 0)


async def test_a_lag_is_never_below_zero(cluster: SimCluster) -> None:
    """What the reader and the dispatchers have heard is of different moments."""
    async with trio.open_nursery() as nursery:

        async def feed() -> None:
            async with cluster.log(GROUP).appender() as out:
                for number in range(400):
                    await out.send(b"%d" % number)
                    if number % 20 == 0:
                        await trio.sleep(0.001)

        nursery.start_soon(feed)
        for _ in range(100):
            said = await said_by(cluster, cluster.master_of(GROUP))
            assert said["acknowledged"] <= said["written"]
            for peer in said["peers"]:
                assert peer["lag"] is None or peer["lag"] >= 0
                assert (peer["end"] or 0) <= said["written"]
            await trio.sleep(0.0003)


async def test_a_member_says_that_its_disk_takes_no_vote(cluster: SimCluster) -> None:
    full = follower(cluster)
    await cluster.kill(cluster.master_of(GROUP))
    assert (await said_by(cluster, full))["details"]["unsaved_vote"] == ""
    faults = cluster.world.node(full).disk.faults  # as where a reserve is none
    faults.fail("write", errno.ENOSPC, path_part="/currterm", times=1 << 30, name="full")
    await trio.sleep(60)
    said = await said_by(cluster, full)
    assert said["details"]["unsaved_vote"].startswith(
        f"cannot save its vote of term {said['epoch'] + 1}: "
    )
    faults.disarm("full")
    await trio.sleep(60)
    assert (await said_by(cluster, full))["details"]["unsaved_vote"] == ""


async def test_a_candidate_says_who_does_not_answer(cluster: SimCluster) -> None:
    alone = follower(cluster)
    others = [name for name in cluster.names if name != alone]
    for name in others:
        await cluster.kill(name)
    assert (await said_by(cluster, alone))["peers"] == (), "a follower hears its leader alone"
    await trio.sleep(60)
    said = await said_by(cluster, alone)
    assert said["role"] == "candidate"
    assert [peer["node"] for peer in said["peers"]] == others
    for peer in said["peers"]:
        assert (peer["state"], peer["end"], peer["lag"]) == ("silent", None, None)
        assert "refused" in peer["reason"]


async def test_a_dispatcher_that_is_started_again_is_no_failure(cluster: SimCluster) -> None:
    await cluster.log(GROUP).append([b"one"])
    leader, peer = cluster.master_of(GROUP), follower(cluster)
    node = cluster.node(leader)
    assert node._system is not None
    path = f"/{leader}/{GROUP}/entry_pusher/dispatchers/{peer}"
    await node._system.ref(path).tell(object())  # no part takes such a message
    await trio.sleep(0.1)
    found = await peer_of(cluster, peer)
    assert (found["state"], found["lag"]) == ("restarting", None)
    await trio.sleep(SOON_S)
    assert (await peer_of(cluster, peer))["state"] == "following"


async def test_who_comes_from_elsewhere_is_in_the_status_for_a_while(cluster: SimCluster) -> None:
    leader = cluster.master_of(GROUP)
    assert (await said_by(cluster, leader))["details"]["non_members"] == []
    cluster.world.add_node("elsewhere", "10.9.9.9")
    network = cluster.world.network.open("elsewhere")
    with suppress(ConnectionResetError):
        await network.connect(cluster.config.nodes[leader], cluster.config.groups[GROUP].port)
    await trio.sleep(1)
    assert (await said_by(cluster, leader))["details"]["non_members"] == ["10.9.9.9"]
    await trio.sleep(LATELY_S)
    assert (await said_by(cluster, leader))["details"]["non_members"] == []


async def troubles(cluster: SimCluster, name: str) -> tuple[str, ...]:
    found: tuple[str, ...] = (await said_by(cluster, name))["troubles"]
    return found


async def test_room_that_was_made_is_known_at_once(cluster: SimCluster) -> None:
    """No member leads for a while after its disk was full; nobody takes that for a full disk."""
    leader = cluster.master_of(GROUP)
    for name in cluster.names:
        cluster.world.node(name).disk.faults.fill(3600.0)
    with pytest.raises(LogFull):
        while True:
            await cluster.node(leader).log(GROUP).append([bytes(8000)])
    await trio.sleep(2)
    assert any(
        "takes no entries: its disk has no room; make some" in each
        for each in await troubles(cluster, leader)
    )
    for name in cluster.names:
        cluster.world.node(name).disk.faults.clear()
    await trio.sleep(1.1)
    for name in cluster.names:
        assert not any("has no room" in each for each in await troubles(cluster, name))
    rests = "stands for election again within 10 s: its disk had no room"
    assert rests in await troubles(cluster, leader)
    await trio.sleep(30)
    assert [await troubles(cluster, name) for name in cluster.names] == [(), (), ()]
    await cluster.log(GROUP).append([b"again"])
