"""Leadership of a DLedger group handed over on purpose, as a node's API is asked to."""

from __future__ import annotations

import pytest
import trio
from test_service_ledger import GROUP, bodies, cluster_config, other

from actors.api.failures import RequestRefused
from actors.control.members import MemberLinks
from actors.errors import NotMaster, OutcomeUnknown
from actors.group_status import group_statuses
from actors.log_types import GroupState
from actors.sim.cluster import SimCluster

__all__ = ["cluster_config"]

pytest_plugins = ["actors.sim.plugin"]


async def leads(cluster: SimCluster, name: str) -> None:
    with trio.fail_after(10):
        while not cluster.node(name).is_open(GROUP):  # noqa: ASYNC110
            await trio.sleep(0.1)


async def test_the_named_member_leads_and_nothing_is_lost(cluster: SimCluster) -> None:
    old, new = cluster.master_of(GROUP), other(cluster)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    term = (await cluster.node(old).status())["groups"][GROUP]["epoch"]
    found = await cluster.node(old).transfer_leader(GROUP, new)
    assert found == {"group": GROUP, "leader": new, "old_leader": old, "term": term + 1}
    await leads(cluster, new)
    assert (await cluster.node(new).status())["groups"][GROUP]["epoch"] == term + 1
    await cluster.node(new).log(GROUP).append([b"two"])
    await cluster.converged(GROUP)
    assert await bodies(cluster.log(GROUP, old)) == [b"one", b"two"]


async def test_without_a_name_the_furthest_leads(cluster: SimCluster) -> None:
    old = cluster.master_of(GROUP)
    behind = other(cluster)
    await cluster.kill(behind)
    await cluster.log(GROUP).append([b"one"])
    found = await cluster.node(old).transfer_leader(GROUP, None)
    assert found["leader"] not in (old, behind)
    await leads(cluster, found["leader"])


@pytest.mark.parametrize("first", [True, False])
async def test_without_a_name_nobody_dead_is_chosen(cluster: SimCluster, first: bool) -> None:
    """Both others acknowledged all that there is; one of them is gone since."""
    old = cluster.master_of(GROUP)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    others = [name for name in cluster.names if name != old]
    dead, alive = others if first else reversed(others)
    await cluster.kill(dead)
    await trio.sleep(5)  # a heartbeat had no answer
    found = await cluster.node(old).transfer_leader(GROUP, None)
    assert found["leader"] == alive
    await leads(cluster, alive)


async def test_a_follower_names_who_can(cluster: SimCluster) -> None:
    with pytest.raises(NotMaster) as caught:
        await cluster.node(other(cluster)).transfer_leader(GROUP, None)
    assert caught.value.hint == cluster.master_of(GROUP)


async def test_a_member_that_knows_no_leader_names_none(cluster: SimCluster) -> None:
    alone = other(cluster)
    for name in cluster.names:
        if name != alone:
            await cluster.kill(name)
    await trio.sleep(30)
    with pytest.raises(NotMaster, match="it knows no leader") as caught:
        await cluster.node(alone).transfer_leader(GROUP, None)
    assert caught.value.hint is None


async def test_what_cannot_be_is_refused_and_the_leader_goes_on(cluster: SimCluster) -> None:
    leader = cluster.master_of(GROUP)
    node = cluster.node(leader)
    with pytest.raises(RequestRefused, match=f"n9 is no member of {GROUP}"):
        await node.transfer_leader(GROUP, "n9")
    with pytest.raises(RequestRefused, match="orders is a classic group: `promote`"):
        await node.transfer_leader("orders", None)
    with pytest.raises(RequestRefused, match="no member of group 'none'"):
        await node.transfer_leader("none", None)
    assert (await node.log(GROUP).append([b"one"])).count == 1


async def test_who_leads_already_may_be_named(cluster: SimCluster) -> None:
    leader = cluster.master_of(GROUP)
    found = await cluster.node(leader).transfer_leader(GROUP, leader)
    term = (await cluster.node(leader).status())["groups"][GROUP]["epoch"]
    same = {"group": GROUP, "leader": leader, "old_leader": leader, "term": term}
    assert found == same
    assert cluster.master_of(GROUP) == leader


async def test_a_member_that_is_away_does_not_take_over(cluster: SimCluster) -> None:
    leader, away = cluster.master_of(GROUP), other(cluster)
    await cluster.kill(away)
    with pytest.raises(OutcomeUnknown, match=f"over: {leader} cannot reach {away}$"):
        await cluster.node(leader).transfer_leader(GROUP, away)
    assert (await cluster.node(leader).log(GROUP).append([b"one"])).count == 1


async def test_a_member_far_behind_is_refused(cluster: SimCluster) -> None:
    leader, away = cluster.master_of(GROUP), other(cluster)
    await cluster.kill(away)
    await cluster.log(GROUP).append([b"%d" % number for number in range(1200)])
    behind = rf"^{away} is 1,200 entries of {GROUP} behind, 1,000 are too many$"
    with pytest.raises(RequestRefused, match=behind):
        await cluster.node(leader).transfer_leader(GROUP, away)


async def test_a_member_that_will_find_no_room_is_refused_before_anything_has_failed(
    cluster: SimCluster,
) -> None:
    leader, full = cluster.master_of(GROUP), other(cluster)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    cluster.world.node(full).disk.faults.fill(3600.0)
    words = f"^{full} would take no appends of {GROUP}: no room: the disk is 100% full"
    with pytest.raises(RequestRefused, match=words):
        await cluster.node(leader).transfer_leader(GROUP, full)
    assert cluster.master_of(GROUP) == leader
    (third,) = set(cluster.names) - {leader, full}
    found = await cluster.node(leader).transfer_leader(GROUP, None)
    assert found["leader"] == third
    await leads(cluster, third)
    cluster.world.node(leader).disk.faults.fill(3600.0)
    with pytest.raises(RequestRefused, match="would take no appends of"):
        await cluster.node(third).transfer_leader(GROUP, None)


async def test_a_leader_without_room_itself_may_hand_over_to_any(cluster: SimCluster) -> None:
    leader, full = cluster.master_of(GROUP), other(cluster)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    for name in (leader, full):
        cluster.world.node(name).disk.faults.fill(3600.0)
    found = await cluster.node(leader).transfer_leader(GROUP, full)
    assert found["leader"] == full


@pytest.mark.parametrize("count", [30, 1200])
async def test_why_a_member_without_room_that_was_not_asked_does_not_take_over(
    cluster: SimCluster, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its port for replication answers, and its API does not."""

    async def silent(links: MemberLinks, member: str, group: str) -> GroupState:
        raise trio.TooSlowError

    monkeypatch.setattr(MemberLinks, "group_state", silent)
    leader, full = cluster.master_of(GROUP), other(cluster)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    cluster.world.node(full).disk.faults.fill(3600.0)
    for _ in range(count // 10):
        await cluster.log(GROUP).append([bytes(3000)] * 10)
    await trio.sleep(3)
    reason = f"{full} takes no entries: no room: "
    kind: type[Exception] = OutcomeUnknown
    words = f"^{full} did not take {GROUP} over .*: {reason}"
    if count >= 1000:
        kind, words = RequestRefused, f"entries of {GROUP} behind, 1,000 are too many: {reason}"
    with pytest.raises(kind, match=words):
        await cluster.node(leader).transfer_leader(GROUP, full)
    own = group_statuses(await cluster.node(leader).status())[GROUP]
    (peer,) = (peer for peer in own.peers if peer.node == full)
    assert (peer.state, peer.is_well) == ("refused", False)
    assert f"{full} {peer.reason}".startswith(reason)


async def test_a_member_that_is_silent_is_not_only_called_far_behind(cluster: SimCluster) -> None:
    """How far it is nobody knows: what it had is what it said last."""
    leader, away = cluster.master_of(GROUP), other(cluster)
    await cluster.kill(away)
    await cluster.log(GROUP).append([b"%d" % number for number in range(1200)])
    await trio.sleep(5)  # a heartbeat had no answer
    with pytest.raises(
        RequestRefused, match=f"does not answer {leader}, so it cannot take ledger over now$"
    ):
        await cluster.node(leader).transfer_leader(GROUP, away)
