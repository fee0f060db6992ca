"""A classic group on a running node: the calls of the node, as messages to the group's actors."""

from __future__ import annotations

from typing import Any

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.errors import Closed
from actors.group_status import GroupStatus
from actors.ha import role_messages
from actors.log_types import (
    GoodRange,
)
from actors.node.classic_member import ClassicMember
from actors.node.classic_repair import ClassicRepair, log_range
from actors.node.part import STATE_LOOK_S, asked
from actors.node.status import classic_status
from actors.storage.commitlog.pull_service import Pulled
from wire.api import frames


@attrs.define(eq=False, kw_only=True)
class ClassicPart(ClassicMember):
    """One node's part in a classic group; implements `Part`."""

    async def _read_fresh(self, start: int, max_bytes: int) -> Pulled:
        """Read so that the result includes all that was acknowledged before, by any master.

        This node's role may change meanwhile, and its group's tree is built anew then. So the
        offset up to which it acknowledged as the master is kept here, and only a result that
        reaches at least this offset counts.

        Raises: RequestRefused: no node can tell what was acknowledged, or it has not come here in
            time. Overloaded; NotARecord; Unreadable; Closed.
        """
        wait_s = self.file_group.append_timeout_s
        deadline_s = trio.current_time() + wait_s
        if self.master not in self.config.python_nodes:
            text = f"{self.master} is a Java broker: it cannot be asked what is fresh"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        shown = await self._shown(deadline_s)
        found = await asked(
            self.node,
            self.keeper,
            lambda reply: role_messages.AskFresh(deadline_s=deadline_s, reply_to=reply),
            role_messages.Fresh,
        )
        if found.refused:
            text = f"{self.node} does not know what is fresh in {self.name}: {found.refused}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        fresh_bytes = max(shown, found.offset_bytes)
        with trio.move_on_at(deadline_s):
            while True:
                try:
                    await self.wait_acknowledged(fresh_bytes - 1)
                    pulled = await self._read(start, max_bytes)
                except Closed:  # its tree is just being built anew, by another promotion
                    await trio.sleep(STATE_LOOK_S)
                    continue
                offsets = pulled.offsets
                if min(offsets.acknowledged, self._held_bytes(offsets)) >= fresh_bytes:
                    return pulled
        text = (
            f"{self.node} has not got within {wait_s:g} s what was acknowledged in {self.name},"
            f" up to {fresh_bytes}"
        )
        raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)

    async def _shown(self, deadline_s: float) -> int:
        """Return the acknowledged end that readers see here. Raises: Closed: no actor answers."""
        while True:
            try:
                return (await self.wait_offsets(None)).acknowledged
            except Closed:
                if self._stopping or trio.current_time() >= deadline_s:
                    raise
            await trio.sleep(STATE_LOOK_S)

    # ---- looking ----

    async def status(self) -> GroupStatus:
        """Return the group's entry of `NodeHandle.status`."""
        ha, offsets, rest = await self._seen()
        said = self.role_status.said()
        group = self.file_group.led_by(self.role_status.view.master)
        counts = attrs.asdict(self.counts)
        view = self.role_status.view
        return classic_status(group, ha, offsets, view, counts, said=said, **rest)

    # ---- mending ----

    async def log_range(self, start: int) -> GoodRange:
        """Implements `NodeHandle.log_range`."""
        return await log_range(self, start)

    async def repair_from(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Implements `Part`."""
        return await ClassicRepair(self, await self.group_state(), names).run()
