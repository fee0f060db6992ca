"""What a group's role keeper is made of, outside of its tree: the memory, the board, the rules."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs

from actors.config import ClassicGroup, ClusterConfig
from actors.config.fresh_reads import can_be_asked, others_of
from actors.ha.core.freshness import FreshReads
from actors.ha.core.role_effects import RoleView
from actors.ha.core.role_rules import RoleRules
from actors.ha.role_board import RoleBoard
from actors.ha.role_messages import Fresh
from actors.log_types import GroupRecord, Promotion
from actors.runtime import ReplyTo

TOKEN_MAX = 2**63 - 1


@attrs.frozen(kw_only=True)
class RoleParts:
    """One group's.

    Attributes:
        record: what is remembered now.
        remember: writes and syncs it. Raises: OSError.
        note: the same beside the loop, of what nobody relies on yet.
    """

    file_master: str
    record: Callable[[], GroupRecord]
    remember: Callable[[GroupRecord], None]
    note: Callable[[GroupRecord], Awaitable[None]]
    board: RoleBoard

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
