"""One round of the scrub over what derives from a log, as the derived scrubber does it."""

from __future__ import annotations

from typing import Any

from storage_kit import finish
from store_kit import Kit

from actors.sim.disk import SimDisk
from actors.storage import dispatcher_messages
from actors.storage.begun_anew import read_begun_anew
from actors.storage.derived_mends import Mend
from actors.storage.derived_walk import DerivedWalk
from actors.storage.index_scrub import IndexScrub
from actors.storage.log_reader import LogReader
from actors.storage.queue_files import QueueKey
from actors.storage.queue_scrub import QueueScrub
from actors.storage.record_proof import RecordProof


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
        reader=reader, record_bytes_max=group.record_bytes_max, queues=queues, **fields
    )


async def found_by_a_round(kit: Kit, **changes: Any) -> list[Mend]:
    """What is damaged, of all."""
    held = await scrub_range(kit)
    walk = walk_of(kit, held, **changes)
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
