"""One round of the scrub over what derives from a log, as the derived scrubber does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from storage_kit import finish
from store_kit import Kit, running, sim_disk, small_group

from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.derived.derived_mends import Mend
from actors.storage.derived.dispatch_state import read_begun_anew
from actors.storage.derived.queue_files import QueueKey
from actors.storage.derived.record_proof import RecordProof
from actors.storage.dispatch import dispatcher_messages
from actors.storage.dispatch.derived_scrubber import DerivedWalk
from actors.storage.dispatch.index_scrub import IndexScrub
from actors.storage.dispatch.queue_scrub import QueueScrub
from actors.storage.log.log_reader import LogReader
from wire.files.consume_queue import UNIT_BYTES

COUNT = 900
"""Units: four pages and a half, of one queue."""
SLOTS, UNITS = 1500, 1000
GROUP: dict[str, Any] = {
    "segment_bytes": 1 << 17,
    "consume_queue_bytes": UNIT_BYTES * 1000,
    "index_slots_count": SLOTS,
    "index_units_count": UNITS,
}


async def scrub_range(kit: Kit) -> dispatcher_messages.ScrubRange:
    return await kit.dispatcher.ask(
        dispatcher_messages.ScrubRange,
        lambda reply_to: dispatcher_messages.GetScrubRange(reply_to=reply_to),
        timeout_s=5.0,
    )


async def mend(kit: Kit, mends: list[Mend]) -> dispatcher_messages.Mended:
    return await kit.dispatcher.ask(
        dispatcher_messages.Mended,
        lambda reply_to: dispatcher_messages.MendDerived(mends=tuple(mends), reply_to=reply_to),
        timeout_s=5.0,
    )


def walk_of(kit: Kit, held: dispatcher_messages.ScrubRange, **changes: Any) -> DerivedWalk:
    layout, group, disk = kit.layout, kit.group, kit.disk
    reader = LogReader(disk, layout.commit_log, group.segment_bytes)
    proof = RecordProof(
        reader=reader,
        record_bytes_max=group.record_bytes_max,
        min_bytes=held.min_bytes,
        limit_bytes=held.limit_bytes,
    )
    queues = QueueScrub(
        disk=disk,
        folder=layout.consume_queue,
        file_bytes=group.consume_queue_bytes,
        proof=proof,
        has_extended=disk.exists(f"{layout.root}/consumequeue_ext"),
        begun_anew_bytes=read_begun_anew(disk, layout.begun_anew),
    )
    index = IndexScrub(
        disk=disk,
        folder=layout.index,
        slots=group.index_slots_count,
        units=group.index_units_count,
        proof=proof,
        with_tag_keys=held.with_tag_keys,
    )
    fields = {"index": index, "at": held.min_bytes, **changes}
    return DerivedWalk(
        reader=reader,
        record_bytes_max=group.record_bytes_max,
        delay_levels_ms=group.delay_levels_ms,
        queues=queues,
        **fields,
    )


async def found_by_a_round(kit: Kit, min_bytes: int = 0, **changes: Any) -> list[Mend]:
    """What is damaged, of all; records below `min_bytes` count as gone."""
    held = attrs.evolve(await scrub_range(kit), min_bytes=min_bytes)
    tags = changes.pop("with_tag_keys", held.with_tag_keys)
    return round_over(kit, attrs.evolve(held, with_tag_keys=tags), **changes)


def round_over(kit: Kit, held: dispatcher_messages.ScrubRange, **changes: Any) -> list[Mend]:
    """What is damaged of what the dispatcher says that there is."""
    walk = walk_of(kit, held, **changes)
    walk.queues.deleted = held.deleted
    if walk.index is not None:
        walk.index.newest = (held.index_name, held.index_units_next)
    found: list[Mend] = []
    while not walk.is_done:
        found += finish(walk.step(held.min_bytes, held.limit_bytes))
    walk.reader.close()
    return found


def queue_file(kit: Kit, key: QueueKey = ("t", 0), base: int = 0) -> str:
    return f"{kit.layout.consume_queue}/{key[0]}/{key[1]}/{base:020d}"


def index_file(kit: Kit, number: int = 0) -> str:
    folder = kit.layout.index
    return f"{folder}/{kit.disk.listdir(folder)[number]}"


def content(kit: Kit, path: str) -> bytes:
    disk = kit.disk
    assert isinstance(disk, SimDisk)
    inode = disk.inode(path)
    return inode.read(0, inode.size_bytes)


def damage(kit: Kit, path: str, data: bytes, at: int) -> None:
    """On the disk and in the cache."""
    disk = kit.disk
    assert isinstance(disk, SimDisk)
    disk.inode(path).patch(data, at)


@asynccontextmanager
async def filled(**changes: Any) -> AsyncIterator[Kit]:
    """A log of two files, one queue file and two index files."""
    async with running(sim_disk(), small_group(**GROUP, **changes)) as kit:
        for first in range(0, COUNT, 100):
            some = range(first, first + 100)
            messages = [Message("t", b"x" * 80, keys=f"k{n} all", tags=f"tag{n % 5}") for n in some]
            await kit.append(*messages)
        await kit.dispatched((await kit.range()).written_bytes)
        await trio.sleep(2)  # all is flushed
        yield kit


async def is_found_and_mended(kit: Kit, path: str, data: bytes, at: int) -> list[Any]:
    """Put `data` there; a round finds it, what it says is done, and all is as it was."""
    before = content(kit, path)
    damage(kit, path, data, at)
    assert content(kit, path) != before
    found = await found_by_a_round(kit)
    assert found
    done = await mend(kit, found)
    assert done.count == len(found)
    assert content(kit, path) == before
    assert await found_by_a_round(kit) == []
    return found
