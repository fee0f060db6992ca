"""The rule: no master of an auto-switch group has fewer replicas in its sync state set than an
append needs, for longer than the limit of a failover.

The time is measured by the master's own log and clock. It begins with the set that is too small,
which after an election is that of the new master alone, and ends with one that is not, with another
role, or with the boot. What lasts is reported when the common time has passed the limit; what was
too long by its end is reported nevertheless. A set that was reported is reported again once it is
large enough, or of no master any more.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.pipeline.alarms.facts import NO_SET, Fact
from actors.pipeline.alarms.findings import Finding, by_fact
from actors.pipeline.alarms.limits import Limits


@attrs.define
class OwnSet:
    """What one node says of its sync state set in one boot.

    Attributes:
        needs: how many replicas an append needs.
        count: how many there are.
        since_us, seq: those of the event from which on they are too few; None: they are enough.
        last_us: the time of its latest known event.
        told: whether an alarm was raised for this time.
    """

    boot: int
    needs: int = 1
    count: int = 0
    since_us: int | None = None
    seq: int = 0
    last_us: int = 0
    told: bool = False

    def due_us(self, limits: Limits) -> int | None:
        """Return when they will have been too few for too long; None: never, or it is told."""
        if self.since_us is None or self.told:
            return None
        return self.since_us + limits.failover_us + 1


@attrs.define
class SyncSets:
    """The sync state sets of one group, by the node whose it is."""

    nodes: dict[str, OwnSet] = attrs.field(factory=dict)

    def take(self, fact: Fact, limits: Limits) -> Iterator[Finding]:
        """Take a fact, and yield findings. Facts of one node come in the order of its log."""
        known = self.nodes.get(fact.node)
        if known is not None and (known.boot != fact.boot or fact.what == "anew"):
            yield from _ended(known, fact, known.last_us, limits)
            known = None
        if known is None:
            known = self.nodes[fact.node] = OwnSet(boot=fact.boot)
        known.last_us = max(known.last_us, fact.ts_us)
        if fact.what == "needs":
            known.needs = fact.number
        elif fact.what == "stopped":
            yield from _ended(known, fact, known.last_us, limits)
            del self.nodes[fact.node]
        elif fact.what == "set" and NO_SET < fact.number < known.needs:
            known.count = fact.number
            if known.since_us is None:
                known.since_us, known.seq = fact.ts_us, fact.seq
        elif fact.what == "set":
            yield from _ended(known, fact, fact.ts_us, limits)
            if known.told and known.since_us is not None:
                lasted_us = max(0, fact.ts_us - known.since_us)
                more = {"is_over": True, "lasted_us": lasted_us}
                yield by_fact(
                    fact, "below_minimum_over", str(known.needs), fact.number, "replicas", **more
                )
            known.since_us, known.told = None, False

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


def _ended(known: OwnSet, fact: Fact, at_us: int, limits: Limits) -> Iterator[Finding]:
    if known.since_us is None or known.told:
        return
    lasted_us = at_us - known.since_us
    if lasted_us > limits.failover_us:
        yield _finding(fact.group, fact.node, known, lasted_us, is_over=True)


def _finding(group: str, node: str, known: OwnSet, lasted_us: int, *, is_over: bool) -> Finding:
    assert known.since_us is not None
    return Finding(
        alarm="below_minimum",
        group=group,
        subject=str(known.needs),
        node=node,
        boot=known.boot,
        seq=known.seq,
        at_us=known.since_us,
        value=known.count,
        unit="replicas",
        is_over=is_over,
        lasted_us=lasted_us,
    )
