"""Looking up in consume queues and index, for the dispatcher, which owns them."""

from __future__ import annotations

from typing import Final

from actors.storage.derived_files import DerivedFiles
from actors.storage.dispatcher_messages import LookupKey, LookupQueue, QueueUnits
from actors.storage.log_reader import LogReader, OffsetGone
from wire.commitlog import RecordHead, scan_heads

LOOKUP_COUNT_MAX: Final = 1024


def units(files: DerivedFiles, request: LookupQueue, min_bytes: int) -> QueueUnits:
    """A part of a queue, of records from `min_bytes` on."""
    queues, topic, queue_id = files.queues, request.topic, request.queue_id
    least = queues.min_offset(topic, queue_id, min_bytes)
    first = max(request.position, least)
    count = min(request.count, LOOKUP_COUNT_MAX)
    return QueueUnits(
        min_offset=least,
        next_offset=queues.next_offset(topic, queue_id),
        first_offset=first,
        units=queues.units(topic, queue_id, first, count, min_bytes),
    )


def matches(
    files: DerivedFiles,
    reader: LogReader,
    request: LookupKey,
    limit_bytes: int,
    record_bytes_max: int,
) -> tuple[tuple[int, int], ...]:
    """Offset and size of records with a key. Entries share hashes, so each record is looked at."""
    count = min(request.count, LOOKUP_COUNT_MAX)
    found: list[tuple[int, int]] = []
    for offset in files.index.find(request.topic, request.key, LOOKUP_COUNT_MAX):
        if len(found) >= count:
            break
        head = _head_at(reader, offset, limit_bytes, record_bytes_max)
        if head is not None and head.topic == request.topic and _has_key(head, request.key):
            found.append((offset, head.size))
    return tuple(dict.fromkeys(found))


def _head_at(
    reader: LogReader, offset: int, limit_bytes: int, record_bytes_max: int
) -> RecordHead | None:
    try:
        size = int.from_bytes(reader.read(offset, 4, limit_bytes), "big")
        data = reader.read(offset, size, limit_bytes)
    except OffsetGone:
        return None
    heads, _ = scan_heads(data, physical_offset=offset, size_max=record_bytes_max)
    return heads[0] if heads else None


def _has_key(head: RecordHead, key: str) -> bool:
    return key == head.uniq_key or key in head.keys.split(" ")
