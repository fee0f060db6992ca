"""Bytes that change on a disk: in a log, which an operator mends with `repair`, and in derived
files, which the node has to mend itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import trio

from actors.sim.actions.action import Action, Ground
from actors.sim.actions.script import Fault
from actors.sim.classic.actions.operator import (
    TEND_LOOK_S,
    TEND_TIMEOUT_S,
    ask_repair,
    became_whole,
    view_of,
)
from actors.sim.classic.judges.derived import DERIVED_DAMAGED
from actors.sim.classic.runner import FaultRunner
from actors.sim.disk import SimDisk
from actors.sim.disk.pages import PAGE_BYTES
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import list_queues, queue_folder
from actors.storage.layout import StoreLayout
from actors.storage.scrub.scrubber import ROUND_FIRST_S, ROUND_PAUSE_S
from wire.errors import RemoteProtocolError
from wire.files.consume_queue import UNIT_BYTES
from wire.files.index_file import decode_index_header, unit_position

FOUND_S: Final = ROUND_FIRST_S + ROUND_PAUSE_S + 10.0
"""In this time the scrub has read everything, because these logs are short."""
MEMBERS_MIN: Final = 3
"""With so many members, one has a good range even if two copies of it are damaged."""
SLOW_S: Final = 1.0
SLOW_FOR_S: Final = 20.0
"""How much longer syncs take, and for how long, in seconds: a kill may come before the sync of what
was mended."""
KILL, POWER_LOSS, NEITHER = "kill", "power_loss", "neither"


class RotRepaired(Action[FaultRunner]):
    """A bit flips in an old file of a node; scrubs find it, and `repair` mends it.

    In a group of three, a bit also flips in the same file of another node. During the first repair,
    after `extra` seconds, `where` happens to the node; it is started, and asked again.

    Nothing else is broken meanwhile: see `NewDisk`.
    """

    name = "rot_repaired"
    chance = 0.3
    most = 1
    alone = True

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        if len(ground.names) < MEMBERS_MIN:
            return ()
        return (rng.choice([name for name in ground.names if name != node]),)

    def extra(self, rng: random.Random) -> float:
        return rng.uniform(0.0, 1.5)

    def where(self, rng: random.Random, ground: Ground) -> str:
        when = rng.choice((KILL, POWER_LOSS, NEITHER))
        return NEITHER if ground.spare_power else when

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        if not await became_whole(runner) or runner.atlas.damaged:
            return
        rng = runner.rng(fault)
        where = runner.atlas.flip_old_bit(fault.node, rng)
        if where is None:
            return
        runner.began(fault)
        runner.damaged(fault.node, where)
        nodes = [fault.node]
        for other in fault.others:
            there = runner.atlas.flip_old_bit(other, rng, beside=int(where.split()[0]))
            if there is not None:
                runner.damaged(other, there)
                nodes.append(other)
        await _found(runner, nodes)
        async with runner.flowing():
            if fault.where != NEITHER:
                await _broken_off(runner, fault)
            for name in nodes:
                await _repaired(runner, name)
        for name in nodes:
            _check(runner, name)
            runner.repair(name)
            await runner.up(name)


async def _found(runner: FaultRunner, names: list[str]) -> None:
    """Wait until each node that is running reports that it is damaged."""
    with trio.move_on_after(FOUND_S):
        while not all(_is_known(runner, name) for name in names):  # noqa: ASYNC110 - virtual time
            await trio.sleep(TEND_LOOK_S)


def _is_known(runner: FaultRunner, name: str) -> bool:
    view = view_of(runner, name)
    return view is None or bool(view.damage)


async def _broken_off(runner: FaultRunner, fault: Fault) -> None:
    name = fault.node
    if not runner.is_ready(name):
        return
    runner.cluster.disk(name).faults.slow_syncs(SLOW_S, SLOW_FOR_S)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_repair, runner, name)
        await trio.sleep(fault.extra)
        if runner.is_ready(name):
            await (runner.cluster.kill if fault.where == KILL else runner.cluster.power_loss)(name)
    await runner.up(name)


async def _repaired(runner: FaultRunner, name: str) -> None:
    """Ask for repairs as long as there is damage, within an operator's patience."""
    with trio.move_on_after(TEND_TIMEOUT_S):
        while (view := view_of(runner, name)) is None or view.damage:
            await ask_repair(runner, name)
            await trio.sleep(TEND_LOOK_S)


def _check(runner: FaultRunner, name: str) -> None:
    """Check that bytes which a node calls good, and still has, are those from before the damage."""
    view = view_of(runner, name)
    if view is None or view.damage:
        return
    for damage in runner.atlas.damaged.get(name, []):
        now = runner.atlas.logs.durable(name, damage.start, damage.end)
        if now and now != damage.good and runner.atlas.is_there(name, damage):
            text = f"{name} calls its copy good, which is damaged from {damage.start} on"
            runner.history.violated("RepairedIsGood", text)


BIT, PAGE, BIT_OF_STOPPED, PAGE_OF_STOPPED = range(4)
"""The values of `extra`: one bit flips, or a page becomes zero, of a node that is running or is
stopped for it."""
QUEUES, INDEX = "consumequeue", "index"


class DerivedRot(Action[FaultRunner]):
    """A bit flips, or a page becomes zero, in a consume queue or an index file, on the disk and in
    the cache.

    The operator does not put it back: the node has to mend it before the run ends
    (`derived_is_mended`).

    It is not drawn for runs in which log files expire: what is derived from expired records cannot
    be made again, and there would be little else. If a disk was full, or a log begins late, there
    may be some of that, too, which is not judged (`judges.derived.damaged`).
    """

    name = "derived_rot"
    most = 2

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return () if ground.expires else ground.names

    def extra(self, rng: random.Random) -> float:
        return float(rng.choice((BIT, PAGE, BIT_OF_STOPPED, PAGE_OF_STOPPED)))

    def where(self, rng: random.Random, ground: Ground) -> str:
        return rng.choice((QUEUES, QUEUES, INDEX))

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        stops = fault.extra >= BIT_OF_STOPPED
        if stops and not runner.is_ready(fault.node):
            return
        if stops:
            await runner.stop(fault.node)
        whole_page = fault.extra in (PAGE, PAGE_OF_STOPPED)
        where = rot(runner, fault.node, fault.where, runner.rng(fault), whole_page=whole_page)
        if where is not None:
            runner.began(fault)
            runner.note(DERIVED_DAMAGED, f"{fault.node} {where}")
        await trio.sleep(fault.for_s)
        if stops:
            await runner.up(fault.node)


def rot(
    runner: FaultRunner, node: str, kind: str, rng: random.Random, *, whole_page: bool
) -> str | None:
    """Damage a used part of one file. Returns: where, for people; None: there is no such file."""
    disk = runner.cluster.disk(node)
    layout = runner.cluster.layout(node, runner.group.name)
    slots = runner.group.index_slots_count
    found = _queues(disk, layout) if kind == QUEUES else _index(disk, layout, slots)
    files = [(path, used) for path, used in found if used]
    if not files:
        return None
    path, used = rng.choice(files)
    position = rng.randrange(used)
    inode = disk.inode(path)
    if whole_page:
        first = position - position % PAGE_BYTES
        inode.patch(bytes(min(PAGE_BYTES, inode.size_bytes - first)), first)
        position = first
    else:
        inode.flip_bit(position, rng.randrange(8))
    return f"{path}: byte {position}"


def _queues(disk: SimDisk, layout: StoreLayout) -> Iterator[tuple[str, int]]:
    """Yield each file of a consume queue, and how many of its bytes are in use."""
    if not disk.exists(layout.consume_queue):
        return
    for topic, queue_id in list_queues(disk, layout.consume_queue):
        folder = queue_folder(layout.consume_queue, topic, queue_id)
        for name in disk.listdir(folder):
            inode = disk.inode(f"{folder}/{name}")
            used = len(inode.read(0, inode.size_bytes).rstrip(b"\0"))
            yield f"{folder}/{name}", used + -used % UNIT_BYTES


def _index(disk: SimDisk, layout: StoreLayout, slots: int) -> Iterator[tuple[str, int]]:
    if not disk.exists(layout.index):
        return
    for name in filter(is_index_name, disk.listdir(layout.index)):
        inode = disk.inode(f"{layout.index}/{name}")
        try:
            header = decode_index_header(inode.read(0, inode.size_bytes))
        except RemoteProtocolError:
            continue  # it was damaged before
        end = unit_position(header.units_next, slots)
        yield f"{layout.index}/{name}", min(end, inode.size_bytes) if header.units_next > 1 else 0


MENDED_WITHIN_S: Final = 80.0
"""The virtual time in which an undisturbed node has compared everything that is derived from its
log: the pause between two rounds, and a round, which is short here."""


async def derived_is_mended(runner: FaultRunner) -> None:
    """Give the nodes time to mend their derived files, if any were damaged."""
    if runner.counts.get(DerivedRot.name):
        await trio.sleep(MENDED_WITHIN_S)
