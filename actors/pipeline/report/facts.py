"""What a page shows: plain values, each list with a bound that `gather` keeps.

Times are microseconds since 1970 by the clock of the node that tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from actors.events.node import ORDERED
from actors.pipeline.report.time_axis import TimeAxis
from actors.pipeline.verdicts import Verdicts

End: TypeAlias = Literal["stopped", "gave up", "open", "killed"]
"""How a process ended. "stopped": it was ordered to stop; "gave up": it stopped by itself, for
example because its disk failed; "open": its log has no end, so that it still runs or was killed;
"killed": its log has no end, and a later process of the node followed."""


@attrs.frozen(kw_only=True)
class Boot:
    """One boot of a node: one run of its process.

    Attributes:
        stop_reason: the reason in its NodeStopped event: "ordered", or why it gave up. None if
            there is no such event.
        is_last: whether it is the last boot of its node, and so may still run if it has no end.
    """

    node: str
    boot: int
    first_us: int
    last_us: int
    events: int
    stop_reason: str | None
    is_last: bool

    @property
    def end(self) -> End:
        if self.stop_reason is None:
            return "open" if self.is_last else "killed"
        return "stopped" if self.stop_reason == ORDERED else "gave up"


@attrs.frozen(kw_only=True)
class ProcessCounts:
    """How all processes ended, whether they are listed or not.

    Attributes:
        nodes: the names of the nodes, sorted.
        boots: how many processes there were.
        killed: how many were killed: they have no end, and the node has a later process.
        gave_up: how many stopped by themselves.
        unended: how many were not stopped by an order: those above and those that may still run.
    """

    nodes: tuple[str, ...] = ()
    boots: int = 0
    killed: int = 0
    gave_up: int = 0
    unended: int = 0


def process_counts(boots: Iterable[Boot]) -> ProcessCounts:
    known = list(boots)
    return ProcessCounts(
        nodes=tuple(sorted({each.node for each in known})),
        boots=len(known),
        killed=sum(each.end == "killed" for each in known),
        gave_up=sum(each.end == "gave up" for each in known),
        unended=sum(each.end != "stopped" for each in known),
    )


@attrs.frozen(kw_only=True)
class RoleSpan:
    """An interval in which a node had one role in a group; see `gold.roles`."""

    group: str
    node: str
    boot: int
    role: str
    number: int | None
    leader: str
    from_us: int
    until_us: int


@attrs.frozen(kw_only=True)
class Turn:
    """A moment of a replica; see `gold.turns`."""

    group: str
    node: str
    at_us: int
    what: str
    detail: str


@attrs.frozen(kw_only=True)
class Line:
    """One curve over time.

    Attributes:
        group: the group whose picture has it.
        name: what it is about, such as a follower; "" if the group has only one curve.
        unit: the unit of its values.
        points: pairs of a moment in microseconds since 1970 and a value, in rising order. A value
            holds until the next point; None means that the value is not known from there on.
    """

    group: str
    name: str
    unit: str
    points: tuple[tuple[int, float | None], ...]

    @property
    def worst(self) -> float:
        return max((value for _, value in self.points if value is not None), default=0.0)

    @property
    def last(self) -> float | None:
        return self.points[-1][1] if self.points else None


Wait: TypeAlias = Literal["outage", "pause", "silence"]
"""What a time without an answer was. "outage": an append waited for OUTAGE_US or longer; "pause":
an append waited, but for less; "silence": no append is known to have waited."""


@attrs.frozen(kw_only=True)
class Outage:
    """A time without an answer; see `gold.outages`."""

    group: str
    from_us: int
    until_us: int
    from_node: str
    until_node: str
    timed_out: int
    witnessed: bool

    @property
    def took_s(self) -> float:
        return (self.until_us - self.from_us) / 1e6

    @property
    def kind(self) -> Wait:
        if not self.witnessed:
            return "silence"
        return "outage" if self.until_us - self.from_us >= OUTAGE_US else "pause"


@attrs.frozen(kw_only=True)
class OutageCount:
    """How many times without an answer there were of each `Wait`, listed or not.

    Attributes:
        worst_us: the longest in which an append waited, or 0 if there was none.
    """

    outages: int = 0
    pauses: int = 0
    silences: int = 0
    worst_us: int = 0

    @property
    def total(self) -> int:
        return self.outages + self.pauses + self.silences


@attrs.frozen(kw_only=True)
class Waits:
    """How long a group's writes waited; see `gold.latency`.

    Attributes:
        by_rank: pairs of a rank from 0 to 1 and milliseconds: this share of all writes waited no
            longer than that.
    """

    group: str
    writes: int
    records: int
    worst_ms: float
    by_rank: tuple[tuple[float, float], ...]


@attrs.frozen(kw_only=True)
class Table:
    """The first rows of a gold table, in an order that puts the most interesting ones first.

    Attributes:
        name: the name of the table.
        columns: the columns that are shown, in order.
        rows: the values of each row by column.
        count: how many rows the whole table has.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    count: int


@attrs.frozen(kw_only=True)
class MissingLog:
    """A node whose log lacks events from times at which other nodes name it; see `unknown`.

    Attributes:
        before_us: where its log begins, if events before that are missing; otherwise None.
        after_us: where its log ends, if events after that are missing; otherwise None.
    """

    node: str
    before_us: int | None = None
    after_us: int | None = None


@attrs.frozen(kw_only=True)
class Facts:
    """Everything on a page.

    Attributes:
        data: the data directory.
        tables_at: the directory of the tables.
        axis: the time that the pictures show, or None if there are no events.
        events: how many events all boots have.
        outside: how many events are outside of `axis`.
        boots: the newest BOOTS_MAX boots; `processes` counts all of them.
        roles: the longest SPANS_MAX intervals of roles; `roles_count` counts all of these groups.
        turns: the newest TURNS_MAX moments of these groups.
        led: by group, how many times leadership began anew after the first time, with the same node
        or another. outages: at most OUTAGES_MAX times without an answer.
        all_outages: the counts by group, for each group that has pictures; under "" the counts of
            all groups together.
        hidden: a sentence for each list or picture that was cut, about what was left out.
        unknown: by group, the times of which nothing is known, as intervals in microseconds since
            1970.
        missing: the nodes whose logs lack events.
        is_judged: whether the verdicts are there already.
    """

    data: str
    tables_at: str
    verdicts: Verdicts
    axis: TimeAxis | None = None
    events: int
    outside: int = 0
    boots: tuple[Boot, ...] = ()
    processes: ProcessCounts = ProcessCounts()
    roles: tuple[RoleSpan, ...] = ()
    roles_count: int = 0
    turns: tuple[Turn, ...] = ()
    led: Mapping[str, int] = attrs.field(factory=dict)
    lag: tuple[Line, ...] = ()
    throughput: tuple[Line, ...] = ()
    outages: tuple[Outage, ...] = ()
    waits: tuple[Waits, ...] = ()
    waits_by_time: tuple[Line, ...] = ()
    tables: tuple[Table, ...] = ()
    all_outages: Mapping[str, OutageCount] = attrs.field(factory=dict)
    hidden: tuple[str, ...] = ()
    unknown: Mapping[str, tuple[tuple[int, int], ...]] = attrs.field(factory=dict)
    missing: tuple[MissingLog, ...] = ()
    is_judged: bool = True

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of which anything is known, sorted."""
        lines = {each.group for each in (*self.lag, *self.throughput)}
        return tuple(sorted(lines | {each.group for each in self.roles}))

    @property
    def bucket_s(self) -> int:
        """Seconds in each point of a curve."""
        return self.axis.bucket_s(BUCKETS_MAX) if self.axis else 1


BUCKETS_MAX = 400
"""The most points of one curve, which is more than a screen can tell apart. Each stands for the
worst, or for the mean, of its seconds."""
LINES_MAX = 6
"""The most curves in one picture, as many as dashes and colours tell apart. Those with the worst
values are shown."""
GROUPS_MAX = 6
"""The most groups with pictures of their own; the busiest ones have them."""
NODES_MAX = 12
"""The most nodes in the timeline."""
SPANS_MAX = 600
"""The most intervals of roles in the timeline; the longest ones are shown."""
TURNS_MAX = 200
"""The most moments of replicas in the timeline; the newest ones are shown."""
BOOTS_MAX = 400
"""The most processes that are listed; the newest ones are."""
OUTAGES_MAX = 200
"""The most times without an answer: first those in which an append waited, the longest first."""
OUTAGE_US = 1_000_000
"""The least microseconds of an outage. A sync of a disk or a garbage collection makes shorter
pauses."""
ROWS_MAX = 50
"""The most rows of a table on the page; the tables on the disk have all rows."""
HOURS_MAX = 20_000
"""The most hours of nodes that are read in order to choose the time that is drawn: first those in
which a node stopped, then those with the most events."""
