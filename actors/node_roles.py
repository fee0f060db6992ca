"""A node's part in its groups: what it is in each, and what changes it. A part of `Node`."""

from __future__ import annotations

from typing import Any

import trio

from actors.api.failures import RequestRefused
from actors.log_types import GroupState
from wire import api


class NodeRoles:
    """See `actors.api.handle.NodeHandle` for each method."""

    async def group_state(self, group: str) -> GroupState:
        """See `NodeHandle.group_state`."""
        return await self.wait_group_state(group, None)

    async def wait_group_state(self, group: str, known: GroupState | None) -> GroupState:
        """See `NodeHandle.wait_group_state`."""
        del known
        raise await self._not_here(group)

    async def fence(self, group: str, number: int, on: bool) -> GroupState:
        """See `NodeHandle.fence`."""
        del number, on
        raise await self._not_here(group)

    async def record(self, group: str, number: int, master: str, force: bool) -> GroupState:
        """See `NodeHandle.record`."""
        del number, master, force
        raise await self._not_here(group)

    async def resync(self, group: str) -> dict[str, Any]:
        """See `NodeHandle.resync`."""
        raise await self._not_here(group)

    async def _not_here(self, group: str) -> RequestRefused:
        await trio.lowlevel.checkpoint()
        return RequestRefused(api.ERROR_NOT_AVAILABLE, f"no roles are kept for {group}")
