"""A DLedger group in which n0 has `candidate = false`: it holds, acknowledges and votes."""

from __future__ import annotations

import attrs
import pytest
import trio
from test_service_ledger import GROUP, bodies
from test_service_ledger import cluster_config as equal_members

from actors.api.failures import RequestRefused
from actors.config import ClusterConfig, DLedgerGroup, MemberNode, validate
from actors.errors import OutcomeUnknown
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]
SIT_OUT_S = 60.0
NOT_N0 = MemberNode("n0", candidate=False)


@pytest.fixture
def members() -> tuple[MemberNode, ...]:
    return (NOT_N0, MemberNode("n1"), MemberNode("n2"))


@pytest.fixture
def cluster_config(members: tuple[MemberNode, ...]) -> ClusterConfig:
    found = equal_members.__wrapped__()  # type: ignore[attr-defined]
    ledger = found.groups[GROUP]
    assert isinstance(ledger, DLedgerGroup)
    config = attrs.evolve(found, groups={GROUP: attrs.evolve(ledger, members=members)})
    validate(config)
    return config


def pair(cluster: SimCluster) -> tuple[str, str]:
    """Who leads, and who may besides."""
    leader = cluster.master_of(GROUP)
    assert leader in ("n1", "n2")
    return leader, {"n1": "n2", "n2": "n1"}[leader]


async def role(cluster: SimCluster, name: str) -> tuple[str, int]:
    found = (await cluster.node(name).status())["groups"][GROUP]
    return found["role"], found["epoch"]


async def test_it_elects_another_and_acknowledges_and_leads_never(cluster: SimCluster) -> None:
    leader, heir = pair(cluster)
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    await cluster.kill(leader)
    with trio.fail_after(SIT_OUT_S):
        while not cluster.node(heir).is_open(GROUP):  # noqa: ASYNC110
            await trio.sleep(0.1)
    assert (await cluster.node(heir).log(GROUP).append([b"two"])).copies == 2
    await cluster.kill(heir)
    await trio.sleep(SIT_OUT_S)
    before = await role(cluster, "n0")
    await trio.sleep(SIT_OUT_S)
    assert await role(cluster, "n0") == before
    assert before[0] == "candidate"
    await cluster.start(heir)
    await cluster.log(GROUP).append([b"three"])
    await cluster.start(leader)
    await cluster.converged(GROUP)
    assert await bodies(cluster.log(GROUP, "n0")) == [b"one", b"two", b"three"]


async def test_leadership_is_not_handed_to_it(cluster: SimCluster) -> None:
    leader, heir = pair(cluster)
    with pytest.raises(RequestRefused, match=f"n0 does not stand for election in {GROUP}"):
        await cluster.node(leader).transfer_leader(GROUP, "n0")
    await cluster.kill(heir)  # so that n0 has most
    await cluster.log(GROUP).append([b"one"])
    with pytest.raises(OutcomeUnknown, match=f"{heir} did not take {GROUP} over"):
        await cluster.node(leader).transfer_leader(GROUP, None)
    assert (await cluster.log(GROUP).append([b"two"])).count == 1


@pytest.mark.parametrize("members", [(NOT_N0, MemberNode("n1"))])
async def test_nobody_is_left_to_hand_over_to(
    members: tuple[MemberNode, ...], cluster: SimCluster
) -> None:
    assert cluster.master_of(GROUP) == "n1"
    with pytest.raises(RequestRefused, match=f"no other member of {GROUP} stands for election"):
        await cluster.node("n1").transfer_leader(GROUP, None)
