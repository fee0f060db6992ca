"""The rule: no node is without a leader, or without a master, for longer than the limit.

By the node's own log and clock: from the event in which it knew none, having known one, to the one
in which it knows one again. While it lasts it is told when the common time is past the limit; a
boot's end is the end of it, for then the node is not without a leader but gone. What was too long
by then is told all the same: when it is read decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import Finding


@attrs.define
class Knowledge:
    """What one node knows in one boot.

    Attributes:
        leader: the last that it knew; "": none yet.
        since_us, seq: of the event in which it lost it; None: it knows one.
        last_us: of the latest event, as far as one is known.
        told: that it lasts too long.
    """

    boot: int
    leader: str = ""
    since_us: int | None = None
    seq: int = 0
    last_us: int = 0
    told: bool = False


@attrs.define
class Failovers:
    """Of one group; by node."""

    nodes: dict[str, Knowledge] = attrs.field(factory=dict)

    def take(self, fact: Fact, limit_us: int) -> Iterator[Finding]:
        """A fact; those of one node in the order of its log."""
        known = self.nodes.get(fact.node)
        if known is not None and (known.boot != fact.boot or fact.what == "anew"):
            yield from self._boot_ended(fact, known, limit_us)
            known = None
        if known is None:
            known = self.nodes[fact.node] = Knowledge(boot=fact.boot)
        known.last_us = max(known.last_us, fact.ts_us)
        if fact.what == "stopped":
            yield from self._boot_ended(fact, known, limit_us)
            del self.nodes[fact.node]
        elif fact.what == "knows" and fact.who:
            yield from self._ended(fact, known, fact.ts_us, limit_us, is_over=True)
            known.leader, known.since_us, known.told = fact.who, None, False
        elif fact.what == "knows" and known.leader and known.since_us is None:
            known.since_us, known.seq = fact.ts_us, fact.seq

    def pass_time(self, group: str, now_us: int, limit_us: int) -> Iterator[Finding]:
        """All nodes are read up to `now_us`."""
        for node, known in self.nodes.items():
            if known.since_us is None or known.told or known.since_us + limit_us >= now_us:
                continue
            known.told = True
            yield _finding(group, node, known, now_us - known.since_us, is_over=False)

    def due_us(self, limit_us: int) -> int | None:
        """When time alone makes a finding."""
        open_since = [
            known.since_us
            for known in self.nodes.values()
            if known.since_us is not None and not known.told
        ]
        return min(open_since) + limit_us + 1 if open_since else None

    def _boot_ended(self, fact: Fact, known: Knowledge, limit_us: int) -> Iterator[Finding]:
        return self._ended(fact, known, known.last_us, limit_us, is_over=False)

    def _ended(
        self, fact: Fact, known: Knowledge, at_us: int, limit_us: int, *, is_over: bool
    ) -> Iterator[Finding]:
        if known.since_us is None or known.told:
            return
        took_us = at_us - known.since_us
        if took_us > limit_us:
            yield _finding(fact.group, fact.node, known, took_us, is_over=is_over)


def _finding(group: str, node: str, known: Knowledge, took_us: int, *, is_over: bool) -> Finding:
    assert known.since_us is not None
    return Finding(
        alarm="failover",
        group=group,
        subject=known.leader,
        node=node,
        boot=known.boot,
        seq=known.seq,
        at_us=known.since_us,
        value=took_us,
        unit="us",
        is_over=is_over,
    )
