"""The rules as one stateful operator: a key for each group, and an event-time timer for what waits.

Rows of a key come in no order within a batch, so they are put into that of their nodes' logs first;
from batch to batch the source keeps it. A group's state is one line of JSON: a new rule, or a new
field, needs no new checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from actors.pipeline.alarms.doubts import Doubts
from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.failovers import Failovers
from actors.pipeline.alarms.findings import Finding, as_dict, by_fact
from actors.pipeline.alarms.followers import Followers
from actors.pipeline.alarms.leaders import Leaders
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.sync_sets import SyncSets

_US_PER_MS: Final = 1000
_FACT: Final = tuple(field.name for field in attrs.fields(Fact))


def begun_anew(fact: Fact) -> Iterator[Finding]:
    """Yield a finding if a node begins anew, once for each of its groups.

    An operator who empties a node's directory knows of it; one who puts an old copy in its place
    may not. A node that begins anew has forgotten its vote and what it acknowledged; from there on
    the other rules take it for a new node.
    """
    if fact.what == "anew":
        yield by_fact(fact, "begun_anew", fact.node, fact.boot, "boot")


def rotten(fact: Fact) -> Iterator[Finding]:
    """Yield a finding if a copy of a log is damaged, once for each range and boot."""
    if fact.what == "rotten":
        yield by_fact(fact, "rotten", fact.who, fact.number, "bytes")


@attrs.define
class GroupState:
    """All that the rules remember of a group.

    Attributes:
        timer_ms: when this group has to be judged again; None: when it has new facts.
    """

    leaders: Leaders = attrs.field(factory=Leaders)
    failovers: Failovers = attrs.field(factory=Failovers)
    followers: Followers = attrs.field(factory=Followers)
    sets: SyncSets = attrs.field(factory=SyncSets)
    doubts: Doubts = attrs.field(factory=Doubts)
    timer_ms: int | None = None

    def take(self, facts: Iterable[Fact], limits: Limits) -> Iterator[Finding]:
        """Take facts in any order, and yield findings."""
        for fact in sorted(facts, key=_order):
            self.doubts.take(fact)
            yield from begun_anew(fact)
            yield from rotten(fact)
            yield from self.leaders.take(fact)
            for rule in (self.failovers, self.sets):
                for each in rule.take(fact, limits):
                    yield self._doubted(each, limits, is_by_time=False)
            self.followers.take(fact)

    def pass_time(self, group: str, now_us: int, limits: Limits) -> Iterator[Finding]:
        """Yield what is due by `now_us`, up to which all logs are read."""
        for rule in (self.failovers, self.sets, self.followers):
            for each in rule.pass_time(group, now_us, limits):
                yield self._doubted(each, limits, is_by_time=True)

    def _doubted(self, finding: Finding, limits: Limits, *, is_by_time: bool) -> Finding:
        last = self.followers.last_event(finding) if finding.alarm == "lag" else None
        event = last or (finding.node, finding.boot, finding.seq)
        return self.doubts.added(finding, event, limits, is_by_time=is_by_time)

    def due_us(self, limits: Limits) -> int | None:
        rules = (self.failovers, self.sets, self.followers)
        times = (rule.due_us(limits) for rule in rules)
        return min((each for each in times if each is not None), default=None)


def _order(fact: Fact) -> tuple[str, int, int, bool]:
    """Return the sort key of the order of nodes' logs; "anew" comes before its first event."""
    return fact.node, fact.boot, fact.seq, fact.what != "anew"


class GroupAlarms(StatefulProcessor):
    """`transformWithState` over `source.SCHEMA`, grouped by group -> `findings.SCHEMA`.

    Spark passes the arguments of these methods by name.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("group", "json string")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        state = self._load()
        facts = (Fact(*(row[name] for name in _FACT)) for row in rows)
        found = list(state.take(facts, self._limits))
        yield from self._go_on(key[0], state, found, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        state = self._load()
        if state.timer_ms == expiredTimerInfo.getExpiryTimeInMs():
            state.timer_ms = None  # Spark forgets it
        yield from self._go_on(key[0], state, [], timerValues)

    def close(self) -> None:
        pass

    def _load(self) -> GroupState:
        found = self._state.get()
        return GroupState() if found is None else msgspec.json.decode(found[0], type=GroupState)

    def _go_on(
        self, group: str, state: GroupState, found: list[Finding], timer_values: Any
    ) -> Iterator[Row]:
        now_ms = timer_values.getCurrentWatermarkInMs()
        found += state.pass_time(group, now_ms * _US_PER_MS, self._limits)
        due_us = state.due_us(self._limits)
        due_ms = None if due_us is None else max(-(-due_us // _US_PER_MS), now_ms + 1)
        if due_ms != state.timer_ms:
            if state.timer_ms is not None:
                self._handle.deleteTimer(state.timer_ms)
            if due_ms is not None:
                self._handle.registerTimer(due_ms)
            state.timer_ms = due_ms
        self._state.update((msgspec.json.encode(state).decode(),))
        yield from (Row(**as_dict(each)) for each in found)
