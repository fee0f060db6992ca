"""What a run knows of its nodes at one moment, as frozen values that are read from their answers.

A node's answer about a group is a `GroupStatus`. Its answer about its tree is free-form JSON, whose
keys only this file knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from actors.client.leading import NamedLeader, newest
from actors.client.status_text import name_server_text
from actors.config.kind import Terms
from actors.errors import NotMaster, TriologError
from actors.group_status import GroupStatus, group_status, group_statuses


@attrs.frozen(kw_only=True)
class TreeView:
    """One actor or supervisor of a tree.

    Attributes:
        depth, size_bytes: how many messages wait in its mailbox, and their size.
    """

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
        """Yield this and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen(kw_only=True)
class NodeView:
    """What is known of one node.

    Attributes:
        state: "starting", "running", "stopping" or "away" (does not answer).
        groups: its status of each of its groups.
        process_restarts: how often its process was started again.
        detail: why it is away, for people; "": unknown.
        heard_s: the time (Trio's) at which it was asked for this; None: unknown.
        name_server: its name server, for people; "": it has none.
    """

    node: str
    state: str
    groups: Mapping[str, GroupStatus]
    tree: TreeView | None
    process_restarts: int = 0
    detail: str = ""
    heard_s: float | None = None
    name_server: str = ""

    def restarts_of(self, group: str) -> int:
        """Count restarts of the process and of the group's actors, as far as the present process
        knows.
        """
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
        sent_count: how many records were sent at least once.
        unknown_count: how many records were in appends with an unknown outcome; they are sent
            again.
        in_flight_count: how many records wait for their answer, or for missing copies.
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
        notes: the newest notes for people, the oldest first.
    """

    cluster: str
    at_s: float
    phase: str
    nodes: tuple[NodeView, ...]
    feeds: tuple[FeedView, ...]
    notes: tuple[str, ...] = ()

    def leader_of(self, group: str) -> tuple[str, GroupStatus] | None:
        """Return the node that says that it leads the group, in the newest epoch, and its
        status.
        """
        return newest_leader(self.nodes, group)

    def named_leader_of(self, group: str) -> NamedLeader | None:
        """Return the leader that nodes name in the newest epoch, which may be a node that is not
        asked.
        """
        return newest(
            NamedLeader.of(node.groups[group], answers=not is_gone(node))
            for node in _up_to_date(self.nodes, group)
        )

    def leader_in(self, group: str) -> tuple[str, int, bool]:
        """Return the group's leader, its epoch, and whether only other nodes name it; "" and -1:
        none do.

        A follower may know of a later epoch than the leader of an earlier one.
        """
        current, named = self.leader_of(group), self.named_leader_of(group)
        if current is not None and (named is None or named.epoch <= current[1].epoch):
            return current[0], current[1].epoch, False
        return ("", -1, False) if named is None else (named.leader, named.epoch, True)

    def of(self, group: str) -> dict[str, GroupStatus]:
        """Return the status of the group on each node that has reported one."""
        return {node.node: node.groups[group] for node in self.nodes if group in node.groups}

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group that some node has reported, or that is fed."""
        named = dict.fromkeys(name for node in self.nodes for name in node.groups)
        return tuple(named | dict.fromkeys(feed.group for feed in self.feeds))


def newest_leader(nodes: Iterable[NodeView], group: str) -> tuple[str, GroupStatus] | None:
    """Return the node that leads, of those that say so, and its status; see `newest`.

    A node that is away counts until another node knows of a later epoch.
    """
    said = _up_to_date(tuple(nodes), group)
    leading = {node.node: node for node in said if node.groups[group].leads}
    found = newest(
        attrs.evolve(NamedLeader.of(node.groups[group], answers=not is_gone(node)), leader=name)
        for name, node in leading.items()
    )
    return None if found is None else (found.leader, leading[found.leader].groups[group])


def _up_to_date(nodes: tuple[NodeView, ...], group: str) -> tuple[NodeView, ...]:
    """Return the nodes with a status of the group, without nodes that are away and knew only of an
    earlier epoch than a node that answers.
    """
    said = tuple(node for node in nodes if group in node.groups)
    answer = (node.groups[group].epoch for node in said if not is_gone(node))
    known = max(answer, default=-1)
    return tuple(node for node in said if not is_gone(node) or node.groups[group].epoch >= known)


def is_gone(node: NodeView) -> bool:
    """Whether the node is away, so that what is known of it may be old."""
    return node.state == "away"


def clock(seconds: float) -> str:
    """Format seconds as `0:01:12`."""
    whole = int(seconds)
    return f"{whole // 3600:d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def leads(answer: Mapping[str, Any], group: str) -> GroupStatus:
    """Return the status of a group that the node leads, from its status answer.

    Raises: NotMaster: it does not lead the group; the error has the leader that it names.
        TriologError: the answer cannot be read.
    """
    own = group_status(answer, group)
    if own is None or not own.leads:
        terms, hint = (Terms(), "") if own is None else (own.terms, own.leader)
        raise NotMaster(f"the node is not the group's {terms.leader}", hint=hint or None)
    return own


def node_view(
    name: str, status: Mapping[str, Any], tree: Mapping[str, Any], heard_s: float | None = None
) -> NodeView:
    """Read a node's answers. Raises: TriologError: they cannot be read."""
    groups = group_statuses(status)
    try:
        found = tree_view(tree)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TriologError(f"cannot read {name}'s tree: {error!r}") from None
    state = str(status.get("state", "running"))
    return NodeView(
        node=name,
        state=state,
        groups=groups,
        tree=found,
        heard_s=heard_s,
        name_server=name_server_text(status),
    )


def tree_view(found: Mapping[str, Any]) -> TreeView:
    """Read a node's answer about its tree."""
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


@attrs.frozen(kw_only=True)
class Rates:
    """What one group did lately, per second; None: no node that was asked knows it."""

    bytes_per_s: float | None = None
    records_per_s: float | None = None


@attrs.frozen(kw_only=True)
class _Sample:
    """How far a group was when a node was asked, and the rates up to then.

    Attributes:
        node: the leader that was asked; "": a node that does not lead.
        asked_s: the time (Trio's) at which it was asked.
        seen_s: the time of the view.
        records: how many records the node has counted; None: unknown.
        bytes: the end of its log; None: unknown.
        rates: the rates up to this sample.
    """

    node: str
    asked_s: float
    seen_s: float
    records: int | None
    bytes: int | None
    rates: Rates = Rates()


RATES_HOLD_S: Final = 2.0
"""How long rates hold without a newer answer."""


@attrs.define
class RateMeter:
    """Measures, per group, rates between two answers of the node that knows most.

    Views are made as often as nodes are asked, and two of them may hold the same answer: the rates
    that it has shown still hold then.
    """

    _samples: dict[str, _Sample] = attrs.field(factory=dict)

    def rates(self, view: ClusterView) -> dict[str, Rates]:
        """Return the newest known rates. What exists when it is first seen is no rate."""
        before, self._samples, rates = self._samples, {}, {}
        for group in view.groups:
            now, rates[group] = _sample(view, group), Rates()
            if now is not None:
                now = self._samples[group] = _rated(before.get(group), now)
                if view.at_s < now.seen_s + RATES_HOLD_S:
                    rates[group] = now.rates
        return rates


def _sample(view: ClusterView, group: str) -> _Sample | None:
    """Return the leader's answer; without a leader, or for entries, that of the node with the
    longest log. None: no node of the group answers.

    A follower knows the bytes that it gets, not how many records. An entry is a record, whichever
    node led, and its bytes are not counted.
    """
    nodes = [node for node in view.nodes if group in node.groups and not is_gone(node)]
    if not nodes:
        return None
    counts_entries = any(node.groups[group].terms.unit == "entries" for node in nodes)
    lead = None if counts_entries else view.leader_of(group)
    leading = [node for node in nodes if lead is not None and node.node == lead[0]]

    def end(node: NodeView) -> tuple[int, float]:
        own = node.groups[group]
        return own.acknowledged if counts_entries else own.written, node.heard_s or view.at_s

    node = max(leading or nodes, key=end)
    own, records = node.groups[group], None
    if counts_entries or leading:
        records = own.acknowledged if counts_entries else own.counts.get("acknowledged", 0)
    return _Sample(
        node=node.node if leading else "",
        asked_s=view.at_s if node.heard_s is None else node.heard_s,
        seen_s=view.at_s,
        records=records,
        bytes=None if counts_entries else own.written,
    )


def _rated(before: _Sample | None, now: _Sample) -> _Sample:
    """The newer of two samples, with the rates between them."""
    if before is None:
        return now
    elapsed_s = now.asked_s - before.asked_s
    if elapsed_s <= 0.0:
        return before
    known = now.node == before.node  # each counts its own records
    return attrs.evolve(
        now,
        rates=Rates(
            bytes_per_s=_growth(before.bytes, now.bytes, elapsed_s),
            records_per_s=_growth(before.records, now.records, elapsed_s) if known else None,
        ),
    )


def _growth(before: int | None, now: int | None, elapsed_s: float) -> float | None:
    """Return the growth per second; None: unknown, or the log of the node now asked is shorter."""
    return None if before is None or now is None or now < before else (now - before) / elapsed_s
