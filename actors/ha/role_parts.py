"""What a group's role keeper is made from: its record, its status, its rules, and its authority."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from actors.config import ClassicGroup
from actors.config.classic_guarantees import can_be_asked, others_of
from actors.ha.core.freshness import FreshReads
from actors.ha.core.role_effects import RoleView
from actors.ha.core.role_rules import RoleRules
from actors.ha.role_messages import Fresh
from actors.ha.role_status import RoleStatus
from actors.log_types import GroupRecord, Promotion
from actors.runtime import Registry, ReplyTo

TOKEN_MAX = 2**63 - 1


class RoleAuthority(Protocol):
    """Decides which node is master of a group, for the group's role keeper on one node.

    It sends messages to the keeper by itself: `Record` says who is master by which number, `Fence`
    that this is about to change, and `MemberReported` what a member is, whenever that changes. The
    keeper decides what to do by them: it saves before it acts, never acts by a lower number, and
    opens only what its rules allow.
    """

    async def ask(self, member: str, number: int) -> None:
        """Have the member report its present state; return without waiting for it.

        It comes as `MemberReported` with this number, or with that of a later question. If the
        member cannot be reached nothing comes, and the keeper asks again.
        """


@attrs.frozen(kw_only=True)
class RoleParts:
    """What one group's role keeper is made from.

    Attributes:
        authority: makes the authority, for a node with these actors.
        record: gives the saved record.
        remember: writes and syncs a record. Raises: OSError.
        note: does the same beside the loop, with what nothing rests on yet.
    """

    file_master: str
    authority: Callable[[Registry], RoleAuthority]
    record: Callable[[], GroupRecord]
    remember: Callable[[GroupRecord], None]
    note: Callable[[GroupRecord], Awaitable[None]]
    role_status: RoleStatus

    @property
    def promotion(self) -> Promotion:
        """The newest saved promotion."""
        record = self.record()
        return Promotion(record.promotion_number, record.promotion_master or self.file_master)


def role_rules(
    group: ClassicGroup, node: str, record: GroupRecord, rng: random.Random
) -> RoleRules:
    """The rules of one group on one node, at the start of the node."""
    java = group.java_nodes
    return RoleRules(
        group=group.name,
        node=node,
        file_master=group.master,
        members=tuple(each for each in group.members if each != node and each not in java),
        copies=group.sure_copies,
        synced=group.durability == "synced",
        draw_token=lambda: rng.randint(1, TOKEN_MAX),
        record=record,
    )


def fresh_reads(group: ClassicGroup, node: str) -> FreshReads[ReplyTo[Fresh]]:
    """The fresh reads of one group on one node."""
    others = tuple(each for each in can_be_asked(group) if each != node)
    return FreshReads(
        node=node, members=others, needed=lambda forced: others_of(group, forced=forced)
    )


def first_view(group: ClassicGroup, node: str, record: GroupRecord) -> RoleView:
    """The view that is published before the keeper runs."""
    return role_rules(group, node, record, random.Random(0)).view()
