"""Queues that begin anew at a lower queue offset, and what is remembered of it.

A RocketMQ master on which a topic is deleted and made again gives the topic's queue offsets from 0
once more. Its own queue files were deleted with the topic, and ours begin anew too, so that the new
records are reachable as they are there; the units of the older records go. Should the record that a
queue began anew with be cut off the log later, those units are missing. So the side file
`begun_anew` says, before they go, up to where such records lie: who trusts less of the log than
that derives everything anew.

Upstream: a slave of 5.5.0 keeps the old units and drops the new ones (ConsumeQueue.java,
putMessagePositionInfo), until somebody deletes the topic there as well.
"""

from __future__ import annotations

from actors.env.protocols import Disk
from actors.storage.files.side_file import SideFile, SideFileDamaged, read_side_file

NEVER = -1
EVERYWHERE = 1 << 62
"""What a damaged side file is taken to say."""


def read_begun_anew(disk: Disk, path: str) -> int:
    """An offset that no record lies above with which a queue began anew; NEVER without any."""
    try:
        values = read_side_file(disk, path, 1)
    except SideFileDamaged:
        return EVERYWHERE
    return NEVER if values is None else values[0]


def write_begun_anew(disk: Disk, path: str, offset_bytes: int) -> None:
    """Durably. Raises: OSError."""
    try:
        side, _ = SideFile.open(disk, path, 1)
    except SideFileDamaged:
        disk.unlink(path)
        side, _ = SideFile.open(disk, path, 1)
    try:
        side.write((offset_bytes,))
        side.sync()
    finally:
        side.close()
