"""Looking up in consume queues and index, for the dispatcher, which owns them."""

from __future__ import annotations

from typing import Final

from actors.errors import StorageError
from actors.storage.derived_files import DerivedFiles
from actors.storage.dispatcher_messages import KeyMatches, LookupKey, LookupQueue, QueueUnits
from actors.storage.log_reader import LogReader, OffsetGone
from actors.storage.queue_files import QueueGap
from wire.commitlog import RecordHead, scan_heads

LOOKUP_COUNT_MAX: Final = 1024


def answer(
    files: DerivedFiles,
    reader: LogReader,
    request: LookupQueue | LookupKey,
    min_bytes: int,
    limit_bytes: int,
) -> QueueGap | None:
    """Answer from the records between two offsets of the log. What cannot be read fails the request
    alone: appends wait behind the dispatcher's restart.

    Returns: what a queue has to be built anew for.
    """
    try:
        if isinstance(request, LookupQueue):
            request.reply_to.send(units(files, request, min_bytes))
        else:
            most = files.group.record_bytes_max
            found = matches(files, reader, request, limit_bytes, most)
            request.reply_to.send(KeyMatches(matches=found))
    except QueueGap as gap:
        request.reply_to.fail(StorageError(f"{gap}; the queue is built anew: ask again"))
        return gap
    except OSError as error:
        request.reply_to.fail(StorageError(f"cannot look that up: {error}"))
    return None


def units(files: DerivedFiles, request: LookupQueue, min_bytes: int) -> QueueUnits:
    """A part of a queue, of records from `min_bytes` on. Raises: QueueGap, OSError."""
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
    """Offset and size of records with a key. Entries share hashes, so each record is looked at.

    Raises: OSError.
    """
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
