"""What scripts can do to an auto-switch group and its controllers: the list, and the replacement of
a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from actors.node.autoswitch import AutoSwitchPart
from actors.sim.actions import disk, process
from actors.sim.actions.action import Action, table
from actors.sim.actions.network import Clog, Cut, CutOneWay, HalfOpen, Isolate, Reset
from actors.sim.actions.runner import LOOK_S
from actors.sim.actions.script import Fault
from actors.sim.autoswitch.elections import Elect
from actors.sim.autoswitch.requests import KillAsked, LoseAnswer
from actors.sim.autoswitch.runner import AutoSwitchRunner
from actors.sim.classic.actions import rot, tools

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


ACTIONS: Final = table(
    *(Cut(), CutOneWay(), Isolate(), Reset(), HalfOpen(), Clog()),
    *(process.Kill(), process.KillStarting(), process.Stop(), process.PowerLoss()),
    *(process.PowerLossAll(), process.PowerLossInSync(), process.Pause(), process.ClockJump()),
    *(disk.SlowSync(), disk.EioWrite(), disk.EioSync(), disk.EioRead(), disk.ShortWrite()),
    *(disk.DiskFull(), disk.NoInodes(), disk.BitRot(), disk.OldSector(), rot.DerivedRot()),
    *(rot.RotRepaired(), tools.CheckRunning(), LoseAnswer(), KillAsked(), NewDisk()),
    Elect(),
    process.CrashActor(
        *("pull_service", "group_transfer", "connection_state", "scrubber", "derived_scrubber"),
        *("accept_socket", "read_socket", "write_socket", "ha_client", "replicas_manager"),
        *("controller", "quorum_ack_checker", "entry_handler", "state_maintainer"),
    ),
)
"""The actions by their names."""
PATH_PARTS: Final = (
    *("commitlog", "commitlog", "consumequeue", "index", "/events/", "synced", "checkpoint"),
    *("epochFileCheckpoint", "newest_epoch", "brokerIdentity", "/controllers/", ""),
)
"""The parts of paths that disk faults hit; the log counts twice."""
