"""`stop`: whoever is master now goes first, so that it can still send its slaves what they lack."""

from __future__ import annotations

import attrs
import trio
from cluster_samples import master, slave_group
from cluster_world import CONFIG, NODES, Node, three_nodes

from actors.cluster import commands


async def test_the_present_masters_stop_first(autojump_clock: trio.abc.Clock) -> None:
    world = three_nodes()
    stopped: list[str] = []

    @attrs.define
    class Noted(Node):
        async def stop(self) -> None:
            stopped.append(self.name)
            await super().stop()

    world.nodes["n0"] = Noted("n0", slave_group(promotion=1))
    world.nodes["n1"] = Noted("n1", slave_group(promotion=1))
    world.nodes["n2"] = Noted("n2", master(promotion=1))
    answer = await commands.stop(CONFIG, NODES, world.connect)  # type: ignore[arg-type]
    assert answer == commands.Answer("n2: stopped\nn0: stopped\nn1: stopped", 0)
    assert stopped == ["n2", "n0", "n1"]


async def test_a_node_that_does_not_run_is_said(autojump_clock: trio.abc.Clock) -> None:
    world = three_nodes()
    world.nodes["n0"].up = False
    answer = await commands.stop(CONFIG, NODES, world.connect)  # type: ignore[arg-type]
    assert answer == commands.Answer("n0: was not running\nn1: stopped\nn2: stopped", 0)
