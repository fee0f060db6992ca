"""Appends that are under way together keep their order, also when one of them fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from service_kit import GROUP, ledger_alone

import actors
from actors.config import ClusterConfig
from actors.errors import NotStored, OutcomeUnknown
from actors.log_types import Chain, Receipt
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]


@pytest.fixture
def cluster_config() -> ClusterConfig:
    """Appends wait long enough for a member that comes back."""
    return ledger_alone(append_timeout_s=30.0)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(120):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.05)


async def leads_what_all_hold(cluster: SimCluster) -> str:
    """Who does. One that has held nothing yet votes with all others only."""
    await cluster.log(GROUP).append([b"begun"])
    await cluster.converged(GROUP)
    return cluster.master_of(GROUP)


async def bodies(log: actors.Log) -> list[bytes]:
    async with log.reader() as batches:
        return [record.body async for batch in batches for record in batch.records]


@pytest.mark.parametrize("chained", [True, False])
async def test_nothing_overtakes_what_failed_when_the_same_member_leads_again(
    cluster: SimCluster, chained: bool
) -> None:
    """Alone it loses leadership with an append under way, and gets it back with the next waiting:
    none of the others has that entry.
    """
    leader = await leads_what_all_hold(cluster)
    others = [name for name in cluster.names if name != leader]
    node, chain, outcomes = cluster.node(leader), Chain(), list[Any]()

    def done(outcome: Any) -> None:
        chain.broken = chain.broken or isinstance(outcome, Exception)
        outcomes.append(outcome)

    own = chain if chained else None
    for name in others:
        await cluster.kill(name)
    await node.submit(GROUP, (b"fails",), done, own)
    await until(lambda: bool(outcomes))
    assert isinstance(outcomes.pop(), OutcomeUnknown)
    chain.broken = False  # the sender has not heard of it when the next one leaves
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.submit, GROUP, (b"waits",), done, own)
        await trio.sleep(0.1)
        chain.broken = True
        # Of the two that run then, the other cannot lead: it lacks what the first would vote for.
        nursery.start_soon(cluster.start, others[0])
        await until(lambda: bool(outcomes))
    assert [type(each) for each in outcomes] == [NotStored if chained else Receipt]
    assert cluster.master_of(GROUP) == leader
    await cluster.start(others[1])
    await cluster.converged(GROUP)
    stored = [b"begun", b"fails"] if chained else [b"begun", b"fails", b"waits"]
    assert await bodies(cluster.log(GROUP)) == stored


async def test_an_appender_s_batches_are_a_chain(cluster: SimCluster) -> None:
    leader = await leads_what_all_hold(cluster)
    for name in cluster.names:
        if name != leader:
            await cluster.kill(name)
    with pytest.raises(OutcomeUnknown):
        async with cluster.log(GROUP, leader).appender(in_flight_bytes=200) as out:
            for number in range(1000):
                await out.send(b"%d" % number)
    log = cluster.log(GROUP, leader)
    written = (await log.offsets()).written
    first, second = (name for name in cluster.names if name != leader)
    await cluster.start(first)  # it cannot lead: it lacks what the other would vote for
    with trio.fail_after(120):
        while (await log.offsets()).acknowledged < written:  # noqa: ASYNC110
            await trio.sleep(0.05)
    await cluster.start(second)
    await cluster.converged(GROUP)
    begun, *found = await bodies(cluster.log(GROUP))
    assert begun == b"begun"
    assert found == [b"%d" % number for number in range(len(found))]
    assert found
