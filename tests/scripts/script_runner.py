"""Plays a script under both settings, and gives it back with what it printed."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio
import trio.testing
from ledger_stage import LedgerStage
from script_format import SETTINGS, Script, side_by_side
from script_stage import ERRORS, Stage

from actors.sim.disk import DiskOptions
from actors.sim.world import open_world

SEED = "traps"
Outputs = Callable[[Script, str], list[list[str]]]
"""What each command of a script prints under a setting."""


async def _play(script: Script, setting: str) -> list[list[str]]:
    outputs = []
    disk = DiskOptions(sync_min_s=0.001, sync_mean_s=0.001)
    async with open_world(SEED, disk=disk) as world, trio.open_nursery() as nursery:
        is_ledger = script.steps[0].line.startswith("members ")
        stage = LedgerStage(setting, world) if is_ledger else Stage(setting, world, nursery)
        for step in script.steps:
            try:
                outputs.append(await stage.play(step.line))
            except ERRORS as error:
                outputs.append([f"{type(error).__name__}: {error}"])
        nursery.cancel_scope.cancel()
    return outputs


def on_cluster(script: Script, setting: str) -> list[list[str]]:
    """What each command prints under a setting, on a simulated cluster."""
    return trio.run(_play, script, setting, clock=trio.testing.MockClock(autojump_threshold=0))


def play(
    script: Script, settings: tuple[str, str] = SETTINGS, outputs: Outputs = on_cluster
) -> Script:
    """The script with the outputs that it has now; with one setting twice it is played once."""
    played = {setting: outputs(script, setting) for setting in dict.fromkeys(settings)}
    upstream, ours = (played[setting] for setting in settings)
    return attrs.evolve(
        script,
        steps=tuple(
            attrs.evolve(step, output=side_by_side(theirs, own))
            for step, theirs, own in zip(script.steps, upstream, ours, strict=True)
        ),
    )
