"""Groups under drawn faults: afterwards all members hold what was acknowledged, in one order."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from group_kit import Group, opened

from actors.dledger.replication.append_messages import Committed
from actors.errors import TriologError
from actors.runtime import ActorError

STEPS = 8
WRITERS = 2
STEP_S = 4.0
CONVERGE_S = 120.0


class Run:
    """Writers that go on whatever happens, and what they were answered."""

    def __init__(self, group: Group, rng: random.Random) -> None:
        self.group = group
        self.rng = rng
        self.acknowledged: dict[int, bytes] = {}
        self.number = 0
        self.over = False

    async def write(self) -> None:
        while not self.over:
            self.number += 1
            body = b"%d" % self.number * self.rng.randint(1, 200)
            up = [name for name in self.group.systems if name in self.group.leaders]
            name = self.rng.choice(up or list(self.group.systems) or ["n0"])
            try:
                done = await self.group.append(name, body, timeout_s=2.0)
            except (TriologError, ActorError, KeyError):
                await trio.sleep(0.1)
            else:
                assert isinstance(done, Committed)
                # OneEntryPerIndex
                assert self.acknowledged.setdefault(done.first_index, body) == body
            await trio.sleep(self.rng.uniform(0.0, 0.3))

    async def fault(self) -> None:
        group, rng = self.group, self.rng
        down = [name for name in group.names if name not in group.systems]
        name = rng.choice(group.names)
        kind = rng.choice(("kill", "power_loss", "cut", "part", "heal", "part", "start"))
        paths = group.paths(name)
        if kind in ("kill", "power_loss") and name in group.systems:
            await getattr(group, kind)(name)
        elif kind == "cut":
            other = rng.choice([each for each in group.names if each != name])
            group.world.network.cut(name, other)
            if rng.random() < 0.5:
                group.world.network.cut(other, name)
        elif kind == "part" and name in group.systems:
            peers = [paths.dispatcher(each) for each in group.names if each != name]
            parts = [paths.quorum_ack_checker, paths.entry_handler, *peers]
            await group.crash(name, rng.choice([*parts, paths.state_maintainer]))
        elif kind == "heal":
            group.world.network.heal_all()
        elif down:
            await group.start(rng.choice(down))

    async def heal(self) -> None:
        group = self.group
        group.world.network.heal_all()
        for name in group.names:
            if name not in group.systems:
                await group.start(name)


@pytest.mark.checklist(23, 33, of="dledger")
@pytest.mark.parametrize(("members", "seed"), [(3, 0), (3, 1), (3, 2), (5, 0)])
async def test_acknowledged_entries_survive(autojump_clock: Any, members: int, seed: int) -> None:
    name = f"faults-{members}-{seed}"
    async with opened(members, seed=name, data_file_bytes=16 << 10) as group:
        run = Run(group, random.Random(name))
        async with trio.open_nursery() as nursery:
            for _ in range(WRITERS):
                nursery.start_soon(run.write)
            for _ in range(STEPS):
                await trio.sleep(run.rng.uniform(0.0, STEP_S))
                await run.fault()
            run.over = True
        await run.heal()
        last = await converged(group)
        logs = [await group.entries(each) for each in group.names]
        for log in logs[1:]:
            assert log == logs[0]  # LogMatching
        held = {entry.index: entry.body for entry in logs[0]}
        assert logs[0][-1].index == last
        for index, body in run.acknowledged.items():
            assert held[index] == body, f"entry {index} was acknowledged"


async def converged(group: Group) -> int:
    """One more append, seen by everyone."""
    with trio.fail_after(CONVERGE_S):
        while True:
            try:
                done = await group.append(await group.leader(CONVERGE_S), b"last")
                break
            except (TriologError, ActorError):
                await trio.sleep(0.5)
    await group.until_shown(done.last_index, within_s=CONVERGE_S)
    return done.last_index
