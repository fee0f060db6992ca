"""The invariants that nodes delete only old log files for their age, and do delete these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from actors.config import CommitLogGroup
from actors.events import runtime, store
from actors.group_status import STANDS_STILL
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster
from actors.sim.history import FaultInjected, NodeLooked, Observation, is_of
from actors.sim.world import SimEvent
from actors.storage.log.commit_log import segment_bases
from actors.storage.log.expiry import APART_MS, HOUR_MS

STORED_AT: Final = 56
"""The position in a record of a commit log of the time at which its master stored it, in ms."""
LOOKS_MAX: Final = 15
"""A node that has reported its status so often since its oldest file became an hour old must have
deleted it, or said why not. Statuses are asked for every two seconds, and a node that is paused, or
starting, reports none."""


@attrs.define(kw_only=True)
class OnlyOldExpires:
    """A file that a node deletes for its age is old enough, is its first and not its last, and was
    on the disk completely.
    """

    group: CommitLogGroup
    cluster: SimCluster

    def see(self, seen: Observation) -> Iterator[str]:
        if not (isinstance(seen, SimEvent) and isinstance(seen.event, store.SegmentExpired)):
            return
        if not is_of(self.group, seen) or seen.event.reason != "age":
            return
        node, next_bytes = self.cluster.world.node(seen.node), seen.event.min_bytes
        base, size = next_bytes - self.group.segment_bytes, self.group.segment_bytes
        file = self.cluster.expired.own(seen.node, self.group.name, base)
        layout = self.cluster.layout(seen.node, self.group.name)
        left = segment_bases(node.disk, layout.commit_log)
        if file is None or left[:1] != [next_bytes]:
            yield f"{seen.node} begins with {left[:1]}, not with {next_bytes}"
            return
        now_ms = node.wall_clock_ms()
        modified_ms = file.modified_ms
        if modified_ms > now_ms + APART_MS:  # its first record may then be older than the rest
            modified_ms = int.from_bytes(file.read(STORED_AT, 8), "big")
        age_ms = now_ms - modified_ms
        if age_ms < self.group.file_reserved_time_h * HOUR_MS:
            yield f"{seen.node} deleted {base} at the age of {age_ms} ms"
        if file.durable_range(0, size) != file.read(0, size):
            yield f"{seen.node} deleted {base}, which was not on its disk"
        if not DiskLogBytes(self.cluster, self.group).durable(
            seen.node, next_bytes, next_bytes + 1
        ):
            yield f"{seen.node} deleted {base}, and had nothing behind it on its disk"


@attrs.define
class _Due:
    """A node whose first file has to be deleted.

    Attributes:
        below_bytes: the offset of its second file.
        boot: the node's boot at its first status; another boot is not judged by this one's log.
        looks: how many statuses it has reported since.
    """

    below_bytes: int
    boot: int | None = None
    looks: int = 0


@attrs.define(kw_only=True)
class RetentionGoesOn:
    """A node whose oldest file has a wrong time, or a bad sector, still deletes it when it is old,
    or reports that it does not. It does not end because of it.
    """

    group: CommitLogGroup
    cluster: SimCluster
    _due: dict[str, _Due] = attrs.field(factory=dict, init=False)
    _unreadable: str = attrs.field(default="", init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, FaultInjected):
            if seen.kind in ("misdate", "bad_sector"):
                self._begin(seen.where.split()[0])
            if seen.kind in ("bad_sector", "readable"):
                self._unreadable = seen.where.split()[0] if seen.kind == "bad_sector" else ""
        elif isinstance(seen, SimEvent):
            if isinstance(seen.event, runtime.ActorCrashed) and self._is_store(seen):
                yield f"{seen.node} ended by a bad sector in a file that no node needs"
        elif isinstance(seen, NodeLooked) and seen.node in self._due:
            yield from self._judge(seen, self._due[seen.node])

    def _is_store(self, seen: SimEvent) -> bool:
        """Whether the event is of the store that has the bad sector."""
        return seen.node == self._unreadable and seen.path.endswith(
            f"/{self.group.name}/storage/store"
        )

    def _begin(self, node: str) -> None:
        layout = self.cluster.layout(node, self.group.name)
        bases = segment_bases(self.cluster.disk(node), layout.commit_log)
        if len(bases) > 1:
            self._due[node] = _Due(bases[1])

    def _judge(self, seen: NodeLooked, due: _Due) -> Iterator[str]:
        status = seen.status["groups"].get(self.group.name)
        due.boot = seen.boot if due.boot is None else due.boot
        is_over = (
            status is None
            or due.boot != seen.boot
            or not status["first"] < due.below_bytes <= status["synced"]
            or STANDS_STILL in status["findings"]
        )
        due.looks += 1
        if is_over or due.looks >= LOOKS_MAX:
            del self._due[seen.node]
        if not is_over and due.looks >= LOOKS_MAX:
            yield f"{seen.node} keeps old files below {due.below_bytes}, and does not say why"
