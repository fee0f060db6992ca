"""What a run has done in one DLedger group: for people, and for machines."""

from __future__ import annotations

import math
from typing import Any

import attrs

from actors.cluster.ages import age_before, before_end, usual_age, when_words
from actors.cluster.group_run import GroupRun, group_run, run_line
from actors.cluster.ledger_view import extent
from actors.cluster.view import ClusterView, is_gone


@attrs.frozen(kw_only=True)
class MemberEnd:
    """How far one member was when the run ended. Indexes of entries, -1 for none.

    Attributes:
        behind: entries that the leader had and this member had not; of a leader that had gone, that
            others know to be committed.
        restarts: of its process and of the group's actors.
        gone: it did not answer any more: this is what it said last.
        age_s: how long before the end of the run it said so; None: not known. A member that stops
            in order is asked before that.
    """

    node: str
    role: str
    term: int
    begin_index: int
    written_index: int
    synced_index: int
    committed_index: int
    behind: int
    restarts: int
    gone: bool = False
    age_s: float | None = None

    def words(self, usual_s: float) -> str:
        """For people.

        Args:
            usual_s: the age that is told of all; that of one who said it long before is told.
        """
        behind = f", behind by {self.behind} entries" if self.behind else ""
        has = extent(self.begin_index, self.written_index, self.synced_index, self.committed_index)
        when = when_words(self.age_s, usual_s, gone=self.gone)
        return f"{self.node} {self.role}: {has}{behind}{when}"


@attrs.frozen(kw_only=True)
class LedgerSummary:
    """One group's run.

    Attributes:
        leader: of the newest term in which some member leads or names a leader; "" without one.
        term: of that leader; -1 without one.
        members: of those that this run has.
    """

    run: GroupRun
    leader: str
    term: int
    members: tuple[MemberEnd, ...]

    @property
    def group(self) -> str:
        return self.run.group

    @property
    def behind(self) -> tuple[MemberEnd, ...]:
        """The members that lack something."""
        return tuple(member for member in self.members if member.behind)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        members = {}
        for member in self.members:
            fields = attrs.asdict(member)
            fields["age_s"] = None if member.age_s is None else round(member.age_s, 3)
            members[fields.pop("node")] = fields
        return {
            "leader": self.leader or None,
            "term": self.term if self.term >= 0 else None,
            "appended": self.run.appended,
            "acknowledged": self.run.acknowledged,
            "outcome_unknown": self.run.outcome_unknown,
            "bytes": self.run.size_bytes,
            "seconds": round(self.run.seconds, 3),
            "restarts": self.run.restarts,
            "indexes": members,
            "unanswered": list(self.run.unanswered),
        }

    def lines(self) -> list[str]:
        """For people; who is behind is named."""
        who = f"{self.leader} leads in term {self.term}" if self.leader else "nobody leads"
        usual_s = usual_age(member.age_s for member in self.members)
        when = "" if math.isinf(usual_s) else f", {before_end(usual_s)}"
        lines = [run_line(self.run), f"    {who}{when}"]
        lines += [f"    {member.words(usual_s)}" for member in self.members]
        return [*lines, *(f"    {name}: did not answer" for name in self.run.unanswered)]


def ledger_summary(
    view: ClusterView,
    group: str,
    members: tuple[str, ...],
    seconds: float,
    now_s: float | None = None,
) -> LedgerSummary:
    """Read one group's end from the last view.

    Args:
        members: the group's nodes that this run has.
        seconds: of the feed.
        now_s: the end of the run, Trio's time; None: ages are not known.
    """
    current = view.leader_of(group)
    end_index = current[1].written_index if current is not None else -1
    if current is not None and any(
        each.node == current[0] and is_gone(each) for each in view.nodes
    ):
        # It was asked for the last time before the others were, and has led on since.
        ledgers = (node.ledgers[group] for node in view.nodes if group in node.ledgers)
        end_index = max(end_index, *(own.committed_index for own in ledgers))
    ends = []
    for node in view.nodes:
        own = node.ledgers.get(group)
        if own is None or node.node not in members:
            continue
        ends.append(
            MemberEnd(
                node=node.node,
                role=own.role,
                term=own.term,
                begin_index=own.begin_index,
                written_index=own.written_index,
                synced_index=own.synced_index,
                committed_index=own.committed_index,
                behind=max(0, end_index - own.written_index),
                restarts=node.restarts_of(group),
                gone=is_gone(node),
                age_s=age_before(now_s, node.heard_s),
            )
        )
    named = view.named_leader_of(group) or ("", -1)
    return LedgerSummary(
        run=group_run(view, group, members, {end.node for end in ends}, seconds),
        leader=current[0] if current is not None else named[0],
        term=current[1].term if current is not None else named[1],
        members=tuple(ends),
    )
