"""Log files that nodes have deleted for their age: what they held, so that checkers go on comparing
whole logs.
"""

from __future__ import annotations

import attrs

from actors.config import ClassicGroup, ClusterConfig
from actors.events import store
from actors.sim.pages import Inode
from actors.sim.world import SimEvent, World
from actors.storage.commit_log import segment_path
from actors.storage.layout import StoreLayout


@attrs.define(eq=False)
class ExpiredFiles:
    """Those of one cluster."""

    _world: World
    _config: ClusterConfig
    _files: dict[tuple[str, str, int], Inode] = attrs.field(factory=dict, init=False)

    def see(self, seen: SimEvent) -> None:
        """Take in an event, as it comes: a file that a node has deleted for its age is kept."""
        if not isinstance(seen.event, store.SegmentExpired):
            return
        group = self._config.groups[seen.path.split("/")[2]]
        if isinstance(group, ClassicGroup):
            base = seen.event.min_bytes - group.segment_bytes
            folder = StoreLayout(self._config.group_dir(seen.node, group.name)).commit_log
            file = self._world.node(seen.node).disk.unlinked[segment_path(folder, base)]
            self._files[seen.node, group.name, base] = file

    def own(self, node: str, group: str, base: int) -> Inode | None:
        """The file that the node had at log offset `base`, if it has deleted it."""
        return self._files.get((node, group, base))

    def of(self, node: str, group: str, base: int) -> Inode | None:
        """The same; another node's if it never had it, for its log was begun later."""
        others = [file for (_, *place), file in self._files.items() if place == [group, base]]
        return self.own(node, group, base) or next(iter(others), None)

    def forget(self, node: str) -> None:
        """The node was emptied."""
        self._files = {key: file for key, file in self._files.items() if key[0] != node}
