"""The rules: no follower lags more than the limit, and none that lags stands still.

| Group | Reported by | Target | A follower's position |
|---|---|---|---|
| classic | the master, for each slave | the end of its log | what the slave acknowledged |
| DLedger | every member for itself | the highest committed index of all | its own |

Only the master's log shows what a classic group's followers have; what happened after the master's
end is not judged. In a DLedger group the members' events are put in the order of their clocks, and
judged once all are read up to that time, so a lag is as exact as the clocks are.

A follower is reported once when it lags too much, and again only after its lag was less than half
the limit. It is reported once when it stands still, and again only after it has moved. The ends of
both are reported, too: below half the limit, and at the move. A follower whose node was stopped in
order is ignored until the node starts again, by its own clock; one that gave up is not ignored. If
a view ends, so does all that was reported of it, without a finding.

A node that is suspended (SIGSTOP, a machine that sleeps) is not waited for, and is reported. What
it did last before, and had not published, comes when it continues: late, from before the time up to
which all is read. This is no move, because it happened before the reported stand, and no end of a
lag.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.pipeline.alarms.facts import Fact
from actors.pipeline.alarms.findings import Finding, by_fact
from actors.pipeline.alarms.limits import Limits

MEMBERS = ""
"""The name of the one view that all members of a DLedger group share."""
_BEGINS = frozenset({"anew", "started"})
_ENDS = frozenset({"fenced", "stopped"})
_OF_VIEWS = frozenset({"wrote", "acked", "committed", "reached"}) | _BEGINS | _ENDS


@attrs.define
class Follower:
    """One follower in a view.

    Attributes:
        place: its position.
        event: node, boot and seq of the event that shows it.
        behind_us: since when it lags and has not moved; None if it lacks nothing.
        lags, stands: whether it was reported that it lags, or that it stands still.
        lags_us, stands_us: since when it does, if it was reported; 0 from an older version.
        lag_max: the largest lag since then.
    """

    place: int
    event: tuple[str, int, int]
    behind_us: int | None = None
    lags: bool = False
    stands: bool = False
    lags_us: int = 0
    stands_us: int = 0
    lag_max: int = 0

    def go(self, place: int, turn: int, *, is_late: bool) -> None:
        """Note its position; for `is_late` see the module's text."""
        if self.place == place:
            return
        self.place = place
        if self.stands and is_late:
            self.stands_us = turn
        else:
            self.behind_us, self.stands = None, False


@attrs.define
class View:
    """The followers that one master reports, or the members of a DLedger group."""

    target: int = -1
    followers: dict[str, Follower] = attrs.field(factory=dict)


@attrs.define
class Followers:
    """The positions of the followers of one group.

    Attributes:
        views: by master, or MEMBERS.
        waiting: facts that are later than the time up to which all is read, with the time at which
            each has its turn. A node's clock that was set back does not change the order of its
        log. turns: the last turn of each node.
        boots: the last boot that each node began.
        gone: nodes that were stopped in order and have not started again.
        read_us: the time up to which all was read before the present batch; what is older is late.
    """

    views: dict[str, View] = attrs.field(factory=dict)
    waiting: list[tuple[int, Fact]] = attrs.field(factory=list)
    turns: dict[str, int] = attrs.field(factory=dict)
    boots: dict[str, int] = attrs.field(factory=dict)
    gone: set[str] = attrs.field(factory=set)
    read_us: int = 0

    def take(self, fact: Fact) -> None:
        """Take a fact. Those of one node come in the order of its log."""
        if fact.what not in _OF_VIEWS:
            return
        before = 0 if fact.what in _BEGINS else self.turns.get(fact.node, 0)
        turn = self.turns[fact.node] = max(before, fact.ts_us)
        self.waiting.append((turn, fact))

    def pass_time(self, group: str, now_us: int, limits: Limits) -> Iterator[Finding]:
        """Yield what is due by `now_us`, up to which all nodes are read."""
        ready = [each for each in self.waiting if each[0] <= now_us]
        self.waiting = [each for each in self.waiting if each[0] > now_us]
        for turn, fact in sorted(ready, key=_order):
            yield from self._apply(turn, fact, limits)
        members = self.views.get(MEMBERS)
        if members is not None:
            yield from self._standing(group, members, "entries", now_us, limits)
        self.read_us = max(self.read_us, now_us)

    def due_us(self, limits: Limits) -> int | None:
        """Return when time alone may make a finding; None if it cannot."""
        times = [turn for turn, _ in self.waiting]
        members = self.views.get(MEMBERS, View())
        times += [
            each.behind_us + limits.stall_us
            for name, each in members.followers.items()
            if each.behind_us is not None and not each.stands and name not in self.gone
        ]
        return min(times, default=None)

    def last_event(self, finding: Finding) -> tuple[str, int, int] | None:
        """Return the event that shows the position of a finding's follower; None if unknown."""
        view = self.views.get(finding.node if finding.unit == "bytes" else MEMBERS, View())
        follower = view.followers.get(finding.subject)
        return None if follower is None else follower.event

    def _apply(self, turn: int, fact: Fact, limits: Limits) -> Iterator[Finding]:
        if fact.what in _BEGINS or fact.what in _ENDS:
            self.views.pop(fact.node, None)
            self._come_or_go(turn, fact)
            return
        if fact.what == "committed":
            name, unit, limit = MEMBERS, "entries", limits.lag_entries
        else:
            name, unit, limit = fact.node, "bytes", limits.lag_bytes
        if fact.what == "reached" and name not in self.views:
            return
        view = self.views.setdefault(name, View())
        yield from self._standing(fact.group, view, unit, turn, limits)
        is_late = turn < self.read_us
        yield from _move(view, unit, turn, fact, is_late=is_late)
        yield from self._lagging(view, unit, fact, limit, is_late=is_late)

    def _come_or_go(self, turn: int, fact: Fact) -> None:
        """Note that a node starts, or stops in order, in every view. Its lag begins anew."""
        members = self.views.get(MEMBERS)
        if fact.what == "anew" and members is not None:
            members.followers.pop(fact.node, None)
            places = (each.place for each in members.followers.values())
            members.target = max(places, default=View().target)
        if fact.what == "started":
            self.boots[fact.node] = fact.boot
            self.gone.discard(fact.node)
            for view in self.views.values():
                own = view.followers.get(fact.node)
                if own is not None and own.behind_us is not None:
                    own.behind_us = turn
            return
        # A clock that was set back may put a boot's end behind the next one's beginning.
        is_its_last = self.boots.get(fact.node, fact.boot) == fact.boot
        if fact.what == "stopped" and not fact.who and is_its_last:
            self.gone.add(fact.node)

    def _lagging(
        self, view: View, unit: str, fact: Fact, limit: int, *, is_late: bool
    ) -> Iterator[Finding]:
        for name, each in view.followers.items():
            lag = view.target - each.place
            if each.lags:
                each.lag_max = max(each.lag_max, lag)
            if lag > limit and not each.lags and name not in self.gone:
                each.lags, each.lags_us, each.lag_max = True, fact.ts_us, lag
                yield by_fact(fact, "lag", name, lag, unit)
            elif 2 * lag < limit and each.lags and not is_late:
                each.lags = False
                lasted_us = fact.ts_us - (each.lags_us or fact.ts_us)
                yield _over("lag_over", fact, name, each.lag_max, unit, lasted_us)

    def _standing(
        self, group: str, view: View, unit: str, now_us: int, limits: Limits
    ) -> Iterator[Finding]:
        for name, each in view.followers.items():
            if each.behind_us is None or each.stands or name in self.gone:
                continue
            if each.behind_us + limits.stall_us > now_us:
                continue
            each.stands, each.stands_us = True, each.behind_us
            node, boot, seq = each.event
            yield Finding(
                alarm="stalled",
                group=group,
                subject=name,
                node=node,
                boot=boot,
                seq=seq,
                at_us=each.behind_us,
                value=view.target - each.place,
                unit=unit,
            )


def _order(waiting: tuple[int, Fact]) -> tuple[int, str, int, int]:
    turn, fact = waiting
    return turn, fact.node, fact.boot, fact.seq


def _over(alarm: str, fact: Fact, follower: str, value: int, unit: str, lasted_us: int) -> Finding:
    more = {"is_over": True, "lasted_us": max(0, lasted_us)}
    return by_fact(fact, alarm, follower, value, unit, **more)


def _move(view: View, unit: str, turn: int, fact: Fact, *, is_late: bool) -> Iterator[Finding]:
    """Set the target or the follower's position from a fact, and yield findings."""
    stood = {name: each.stands_us for name, each in view.followers.items() if each.stands}
    if fact.what == "wrote":
        view.target = fact.number
    elif fact.what != "reached":
        view.target = max(view.target, fact.number) if fact.what == "committed" else view.target
        event = (fact.node, fact.boot, fact.seq)
        own = view.followers.setdefault(fact.who, Follower(fact.number, event))
        own.go(fact.number, turn, is_late=is_late)
        own.event = event
    for each in view.followers.values():
        if each.place >= view.target:
            each.behind_us, each.stands = None, False
        elif each.behind_us is None:
            each.behind_us = turn
    for name, since_us in stood.items():
        each = view.followers[name]
        if not each.stands:
            lag = max(0, view.target - each.place)
            yield _over("stalled_over", fact, name, lag, unit, turn - (since_us or turn))
