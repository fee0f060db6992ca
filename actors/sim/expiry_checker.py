"""The invariant that nodes delete no log files for their age but old ones."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.config import ClassicGroup
from actors.events import store
from actors.sim.cluster import SimCluster
from actors.sim.history import Observation
from actors.sim.log_bytes import DiskLogBytes
from actors.sim.survival import is_of
from actors.sim.world import SimEvent
from actors.storage.commit_log import segment_bases
from actors.storage.expiry import HOUR_MS
from actors.storage.layout import StoreLayout


@attrs.define(kw_only=True)
class OnlyOldExpires:
    """A file that a node deletes for its age is old enough, the first that it has, not its last,
    and all of it was on the disk.
    """

    group: ClassicGroup
    cluster: SimCluster

    def see(self, seen: Observation) -> Iterator[str]:
        if not (isinstance(seen, SimEvent) and isinstance(seen.event, store.SegmentExpired)):
            return
        if not is_of(self.group, seen) or seen.event.reason != "age":
            return
        node, next_bytes = self.cluster.world.node(seen.node), seen.event.min_bytes
        base, size = next_bytes - self.group.segment_bytes, self.group.segment_bytes
        file = self.cluster.expired.own(seen.node, self.group.name, base)
        layout = StoreLayout(self.cluster.config.group_dir(seen.node, self.group.name))
        left = segment_bases(node.disk, layout.commit_log)
        if file is None or left[:1] != [next_bytes]:
            yield f"{seen.node} begins with {left[:1]}, not with {next_bytes}"
            return
        age_ms = node.wall_clock_ms() - file.modified_ms
        if age_ms < self.group.file_reserved_time_h * HOUR_MS:
            yield f"{seen.node} deleted {base} at the age of {age_ms} ms"
        if file.durable_range(0, size) != file.read(0, size):
            yield f"{seen.node} deleted {base}, which was not on its disk"
        if not DiskLogBytes(self.cluster, self.group).durable(
            seen.node, next_bytes, next_bytes + 1
        ):
            yield f"{seen.node} deleted {base}, and had nothing behind it on its disk"
