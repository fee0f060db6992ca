"""Whom an ordered stop waits for: who lacks something of what a master or leader has written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.cluster.leads import end_of, newest_lead
from actors.cluster.links import ANSWERING
from actors.cluster.view import NodeView


def lacking(
    views: tuple[NodeView, ...],
    groups: Mapping[str, tuple[str, ...]],
    expected: Callable[[str], bool],
) -> tuple[str, ...]:
    """For people, one for each slave or follower that can be waited for and has not all that its
    master or leader has written.

    Args:
        groups: with the members of each.
        expected: whether a node of this run runs or is being started. It is waited for until it
            has caught up, unless its log has diverged; others only while they are connected.
    """
    lines: list[str] = []
    found = {view.node: view for view in views}
    for name, members in groups.items():
        newest = newest_lead(views, name)
        if newest is None or found[newest[0]].state not in ANSWERING:
            continue
        first, lead = newest
        master, unit = found[first].groups.get(name), "entries"
        lags: dict[str, int | None] = {}
        if master is not None:
            unit = "bytes"
            for slave in master.slaves:
                if slave.acked_bytes is not None and slave.lag_bytes:
                    lags[slave.node] = slave.lag_bytes
        for node in members:
            if node not in found or not expected(node) or _has_diverged(found[node], name):
                continue
            end = end_of(found[node], name)
            if end is None or found[node].state not in ANSWERING:
                lags[node] = None
            elif end < lead.end:
                lags.setdefault(node, lead.end - end)
        for node, lag in lags.items():
            lines.append(f"{node} {lacks(lag, unit, name)}")
    return tuple(lines)


def lacks(lag: int | None, unit: str, group: str) -> str:
    """For people. Args: lag: in `unit`; None: it does not answer."""
    return f"does not answer in {group}" if lag is None else f"lacks {lag} {unit} of {group}"


def _has_diverged(node: NodeView, group: str) -> bool:
    """A slave's log that no master's is like; a follower's is made like its leader's."""
    return group in node.groups and node.groups[group].diverged
