"""Deletes files that were not dispatched, and keeps the highest queue offset of their records.

Only a disk that is too full to wait for the dispatcher loses such files. Neither units nor the log
show the queue offsets of their records then, so a master that starts later would give the same ones
again. Before a file goes, the side file `given_up` says up to where such records lay, and a queue
offset above all of theirs: queues without a record behind that, and new ones, go on there at least.
Numbers are left out, but none is used twice. Upstream has nothing like it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress

import attrs

from actors.env.protocols import Disk
from actors.errors import NO_ROOM_CODES, CorruptLog
from actors.events.store import SegmentExpired
from actors.storage.derived.queue_heads import NextOffsets, add_offsets
from actors.storage.files.side_file import SideFileDamaged, read_side_file, write_side_file
from actors.storage.layout import StoreLayout
from actors.storage.log.expiry import Cleaner


@attrs.frozen
class GivenUp:
    """What was deleted without having been dispatched.

    Attributes:
        end_bytes: the end of it in the log.
        next_offset: above every queue offset of its records; 0 if it had none.
    """

    end_bytes: int = 0
    next_offset: int = 0

    @classmethod
    def read(cls, disk: Disk, path: str) -> GivenUp:
        """Read the side file. Raises: CorruptLog: it cannot be read."""
        try:
            return cls(*(read_side_file(disk, path, 2) or (0, 0)))
        except SideFileDamaged:
            raise CorruptLog(
                f"{path}: it cannot be read, and says which queue offsets were used. Remove the"
                " file to have them follow from the log"
            ) from None

    def write(self, disk: Disk, path: str) -> bool:
        """Durably. False: there is no room for it."""
        try:
            write_side_file(disk, path, (self.end_bytes, self.next_offset))
        except OSError as error:
            if error.errno not in NO_ROOM_CODES:
                raise
            return False
        return True


def delete_first(
    layout: StoreLayout, cleaner: Cleaner, reason: str
) -> Generator[None, None, SegmentExpired | None]:
    """Delete the oldest file; what of it is not dispatched is remembered first, or, where only its
    own room has room for that, right behind it.

    Args:
        cleaner: its floor is a file's first byte; everything below is dispatched.
        reason: why it goes.

    Returns: None: the file stays, for a bad sector hides which queue offsets are used; the cleaner
        has noted that.

    Raises: OSError: of a change; CorruptLog: the side file is damaged. Yields at least every 4 MiB
        read.
    """
    disk, log = cleaner.env.disk, cleaner.log
    first, end = log.bases()[:2]
    lost_bytes = end - min(max(first, cleaner.floor_bytes), end)
    if not lost_bytes:
        cleaner.can_read()  # nobody needs to
        return SegmentExpired(min_bytes=log.delete_first(), reason=reason)
    offsets: NextOffsets = {}
    path = layout.given_up
    try:
        with suppress(CorruptLog):  # nobody could dispatch what lies behind it
            yield from add_offsets(disk, layout, log, first, end, offsets)
        known = GivenUp.read(disk, path)
    except OSError as error:
        cleaner.cannot_read(error)
        return None
    cleaner.can_read()
    now = GivenUp(end, max([known.next_offset, *offsets.values()]))
    written = now.write(disk, path)
    log.delete_first()
    if not written:
        now.write(disk, path)
    return SegmentExpired(min_bytes=end, reason=reason, undispatched_bytes=lost_bytes)
