"""What a group's role keeper has published: read by the node on every append, written by it alone.

Like a log's published range it is a value that readers may look at without a message: an append
costs one attribute check more. It outlives the group's tree, and the node's.
"""

from __future__ import annotations

import attrs
import trio

from actors.ha.core.role_effects import RoleView


@attrs.define(eq=False)
class RoleBoard:
    """The newest view of one group.

    Attributes:
        is_open: this node is master and its store takes appends. The store's gate is the last word.
        view: see there.
    """

    view: RoleView
    is_open: bool = False
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def publish(self, view: RoleView, *, is_open: bool) -> None:
        """By the role keeper."""
        if (view, is_open) == (self.view, self.is_open):
            return
        self.view, self.is_open = view, is_open
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_changed(self, known: RoleView) -> RoleView:
        """Return once the view is another than `known`."""
        while self.view == known:
            await self._changed.wait()
        return self.view
