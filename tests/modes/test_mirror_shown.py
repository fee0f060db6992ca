"""A further mode's nodes are shown like any others, by what their status says."""

from __future__ import annotations

import attrs
import trio
from mirror_config import CONFIG
from mirror_sim import GROUP, mirror_config

from actors.client.report import status_lines
from actors.cluster.run import lacking
from actors.cluster.summary import group_summary
from actors.cluster.terminal import frame, node_lines, plain_lines
from actors.cluster.view import ClusterView, RateMeter, Rates, leads, node_view
from actors.sim.cluster import SimCluster
from actors.sim.world import open_world

NODES = ("n0", "n1")


async def test_view_status_and_summary(autojump_clock: object) -> None:
    async with open_world(1) as world:
        cluster = SimCluster(world, mirror_config())
        await cluster.start()
        receipt = await cluster.log(GROUP, "n0").append([b"line 1", b"line 2"])
        await trio.sleep(3)
        said = {name: await cluster.node(name).status() for name in NODES}
        trees = {name: await cluster.node(name).tree() for name in NODES}
        await cluster.stop()
    nodes = tuple(node_view(name, said[name], trees[name]) for name in NODES)
    view = ClusterView(cluster="demo", at_s=12.0, phase="running", nodes=nodes, feeds=())
    lines = frame(view, {}, (), width=120, height=9, colour=False).split("\n")
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        "in bytes node role first written synced mirrored lag rec/s MB/s state",
        "pair n0 writer 0 14 14 14 running",
        "n1 copy 0 14 14 14 0 follows n0: mirrors",
    ]
    assert plain_lines(view, {}) == ["0:00:12 pair: n0 writer at 14 mirrored 14; n1 at 14 behind 0"]
    assert node_lines(attrs.evolve(nodes[1], tree=None)) == [
        "n1: running",
        "  pair: copy, bytes 0 to 14, synced to 14, mirrored to 14",
    ]
    assert [" ".join(line.split()) for line in status_lines(said["n0"])[2:]] == [
        "in bytes role writer first written synced mirrored copies",
        "pair writer n0 0 14 14 14 2 synced",
        "",
        "in bytes copy state matched lag",
        "pair n1 mirrors 14 0",
    ]
    found = group_summary(view, GROUP, CONFIG.terms, NODES, 0.0)
    assert found.lines() == [
        "  pair: 0 restarts",
        "    n0 leads",
        "    n0 writer: bytes 0 to 14, synced to 14, mirrored to 14",
        "    n1 copy: bytes 0 to 14, synced to 14, mirrored to 14",
    ]
    assert (found.plain()["writer"], found.plain()["turn"]) == ("n0", 0)
    assert RateMeter().rates(view) == {GROUP: Rates()}
    assert leads(said["n0"], GROUP).has_copied(receipt.next)
    assert not lacking(nodes, {GROUP: NODES}, lambda node: True)
