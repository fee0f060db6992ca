"""What can happen to the network: cuts, resets, delays, connections that one end forgets."""

from __future__ import annotations

from typing import Any

import trio

from actors.sim.actions.action import Action, PairAction
from actors.sim.actions.runner import Runner
from actors.sim.actions.script import Fault
from actors.sim.machines import SimMachines


class Cut(PairAction[Runner]):
    """Nothing passes between two nodes, either way."""

    name = "cut"

    def cut(self, cluster: SimMachines[Any], fault: Fault) -> None:
        """Begin the cut."""
        cluster.cut(fault.node, fault.others[0])

    async def act(self, runner: Runner, fault: Fault) -> None:
        runner.began(fault)
        self.cut(runner.cluster, fault)
        await trio.sleep(fault.for_s)
        runner.cluster.heal(fault.node, fault.others[0])
        runner.mended("heal", " ".join(fault.nodes))


class CutOneWay(Cut):
    """Nothing gets from one node to another; the other direction works."""

    name = "cut_one_way"

    def cut(self, cluster: SimMachines[Any], fault: Fault) -> None:
        cluster.cut_one_way(fault.node, fault.others[0])


class Isolate(Action[Runner]):
    """Nothing passes between one node and all others."""

    name = "isolate"
    nodes_min = 2

    async def act(self, runner: Runner, fault: Fault) -> None:
        runner.began(fault)
        runner.cluster.cut(fault.node)
        await trio.sleep(fault.for_s)
        runner.cluster.heal(fault.node)
        runner.mended("heal", fault.node)


class Reset(PairAction[Runner]):
    """All connections between two nodes break, once."""

    name = "reset"

    async def act(self, runner: Runner, fault: Fault) -> None:
        if runner.cluster.reset(fault.node, fault.others[0]):
            runner.began(fault)
        await trio.lowlevel.checkpoint()


class Clog(PairAction[Runner]):
    """One direction between two nodes delays everything."""

    name = "clog"

    async def act(self, runner: Runner, fault: Fault) -> None:
        runner.began(fault)
        runner.cluster.world.network.clog(fault.node, fault.others[0], fault.for_s)
        await trio.lowlevel.checkpoint()


class HalfOpen(PairAction[Runner]):
    """One machine forgets its connections to another, which hears nothing."""

    name = "half_open"
    most = 4

    async def act(self, runner: Runner, fault: Fault) -> None:
        if runner.cluster.forget(fault.node, fault.others[0]):
            runner.began(fault)
        await trio.lowlevel.checkpoint()
