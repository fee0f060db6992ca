"""An operator who has the controllers elect, at any moment, whomever he likes (`electMaster`)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from typing import Final

import trio

from actors.broker.replica_wishes import Elected, ElectMaster
from actors.config.dledger import CONTROLLERS
from actors.errors import TriologError
from actors.events import ha
from actors.node.autoswitch import AutoSwitchPart
from actors.node.part import asked
from actors.runtime import ActorError, ReplyTo
from actors.sim.actions.action import Action, Ground
from actors.sim.actions.runner import Seen, came
from actors.sim.actions.script import Fault
from actors.sim.autoswitch.runner import AutoSwitchRunner
from actors.sim.world import SimEvent

WAIT_S: Final = 20.0
"""How long to wait for a change of a role; without one nothing happens."""
ANSWER_S: Final = 10.0
"""How long an operator waits for an answer."""
CHANGING: Final = "changing"
HEADLESS: Final = "headless"
OUTSIDE: Final = "outside"


class Elect(Action[AutoSwitchRunner]):
    """An operator has a replica elected, in the set or not; `where` says when.

    At once; "outside": at once, one that is not in the set, if there is one; "changing": as the
    next change of a role begins; "headless": while the controllers have no majority, for `for_s`.
    """

    name = "elect"
    most = 4

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice(("", OUTSIDE, CHANGING, CHANGING, HEADLESS))

    async def act(self, runner: AutoSwitchRunner, fault: Fault) -> None:
        if fault.where == CHANGING:
            with runner.watching(_changes) as come:
                if not await came(come, WAIT_S):
                    return
        known, rng = runner.known, runner.rng(fault)
        outside = sorted(known.nodes.keys() - set(known.in_sync))
        anybody = sorted(known.nodes)
        if not anybody:
            return
        chosen = rng.choice(outside if fault.where == OUTSIDE and outside else anybody)
        when = "" if fault.where == OUTSIDE else fault.where
        what = f"{chosen} {'inside' if chosen in known.in_sync else 'outside'} {when}"
        runner.began(fault)
        if fault.where != HEADLESS:
            await self._ask(runner, fault.node, chosen, what)
            return
        with _headless(runner):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask, runner, fault.node, chosen, what)
                await trio.sleep(fault.for_s)
        runner.mended("heal", "controllers")

    async def _ask(self, runner: AutoSwitchRunner, node: str, chosen: int, what: str) -> None:
        """Ask through that node, or another replica's."""
        ready = [each for each in (node, *runner.group.members) if each in runner.group.members]
        part = next((found for each in ready if (found := _part(runner, each)) is not None), None)
        if part is None:
            return
        try:
            with trio.fail_after(ANSWER_S):
                await asked(part.node, part.manager, partial(_election, chosen), Elected)
        except (TriologError, ActorError, trio.TooSlowError):
            runner.note("not elected", f"{part.node} {what}")
        else:
            runner.note("elected", f"{part.node} {what}")


def _changes(seen: Seen) -> bool:
    return isinstance(seen, SimEvent) and isinstance(seen.event, ha.RoleGiven)


def _election(chosen: int, reply_to: ReplyTo[Elected]) -> ElectMaster:
    return ElectMaster(broker_id=chosen, reply_to=reply_to)


def _part(runner: AutoSwitchRunner, name: str) -> AutoSwitchPart | None:
    node = runner.cluster.running(name)
    if node is None or not runner.is_ready(name):
        return None
    part = node.part(runner.group.name)
    assert isinstance(part, AutoSwitchPart)
    return part


@contextmanager
def _headless(runner: AutoSwitchRunner) -> Iterator[None]:
    """Within the block no controller has a majority: none reaches another, or the only one
    stands.
    """
    members = runner.cluster.config.groups[CONTROLLERS].members
    pairs, cluster = tuple(combinations(members, 2)), runner.cluster
    alone = members[0] if not pairs and runner.is_ready(members[0]) else None
    for one, other in pairs:
        cluster.cut(one, other)
    if alone is not None:
        cluster.pause(alone)
    try:
        yield
    finally:
        for one, other in pairs:
            cluster.heal(one, other)
        if alone is not None:
            cluster.resume(alone)
