"""An operator who repairs damage on a member's disk with `repair`, as OPERATING.md says."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.errors import TriologError
from actors.node.ledger import LedgerPart
from actors.node.ledger_repair import LedgerRepair, entry_range
from actors.runtime import ActorError
from actors.sim.actions.action import Action
from actors.sim.actions.runner import LOOK_S
from actors.sim.actions.script import Fault
from actors.sim.dledger.runner import LedgerRunner

TRIES_MAX: Final = 20
"""How often the repair is tried: a member that has met the damage may be ending, and others may be
down."""
ANSWER_S: Final = 5.0


@attrs.define
class SimRepair(LedgerRepair):
    """A repair among members of simulated groups, which have no API: they are called directly."""

    runner: LedgerRunner

    async def _given(self, name: str, index: int) -> bytes:
        other = self.runner.cluster.running(name)
        if other is None:
            raise TriologError(f"{name} does not run")
        with trio.fail_after(ANSWER_S):
            return (await entry_range(other.parts[self.part.group.name], index)).data


class RotRepaired(Action[LedgerRunner]):
    """A bit of a committed entry flips, on the disk and in the cache.

    A member that reads it ends, and is started again. After `for_s` the member is asked to repair
    all its groups, until it finds no more damage.
    """

    name = "rot_repaired"
    nodes_min = 2
    chance = 0.4
    most = 2

    async def act(self, runner: LedgerRunner, fault: Fault) -> None:
        name = fault.node
        where = runner.atlas.flip_bit(name, runner.rng(fault))
        if where is None:
            return
        runner.began(fault)
        runner.damaged(name, where)
        await trio.sleep(fault.for_s)
        for _ in range(TRIES_MAX):
            if runner.has_died(name):
                await runner.up(name)
            if runner.is_ready(name) and await _repaired(runner, name):
                break
            await trio.sleep(LOOK_S)
        runner.repair(name)
        if runner.has_died(name):
            await runner.up(name)


async def _repaired(runner: LedgerRunner, name: str) -> bool:
    """Whether the member has mended some damage and left none. The bytes that it claims to have
    mended are compared, and a difference is a violation.
    """
    member = runner.cluster.running(name)
    if member is None:
        return False
    mended = 0
    for part in member.parts.values():
        found = await _asked(runner, part)
        if found is None or found["left"]:
            return False
        mended += len(found["mended"])
    if mended and runner.cluster.running(name) is member:
        disk = runner.cluster.disk(name)
        for damage in runner.atlas.damaged.get(name, []):
            size = len(damage.good)
            if disk.exists(damage.path):
                now = disk.inode(damage.path).durable_range(damage.start, damage.start + size)
                if now != damage.good:
                    text = f"{name} has mended {damage.path}, which is damaged at {damage.start}"
                    runner.history.violated("RepairedIsGood", text)
    return bool(mended)


async def _asked(runner: LedgerRunner, part: LedgerPart) -> dict[str, list[object]] | None:
    names = tuple(each for each in part.group.members if each != part.node)
    with trio.move_on_after(ANSWER_S):
        try:
            return await SimRepair(part, names, runner).run()
        except (TriologError, ActorError, trio.TooSlowError):
            return None
    return None
