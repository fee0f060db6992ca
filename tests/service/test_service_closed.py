"""Appends of one client to a master that does not open."""

from __future__ import annotations

import pytest
import trio

from actors.client import connect_node
from actors.errors import NotEnoughReplicas
from actors.log import AppendOutcome
from actors.node.classic import ClassicPart
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]
GROUP = "orders"
COUNT = 20


async def alone(cluster: SimCluster) -> None:
    """The master has started anew, and hears no member."""
    for name in cluster.names:
        await cluster.kill(name)
    await cluster.start("n0")


async def test_they_do_not_wait_one_after_the_other(cluster: SimCluster) -> None:
    """A node takes the appends of a connection in their order, each before it looks at the next."""
    await alone(cluster)
    timeout_s = cluster.config.classic_groups[GROUP].slave_timeout_s
    network, outcomes = cluster.world.network.open("n1"), list[AppendOutcome]()
    store = cluster.world.node("n1").secret_store("client")
    async with connect_node(cluster.config, "n0", network=network, secret_store=store) as client:
        asked_s = trio.current_time()
        for number in range(COUNT):
            await client.submit(GROUP, (b"%d" % number,), outcomes.append)
        with trio.fail_after(COUNT * timeout_s):
            while len(outcomes) < COUNT:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert trio.current_time() - asked_s < 2 * timeout_s
    assert {type(outcome) for outcome in outcomes} == {NotEnoughReplicas}


async def test_what_was_waited_for_in_vain_is_not_waited_for_again(cluster: SimCluster) -> None:
    await alone(cluster)
    log, part = cluster.log(GROUP), cluster.node("n0").part(GROUP)
    assert isinstance(part, ClassicPart)
    role_status = part.role_status
    with pytest.raises(NotEnoughReplicas, match="has not heard n1, n2"):
        await log.append([b"nobody is there"])
    asked_s, known = trio.current_time(), role_status.view
    with pytest.raises(NotEnoughReplicas, match="has not heard n1, n2"):
        await log.append([b"still nobody"])
    assert trio.current_time() == asked_s
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.start, "n1")
        await role_status.wait_changed(known)
        assert (await log.append([b"somebody"])).count == 1
