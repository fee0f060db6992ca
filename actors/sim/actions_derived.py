"""Bytes that change in what derives from a log, which its node has to notice and to mend itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import trio

from actors.sim.action import Action, Ground
from actors.sim.disk import SimDisk
from actors.sim.fault_runner import FaultRunner
from actors.sim.pages import PAGE_BYTES
from actors.sim.script import Fault
from actors.sim.underived import DERIVED_DAMAGED
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import list_queues, queue_folder
from actors.storage.layout import StoreLayout
from wire.errors import RemoteProtocolError
from wire.files.consume_queue import UNIT_BYTES
from wire.files.index_file import decode_index_header, unit_position

BIT, PAGE, BIT_OF_STOPPED, PAGE_OF_STOPPED = range(4)
"""What `extra` says: one bit, or a page that is zero; of a node as it is, or that is off."""
QUEUES, INDEX = "consumequeue", "index"


class DerivedRot(Action[FaultRunner]):
    """A bit flips, or a page becomes zero, in a consume queue or an index file, on the disk and in
    the cache. Nobody puts it back: the node does, before the run ends (`derived_is_mended`).

    Not where log files expire by their age: what derives from records that are gone cannot be made
    again, and there would be little else. Where a disk was full, or a log begins late, there are
    some of these, too: nobody judges them (`underived.damaged`).
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
    """Damage what is in use of one file. Returns where, if there is one."""
    disk = runner.cluster.world.node(node).disk
    layout = StoreLayout(runner.cluster.config.group_dir(node, runner.group.name))
    slots = runner.group.index_slots_count
    found = _queues(disk, layout) if kind == QUEUES else _index(disk, layout, slots)
    files = [(path, used) for path, used in found if used]
    if not files:
        return None
    path, used = rng.choice(files)
    place = rng.randrange(used)
    inode = disk.inode(path)
    if whole_page:
        first = place - place % PAGE_BYTES
        inode.patch(bytes(min(PAGE_BYTES, inode.size_bytes - first)), first)
        place = first
    else:
        inode.flip_bit(place, rng.randrange(8))
    return f"{path}: byte {place}"


def _queues(disk: SimDisk, layout: StoreLayout) -> Iterator[tuple[str, int]]:
    """Each file of a consume queue, and how many of its bytes are in use."""
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
            continue  # damaged before
        end = unit_position(header.units_next, slots)
        yield f"{layout.index}/{name}", min(end, inode.size_bytes) if header.units_next > 1 else 0


MENDED_WITHIN_S: Final = 80.0
"""Virtual time after which a node that nothing disturbs has looked at all that derives from its
log: the pause between two rounds, and a round, which is short here."""


async def derived_is_mended(runner: FaultRunner) -> None:
    """Wait for the nodes, if anything was damaged that they have to mend."""
    if runner.counts.get(DerivedRot.name):
        await trio.sleep(MENDED_WITHIN_S)
