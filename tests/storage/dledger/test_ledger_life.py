"""A store through kills and power losses while it is written to: what it called synced is there."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from entry_kit import new_entry
from ledger_kit import model, opened, sim_disk
from ledger_store_kit import Kit, running
from store_tree import dying

from actors.sim.disk import SimDisk
from wire.dledger.entry import (
    position,
)

FILE = 4096
Log = list[tuple[int, int, bytes]]


class Writer:
    """Stands for a member that leads and follows in turn.

    Attributes:
        may: logs that a crash may leave.
        ends: where the first entries of the log end; as many as were asked for.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log: Log = []
        self.ends: list[int] = []
        self.may: list[Log] = []
        self.term = self.session = 1
        self.cuts = 0

    def bodies(self) -> list[bytes]:
        sizes = [self.rng.choice([0, 1, 60, 900, 2500]) for _ in range(self.rng.randrange(1, 6))]
        return [self.rng.choice([bytes(n), self.rng.randbytes(n)]) for n in sizes]

    async def run(self, kit: Kit) -> None:
        self.session += 1
        await kit.open(self.session, self.term)
        while True:
            await (self.append(kit) if self.rng.random() < 0.8 else self.change(kit))
            await trio.sleep(self.rng.random() * 0.004)

    async def append(self, kit: Kit) -> None:
        bodies = self.bodies()
        new = [(len(self.log) + n, self.term, body) for n, body in enumerate(bodies)]
        self.may = [self.log + new]
        added = await kit.append(self.session, *bodies)
        assert added.first_index == len(self.log)
        self.log += new
        self.may = [self.log]

    def found(self, log: Log) -> None:
        """A crash has left this one."""
        self.log, self.may = log, [log]
        self.ends.clear()

    def end_before(self, index: int) -> int:
        """Where the entry before that one ends; what comes from there on is about to change."""
        end = self.ends[-1] if self.ends else 0
        for _, _, body in self.log[len(self.ends) : index]:
            end = position(end, 48 + len(body), FILE) + 48 + len(body)
            self.ends.append(end)
        del self.ends[index:]
        return self.ends[-1] if self.ends else 0

    async def change(self, kit: Kit) -> None:
        """Entries of a later term take the place of the last ones."""
        if not self.log:
            return
        at = self.rng.randrange(max(len(self.log) - 8, 0), len(self.log))
        end = self.end_before(at)
        self.term += 1
        entries, new = [], self.log[:at]
        for number, body in enumerate(self.bodies()):
            end = position(end, 48 + len(body), FILE)
            entries.append(new_entry(index=at + number, term=self.term, pos=end, body=body))
            new.append((at + number, self.term, body))
            end += 48 + len(body)
        self.session += 1
        await kit.open(self.session, self.term)
        self.may = [self.log, new]
        await kit.change(self.session, cut_from=at, entries=tuple(entries))
        self.log, self.may = new, [new]
        self.cuts += 1


async def life(disk: SimDisk, writer: Writer, rng: random.Random) -> tuple[int, int]:
    """Write until the machine dies. Gives the synced index reported last, and the cuts then."""
    kit = Kit(disk)
    with dying():
        async with running(disk, kit), trio.open_nursery() as nursery:
            nursery.start_soon(writer.run, kit)
            await trio.sleep(rng.random() * 1.5)
            (kit.power_loss if rng.random() < 0.6 else kit.kill)()
            nursery.cancel_scope.cancel()
    return (kit.grown[-1].synced_index, kit.grown[-1].cuts) if kit.grown else (-1, 0)


@pytest.mark.checklist(26, 28, of="dledger")
@pytest.mark.parametrize("seed", range(8))
async def test_what_was_called_synced_survives(autojump_clock: Any, seed: int) -> None:
    rng = random.Random(seed)
    disk, writer = sim_disk(seed), Writer(rng)
    seen = 0
    for _ in range(5):
        before = writer.cuts
        synced, cuts = await life(disk, writer, rng)
        ledger = opened(disk)
        found = model(ledger)
        disk.kill()
        candidates = writer.may or [writer.log]
        assert any(found == log[: len(found)] for log in candidates)
        if cuts == writer.cuts - before and len(candidates) == 1:
            assert len(found) > synced
        seen += len(found)
        writer.found(found)
    assert seen > 50
    assert writer.cuts > 3
