"""Steps of the dispatcher: what it reads next, and what it tells of records that were put."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from actors.env.protocols import SYNC_PATHS_MAX, Disk, Syncer
from actors.errors import CorruptLog, StorageError
from actors.events import store as events
from actors.storage.derived.derived_files import Flush, Put
from wire.files.commit_log import Scanned, Stop


def events_of(put: Put) -> Iterator[events.RecordsNotDispatched | events.QueueOffsetsRepeated]:
    """The events of records that no unit leads to."""
    if put.refused:
        first = put.refused[0].physical_offset
        yield events.RecordsNotDispatched(first_bytes=first, count=len(put.refused))
    if put.repeated:
        first = put.repeated[0].physical_offset
        yield events.QueueOffsetsRepeated(first_bytes=first, count=len(put.repeated))


def begun_event(put: Put) -> events.QueuesBegunAnew:
    """The event of queues that began anew: there is one."""
    first = put.begun[0]
    return events.QueuesBegunAnew(
        topic=first.topic,
        queue_id=first.queue_id,
        first_bytes=first.physical_offset,
        queue_count=len(put.begun),
        unit_count=put.units_count,
    )


async def sync_flush(
    syncer: Syncer, disk: Disk, flush: Flush, emit: Callable[[events.SyncFailed], None]
) -> None:
    """Have its files on the disk. Raises: StorageError."""
    try:
        for first in range(0, len(flush.paths), SYNC_PATHS_MAX):
            some = flush.paths[first : first + SYNC_PATHS_MAX]
            # Some may have expired since; the call holds on to those it has begun with.
            await syncer.sync([path for path in some if disk.exists(path)])
    except OSError as error:
        emit(events.SyncFailed(error=str(error), paths=flush.paths))
        raise StorageError(f"the sync of derived files failed: {error}") from error


def wanted_bytes(stopped: Scanned, at_bytes: int, rest_bytes: int, folder: str) -> int:
    """Up to where the log has to reach before the next record can be read, where a scan stopped.

    Args:
        at_bytes: where it stopped, `rest_bytes` before the end of what was read.
        folder: of the log.

    Raises: CorruptLog.
    """
    match stopped.stop:
        case Stop.END:
            return at_bytes
        case Stop.BLANK:
            return at_bytes + stopped.blank_bytes
        case Stop.INCOMPLETE:
            # Normal on a slave: frames cut records. More is read at once, or waited for.
            return at_bytes + rest_bytes + stopped.missing_bytes
        case Stop.CORRUPT | Stop.UNWRITTEN:
            reason = stopped.reason or "nothing is written there"
            raise CorruptLog(
                f"{folder}: offset {at_bytes}: {reason}; on a slave: its"
                " master's log is not the one that it had copied (README, Running it)"
            )
        case _:
            assert_never(stopped.stop)
