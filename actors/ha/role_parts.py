"""What a group's role keeper is made of, outside of its tree: the memory, the role status, the
rules, and who decides which node is master.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from actors.config import ClassicGroup, ClusterConfig
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
    """Who decides which node is master of a group, as the group's role keeper on one node sees it.

    It comes to the keeper's mailbox by itself: `Record` says who is master by which number, `Fence`
    that this is about to change, and `MemberTold` what a member is, whenever that changes. What the
    keeper does by these is its own matter: it remembers before it acts, never acts by a lower
    number, and opens only what its rules allow.
    """

    async def ask(self, member: str, number: int) -> None:
        """Have the member say what it is at this moment: `MemberTold` with this number, a later
        one's, or nothing if it cannot be reached, in which case the keeper asks again.

        Returns without waiting for it.
        """


@attrs.frozen(kw_only=True)
class RoleParts:
    """One group's.

    Attributes:
        authority: who decides which node is master, on the node with these actors.
        record: what is remembered now.
        remember: writes and syncs it. Raises: OSError.
        note: the same beside the loop, of what nobody relies on yet.
    """

    file_master: str
    authority: Callable[[Registry], RoleAuthority]
    record: Callable[[], GroupRecord]
    remember: Callable[[GroupRecord], None]
    note: Callable[[GroupRecord], Awaitable[None]]
    role_status: RoleStatus

    @property
    def promotion(self) -> Promotion:
        """The master by the newest remembered promotion."""
        record = self.record()
        return Promotion(record.promotion_number, record.promotion_master or self.file_master)


def role_rules(
    config: ClusterConfig, group: ClassicGroup, node: str, record: GroupRecord, rng: random.Random
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


def first_view(
    config: ClusterConfig, group: ClassicGroup, node: str, record: GroupRecord
) -> RoleView:
    """What is published before the keeper runs."""
    return role_rules(config, group, node, record, random.Random(0)).view()
