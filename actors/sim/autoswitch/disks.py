"""Disks of replicas that are replaced by empty ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from actors.node.autoswitch import AutoSwitchPart
from actors.sim.actions.action import Action
from actors.sim.actions.runner import LOOK_S
from actors.sim.actions.script import Fault
from actors.sim.autoswitch.runner import AutoSwitchRunner

CONFIRMED_WITHIN_S: Final = 30.0
"""How long an operator waits for a master that the controllers confirm."""


class NewDisk(Action[AutoSwitchRunner]):
    """A replica that is not master gets an empty disk for the group; it comes back as another one,
    with an id of its own, while everything else goes on.

    An operator does this only once the controllers have named another master, with this replica
    down, and while no copy is damaged. What its controllers keep, if it is one, stays.
    """

    name = "new_disk"
    most = 2
    restarts = True
    nodes_min = 2

    async def act(self, runner: AutoSwitchRunner, fault: Fault) -> None:
        name = fault.node
        if name not in runner.group.members or not runner.is_ready(name) or name == runner.master:
            await trio.lowlevel.checkpoint()
            return
        await runner.cluster.kill(name)
        killed_s = trio.current_time()
        with trio.move_on_after(CONFIRMED_WITHIN_S):
            while not (led := any(_led_since(runner, killed_s))):  # noqa: ASYNC110 - virtual time
                await trio.sleep(LOOK_S)
            if led and not runner.is_on(name) and not runner.atlas.damaged:
                runner.began(fault)
                runner.wipe(name)
        await runner.up(name)


def _led_since(runner: AutoSwitchRunner, asked_s: float) -> Iterator[bool]:
    """Yield for each other running replica whether a controller has named it master, in an answer
    to a question that it asked after this time.
    """
    for each in runner.group.members:
        node = runner.cluster.running(each)
        if node is not None and runner.is_ready(each):
            part = node.part(runner.group.name)
            assert isinstance(part, AutoSwitchPart)
            yield part.is_confirmed(asked_s)
