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
from actors.ha.core.role_effects import Fence, RoleState, RoleView
from actors.log_types import Claim, Offsets
from actors.node.classic import ClassicPart
from actors.node.node import Node
from actors.runtime import ActorError
from actors.sim.action import Action, Ground
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault

R = TypeVar("R")

PROMOTE_TIMEOUT_S = 60.0
TEND_TIMEOUT_S = 60.0
TEND_LOOK_S = 0.5
CALL_TIMEOUT_S = 5.0
"""A node that is paused, or stops, does not answer."""
HEALS_S = 15.0
"""By then a node whose bytes were put back has read them again, unless its digests are of damaged
ones: made while a bit was flipped that no record's checksum covers."""
NEEDED = (Fence.SLAVE_AHEAD, Fence.SHORTER_THAN_MARK, Fence.ABANDONED)
"""What a master waits for an operator in."""


class HandOverCalledOff(Action[FaultRunner]):
    """A hand-over begins, which fences the master, and is given up after a while, or its lease
    ends: the master takes appends again.
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
        number = max(state.number, state.claimed) + 1
        claim = Claim(number=number, token=1, by="operator", master=name)
        if await on_node(node, lambda: node.fence(group, claim, True)) is None:
            return
        runner.began(fault)
        await trio.sleep(fault.for_s)
        while runner.runs_still(name, node):
            if await on_node(node, lambda: node.fence(group, claim, False)) is not None:
                break
            # After a promotion in between the fence is gone, and the call is refused for ever.
            state = await on_node(node, lambda: node.group_state(group))
            if state is not None and state.number >= number:
                break
            await trio.sleep(CALL_TIMEOUT_S)
        runner.mended("unfenced", name)


class Promote(Action[FaultRunner]):
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
        asked = fault.others[0]
        if not runner.is_ready(asked) or runner.master == fault.node:
            return
        if await promoted(runner, asked, fault.node):
            runner.began(fault)


class FailOver(Action[FaultRunner]):
    """The master is cut off, and takes appends that nobody copies; the operator makes another node
    the master after `extra` seconds. The old one is back `for_s` later, and the operator does what
    is needed until it follows.
    """

    name = "fail_over"
    chance = 0.35
    most = 2

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return () if ground.spare_power else ground.names

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.1, 2.0)

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        old, new = runner.master, fault.node
        if old == new or not runner.is_ready(new) or not runner.is_ready(old):
            return
        runner.cluster.cut(old)
        await trio.sleep(fault.extra)
        if runner.is_ready(new) and await promoted(runner, new, new):
            runner.began(fault)
            await trio.sleep(fault.for_s)
        runner.cluster.heal(old)
        runner.mended("heal", old)
        with trio.move_on_after(TEND_TIMEOUT_S):
            while (view := view_of(runner, old)) is None or view.state is not RoleState.FOLLOWING:
                await tend(runner)
                await trio.sleep(TEND_LOOK_S)


async def promoted(
    runner: FaultRunner, asked: str, chosen: str | None, *, force: bool = False
) -> bool:
    """Tell `asked` to make `chosen` (None: the furthest) the master; whether it is."""
    group, node = runner.group.name, runner.cluster.node(asked)
    runner.note("promoting", chosen or "the furthest")
    with trio.move_on_after(PROMOTE_TIMEOUT_S):
        try:
            await node.promote(group, chosen, force)
        except (TriologError, ActorError, OSError) as error:
            runner.note("not promoted", f"{chosen or 'the furthest'} {error}")
        else:
            return True
    return False


async def keep_tending(runner: FaultRunner) -> None:
    """The operator who does what README says, wherever a node says that it waits for that, and who
    starts whoever has died: one whose disk had failed may need long for its stop, and be down only
    after all was mended.
    """
    damaged_since: dict[str, float] = {}
    while True:
        for name in filter(runner.has_died, runner.cluster.names):
            await runner.up(name)
        await tend(runner, alone=True)
        for name in runner.cluster.names:
            view = view_of(runner, name)
            if view is None or not view.damage:
                damaged_since.pop(name, None)
            elif (
                trio.current_time() > damaged_since.setdefault(name, trio.current_time()) + HEALS_S
            ):
                await ask_repair(runner, name)
        await trio.sleep(TEND_LOOK_S)


async def ask_repair(runner: FaultRunner, name: str) -> None:
    """Have a node mend its copy with `repair`, from whoever has good bytes."""
    if runner.is_ready(name):
        node = runner.cluster.node(name)
        await on_node(node, lambda: node.repair(runner.group.name, None))


async def tend(runner: FaultRunner, *, alone: bool = False) -> None:
    """Whoever is refused as diverged is resynced. If the master is fenced because a member holds
    what it lacks, or a promotion was not finished, the furthest becomes master.

    Args:
        alone: nobody else promotes now: two masters by one number are no passing thing.
    """
    fences = (*NEEDED, Fence.CONFLICT) if alone else NEEDED
    for name in runner.cluster.names:
        view = view_of(runner, name)
        if view is None or not runner.is_ready(name):
            continue
        if view.state is RoleState.DIVERGED:
            await resync(runner, name)
        elif view.fence in fences:
            await promoted(runner, name, None)
    await refill(runner)


async def refill(runner: FaultRunner) -> None:
    """Whoever needs what its master has deleted for its age is emptied, and copies what is left."""
    held = await offsets_of(runner, runner.master)
    for name in runner.cluster.names:
        own = await offsets_of(runner, name)
        if held is None or own is None or not 0 < own.written < held.min:
            continue
        if runner.is_ready(name) and runner.atlas.may_refill(name):
            await runner.cluster.kill(name)
            runner.wipe(name)
            await runner.up(name)


async def offsets_of(runner: FaultRunner, name: str) -> Offsets | None:
    """How far a node is with the group, if it says so."""
    if not runner.is_ready(name):
        return None
    node = runner.cluster.node(name)
    return await on_node(node, lambda: runner.cluster.offsets(name, runner.group.name))


def view_of(runner: FaultRunner, name: str) -> RoleView | None:
    """What a node says that it is; None if it is off, or still starting."""
    node = runner.cluster.running(name)
    if node is None:
        return None
    part = node.part(runner.group.name)
    assert isinstance(part, ClassicPart)
    return part.board.view


async def resync(runner: FaultRunner, name: str) -> None:
    """Have a node set aside what it alone has."""
    node = runner.cluster.node(name)
    runner.note("resync", name)
    done = await on_node(node, lambda: node.resync(runner.group.name))
    if done is not None and done["cut_bytes"] is not None:
        runner.mended("resynced", name)


async def on_node(node: Node, call: Callable[[], Awaitable[R]]) -> R | None:
    """What the node answers; None if it does not, or refuses."""
    with trio.move_on_after(CALL_TIMEOUT_S):
        try:
            return await call()
        except (TriologError, ActorError):
            return None
    return None
