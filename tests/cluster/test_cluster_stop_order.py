"""`stop`: whoever leads a group goes first, so that it can still send others what they lack."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from cluster_samples import master, slave_group
from cluster_world import CONFIG, NODES, Node, three_nodes
from ledger_samples import follower, leader

from actors.cluster import commands


@pytest.mark.parametrize(
    ("leads", "follows"),
    [(master(promotion=1), slave_group(promotion=1)), (leader(leader="n2"), follower(leader="n2"))],
    ids=["classic", "dledger"],
)
async def test_whoever_leads_stops_first(
    leads: dict[str, Any], follows: dict[str, Any], autojump_clock: trio.abc.Clock
) -> None:
    world = three_nodes()
    stopped: list[str] = []

    @attrs.define
    class Noted(Node):
        async def stop(self) -> None:
            stopped.append(self.name)
            await super().stop()

    world.nodes["n0"] = Noted("n0", follows)
    world.nodes["n1"] = Noted("n1", follows)
    world.nodes["n2"] = Noted("n2", leads)
    answer = await commands.stop(CONFIG, NODES, world.connect)  # type: ignore[arg-type]
    assert answer == commands.Answer("n2: stopped\nn0: stopped\nn1: stopped", 0)
    assert stopped == ["n2", "n0", "n1"]


async def test_a_node_that_does_not_run_is_said(autojump_clock: trio.abc.Clock) -> None:
    world = three_nodes()
    world.nodes["n0"].up = False
    answer = await commands.stop(CONFIG, NODES, world.connect)  # type: ignore[arg-type]
    assert answer == commands.Answer("n0: was not running\nn1: stopped\nn2: stopped", 0)
