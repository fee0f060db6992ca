"""What the run knows of its nodes at one moment, as frozen values: read from their answers.

The status and tree answers are free-form JSON; this file is the one place that knows their keys, so
that the terminal, the summary and the plain lines cannot read them differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from actors.client.reigns import Claim, newest
from actors.cluster.ledger_view import LEADER, LedgerView, ledger_view

LEDGER_MODE = "dledger"
MASTER = "master"


@attrs.frozen(kw_only=True)
class SlaveView:
    """A slave as its master sees it.

    Attributes:
        acked_bytes: its last report; None before the first of this connection.
        lag_bytes: the master's end minus that.
    """

    node: str
    state: str
    acked_bytes: int | None
    lag_bytes: int | None
    in_sync: bool
    counts: bool
    bytes_per_s: int
    last_error: str


@attrs.frozen(kw_only=True)
class GroupView:
    """One classic group on one node.

    Attributes:
        role: "master" or "slave".
        copies: how many nodes hold what is acknowledged, at least.
        ack_policy: who decides when an append is answered, as configured.
        acknowledged_count: on the master: records acknowledged since its start, whoever sent them.
        state: on a slave: of its connection to the master.
        diverged: on a slave: the master's log does not continue its own.
        slaves: on the master: every configured one.
        master: who is master, as this node says.
        promotion: number of the promotion that made it, 0 for the cluster file's word.
        part: what the node does in its role: on the master "asking", "open" or "fenced", on a slave
            "connecting", "following", "diverged" or "damaged".
        reason, fence: why it is fenced, diverged or still asking; of a fence, its name too.
        damage, mended: of its log; how much of what derives from it was mended; "": nothing.
        refused_count: on a master: connections from addresses that are no slave's in its file.
        stands_still: why old log files do not go; "": they do, or there are none.
        fresh_needed, fresh_others: of how many other members how many confirm a fresh read; None: a
            node of an older version does not say.
    """

    group: str
    role: str
    min_bytes: int
    written_bytes: int
    synced_bytes: int
    acknowledged_bytes: int
    acknowledged_count: int
    state: str
    diverged: bool
    last_error: str
    slaves: tuple[SlaveView, ...]
    copies: int = 1
    master: str = ""
    promotion: int = 0
    part: str = ""
    reason: str = ""
    ack_policy: str = "copies"
    fence: str = ""
    refused_count: int = 0
    damage: str = ""
    mended: str = ""
    stands_still: str = ""
    fresh_needed: int | None = None
    fresh_others: int = 0

    @property
    def copies_count(self) -> int:
        """On the master: nodes that can hold a copy now, itself among them."""
        return 1 + sum(slave.counts and slave.acked_bytes is not None for slave in self.slaves)

    def has_copied(self, end_bytes: int) -> bool:
        """On the master: it has its copies, and all below `end_bytes` is acknowledged."""
        return self.copies_count >= self.copies and self.acknowledged_bytes >= end_bytes


@attrs.frozen(kw_only=True)
class TreeView:
    """One actor or supervisor; `depth` and `size_bytes` wait in its mailbox."""

    path: str
    incarnation: int
    state: str
    restarts: int
    depth: int
    size_bytes: int
    children: tuple[TreeView, ...]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def walk(self) -> Iterator[TreeView]:
        """This and all below, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen(kw_only=True)
class NodeView:
    """One node.

    Attributes:
        state: "starting", "running", "stopping" or "away" (does not answer).
        groups: the classic ones.
        ledgers: those that elect a leader.
        process_restarts: how often its process was started again.
        detail: why it is away, if known.
        heard_s: when it was asked for what stands here, Trio's time; None: not known.
    """

    node: str
    state: str
    groups: Mapping[str, GroupView]
    tree: TreeView | None
    ledgers: Mapping[str, LedgerView] = attrs.field(factory=dict)
    process_restarts: int = 0
    detail: str = ""
    heard_s: float | None = None

    def restarts_of(self, group: str) -> int:
        """Restarts of the process and of the group's actors, as far as the living process knows."""
        if self.tree is None:
            return self.process_restarts
        prefix = f"{self.tree.path}/{group}"
        inside = [
            one.restarts
            for one in self.tree.walk()
            if one.path == prefix or one.path.startswith(prefix + "/")
        ]
        return self.process_restarts + sum(inside)


@attrs.frozen(kw_only=True)
class FeedView:
    """The feed of one group.

    Attributes:
        sent_count: records handed to the master at least once.
        unknown_count: records of appends whose outcome was never learnt; they are sent again.
        in_flight_count: records that wait for their answer, or for copies that are away.
        state: "feeding", "ended", or why it waits.
    """

    group: str
    source: str
    sent_count: int
    acknowledged_count: int
    acknowledged_bytes: int
    unknown_count: int
    in_flight_count: int
    state: str


@attrs.frozen(kw_only=True)
class ClusterView:
    """Everything that the terminal shows.

    Attributes:
        at_s: seconds since the start of the run.
        phase: "starting", "running", "stopping".
        notes: the newest things worth a line, oldest first.
    """

    cluster: str
    at_s: float
    phase: str
    nodes: tuple[NodeView, ...]
    feeds: tuple[FeedView, ...]
    notes: tuple[str, ...] = ()

    def master_of(self, group: str) -> tuple[str, GroupView] | None:
        """The node that says it is the group's master, with its answer."""
        node = newest_leading(self.nodes, group)
        return (node.node, node.groups[group]) if node and group in node.groups else None

    def named_master_of(self, group: str) -> Claim | None:
        """Whom the nodes name by the newest promotion that one knows of, also if it is none of
        ours.
        """
        nodes = _up_to_date(self.nodes, group)
        said = [(node, node.groups[group]) for node in nodes if group in node.groups]
        return newest(
            Claim(
                leader=own.master,
                reign=own.promotion,
                answers=not is_gone(node),
                is_open=own.role == MASTER and own.part == "open",
            )
            for node, own in said
        )

    def leader_of(self, group: str) -> tuple[str, LedgerView] | None:
        """The node that says it leads the group in the newest term, with its answer."""
        node = newest_leading(self.nodes, group)
        return (node.node, node.ledgers[group]) if node and group in node.ledgers else None

    def named_leader_of(self, group: str) -> tuple[str, int] | None:
        """Whom the members of the newest term name, with that term, also if it is none of ours."""
        nodes = _up_to_date(self.nodes, group)
        ledgers = [node.ledgers[group] for node in nodes if group in node.ledgers]
        found = newest(Claim(leader=own.leader, reign=own.term) for own in ledgers)
        return None if found is None else (found.leader, found.reign)

    def is_ledger(self, group: str) -> bool:
        """Whether some node has said that the group elects its leader."""
        return any(group in node.ledgers for node in self.nodes)

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group that some node has answered for, or that is fed."""
        named = dict.fromkeys(name for node in self.nodes for name in (*node.groups, *node.ledgers))
        return tuple(named | dict.fromkeys(feed.group for feed in self.feeds))


def newest_leading(nodes: Iterable[NodeView], group: str) -> NodeView | None:
    """The node that leads, or is the group's master, of those that say so: see `newest`.

    Who is gone led until then; not any more, once another knows of a later reign.
    """
    nodes = _up_to_date(tuple(nodes), group)
    found = newest(claim for node in nodes if (claim := _own_claim(node, group)) is not None)
    return next((node for node in nodes if found and node.node == found.leader), None)


def _own_claim(node: NodeView, group: str) -> Claim | None:
    """That of a node that takes itself for the leader or master; None of others."""
    ledger, classic, answers = node.ledgers.get(group), node.groups.get(group), not is_gone(node)
    if ledger is not None and ledger.role == LEADER:
        is_open = ledger.is_open
        return Claim(leader=node.node, reign=ledger.term, answers=answers, is_open=is_open)
    if classic is not None and classic.role == MASTER:
        is_open = classic.part == "open"
        return Claim(leader=node.node, reign=classic.promotion, answers=answers, is_open=is_open)
    return None


def _up_to_date(nodes: tuple[NodeView, ...], group: str) -> tuple[NodeView, ...]:
    """Without those that are gone and knew of an earlier reign than one that answers."""
    known = max((_reign(node, group) for node in nodes if not is_gone(node)), default=-1)
    return tuple(node for node in nodes if not is_gone(node) or _reign(node, group) >= known)


def _reign(node: NodeView, group: str) -> int:
    """The newest that the node knows of; -1 if it knows of none."""
    ledger, classic = node.ledgers.get(group), node.groups.get(group)
    if ledger is not None:
        return ledger.term
    return -1 if classic is None else classic.promotion


def is_gone(node: NodeView) -> bool:
    """Whether what is known of it may be old."""
    return node.state == "away"


def group_view(group: str, found: Mapping[str, Any]) -> GroupView:
    """Read one group's part of a status answer."""
    client = found.get("client") or {}
    return GroupView(
        group=group,
        role=str(found.get("role", "")),
        min_bytes=int(found.get("min_bytes", 0)),
        written_bytes=int(found.get("written_bytes", 0)),
        synced_bytes=int(found.get("synced_bytes", 0)),
        acknowledged_bytes=int(found.get("acknowledged_bytes", 0)),
        acknowledged_count=int((found.get("counts") or {}).get("acknowledged", 0)),
        state=str(client.get("state", "")),
        diverged=bool(client.get("diverged", False)) or found.get("part") == "diverged",
        last_error=str(client.get("last_error", "")),
        slaves=tuple(_slave_view(slave) for slave in found.get("slaves", ())),
        copies=int(found.get("copies", 1)),
        master=str(found.get("master") or ""),
        promotion=int(found.get("promotion", 0)),
        part=str(found.get("part", "")),
        reason=str(found.get("reason", "")),
        ack_policy=str(found.get("ack_policy", "copies")),
        fence=str(found.get("fence", "")),
        refused_count=int(found.get("refused_count") or 0),
        damage=str(found.get("damage", "")),
        mended=str(found.get("mended", "")),
        stands_still=str(found.get("stands_still", "")),
        fresh_needed=found.get("fresh_needed"),
        fresh_others=int(found.get("fresh_others", 0)),
    )


def _slave_view(found: Mapping[str, Any]) -> SlaveView:
    return SlaveView(
        node=str(found["node"]),
        state=str(found.get("state", "")),
        acked_bytes=found.get("ack_bytes"),
        lag_bytes=found.get("lag_bytes"),
        in_sync=bool(found.get("in_sync", False)),
        counts=bool(found.get("counts", True)),
        bytes_per_s=int(found.get("bytes_per_s", 0)),
        last_error=str(found.get("last_error", "")),
    )


def groups_view(status: Mapping[str, Any]) -> dict[str, GroupView]:
    """The classic groups of a status answer."""
    return {
        name: group_view(name, found)
        for name, found in status.get("groups", {}).items()
        if found.get("mode") != LEDGER_MODE
    }


def ledgers_view(status: Mapping[str, Any]) -> dict[str, LedgerView]:
    """The DLedger groups of a status answer."""
    return {
        name: ledger_view(name, found)
        for name, found in status.get("groups", {}).items()
        if found.get("mode") == LEDGER_MODE
    }


def tree_view(found: Mapping[str, Any]) -> TreeView:
    """Read a tree answer."""
    mailbox = found.get("mailbox") or {}
    return TreeView(
        path=str(found["path"]),
        incarnation=int(found.get("incarnation", 0)),
        state=str(found.get("state", "")).lower(),
        restarts=int(found.get("restarts", 0)),
        depth=int(mailbox.get("depth", 0)),
        size_bytes=int(mailbox.get("size_bytes", 0)),
        children=tuple(tree_view(child) for child in found.get("children", ())),
    )
