"""What a run has done, for people and (`--json`) for machines."""

from __future__ import annotations

import json
import math
from typing import Any

import attrs

from actors.cluster.ages import age_before, before_end, usual_age, when_words
from actors.cluster.explain import EXIT_FAILED
from actors.cluster.group_run import GroupRun, group_run, run_line
from actors.cluster.ledger_summary import LedgerSummary
from actors.cluster.view import ClusterView, GroupView, is_gone
from actors.ha.core.role_effects import PASSING
from actors.ha.core.slave_table import TOLD
from actors.ha.core.states import OFFSET_REFUSALS
from actors.storage.files.room import NO_ROOM

REFUSED_BY_MASTER = tuple(reason.value for reason in TOLD)
REFUSED_BY_SLAVE = tuple(reason.value for reason in OFFSET_REFUSALS)
CONNECTED = "TRANSFER"
PASSING_FENCES = ("", *(fence.name for fence in PASSING if fence is not None))


@attrs.frozen(kw_only=True)
class NodeOffsets:
    """How far one node was with a group when the run ended.

    Attributes:
        behind_bytes: what the master had and this node had not.
        restarts: of its process and of the group's actors.
        gone: it did not answer any more: this is what it said last.
        age_s: how long before the end of the run it said so; None: not known. A node that stops in
            order is asked before that.
    """

    node: str
    role: str
    min_bytes: int
    written_bytes: int
    synced_bytes: int
    acknowledged_bytes: int
    behind_bytes: int
    restarts: int
    gone: bool = False
    age_s: float | None = None


@attrs.frozen(kw_only=True)
class GroupSummary:
    """One classic group's run.

    Attributes:
        master: as the nodes say it last; the cluster file's where none has said anything.
        refused: slaves whose log does not fit the master's, with the reason.
        promotion: number of the promotion that made the master, 0 for the cluster file's word.
        fenced: masters that take no appends until somebody does something, with the reason.
        without_room: slaves that stopped copying as their disk has no room, with the reason.
        damaged: whose copy is damaged, and where.
        stands_still: nodes whose old log files do not go, with the reason.
        mended: nodes that have mended consume queues or index, and how much of them.
        elsewhere: the master is no node of this run.
    """

    run: GroupRun
    master: str
    nodes: tuple[NodeOffsets, ...]
    refused: tuple[tuple[str, str], ...] = ()
    promotion: int = 0
    fenced: tuple[tuple[str, str], ...] = ()
    without_room: tuple[tuple[str, str], ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    stands_still: tuple[tuple[str, str], ...] = ()
    mended: tuple[tuple[str, str], ...] = ()
    elsewhere: bool = False

    @property
    def group(self) -> str:
        return self.run.group

    @property
    def behind(self) -> tuple[NodeOffsets, ...]:
        """The nodes that lack something."""
        return tuple(node for node in self.nodes if node.behind_bytes)


@attrs.frozen(kw_only=True)
class Summary:
    """A run.

    Attributes:
        reason: why it ended.
        starting: nodes that were not up yet when a signal ended the run during its start.
        failures: what failed, one line each; () for an ordered end.
        child_code: how a failure is told to the parent of a node's process.
    """

    cluster: str
    reason: str
    seconds: float
    groups: tuple[GroupSummary | LedgerSummary, ...]
    starting: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    child_code: int = EXIT_FAILED


def group_summary(
    view: ClusterView,
    group: str,
    members: tuple[str, ...],
    master: str,
    seconds: float,
    now_s: float | None = None,
) -> GroupSummary:
    """Read one group's end from the last view.

    Args:
        members: the group's nodes that this run has.
        master: as configured.
        seconds: of the feed.
        now_s: the end of the run, Trio's time; None: ages are not known.
    """
    found = {node.node: node for node in view.nodes}
    current = view.master_of(group)
    named, promotion = _master(view, group) or (master, 0)
    end_bytes = current[1].written_bytes if current else 0
    nodes = []
    for name in members:
        node = found.get(name)
        state = node.groups.get(group) if node is not None else None
        if node is None or state is None:
            continue
        nodes.append(
            NodeOffsets(
                node=name,
                role=state.role,
                min_bytes=state.min_bytes,
                written_bytes=state.written_bytes,
                synced_bytes=state.synced_bytes,
                acknowledged_bytes=state.acknowledged_bytes,
                behind_bytes=max(0, end_bytes - state.written_bytes),
                restarts=node.restarts_of(group),
                gone=is_gone(node),
                age_s=age_before(now_s, node.heard_s),
            )
        )
    return GroupSummary(
        run=group_run(view, group, members, {node.node for node in nodes}, seconds),
        master=named,
        nodes=tuple(nodes),
        refused=tuple(refusals(view, group).items()),
        promotion=promotion,
        fenced=tuple(fenced(view, group).items()),
        without_room=tuple(without_room(view, group).items()),
        damaged=tuple(damaged(view, group).items()),
        mended=tuple(
            (node.node, own.mended)
            for node in view.nodes
            if (own := node.groups.get(group)) is not None and own.mended
        ),
        stands_still=tuple(
            (node.node, own.stands_still)
            for node in view.nodes
            if (own := node.groups.get(group)) is not None and own.stands_still
        ),
        elsewhere=named not in members,
    )


def _master(view: ClusterView, group: str) -> tuple[str, int] | None:
    """Who is master, by which promotion: a slave knows it too, also of who runs elsewhere."""
    current, named = view.master_of(group), view.named_master_of(group)
    if current is not None and (named is None or named.reign <= current[1].promotion):
        return current[0], current[1].promotion
    return None if named is None else (named.leader, named.reign)


def refusals(view: ClusterView, group: str) -> dict[str, str]:
    """The slaves that get nothing as their logs do not fit: node -> reason, as either side says.

    A slave that another machine runs is seen through its master. One that is connected again is
    refused no more, whatever was said before.
    """
    found = {}
    for node in view.nodes:
        state = node.groups.get(group)
        if state is None or node.state == "away":
            continue
        for slave in state.slaves:
            if slave.acked_bytes is None and slave.last_error.startswith(REFUSED_BY_MASTER):
                found[slave.node] = slave.last_error
        if state.part == "diverged":
            found[node.node] = state.reason
        elif _refuses(state):
            found[node.node] = state.last_error
    return found


def fenced(view: ClusterView, group: str) -> dict[str, str]:
    """The masters that wait for an operator: node -> reason, as they say it."""
    found = {}
    for node in view.nodes:
        own = node.groups.get(group)
        if own is not None and node.state != "away" and own.fence not in PASSING_FENCES:
            found[node.node] = own.reason
    return found


def without_room(view: ClusterView, group: str) -> dict[str, str]:
    """The slaves that copy nothing more as their disks are full: node -> reason, as they say it."""
    found = {}
    for node in view.nodes:
        own = node.groups.get(group)
        if own is None or node.state == "away" or own.role != "slave" or own.state == CONNECTED:
            continue
        _, sign, reason = (own.last_error or own.reason).partition(NO_ROOM)
        if sign:
            found[node.node] = f"{sign}{reason}"
    return found


def damaged(view: ClusterView, group: str) -> dict[str, str]:
    """Whose copy of the log does not count: node -> which bytes are damaged, as they say it."""
    found = {node.node: node.groups[group].damage for node in view.nodes if group in node.groups}
    return {node: damage for node, damage in found.items() if damage}


def _refuses(own: GroupView) -> bool:
    lost = own.role == "slave" and own.state != CONNECTED
    return lost and own.last_error.startswith(REFUSED_BY_SLAVE)


def as_json(summary: Summary) -> str:
    """One JSON object on one line; keys as in the classes, units in their names."""
    return json.dumps(_plain(summary), ensure_ascii=False)


def _plain(summary: Summary) -> dict[str, Any]:
    return {
        "cluster": summary.cluster,
        "reason": summary.reason,
        "seconds": round(summary.seconds, 3),
        "groups": {
            group.group: group.plain() if isinstance(group, LedgerSummary) else _plain_group(group)
            for group in summary.groups
        },
        "starting": list(summary.starting),
        "failures": list(summary.failures),
    }


def _plain_group(group: GroupSummary) -> dict[str, Any]:
    nodes, run = {}, group.run
    for node in group.nodes:
        fields = attrs.asdict(node)
        fields["age_s"] = None if node.age_s is None else round(node.age_s, 3)
        nodes[fields.pop("node")] = fields
    return {
        "master": group.master,
        "promotion": group.promotion,
        "appended": run.appended,
        "acknowledged": run.acknowledged,
        "outcome_unknown": run.outcome_unknown,
        "bytes": run.size_bytes,
        "seconds": round(run.seconds, 3),
        "restarts": run.restarts,
        "offsets": nodes,
        "unanswered": list(run.unanswered),
        "refused": dict(group.refused),
        "fenced": dict(group.fenced),
        "without_room": dict(group.without_room),
        "damaged": dict(group.damaged),
        "stands_still": dict(group.stands_still),
        "mended": dict(group.mended),
    }


def as_text(summary: Summary) -> str:
    """A few lines for people; who is behind is named."""
    starting, ran_s = summary.starting, f"{summary.seconds:.1f} s"
    first = f"{summary.cluster}: {summary.reason} after {ran_s}"
    if starting:
        first = f"{summary.cluster}: {summary.reason} during the start, after {ran_s}"
        first += f": not up yet: {', '.join(starting)}"
    lines = [first]
    for group in summary.groups:
        run = group.run
        silent = tuple(node for node in run.unanswered if node not in starting)
        if starting and not (silent or run.fed or _heard(group)):
            continue
        group = attrs.evolve(group, run=attrs.evolve(run, unanswered=silent))
        lines += group.lines() if isinstance(group, LedgerSummary) else _lines(group)
    return "\n".join(lines)


def _heard(group: GroupSummary | LedgerSummary) -> bool:
    """Whether some node has said something of it."""
    return bool(group.members if isinstance(group, LedgerSummary) else group.nodes)


def _lines(group: GroupSummary) -> list[str]:
    lines = [run_line(group.run)]
    usual_s = usual_age(node.age_s for node in group.nodes)
    when = "" if math.isinf(usual_s) else f", {before_end(usual_s)}"
    if group.promotion or when:
        led = group.elsewhere or any(
            node.node == group.master and node.role == "master" for node in group.nodes
        )
        by = f" by promotion {group.promotion}" if group.promotion else ""
        lines.append(f"    {f'{group.master} is' if led else 'no'} master{by}{when}")
    for node in group.nodes:
        behind = f", behind by {node.behind_bytes} bytes" if node.behind_bytes else ""
        lines.append(
            f"    {node.node} {node.role}: {node.min_bytes} to {node.written_bytes}"
            f", synced to {node.synced_bytes}{behind}"
            f"{when_words(node.age_s, usual_s, gone=node.gone)}"
        )
    lines += [f"    {name}: did not answer" for name in group.run.unanswered]
    lines += [f"    {name}: refused: {reason}" for name, reason in group.refused]
    lines += [f"    {name}: takes no appends: {reason}" for name, reason in group.fenced]
    lines += [f"    {name}: copies nothing: {reason}" for name, reason in group.without_room]
    lines += [f"    {name}: its copy is damaged: {where}" for name, where in group.damaged]
    lines += [f"    {name}: {reason}" for name, reason in group.stands_still]
    lines += [f"    {name}: {text}" for name, text in group.mended]
    return lines
