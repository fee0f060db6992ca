"""This node's role in a classic group, and the calls that change it; a base of `ClassicPart`.

A promotion is carried out by whichever member is asked for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

import attrs

from actors.api.failures import RequestRefused
from actors.config import ClassicGroup
from actors.control.member_session import LOST, lost_text
from actors.control.members import GroupMembers
from actors.control.promotion import Coordinator
from actors.epochs import Kind, compare
from actors.errors import Closed
from actors.ha import role_messages
from actors.ha.core.promotion import Wish
from actors.ha.core.role_effects import RoleView
from actors.ha.role_parts import TOKEN_MAX
from actors.log_types import Claim, GroupState
from actors.node.commit_log_part import NOT_LOOKED, OF_THE_PART, CommitLogPart
from actors.node.part import asked
from actors.runtime import ActorRef, ReplyTo
from actors.storage.commitlog.store_messages import LogRange
from wire.api import frames

R = TypeVar("R")

NO_RANGE = LogRange(min_bytes=0, written_bytes=0, synced_bytes=0, segment_bytes=0, folder="")


@attrs.define(eq=False, kw_only=True)
class ClassicMember(CommitLogPart):
    """See the module's text."""

    file_group: ClassicGroup
    rng: random.Random
    keeper: ActorRef[role_messages.Message]

    how_it_is_led: ClassVar[str] = "`promote` changes its master"

    # ---- its part, and what changes it ----

    async def wait_group_state(self, known: GroupState | None) -> GroupState:
        """Implements `NodeHandle.wait_group_state`."""
        role_status = self.role_status
        while known is not None and _is_as_known(role_status.view, known):
            await role_status.wait_changed(role_status.view)
        return await self.group_state()

    async def fence(self, claim: Claim, on: bool) -> GroupState:
        """Implements `NodeHandle.fence`."""
        await self._change(lambda reply: role_messages.Fence(claim=claim, on=on, reply_to=reply))
        return await self.group_state()

    async def record(self, number: int, master: str, token: int, force: bool) -> GroupState:
        """Implements `NodeHandle.record`."""
        await self._change(
            lambda reply: role_messages.Record(
                number=number, master=master, token=token, force=force, reply_to=reply
            ),
        )
        try:
            return await self.group_state()
        except Closed:
            if not self.waits_for_room:
                raise
            return self.state_with(NO_RANGE, NOT_LOOKED)

    async def resync(self) -> dict[str, Any]:
        """Implements `NodeHandle.resync`."""
        group, node = self.name, self.node
        if self.is_master:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, f"{node} is the master of {group}")
        said = await self._ask_master()
        own = await self.group_state()
        found = compare(own.history, own.written, said.history, said.written)
        result = {"group": group, "node": node, "master": said.node, "end_bytes": own.written}
        if found.kind is Kind.FITS:
            return {**result, "cut_bytes": None}
        if found.kind is Kind.AHEAD:
            text = f"{node} goes on where {said.node} ends, in the same epoch: ask again"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        cut_bytes = found.consistent_bytes if found.consistent_bytes > own.min else 0
        await self._change(
            lambda reply: role_messages.Resync(
                number=said.number, cut_bytes=cut_bytes, reply_to=reply
            ),
        )
        return {**result, "cut_bytes": cut_bytes}

    async def promote(self, node: str | None, force: bool) -> dict[str, Any]:
        """Implements `NodeHandle.promote`."""
        found = self.file_group
        java = found.java_nodes
        wish = Wish(
            group=self.name,
            members=tuple(each for each in found.members if each not in java),
            java=java,
            file_master=found.master,
            counting=found.counting_nodes,
            copies=found.sure_copies,
            synced=found.durability == "synced",
            node=node,
            force=force,
        )
        members = GroupMembers(own=self, links=self.links, group=self.name)
        who, token = self.node, self.rng.randint(1, TOKEN_MAX)
        return await Coordinator(wish, members, self.config.drain_timeout_s, who, token).run()

    async def _ask_master(self) -> GroupState:
        """Return the master's present state, by its own answer.

        Raises: RequestRefused: it does not answer, is not open, or is a Java broker.
        """
        group, master = self.file_group, self.master
        if master in group.java_nodes:
            text = f"{master} is a Java broker: it does not tell what its log holds"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        try:
            said = await self.links.group_state(master, group.name)
        except LOST as error:
            text = f"{master} does not answer: {lost_text(error)}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error
        if not said.opened or said.number != self.role_status.view.number:
            text = (
                f"{master} has not opened {group.name} by promotion {self.role_status.view.number}"
            )
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        return said

    async def _change(self, make: Callable[[ReplyTo[role_messages.Done]], Any]) -> None:
        done = await asked(self.node, self.keeper, make, role_messages.Done)
        if done.refused:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, f"{self.node}: {done.refused}")


def _is_as_known(view: RoleView, known: GroupState) -> bool:
    own = attrgetter(*OF_THE_PART)
    return (view.role.value, view.state.value, *own(view)) == (known.role, known.state, *own(known))
