"""The rule: no node is without a leader, or without a master, for longer than the limit.

The time is measured by the node's own log and clock. It begins with the event by which the node
lost its leader, or with its start, and ends with the event by which it knows a leader again. A
master knows itself once it takes appends, that of an auto-switch group while it has a lease. A time
that lasts is reported when the common time has passed the limit. It also ends with the boot,
because then the node has ended; if it was too long by then it is reported nevertheless, whenever it
is read. A group that was reported without a leader is reported again once it has one.

Two cases are not found. One is a master that is fenced after it took appends, because no event
shows that a fence has ended, and its epoch goes on. The other is the start of a node in a classic
group with Java members, because no event shows that a slave follows a Java master.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import Finding, by_fact
from actors.pipeline.alarms.limits import Limits


@attrs.define
class Knowledge:
    """What one node knows of its leader in one boot.

    Attributes:
        leader: the last leader that it knew; "" if it has known none.
        since_us, seq: those of the event in which it lost the leader, or of its start; None while
            it knows one.
        last_us: the time of its latest known event.
        told: whether an alarm was raised for this time.
        lacked: see `findings.Finding`.
    """

    boot: int
    leader: str = ""
    since_us: int | None = None
    seq: int = 0
    last_us: int = 0
    told: bool = False
    lacked: str = "leader"

    def limit_us(self, limits: Limits) -> int:
        """Return how many microseconds the node may have no leader."""
        return limits.failover_us if self.leader else limits.start_us

    def due_us(self, limits: Limits) -> int | None:
        """Return when the node will have had no leader for too long.

        Returns: None if it has one, or the alarm was raised.
        """
        if self.since_us is None or self.told:
            return None
        return self.since_us + self.limit_us(limits) + 1


@attrs.define
class Failovers:
    """What each node of one group knows of its leader, by node."""

    nodes: dict[str, Knowledge] = attrs.field(factory=dict)

    def take(self, fact: Fact, limits: Limits) -> Iterator[Finding]:
        """Take a fact, and yield findings. Facts of one node come in the order of its log."""
        known = self.nodes.get(fact.node)
        if known is not None and (known.boot != fact.boot or fact.what == "anew"):
            yield from _ended(known, fact, known.last_us, limits)
            known = None
        if known is None:
            known = self.nodes[fact.node] = Knowledge(boot=fact.boot)
        known.last_us = max(known.last_us, fact.ts_us)
        if fact.what == "started":
            known.since_us, known.seq = fact.ts_us, fact.seq
        elif fact.what == "classic":
            known.lacked = "master"
        elif fact.what == "java" and not known.leader:
            known.since_us = None
        elif fact.what == "stopped":
            yield from _ended(known, fact, known.last_us, limits)
            del self.nodes[fact.node]
        elif fact.what == "knows" and fact.who:
            yield from _ended(known, fact, fact.ts_us, limits, is_over=True)
            if known.told and known.since_us is not None:
                yield _again(known, fact, known.since_us)
            known.leader, known.since_us, known.told = fact.who, None, False
        elif fact.what == "knows" and known.leader and known.since_us is None:
            known.since_us, known.seq = fact.ts_us, fact.seq

    def pass_time(self, group: str, now_us: int, limits: Limits) -> Iterator[Finding]:
        """Yield what is due by `now_us`, up to which all nodes are read."""
        for node, known in self.nodes.items():
            due_us = known.due_us(limits)
            if due_us is None or due_us > now_us:
                continue
            assert known.since_us is not None
            known.told = True
            yield _finding(group, node, known, now_us - known.since_us, is_over=False)

    def due_us(self, limits: Limits) -> int | None:
        """Return when time alone makes the next finding; None if it makes none."""
        times = (known.due_us(limits) for known in self.nodes.values())
        return min((each for each in times if each is not None), default=None)


def _ended(
    known: Knowledge, fact: Fact, at_us: int, limits: Limits, *, is_over: bool = False
) -> Iterator[Finding]:
    if known.since_us is None or known.told:
        return
    took_us = at_us - known.since_us
    if took_us > known.limit_us(limits):
        yield _finding(fact.group, fact.node, known, took_us, is_over=is_over)


def _again(known: Knowledge, fact: Fact, since_us: int) -> Finding:
    lasted_us = max(0, fact.ts_us - since_us)
    alarm, lacked = "failover_over" if known.leader else "leaderless_over", known.lacked
    more = {"is_over": True, "lacked": lacked, "lasted_us": lasted_us}
    return by_fact(fact, alarm, known.leader, lasted_us, "us", **more)


def _finding(group: str, node: str, known: Knowledge, took_us: int, *, is_over: bool) -> Finding:
    assert known.since_us is not None
    return Finding(
        alarm="failover" if known.leader else "leaderless",
        group=group,
        subject=known.leader,
        node=node,
        boot=known.boot,
        seq=known.seq,
        at_us=known.since_us,
        value=took_us,
        unit="us",
        is_over=is_over,
        lacked=known.lacked,
    )
