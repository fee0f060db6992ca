"""Fresh reads of a classic group's slaves: all that the master had acknowledged, or a refusal."""

from __future__ import annotations

import pytest
import trio

from actors.api.failures import RequestRefused
from actors.sim.cluster import SimCluster
from wire.api import frames

pytest_plugins = ["actors.sim.plugin"]
GROUP = "orders"
LARGE = 12


async def test_a_slave_that_gets_nothing_waits_for_it_so_long(cluster: SimCluster) -> None:
    """Its disk is full: the master answers it, and what is acknowledged does not come."""
    await cluster.log(GROUP).append([b"one"])
    await cluster.converged(GROUP)
    cluster.world.node("n2").disk.faults.fill(10.0)
    for _ in range(LARGE):  # more than the files that are there take
        last = (await cluster.log(GROUP).append([b"x" * (32 << 10)])).last
    log = cluster.node("n2").log(GROUP)
    with (
        trio.fail_after(100),
        pytest.raises(RequestRefused, match="n2 has not got within 3 s what was ack") as caught,
    ):
        await log.read(last, fresh=True)
    assert caught.value.error == frames.ERROR_NOT_AVAILABLE
    assert (await log.read(0)).records, "what it has it shows"
    await cluster.converged(GROUP)
    assert [record.position for record in (await log.read(last, fresh=True)).records] == [last]
