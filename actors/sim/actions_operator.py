"""What an operator does to a running cluster, as lines of a script.

To add one: an `Action` here, and its place in `faults.ACTIONS`. `on_node` carries a call out on
whatever process runs on a node.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from actors.errors import TriologError
from actors.node import Node
from actors.runtime import ActorError
from actors.sim.action import Action, Ground
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault

R = TypeVar("R")

PROMOTE_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 5.0
"""A node that is paused, or stops, does not answer."""


class HandOverCalledOff(Action):
    """A hand-over begins, which fences the master, and is given up after a while: the master takes
    appends again.
    """

    name = "hand_over_called_off"
    chance = 0.2
    most = 1

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[:1]

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        if not runner.is_ready(fault.node):
            return
        group, name = runner.group.name, fault.node
        node = runner.cluster.node(name)
        state = await on_node(node, lambda: node.group_state(group))
        if state is None or not runner.is_on(name):
            return
        number = state.number + 1
        if await on_node(node, lambda: node.fence(group, number, True)) is None:
            return
        runner.began(fault)
        await trio.sleep(fault.for_s)
        while runner.runs_still(name, node):
            if await on_node(node, lambda: node.fence(group, number, False)) is not None:
                break
            # After a promotion in between the fence is gone, and the call is refused for ever.
            state = await on_node(node, lambda: node.group_state(group))
            if state is not None and state.number >= number:
                break
            await trio.sleep(CALL_TIMEOUT_S)
        runner.mended("unfenced", name)


class Promote(Action):
    """The operator tells one node (`others`) to make another the master: a hand-over if the old one
    answers; refused if it does not, or the new one, and something could be lost.
    """

    name = "promote"
    chance = 0.4

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return () if ground.spare_power else ground.names

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        return (rng.choice([name for name in ground.names if name != node]),)

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        group, asked = runner.group.name, fault.others[0]
        if not runner.is_ready(asked) or runner.master == fault.node:
            return
        node = runner.cluster.node(asked)
        runner.note("promoting", fault.node)
        with trio.move_on_after(PROMOTE_TIMEOUT_S):
            try:
                await node.promote(group, fault.node, False)
                runner.began(fault)
            except (TriologError, ActorError, OSError) as error:
                runner.note("not promoted", f"{fault.node} {error}")


async def on_node(node: Node, call: Callable[[], Awaitable[R]]) -> R | None:
    """What the node answers; None if it does not, or refuses."""
    with trio.move_on_after(CALL_TIMEOUT_S):
        try:
            return await call()
        except (TriologError, ActorError):
            return None
    return None
