"""A promotion that gives up what was acknowledged: what it may, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import trio

from actors.events import roles
from actors.ha.core.role_effects import RoleState
from actors.sim.action import Action, Ground
from actors.sim.actions_operator import TEND_LOOK_S, TEND_TIMEOUT_S, promoted, tend, view_of
from actors.sim.fault_runner import FaultRunner
from actors.sim.script import Fault
from actors.sim.world import SimEvent

LAG_MAX_S = 4.0


class ForcePromote(Action[FaultRunner]):
    """A slave is cut off for `extra` seconds, in which the others go on; then all others are lost
    at once, and the operator makes it the master, with `--force` as it is refused without. The
    others are back `for_s` later, and are resynced.

    Nothing else is broken meanwhile: two halves that do not hear each other, of which one was
    forced, both take appends, and that is no fault of theirs.
    """

    name = "force_promote"
    chance = 0.25
    most = 1
    alone = True

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return () if ground.spare_power else ground.names

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.5, LAG_MAX_S)

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        chosen, others = fault.node, [n for n in runner.cluster.names if n != fault.node]
        if chosen == runner.master or runner.atlas.damaged or not is_whole(runner):
            return
        runner.cluster.cut(chosen)
        for name in others:
            runner.cluster.reset(chosen, name)  # else what is on its way arrives after the cut
        await trio.sleep(fault.extra)
        for name in others:
            if runner.is_on(name):
                await runner.cluster.kill(name)
        runner.cluster.heal(chosen)
        with watched(runner, chosen) as watch:
            if runner.is_ready(chosen) and not await promoted(runner, chosen, chosen):
                watch.forced = True
                if await promoted(runner, chosen, chosen, force=True):
                    runner.began(fault)
            await trio.sleep(fault.for_s)
            for name in others:
                await runner.up(name)
            with trio.move_on_after(TEND_TIMEOUT_S):
                while not is_whole(runner):
                    await tend(runner)
                    await trio.sleep(TEND_LOOK_S)


def is_whole(runner: FaultRunner) -> bool:
    """Whether all nodes run, one is an open master, and the others follow."""
    views = [view_of(runner, name) for name in runner.cluster.names if runner.is_ready(name)]
    states = [view.state for view in views if view is not None]
    wanted = len(runner.cluster.names) - 1
    return states.count(RoleState.OPEN) == 1 and states.count(RoleState.FOLLOWING) == wanted


@attrs.define(eq=False)
class Watch:
    """Notes, as soon as the forced master opens its log, where: `history.given_up`."""

    runner: FaultRunner
    chosen: str
    forced: bool = False

    def see(self, seen: SimEvent) -> None:
        opened = isinstance(seen.event, roles.GroupOpened) and seen.node == self.chosen
        if opened and self.forced:
            self.forced = False
            self.runner.note("lost", f"{self.chosen} {seen.event.start_bytes}")


@contextmanager
def watched(runner: FaultRunner, chosen: str) -> Iterator[Watch]:
    """A watch that sees all events."""
    watch = Watch(runner, chosen)
    events = runner.cluster.world.on_event
    events.append(watch.see)
    try:
        yield watch
    finally:
        events.remove(watch.see)
