"""A copy of a stock master in a simulated world."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from stock_master import ADDRESS, FILE, PORT, StockMaster

from actors.env import Env
from actors.env.protocols import Address
from actors.follow.copy import Copy, CopyStatus, open_copy
from actors.follow.folder import Shape, take_folder
from actors.sim.disk import DiskOptions
from actors.sim.world import World, open_world
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.trees.group_setup import CopyRules

ROOT = "/copy"
SHAPE = Shape(
    segment_bytes=FILE, consume_queue_bytes=2000, index_slots_count=100, index_units_count=400
)


@attrs.define
class Stage:
    """A master, and a machine for its copy."""

    world: World
    master: StockMaster
    rules: CopyRules = attrs.field(factory=CopyRules)
    shape: Shape = SHAPE
    copy: Copy | None = None

    async def start_master(self) -> None:
        await self.world.start_node("broker", self.master.main)

    async def start_copy(self) -> Copy:
        self.copy = await self.world.start_node("copy", self._copy)
        assert self.copy is not None
        return self.copy

    async def _copy(self, env: Env, task_status: trio.TaskStatus[Copy]) -> None:
        address = Address(ADDRESS, PORT)
        folder = take_folder(env.disk, ROOT, address, self.shape)
        async with open_copy(env, folder, address, self.rules) as copy:
            task_status.started(copy)
            await trio.sleep_forever()

    async def status(self) -> CopyStatus:
        assert self.copy is not None
        status = await self.copy.status()
        assert status is not None
        return status

    async def until(
        self, holds: Callable[[CopyStatus], Any], within_s: float = 120.0
    ) -> CopyStatus:
        """Wait until the copy stands so."""
        status: CopyStatus | None = None
        with trio.move_on_after(within_s):
            while True:
                assert self.copy is not None
                status = await self.copy.status()
                if status is not None and holds(status):
                    return status
                await trio.sleep(0.05)
        raise AssertionError(f"not within {within_s} s: {status}")

    async def until_all(self, within_s: float = 120.0) -> CopyStatus:
        """Wait until the copy has all that the master has now."""
        end = self.master.end
        return await self.until(lambda status: status.good >= end, within_s)

    def held(self) -> tuple[int, bytes]:
        """Where the copy begins, and its files."""
        disk = self.world.node("copy").disk
        bases = segment_bases(disk, f"{ROOT}/commitlog")
        data = b""
        for base in bases:
            file = disk.open(segment_path(f"{ROOT}/commitlog", base), "r")
            data += file.pread(0, file.size_bytes)
            file.close()
        return (bases[0] if bases else 0), data

    def assert_equal(self) -> None:
        """The copy is the master's log, byte by byte, from where it begins."""
        begin, data = self.held()
        log = bytes(self.master.log[begin:])
        assert data[: len(log)] == log
        assert not any(data[len(log) :])


@asynccontextmanager
async def stage(
    seed: object = 1, *, rules: CopyRules | None = None, disk: DiskOptions | None = None
) -> AsyncIterator[Stage]:
    async with open_world(seed, disk=disk) as world:
        world.add_node("broker", ADDRESS)
        world.add_node("copy", "10.0.0.2")
        yield Stage(world, StockMaster(), rules or CopyRules())
