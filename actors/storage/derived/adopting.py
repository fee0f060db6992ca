"""Takes over the derived files of a store that another program stopped in order.

After an ordered stop its queues and its index are complete up to the largest end of a record that
has a unit.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from actors.config import CommitLogGroup
from actors.env.protocols import Disk
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import (
    QUEUES_PER_STEP,
    queue_folder,
    scan_queue,
    walk_queues,
)
from actors.storage.files.whole_files import read_bytes
from actors.storage.layout import StoreLayout
from wire.errors import RemoteProtocolError
from wire.files.index_file import HEADER_BYTES, decode_index_header


def adopted(
    disk: Disk, layout: StoreLayout, queue_file_bytes: int, log_end_bytes: int
) -> Generator[None, None, DispatchState | None]:
    """Make a dispatch state of the files that another program derived; None if they do not suffice.

    They do not if a queue is damaged, if no queue has a unit, or if there is no readable index
    file.
    """
    largest, count = -1, 0
    queues = yield from walk_queues(disk, layout.consume_queue)
    for number, key in enumerate(queues, 1):
        folder = queue_folder(layout.consume_queue, *key)
        queue = scan_queue(disk, folder, queue_file_bytes, log_end_bytes)
        if number % QUEUES_PER_STEP == 0:
            yield
        if queue is None:
            return None
        count += queue.end_bytes >= 0
        largest = max(largest, queue.end_bytes)
    names = [name for name in disk.listdir(layout.index) if is_index_name(name)]
    if largest < 0 or not names:
        return None
    try:
        newest = read_bytes(disk, f"{layout.index}/{names[-1]}", HEADER_BYTES)
        header = decode_index_header(newest)
    except RemoteProtocolError:
        return None
    return DispatchState(
        dispatched_bytes=largest,
        seen_bytes=largest,
        queue_count=count,
        index_name=int(names[-1]),
        index_units_next=header.units_next,
        index_slots_used=header.slots_used,
        index_end_ts=header.end_ts,
        index_end_offset=header.end_offset,
    )


def adopt(
    disk: Disk, layout: StoreLayout, group: CommitLogGroup, log_end_bytes: int
) -> Generator[None, None, None]:
    """Take over the files that another program has derived, at the first start on its store.

    If they do not suffice nothing is written, and everything is derived from the log.
    """
    state = yield from adopted(disk, layout, group.consume_queue_bytes, log_end_bytes)
    if state is None:
        return
    with closing(DispatchState.open(disk, layout.dispatched)[0]) as side:
        side.write(state.values())
        side.sync()
