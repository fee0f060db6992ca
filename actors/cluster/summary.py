"""Summarises what a run has done, for people and, with `--json`, for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from actors.client.status_text import extent_text
from actors.cluster.explain import EXIT_FAILED
from actors.cluster.view import ClusterView, FeedView, is_gone
from actors.config.kind import Terms
from actors.group_status import (
    DAMAGED,
    FENCED,
    FINDINGS,
    MENDED,
    REFUSED,
    STANDS_STILL,
    WITHOUT_ROOM,
    GroupStatus,
)
from actors.readable import counted, size
from actors.storage.files.room import room_text

STAYS: Final = (DAMAGED, STANDS_STILL, MENDED)
"""The kinds of findings that stay true if the node does not answer any more."""
_WORDS: Final = {
    REFUSED: "refused: ",
    FENCED: "takes no appends: ",
    WITHOUT_ROOM: "copies nothing: ",
    DAMAGED: "its copy is damaged: ",
}
"""The text before each kind of finding, for people."""
_KEYS: Final = {
    "bytes": (
        "offsets",
        ("min_bytes", "written_bytes", "synced_bytes", "acknowledged_bytes"),
        "behind_bytes",
    ),
    "entries": (
        "indexes",
        ("begin_index", "written_index", "synced_index", "committed_index"),
        "behind",
    ),
}
"""The JSON keys by the log's unit: of the table of nodes, of their positions, and of what they
lack."""


@attrs.frozen(kw_only=True)
class MemberEnd:
    """How far one node was with a group when the run ended.

    Attributes:
        own: its last status.
        behind: how much of the leader's log it lacked, in the log's unit. If the leader did not
            answer, what others knew to be acknowledged counts, too.
        restarts: how often its process and the group's actors were restarted.
        gone: whether it did not answer any more, and not because it had stopped in order.
        age_s: how many seconds before the end of the run the status is from; None: unknown. A node
            is asked before its ordered stop.
    """

    node: str
    own: GroupStatus
    behind: int
    restarts: int
    gone: bool = False
    age_s: float | None = None

    def words(self, usual_s: float) -> str:
        """Describe it for people.

        Args:
            usual_s: the age that the heading gives for all members; a much higher age is added
                here.
        """
        behind = f", behind by {self.own.terms.amount(self.behind)}" if self.behind else ""
        when = when_text(self.age_s, usual_s, gone=self.gone)
        return f"{self.node} {self.own.role}: {extent_text(self.own)}{behind}{when}"

    def plain(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        own, (_, keys, behind) = self.own, _KEYS[self.own.terms.unit]
        last = 1 if own.terms.unit == "entries" else 0
        ends = (own.first, *(end - last for end in (own.written, own.synced, own.acknowledged)))
        return {
            "role": own.role,
            own.terms.epoch: own.epoch,
            **dict(zip(keys, ends, strict=True)),
            behind: self.behind,
            "restarts": self.restarts,
            "gone": self.gone,
            "age_s": None if self.age_s is None else round(self.age_s, 3),
        }


@attrs.frozen(kw_only=True)
class GroupSummary:
    """The summary of one group.

    Attributes:
        terms: the terms of the group's mode.
        leader: the leader in the newest epoch that some node knows of; "": none, as far as they
            know.
        gone: the leader in that epoch, if it does not answer any more; "": it answers, or there is
            none.
        epoch: that epoch; -1: there is no leader.
        is_said: whether only other nodes say that it leads.
        members: the members that this run has.
        appended: how many records the feed sent.
        acknowledged: how many of them have receipts; what became of the others when the run ended
            is unknown.
        outcome_unknown: how many records were in appends with an unknown outcome; they were sent
            again, so they may be in the log twice.
        size_bytes: the size of the acknowledged bodies.
        seconds: the time from the first append to the last answer.
        restarts: how often the nodes' processes and the group's actors were restarted.
        unanswered: the nodes from which no status of the group is known.
        fed: whether a feed was opened for it here; otherwise the counts are 0 and mean nothing.
        findings: the findings by kind, then by node; see `GroupStatus.findings`.
    """

    group: str
    terms: Terms
    leader: str
    epoch: int
    is_said: bool
    gone: str = ""
    members: tuple[MemberEnd, ...]
    appended: int
    acknowledged: int
    outcome_unknown: int
    size_bytes: int
    seconds: float
    restarts: int
    unanswered: tuple[str, ...]
    fed: bool
    findings: Mapping[str, Mapping[str, str]]

    @property
    def behind(self) -> tuple[MemberEnd, ...]:
        """The nodes that lack something."""
        return tuple(member for member in self.members if member.behind)

    def plain(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        table, _, _ = _KEYS[self.terms.unit]
        return {
            self.terms.leader: self.leader or None,
            self.terms.epoch: self.epoch if self.epoch >= 0 else None,
            "appended": self.appended,
            "acknowledged": self.acknowledged,
            "outcome_unknown": self.outcome_unknown,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "restarts": self.restarts,
            table: {member.node: member.plain() for member in self.members},
            "unanswered": list(self.unanswered),
            **self.findings,
        }

    def lines(self) -> list[str]:
        """Describe it for people; nodes that are behind are named."""
        usual_s = usual_age(member.age_s for member in self.members)
        when = "" if math.isinf(usual_s) else f", {before_end(usual_s)}"
        return [
            f"  {self.group}: {self._run_text()}",
            f"    {self._leads_text()}{when}",
            *(f"    {member.words(usual_s)}" for member in self.members),
            *(f"    {name}: did not answer" for name in self.unanswered),
            *(
                f"    {name}: {_WORDS.get(kind, '')}"
                f"{room_text(text) if kind == WITHOUT_ROOM else text}"
                for kind, found in self.findings.items()
                for name, text in found.items()
            ),
        ]

    def _leads_text(self) -> str:
        if self.gone:
            led = f"{self.gone} led{self.terms.by(self.epoch)}"
            return f"no {self.terms.leader}: {led} and does not answer"
        return leads_text(self.leader, self.terms, self.epoch, is_said=self.is_said)

    def _run_text(self) -> str:
        if not self.fed:
            return counted(self.restarts, "restart")
        rate = self.acknowledged / self.seconds if self.seconds > 0 else 0.0
        fed = f"{self.acknowledged:,} of {counted(self.appended, 'record')} acknowledged"
        left = self.appended - self.acknowledged
        open_end = f" ({left:,} unanswered at the end, and perhaps stored)" if left else ""
        again = " sent again" if self.outcome_unknown else ""
        return (
            f"{fed}{open_end}, {size(self.size_bytes)}, {rate:.0f} records/s"
            f", {self.outcome_unknown:,} with unknown outcome{again},"
            f" {counted(self.restarts, 'restart')}"
        )


@attrs.frozen(kw_only=True)
class Summary:
    """The summary of a run.

    Attributes:
        reason: why the run ended.
        starting: the nodes that were not up yet when a signal ended the run during its start.
        failures: what failed, one line each; () for an ordered end.
        child_code: the exit code by which a node's process reports its failure to its parent.
    """

    cluster: str
    reason: str
    seconds: float
    groups: tuple[GroupSummary, ...]
    starting: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    child_code: int = EXIT_FAILED


def leads_text(leader: str, terms: Terms, epoch: int, *, is_said: bool) -> str:
    """Say which node leads: `n0 leads in term 3`."""
    if not leader:
        return "nobody leads"
    return f"{leader} {'is said to lead' if is_said else 'leads'}{terms.by(epoch)}"


def group_summary(
    view: ClusterView,
    group: str,
    terms: Terms,
    members: tuple[str, ...],
    seconds: float,
    now_s: float | None = None,
) -> GroupSummary:
    """Make one group's summary from the last view.

    Args:
        members: the group's nodes that this run has.
        seconds: the time of the feed, see `GroupSummary`.
        now_s: the time (Trio's) of the end of the run; None: unknown, and so are ages.
    """
    nodes, current = {node.node: node for node in view.nodes}, view.leader_of(group)
    end = current[1].written if current is not None else 0
    if current is not None and is_gone(nodes[current[0]]):
        # It was asked last before the others were, and has led on since.
        end = max(end, *(own.acknowledged for own in view.of(group).values()))
    ends = tuple(
        MemberEnd(
            node=name,
            own=node.groups[group],
            behind=max(0, end - node.groups[group].written),
            restarts=node.restarts_of(group),
            gone=is_gone(node),
            age_s=age_before(now_s, node.heard_s),
        )
        for name in members
        if (node := nodes.get(name)) is not None and group in node.groups
    )
    heard = {member.node for member in ends}
    feeds = [feed for feed in view.feeds if feed.group == group]
    leader, epoch, is_said = view.leader_in(group)
    gone = leader if leader in nodes and is_gone(nodes[leader]) else ""
    kinds = dict.fromkeys(
        (*FINDINGS, *(kind for own in view.of(group).values() for kind in own.findings))
    )
    return GroupSummary(
        group=group,
        terms=terms,
        leader="" if gone else leader,
        epoch=epoch,
        is_said=is_said,
        gone=gone,
        members=ends,
        appended=_sum(feeds, "sent_count"),
        acknowledged=_sum(feeds, "acknowledged_count"),
        outcome_unknown=_sum(feeds, "unknown_count"),
        size_bytes=_sum(feeds, "acknowledged_bytes"),
        seconds=seconds,
        restarts=sum(nodes[name].restarts_of(group) for name in members if name in nodes),
        unanswered=tuple(name for name in members if name not in heard),
        fed=bool(feeds),
        findings={kind: findings(view, group, kind) for kind in kinds},
    )


def findings(view: ClusterView, group: str, kind: str) -> dict[str, str]:
    """Return what the nodes have found of this kind: node -> reason.

    What concerns a follower on another machine is known from its leader.
    """
    found: dict[str, str] = {}
    for node in view.nodes:
        own = node.groups.get(group)
        if own is None or (is_gone(node) and kind not in STAYS):
            continue
        if kind == REFUSED:
            found |= {peer.node: peer.reason for peer in own.peers if peer.refused}
        if kind in own.findings:
            found[node.node] = own.findings[kind]
    return found


def _sum(feeds: list[FeedView], field: str) -> int:
    return sum(getattr(feed, field) for feed in feeds)


def as_json(summary: Summary) -> str:
    """Return the summary as one line of JSON; keys as in the classes, units in their names."""
    plain = {
        "cluster": summary.cluster,
        "reason": summary.reason,
        "seconds": round(summary.seconds, 3),
        "groups": {group.group: group.plain() for group in summary.groups},
        "starting": list(summary.starting),
        "failures": list(summary.failures),
    }
    return json.dumps(plain, ensure_ascii=False)


def as_text(summary: Summary) -> str:
    """Return the summary as a few lines for people; nodes that are behind are named."""
    starting, ran_s = summary.starting, f"{summary.seconds:.1f} s"
    first = f"{summary.cluster}: {summary.reason} after {ran_s}"
    if starting:
        first = f"{summary.cluster}: {summary.reason} during the start, after {ran_s}"
        first += f": not up yet: {', '.join(starting)}"
    lines = [first]
    for group in summary.groups:
        silent = tuple(node for node in group.unanswered if node not in starting)
        if not starting or silent or group.fed or group.members:
            lines += attrs.evolve(group, unanswered=silent).lines()
    return "\n".join(lines)


OLDER_S = 1.0
"""Members are asked together: one whose status is so much older than another's did not answer."""


def age_before(now_s: float | None, heard_s: float | None) -> float | None:
    """Return the seconds from a node's status to the end; None: one of the times is unknown."""
    return None if now_s is None or heard_s is None else now_s - heard_s


def usual_age(ages: Iterable[float | None]) -> float:
    """Return the age that a group's heading gives for all its members; infinity: none is known."""
    return min((age for age in ages if age is not None), default=math.inf)


def before_end(age_s: float) -> str:
    """Say when something was known, for people."""
    return f"as of {age_s:.1f} s before the end"


def when_text(age_s: float | None, usual_s: float, *, gone: bool) -> str:
    """Say, for people, that a member's status is older than the others'; "" if it is not.

    Args:
        gone: whether it did not answer any more.
    """
    when = " when last heard" if gone else ""
    if age_s is not None and age_s >= usual_s + OLDER_S:
        when += f", {before_end(age_s)}"
    return when
