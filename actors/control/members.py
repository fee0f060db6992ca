"""Single questions to the other members of a group, each over a connection of its own."""

from __future__ import annotations

from typing import Protocol

import attrs
import trio

from actors.api.convert_group import from_claim, to_group_state
from actors.api.credentials import MemberNetwork
from actors.api.frame_socket import SocketClosed
from actors.config import ClusterConfig
from actors.control.member_session import master_door, member_session
from actors.log_types import Claim, GroupState
from wire.api import frames


class OwnPart(Protocol):
    """The asking node's own part in the group."""

    @property
    def node(self) -> str: ...
    async def group_state(self) -> GroupState: ...
    async def fence(self, claim: Claim, on: bool) -> GroupState: ...
    async def record(self, number: int, master: str, token: int, force: bool) -> GroupState: ...


RECORD_TIMEOUT_S = 30.0
"""A node that acts by another promotion has stopped its log in order and opened it again."""


@attrs.frozen
class Members:
    """The members of one group, asked by one of them.

    Every method raises one of `member_session.LOST`: RequestRefused is the member's own word, with
    anything else nobody knows whether it was heard.

    Attributes:
        own: who asks; itself it asks without a connection.
    """

    own: OwnPart
    config: ClusterConfig
    network: MemberNetwork
    group: str

    async def state(self, node: str) -> GroupState:
        """What the node is in the group now."""
        if node == self._name:
            return await self.own.group_state()
        return await self._ask(node, frames.GetGroup(id=1, group=self.group))

    async def fence(self, node: str, claim: Claim, on: bool) -> GroupState:
        """See `NodeHandle.fence`."""
        if node == self._name:
            return await self.own.fence(claim, on)
        request = from_claim(1, self.group, claim, on=on)
        return await self._ask(node, request)

    async def record(
        self, node: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        """See `NodeHandle.record`."""
        if node == self._name:
            return await self.own.record(number, master, token, force)
        request = frames.Record(
            id=1, group=self.group, number=number, master=master, token=token, force=force
        )
        return await self._ask(node, request, RECORD_TIMEOUT_S)

    @property
    def _name(self) -> str:
        return self.own.node

    async def _ask(
        self,
        node: str,
        request: frames.GetGroup | frames.Fence | frames.Record,
        timeout_s: float | None = None,
    ) -> GroupState:
        door = master_door(self.config, node, self.config.nodes[self._name])
        with trio.fail_after(door.answer_timeout_s if timeout_s is None else timeout_s):
            async with member_session(self.network, door, node=self._name, master=node) as session:
                await session.frames.send(frames.encode(request))
                answer = await session.answer()
        if not isinstance(answer, frames.Group):
            raise SocketClosed(f"unexpected answer: {answer!r}")
        return to_group_state(answer)
