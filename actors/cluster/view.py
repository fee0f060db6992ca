"""What the run knows of its nodes at one moment, as frozen values: read from their answers.

What a node says of a group is a `GroupStatus`; the answer about its tree is free-form JSON, and
this file is the one place that knows its keys.
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
        groups: what it says of each of its groups.
        process_restarts: how often its process was started again.
        detail: why it is away, if known.
        heard_s: when it was asked for what stands here, Trio's time; None: not known.
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

    def leader_of(self, group: str) -> tuple[str, GroupStatus] | None:
        """The node that says it leads the group, in the newest epoch, with its answer."""
        return newest_leader(self.nodes, group)

    def named_leader_of(self, group: str) -> NamedLeader | None:
        """Whom the nodes name in the newest epoch that one knows of, also if it is none of ours."""
        return newest(
            NamedLeader.of(node.groups[group], answers=not is_gone(node))
            for node in _up_to_date(self.nodes, group)
        )

    def leader_in(self, group: str) -> tuple[str, int, bool]:
        """The group's leader, its epoch, and whether only others say so; "" and -1: nobody
        does. A follower may know of a later epoch than the leader of an earlier one.
        """
        current, named = self.leader_of(group), self.named_leader_of(group)
        if current is not None and (named is None or named.epoch <= current[1].epoch):
            return current[0], current[1].epoch, False
        return ("", -1, False) if named is None else (named.leader, named.epoch, True)

    def of(self, group: str) -> dict[str, GroupStatus]:
        """What each node says of the group that has said something of it."""
        return {node.node: node.groups[group] for node in self.nodes if group in node.groups}

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group that some node has answered for, or that is fed."""
        named = dict.fromkeys(name for node in self.nodes for name in node.groups)
        return tuple(named | dict.fromkeys(feed.group for feed in self.feeds))


def newest_leader(nodes: Iterable[NodeView], group: str) -> tuple[str, GroupStatus] | None:
    """The node that leads, of those that say so, and what it says: see `newest`.

    Who is gone led until then; not any more, once another knows of a later epoch.
    """
    said = _up_to_date(tuple(nodes), group)
    leading = {node.node: node for node in said if node.groups[group].leads}
    found = newest(
        attrs.evolve(NamedLeader.of(node.groups[group], answers=not is_gone(node)), leader=name)
        for name, node in leading.items()
    )
    return None if found is None else (found.leader, leading[found.leader].groups[group])


def _up_to_date(nodes: tuple[NodeView, ...], group: str) -> tuple[NodeView, ...]:
    """Those that have said something of the group, without those that are gone and knew of an
    earlier epoch than one that answers.
    """
    said = tuple(node for node in nodes if group in node.groups)
    answer = (node.groups[group].epoch for node in said if not is_gone(node))
    known = max(answer, default=-1)
    return tuple(node for node in said if not is_gone(node) or node.groups[group].epoch >= known)


def is_gone(node: NodeView) -> bool:
    """Whether what is known of it may be old."""
    return node.state == "away"


def clock(seconds: float) -> str:
    """`0:01:12`."""
    whole = int(seconds)
    return f"{whole // 3600:d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def leads(answer: Mapping[str, Any], group: str) -> GroupStatus:
    """What the node of this status answer says of a group that it leads.

    Raises: NotMaster: it does not, with the leader that it names; TriologError: it cannot be
        read.
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


@attrs.frozen(kw_only=True)
class Rates:
    """What one group did lately, per second; None: nobody who was asked knows."""

    bytes_per_s: float | None = None
    records_per_s: float | None = None


@attrs.frozen(kw_only=True)
class _Sample:
    """How far a group was when `node` was asked, and the rates up to then. `seen_s`: the view's."""

    node: str
    asked_s: float
    seen_s: float
    records: int | None
    bytes: int | None
    rates: Rates = Rates()


RATES_HOLD_S: Final = 2.0
"""A node that has not answered for so long has no rate that is known."""


@attrs.define
class RateMeter:
    """Rates between two answers of whoever knows most, per group.

    Views are made as often as nodes are asked, and two of them may hold the same answer: what it
    has shown still holds then.
    """

    _samples: dict[str, _Sample] = attrs.field(factory=dict)

    def rates(self, view: ClusterView) -> dict[str, Rates]:
        """The newest that are known, none for what is there when it is first seen."""
        before, self._samples, rates = self._samples, {}, {}
        for group in view.groups:
            now, rates[group] = _sample(view, group), Rates()
            if now is not None:
                now = self._samples[group] = _rated(before.get(group), now)
                if view.at_s < now.seen_s + RATES_HOLD_S:
                    rates[group] = now.rates
        return rates


def _sample(view: ClusterView, group: str) -> _Sample | None:
    """What the leader says; without one, or of entries, whoever is farthest. None: nobody is there.

    Who follows knows what it gets, not how many records; an entry is one, whoever led, and its
    bytes are not counted.
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
    """Per second; None: it is not known, or another node was asked, whose log ends before."""
    return None if before is None or now is None or now < before else (now - before) / elapsed_s
