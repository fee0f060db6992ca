"""Promotions that an operator asks for: hand-overs, fail-overs, forced ones, and those of which the
old master does not hear.
"""

from __future__ import annotations

import random
from typing import Final

import trio

from actors.events import roles
from actors.ha.core.role_effects import RoleState
from actors.log_types import Claim
from actors.sim.actions.action import Action, Ground, PairAction
from actors.sim.actions.runner import Seen
from actors.sim.actions.script import Fault
from actors.sim.classic.actions.operator import (
    CALL_TIMEOUT_S,
    TEND_LOOK_S,
    TEND_TIMEOUT_S,
    answer_of,
    became_whole,
    is_whole,
    promoted,
    tend,
    view_of,
)
from actors.sim.classic.runner import FaultRunner
from actors.sim.world import SimEvent


class HandOverCalledOff(Action[FaultRunner]):
    """A hand-over begins, which fences the master, and is given up after a while.

    When it is given up, or its lease ends, the master takes appends again.
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
        state = await answer_of(lambda: node.group_state(group))
        if state is None or not runner.is_on(name):
            return
        number = max(state.number, state.claimed) + 1
        claim = Claim(number=number, token=1, by="operator", master=name)
        if await answer_of(lambda: node.fence(group, claim, True)) is None:
            return
        runner.began(fault)
        await trio.sleep(fault.for_s)
        while runner.runs_still(name, node):
            if await answer_of(lambda: node.fence(group, claim, False)) is not None:
                break
            # After another promotion the fence is gone, and this call would always be refused.
            state = await answer_of(lambda: node.group_state(group))
            if state is not None and state.number >= number:
                break
            await trio.sleep(CALL_TIMEOUT_S)
        runner.mended("unfenced", name)


class Promote(PairAction[FaultRunner]):
    """The operator asks one node (`others`) to make another one the master.

    It is a hand-over if the old master answers. If the old or the new one does not answer and
    something could be lost, it is refused.
    """

    name = "promote"
    chance = 0.4
    all_lose_power = True

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        asked = fault.others[0]
        if not runner.is_ready(asked) or runner.master == fault.node:
            return
        if await promoted(runner, asked, fault.node):
            runner.began(fault)


class FailOver(Action[FaultRunner]):
    """The master is cut off, and takes appends that no node copies.

    The operator makes another node the master after `extra` seconds. The old one is back `for_s`
    later, and the operator does what is needed until it follows.
    """

    name = "fail_over"
    chance = 0.35
    most = 2
    all_lose_power = True

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


LAG_MAX_S = 4.0


class ForcePromote(Action[FaultRunner]):
    """A slave that lacks records is made the master by force.

    It is cut off for `extra` seconds, in which the others go on; then all others are lost at once,
    and the operator makes it the master, with `--force` if it is refused otherwise. The others are
    back `for_s` later, and are resynced.

    Nothing else is broken meanwhile: if the group were cut in two halves, and one was forced, both
    would take appends, rightly.
    """

    name = "force_promote"
    chance = 0.25
    most = 1
    alone = True
    all_lose_power = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.5, LAG_MAX_S)

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        chosen, others = fault.node, [n for n in runner.cluster.names if n != fault.node]
        if chosen == runner.master or runner.atlas.damaged or not is_whole(runner):
            return
        runner.cluster.cut(chosen)
        for name in others:
            runner.cluster.reset(chosen, name)  # otherwise what is under way arrives after the cut
        await trio.sleep(fault.extra)
        for name in others:
            if runner.is_on(name):
                await runner.cluster.kill(name)
        runner.cluster.heal(chosen)
        forced = False

        def opens(seen: Seen) -> bool:
            """Note where the forced master opens its log, as soon as it does:
            `history.given_up`.
            """
            nonlocal forced
            match seen:
                case SimEvent(event=roles.GroupOpened(start_bytes=start)) if (
                    forced and seen.node == chosen
                ):
                    forced = False
                    runner.note("lost", f"{chosen} {start}")
            return False

        with runner.watching(opens):
            if runner.is_ready(chosen) and not await promoted(runner, chosen, chosen):
                forced = True
                if await promoted(runner, chosen, chosen, force=True):
                    runner.began(fault)
            await trio.sleep(fault.for_s)
            for name in others:
                await runner.up(name)
            with trio.move_on_after(TEND_TIMEOUT_S):
                while not is_whole(runner):
                    await tend(runner)
                    await trio.sleep(TEND_LOOK_S)


PAUSED, CUT_OFF = "pause", "cut"
DEPOSED_FOR_S: Final = (1.0, 4.0)
"""The range of how many seconds a deposed master does not hear: its successor acknowledges some
appends meanwhile, and the old one's clients ask it."""


class DeposeUnheard(Action[FaultRunner]):
    """The master is paused or cut off (`where`), and another node is promoted, of which it does not
    hear.

    Clients that have not heard of it either ask the old master, which goes on `extra` seconds
    later.

    Nothing else is broken meanwhile, because most other faults would make the promotion be refused.
    """

    name = "depose_unheard"
    chance = 0.35
    most = 1
    alone = True
    nodes_min = 3
    all_lose_power = True

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(*DEPOSED_FOR_S)

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice((PAUSED, CUT_OFF))

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        if not await became_whole(runner) or fault.node == runner.master:
            return
        cluster, old, new = runner.cluster, runner.master, fault.node
        if not runner.is_ready(new) or not runner.is_ready(old):
            return
        if fault.where == PAUSED:
            cluster.pause(old)
        else:
            cluster.cut(old)
        if await promoted(runner, new, new):
            runner.began(fault)
            async with runner.flowing():
                await trio.sleep(fault.extra)
                await self._mend(runner, old)
                await trio.sleep(fault.extra)
        await self._mend(runner, old)
        await became_whole(runner)

    async def _mend(self, runner: FaultRunner, old: str) -> None:
        runner.cluster.resume(old)
        runner.cluster.heal(old)
        runner.mended("heal", old)
        await trio.lowlevel.checkpoint()
