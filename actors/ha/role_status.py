"""What a group's role keeper has published: read by the node on every append, written by it alone.

Like a log's published range it is a value that readers may look at without a message: an append
costs one attribute check more. It outlives the group's tree, and the node's.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.ha.core.role_effects import RoleView
from actors.log_types import GroupState

SAID_HOLDS_S: Final = 20.0
"""A member that can be asked says so much more often what it is."""


@attrs.define(eq=False)
class RoleStatus:
    """The newest view of one group.

    Attributes:
        is_open: this node is master and its store takes appends. The store's gate is the last word.
        view: see there.
    """

    view: RoleView
    is_open: bool = False
    _said: dict[str, tuple[GroupState, float]] = attrs.field(init=False, factory=dict)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def publish(self, view: RoleView, *, is_open: bool) -> None:
        """Called by the role keeper: the newest view."""
        if (view, is_open) == (self.view, self.is_open):
            return
        self.view, self.is_open = view, is_open
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def note(self, member: str, state: GroupState) -> None:
        """By the role keeper: a member has said what it is. It wakes nobody."""
        self._said[member] = state, trio.current_time()

    def said(self) -> dict[str, GroupState]:
        """What members have said lately, by their names."""
        since_s = trio.current_time() - SAID_HOLDS_S
        return {name: state for name, (state, at_s) in self._said.items() if at_s >= since_s}

    async def wait_changed(self, known: RoleView) -> RoleView:
        """Return once the view is another than `known`."""
        while self.view == known:
            await self._changed.wait()
        return self.view
