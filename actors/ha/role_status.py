"""What a group's role keeper publishes; it alone writes it, and the node reads it on every append.

Like a log's published range it is a value that others may read without a message: an append costs
one attribute check more. It outlives the group's tree, and the node's.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.ha.core.role_effects import RoleView
from actors.log_types import GroupState

SAID_HOLDS_S: Final = 20.0
"""How long a member's report is shown, in seconds; a member that runs reports much more often."""


@attrs.define(eq=False)
class RoleStatus:
    """The newest view of one group.

    Attributes:
        is_open: whether this node is master and its store takes appends. The store's own gate may
            still refuse one.
        view: the newest role.
    """

    view: RoleView
    is_open: bool = False
    _said: dict[str, tuple[GroupState, float]] = attrs.field(init=False, factory=dict)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def publish(self, view: RoleView, *, is_open: bool) -> None:
        """Publish the newest view; the role keeper calls it."""
        if (view, is_open) == (self.view, self.is_open):
            return
        self.view, self.is_open = view, is_open
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def note(self, member: str, state: GroupState) -> None:
        """Note a member's report; the role keeper calls it. It does not wake `wait_changed`."""
        self._said[member] = state, trio.current_time()

    def said(self) -> dict[str, GroupState]:
        """By member, its report of the last SAID_HOLDS_S."""
        since_s = trio.current_time() - SAID_HOLDS_S
        return {name: state for name, (state, at_s) in self._said.items() if at_s >= since_s}

    async def wait_changed(self, known: RoleView) -> RoleView:
        """Return the view once it differs from `known`."""
        while self.view == known:
            await self._changed.wait()
        return self.view
