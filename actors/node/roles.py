"""A node's part in its groups: what it is in each, and what changes it. The base of `Node`.

A promotion is carried out by whichever member is asked for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import trio

from actors.api.credentials import MemberNetwork
from actors.api.failures import RequestRefused
from actors.api.handle import NodeIdentity
from actors.api.member_requests import Members
from actors.api.member_session import LOST, ask_group, lost_text
from actors.api.promotion import Promotion
from actors.api.server import master_door
from actors.config import ClusterConfig
from actors.errors import Closed
from actors.ha import role_messages
from actors.ha.core.promotion import Wish
from actors.ha.core.reigns import Kind, compare
from actors.ha.core.role_effects import RoleView
from actors.ha.role_board import RoleBoard
from actors.ha.role_parts import TOKEN_MAX
from actors.log_types import Claim, GroupState, Offsets
from actors.node import repair
from actors.node.classic import NO_RANGE, NOT_LOOKED, ClassicPart
from actors.node.ledger import LedgerPart
from actors.node.part import STATE_LOOK_S, Part, asked
from actors.node.transfer import transfer_leader
from actors.runtime import ReplyTo
from actors.storage import store
from actors.storage.mending import GoodRange
from wire.api import frames

R = TypeVar("R")

STATE_TIMEOUT_S: Final = 5.0


class NodeRoles:
    """See `actors.api.handle.NodeHandle` for each method."""

    identity: NodeIdentity

    def __init__(self, config: ClusterConfig, network: MemberNetwork, rng: random.Random) -> None:
        self.config = config
        self._rng = rng
        self._network = network
        self._parts: dict[str, Part] = {}
        self._classic: dict[str, ClassicPart] = {}

    def board(self, group: str) -> RoleBoard:
        """See `NodeHandle.board`."""
        return self._classic_part(group).board

    async def group_state(self, group: str) -> GroupState:
        """See `NodeHandle.group_state`."""
        part = self._classic_part(group)
        deadline_s = trio.current_time() + STATE_TIMEOUT_S
        while True:
            view = part.board.view
            try:
                offsets = await part.wait_offsets(None)
                held = await asked(
                    self.identity.node,
                    part.store,
                    lambda reply: store.GetRange(reply_to=reply),
                    store.LogRange,
                )
            except Closed:
                if trio.current_time() >= deadline_s:
                    raise
            else:
                if _same(part.board.view, view):  # else the range may be older than the part
                    return self._state(group, part, held, offsets)
            await trio.sleep(STATE_LOOK_S)

    async def wait_group_state(self, group: str, known: GroupState | None) -> GroupState:
        """See `NodeHandle.wait_group_state`."""
        board = self._classic_part(group).board
        while known is not None and _is_as_known(board.view, known):
            await board.wait_changed(board.view)
        return await self.group_state(group)

    async def fence(self, group: str, claim: Claim, on: bool) -> GroupState:
        """See `NodeHandle.fence`."""
        await self._change(
            group, lambda reply: role_messages.Fence(claim=claim, on=on, reply_to=reply)
        )
        return await self.group_state(group)

    async def record(
        self, group: str, number: int, master: str, token: int, force: bool
    ) -> GroupState:
        """See `NodeHandle.record`."""
        await self._change(
            group,
            lambda reply: role_messages.Record(
                number=number, master=master, token=token, force=force, reply_to=reply
            ),
        )
        try:
            return await self.group_state(group)
        except Closed:
            part = self._classic_part(group)
            if not part.waits_for_room:
                raise
            return self._state(group, part, NO_RANGE, NOT_LOOKED)

    async def resync(self, group: str) -> dict[str, Any]:
        """See `NodeHandle.resync`."""
        part, node = self._classic_part(group), self.identity.node
        if part.is_master:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, f"{node} is the master of {group}")
        said = await self._ask_master(part)
        own = await self.group_state(group)
        found = compare(own.history, own.written, said.history, said.written)
        result = {"group": group, "node": node, "master": said.node, "end_bytes": own.written}
        if found.kind is Kind.FITS:
            return {**result, "cut_bytes": None}
        if found.kind is Kind.AHEAD:
            text = f"{node} goes on where {said.node} ends, in the same reign: ask again"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        cut_bytes = found.consistent_bytes if found.consistent_bytes > own.min else 0
        await self._change(
            group,
            lambda reply: role_messages.Resync(
                number=said.number, cut_bytes=cut_bytes, reply_to=reply
            ),
        )
        return {**result, "cut_bytes": cut_bytes}

    async def promote(self, group: str, node: str | None, force: bool) -> dict[str, Any]:
        """See `NodeHandle.promote`."""
        self._classic_part(group)
        found = self.config.classic_groups[group]
        java = found.java_nodes
        wish = Wish(
            group=group,
            members=tuple(each for each in found.members if each not in java),
            java=java,
            file_master=found.master,
            counting=found.counting_nodes,
            copies=found.sure_copies,
            synced=found.durability == "synced",
            node=node,
            force=force,
        )
        members = Members(own=self, config=self.config, network=self._network, group=group)
        who, token = self.identity.node, self._rng.randint(1, TOKEN_MAX)
        return await Promotion(wish, members, self.config.drain_timeout_s, who, token).run()

    async def log_range(self, group: str, start: int) -> GoodRange:
        """See `NodeHandle.log_range`."""
        return await repair.log_range(self._part_of(group), start)

    async def repair(self, group: str, source: str | None) -> dict[str, Any]:
        """See `NodeHandle.repair`."""
        part = self._part_of(group)
        return await repair.repair(part, self._network, source, self.group_state)

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        """See `NodeHandle.transfer_leader`."""
        part = self._part(group)
        if not isinstance(part, LedgerPart):
            text = f"{group} is a classic group: `promote` changes its master"
            raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
        return await transfer_leader(part, node)

    async def _ask_master(self, part: ClassicPart) -> GroupState:
        """What the master says of itself now. Raises: RequestRefused: it is none, or silent."""
        group, master = part.file_group, part.master
        if master in group.java_nodes:
            text = f"{master} is a Java broker: nobody knows what its log is"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        door = master_door(self.config, master, self.config.nodes[part.node])
        try:
            said = await ask_group(
                self._network, door, node=part.node, master=master, group=group.name
            )
        except LOST as error:
            text = f"{master} does not answer: {lost_text(error)}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text) from error
        if not said.opened or said.number != part.board.view.number:
            text = f"{master} has not opened {group.name} by promotion {part.board.view.number}"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        return said

    async def _change(self, group: str, make: Callable[[ReplyTo[role_messages.Done]], Any]) -> None:
        done = await asked(
            self.identity.node, self._classic_part(group).keeper, make, role_messages.Done
        )
        if done.refused:
            raise RequestRefused(frames.ERROR_BAD_REQUEST, f"{self.identity.node}: {done.refused}")

    def _state(
        self, group: str, part: ClassicPart, held: store.LogRange, offsets: Offsets
    ) -> GroupState:
        identity, view = self.identity, part.board.view
        return GroupState(
            cluster=identity.cluster,
            node=identity.node,
            boot=identity.boot,
            group=group,
            role=view.role.value,
            state=view.state.value,
            reason=view.reason,
            opened=view.opened,
            number=view.number,
            master=view.master,
            history=view.history,
            min=held.min_bytes,
            written=held.written_bytes,
            synced=held.synced_bytes,
            acknowledged=offsets.acknowledged,
            high_water=view.high_water,
            unanswered=part.counts.unanswered,
            claimed=view.claimed,
            forgot=view.forgot,
            damage=view.damage,
            forced=view.forced,
            no_room=held.no_room,
        )

    def _classic_part(self, group: str) -> ClassicPart:
        """Raises: RequestRefused: no such group here, or one whose members elect their leader."""
        part = self._classic.get(group)
        if part is None:
            self._part(group)
            text = (
                f"{group} is a dledger group: its members elect their leader, and `transfer-leader`"
                " changes who leads"
            )
            raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
        return part

    def _part_of(self, group: str) -> ClassicPart | LedgerPart:
        part = self._part(group)
        assert isinstance(part, ClassicPart | LedgerPart)
        return part

    def _part(self, group: str) -> Part:
        part = self._parts.get(group)
        if part is None:
            raise RequestRefused(
                frames.ERROR_UNKNOWN_GROUP, f"{self.identity.node} is no member of group {group!r}"
            )
        return part


def _same(view: RoleView, other: RoleView) -> bool:
    """Whether it is the same part; the high-water mark and claims are none of it."""
    return attrs.evolve(view, high_water=0, claimed=0) == attrs.evolve(
        other, high_water=0, claimed=0
    )


def _is_as_known(view: RoleView, known: GroupState) -> bool:
    return (
        view.role.value,
        view.state.value,
        view.reason,
        view.opened,
        view.number,
        view.master,
        view.history,
        view.forgot,
        view.damage,
        view.forced,
    ) == (
        known.role,
        known.state,
        known.reason,
        known.opened,
        known.number,
        known.master,
        known.history,
        known.forgot,
        known.damage,
        known.forced,
    )
