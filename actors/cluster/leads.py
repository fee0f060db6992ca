"""Who takes a group's appends, of whichever kind it is: a classic master, or a DLedger leader.

The feed and the run need no more of a group than this; positions are the group's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from actors.cluster.ledger_view import LEADER, LedgerView
from actors.cluster.view import GroupView, NodeView, groups_view, ledgers_view, newest_leading
from actors.errors import NotMaster


@attrs.frozen(kw_only=True)
class Lead:
    """What a node says of a group that it leads.

    Attributes:
        reign: number of the promotion, or the term, by which it does.
        is_open: it takes appends.
        closed: why it takes none, and will not by itself; "" otherwise.
        end: where its log ends.
        acknowledged: all before this position is.
        copies_count: nodes that can hold a copy now, itself among them.
        copies: how many of them an append needs.
    """

    reign: int
    is_open: bool
    closed: str
    end: int
    acknowledged: int
    copies_count: int
    copies: int

    def has_copied(self, end: int) -> bool:
        """It has its copies, and all before `end` is acknowledged."""
        return self.copies_count >= self.copies and self.acknowledged >= end


def said_by(status: Mapping[str, Any], group: str) -> Lead:
    """What the node of this answer says. Raises: NotMaster, with whom it takes for who leads."""
    ledger = ledgers_view(status).get(group)
    if ledger is not None:
        if ledger.role != LEADER:
            raise NotMaster("the node is not the group's leader", hint=ledger.leader or None)
        return _of_leader(ledger)
    found = groups_view(status).get(group)
    if found is None or found.role != "master":
        hint = found.master if found is not None and found.master else None
        raise NotMaster("the node is not the group's master", hint=hint)
    return _of_master(found)


def newest_lead(nodes: Iterable[NodeView], group: str) -> tuple[str, Lead] | None:
    """Who leads, of the nodes that say they do (`newest_leading`), and what it says."""
    node = newest_leading(nodes, group)
    if node is None:
        return None
    if group in node.ledgers:
        return node.node, _of_leader(node.ledgers[group])
    return node.node, _of_master(node.groups[group])


def end_of(node: NodeView, group: str) -> int | None:
    """Where the node's log of the group ends; None if it has said nothing of it."""
    if group in node.ledgers:
        return node.ledgers[group].written_index + 1
    return node.groups[group].written_bytes if group in node.groups else None


def _of_master(own: GroupView) -> Lead:
    return Lead(
        reign=own.promotion,
        is_open=own.part == "open",
        closed=f"{own.part} {own.reason}" if own.part == "fenced" else "",
        end=own.written_bytes,
        acknowledged=own.acknowledged_bytes,
        copies_count=own.copies_count,
        copies=own.copies,
    )


def _of_leader(own: LedgerView) -> Lead:
    return Lead(
        reign=own.term,
        is_open=own.is_open,
        closed="",
        end=own.written_index + 1,
        acknowledged=own.committed_index + 1,
        copies_count=own.copies_count,
        copies=own.quorum,
    )
