"""The commit logs of a cluster as they are on the simulated disks, seen from outside of the
nodes.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from actors.config import CommitLogGroup
from actors.sim.cluster import SimCluster
from actors.sim.disk.pages import Inode
from actors.storage.log.commit_log import segment_bases, segment_path
from wire.files.record_encoder import BLANK_BYTES
from wire.files.record_scan import scan
from wire.files.scanned import Stop


class LogBytes(Protocol):
    """Parts of nodes' logs. A result is shorter than asked for where a file is missing or ends."""

    @property
    def master(self) -> str:
        """The node that takes appends, or did so last."""

    def begin(self, node: str) -> int:
        """Return the offset of the oldest file that the node has; 0 if it has none."""

    def written(self, node: str, start: int, end: int) -> bytes:
        """Return log bytes as the node's processes see them."""

    def durable(self, node: str, start: int, end: int) -> bytes:
        """Return log bytes as a power loss now would surely leave them."""


def left_by_resync(logs: LogBytes, node: str) -> int:
    """Return the end of a node's log after a resync has cut what its master does not have.

    It is 0 if the two logs part before the oldest file that the node has.
    """
    shared = common_end(logs, node, logs.master)
    return shared if shared > logs.begin(node) else 0


def common_end(logs: LogBytes, one: str, other: str) -> int:
    """Return the end of the last record up to which the logs of two nodes are equal."""
    at = 0
    while True:
        head = logs.written(one, at, at + BLANK_BYTES)
        size = int.from_bytes(head[:4], "big")
        record = logs.written(one, at, at + size)
        if len(head) < BLANK_BYTES or size < BLANK_BYTES or len(record) < size:
            return at
        if record != logs.written(other, at, at + size):
            return at
        at += size


def no_record_at(logs: LogBytes, node: str, start: int, end: int, segment_bytes: int) -> int | None:
    """Return the first offset at which a node has no whole record, between `start` and `end`; None:
    none.

    Records have to begin at `start` and end at `end`. Lengths prove nothing, because a file has its
    full size from the beginning, with zeros that were never written.
    """
    at = start
    while at < end:
        rest = segment_bytes - at % segment_bytes
        data = logs.written(node, at, min(end, at + rest))
        _, stopped = scan(data, physical_offset=at)
        at += stopped.end
        if stopped.stop is Stop.BLANK and stopped.blank_bytes == rest - stopped.end:
            at += stopped.blank_bytes
        elif stopped.stop is not Stop.END or not data:
            return at
    return None


@attrs.frozen
class DiskLogBytes:
    """The `LogBytes` of a group in a world.

    Files that a node has deleted for their age, or never had because its master had deleted them,
    count as still there.
    """

    cluster: SimCluster
    group: CommitLogGroup

    @property
    def master(self) -> str:
        return self.cluster.master_of(self.group.name)

    def begin(self, node: str) -> int:
        folder = self.cluster.layout(node, self.group.name).commit_log
        return min(segment_bases(self.cluster.disk(node), folder), default=0)

    def written(self, node: str, start: int, end: int) -> bytes:
        return self._range(node, start, end, durable=False)

    def durable(self, node: str, start: int, end: int) -> bytes:
        return self._range(node, start, end, durable=True)

    def _range(self, node: str, start: int, end: int, *, durable: bool) -> bytes:
        disk = self.cluster.disk(node)
        folder = self.cluster.layout(node, self.group.name).commit_log
        size = self.group.segment_bytes
        parts = []
        while start < end:
            base = start - start % size
            stop = min(end, base + size)
            path = segment_path(folder, base)
            file = None if disk.exists(path) else self._expired(node, folder, base)
            if file is None:
                range_of = disk.durable_range if durable else disk.written_range
                part = range_of(path, start - base, stop - base)
            elif durable:
                part = file.durable_range(start - base, stop - base)
            else:
                part = file.read(start - base, stop - start)
            parts.append(part)
            if len(part) < stop - start:
                break
            start = stop
        return b"".join(parts)

    def _expired(self, node: str, folder: str, base: int) -> Inode | None:
        """Return a file before the node's first one, as it was when it was deleted for its age."""
        bases = segment_bases(self.cluster.disk(node), folder)
        if not bases or base > bases[0]:
            return None
        return self.cluster.expired.of(node, self.group.name, base)
