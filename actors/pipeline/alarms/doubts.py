"""What else may explain an alarm: events that are missing, and clocks that were set.

Rules know only the events that were read. An event that would refute an alarm may be in a file that
is missing or damaged, or that a silent node has not published. A clock that was set makes times
wrong.

| Doubt | Of which log | Which events |
|---|---|---|
| events are missing | that the alarm is by | after the one that it names |
| the node said nothing for long, or its clock was set ahead | likewise | likewise |
| nothing is read any more | likewise | by then |
| the clock went back | likewise | after the one that it names; any, if nothing is read any more |
| another's clock was set ahead | others', if nothing is read any more | after the last one |

An alarm states its doubts, and people decide whether they apply. An alarm that rests on two events
which were both read, such as two leaders, has no doubts.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.pipeline.alarms.facts import DOUBTS, Fact
from actors.pipeline.alarms.findings import Finding, moment, seconds
from actors.pipeline.alarms.limits import Limits

KEPT_MAX = 64
"""How many doubts are kept of each node: the newest."""
SAID_MAX = 3
"""How many doubts one alarm names, as they are in one line."""
SLACK_US = 1_000_000
"""How much older than a batch a node's last event may be without counting as silence: the batch's
time rises by a millisecond with each batch, whatever its events are."""
_DENIABLE = frozenset({"failover", "leaderless", "lag", "stalled", "below_minimum"})


@attrs.define
class Doubts:
    """The doubts about the nodes of one group.

    Attributes:
        known: the doubts by node, in the order of its log.
        reached: by node, the time of the last event of its that was read.
    """

    known: dict[str, list[Fact]] = attrs.field(factory=dict)
    reached: dict[str, int] = attrs.field(factory=dict)

    def take(self, fact: Fact) -> None:
        """Take a fact. Those of one node come in the order of its log."""
        if fact.what == "anew":
            self.known.pop(fact.node, None)
            self.reached.pop(fact.node, None)
        elif fact.what == "reached":
            self.reached[fact.node] = fact.ts_us
        elif fact.what in DOUBTS:
            self.known[fact.node] = [*self.known.get(fact.node, ()), fact][-KEPT_MAX:]

    def added(
        self, finding: Finding, last: tuple[str, int, int], limits: Limits, *, is_by_time: bool
    ) -> Finding:
        """Return the finding, with what puts it in doubt.

        Args:
            last: node, boot and seq of the event that shows it.
            is_by_time: whether time alone made it, after all logs but those of silent nodes were
                read.
        """
        if finding.alarm not in _DENIABLE:
            return finding
        until_us = _until_us(finding, limits)
        said = [*dict.fromkeys(self._said(last, until_us, is_by_time=is_by_time))]
        return attrs.evolve(finding, doubt=", and ".join(said[:SAID_MAX]))

    def _said(
        self, last: tuple[str, int, int], until_us: int, *, is_by_time: bool
    ) -> Iterator[str]:
        node, boot, seq = last
        reached_us = self.reached.get(node, until_us)
        is_silent = is_by_time and reached_us < until_us - SLACK_US
        if is_silent:
            yield f"nothing of {node} is read after {moment(reached_us)}"
        for fact in self.known.get(node, ()):
            is_after = (fact.boot, fact.seq) > (boot, seq) and _from_us(fact) <= until_us
            if is_after or (is_silent and _is_back(fact)):
                yield _words(fact)
        for other, facts in self.known.items():
            for fact in facts if is_silent and other != node else ():
                if fact.what == "clock" and not _is_back(fact) and fact.ts_us > reached_us:
                    yield _words(fact)


def _until_us(finding: Finding, limits: Limits) -> int:
    """Return the time until which an event would have denied the finding."""
    if finding.alarm == "stalled":
        return finding.at_us + limits.stall_us
    if finding.alarm == "below_minimum":
        return finding.at_us + finding.lasted_us
    return finding.at_us + (finding.value if finding.unit == "us" else 0)


def _is_back(fact: Fact) -> bool:
    return fact.what == "clock" and fact.number < 0


def _from_us(fact: Fact) -> int:
    """Return when the doubt of this fact begins."""
    return fact.ts_us - max(fact.number, 0) if fact.what == "clock" else fact.ts_us


def _words(fact: Fact) -> str:
    event = f"{fact.node}/{fact.boot}/{fact.seq}"
    if fact.what == "missing":
        more = f" to {fact.node}/{fact.boot}/{fact.number}" if fact.number > fact.seq else ""
        return f"{event}{more} {'are' if more else 'is'} missing"
    took = seconds(abs(fact.number))
    if _is_back(fact):
        return f"the clock of {fact.node} went back by {took} at {event}"
    return f"{fact.node} said nothing for {took} until {event}, or its clock was set ahead"
