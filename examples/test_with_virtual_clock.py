"""A suite of your own on virtual time: a slave is cut off for an hour, in a second or so.

    pip install pytest-trio pytest-timeout  # the latter because a checkout's settings name it
    pytest examples/test_with_virtual_clock.py

The nodes are the real ones; network, disks and clocks are simulated (see `actors.sim.plugin`).
"""

from __future__ import annotations

import trio

import actors
from actors.sim.cluster import SimCluster

pytest_plugins = ["actors.sim.plugin"]


class Shop:
    """The program under test: it keeps its orders in a replicated log."""

    def __init__(self, log: actors.Log) -> None:
        self._log = log

    async def take_order(self, text: str) -> int:
        receipt = await self._log.append([text.encode()])
        return receipt.first

    async def orders(self) -> list[str]:
        async with self._log.reader() as batches:
            return [record.body.decode() async for batch in batches for record in batch.records]


async def test_a_slave_is_cut_off_for_an_hour(cluster: SimCluster) -> None:
    shop = Shop(cluster.log("orders"))
    await shop.take_order("before")
    await cluster.converged("orders")
    before = await cluster.offsets("n1", "orders")

    cluster.cut("n1")
    for minute in range(60):
        await shop.take_order(f"order {minute}")  # n2 is there: two copies are enough
        await trio.sleep(60)
    assert trio.current_time() > 3600
    assert await cluster.offsets("n1", "orders") == before
    ahead = await cluster.offsets("n0", "orders")
    assert ahead.acknowledged > before.acknowledged

    cluster.heal("n1")
    await cluster.converged("orders", within_s=60)
    assert await cluster.offsets("n1", "orders") == ahead
    assert len(await Shop(cluster.log("orders", "n1")).orders()) == 61


async def test_orders_survive_the_masters_power_loss(cluster: SimCluster) -> None:
    shop = Shop(cluster.log("orders"))
    first = await shop.take_order("one")
    await cluster.power_loss("n0")
    await trio.sleep(10)
    await cluster.start("n0")
    await cluster.converged("orders")
    assert await shop.take_order("two") > first
    assert await shop.orders() == ["one", "two"]
