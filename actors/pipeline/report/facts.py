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
"""How a process ended: in order; by its own decision, as when its disk fails; not yet, so that
it runs or was killed; none, and another process of the node came after it."""


@attrs.frozen(kw_only=True)
class Boot:
    """One boot of a node: one run of its process.

    Attributes:
        stop_reason: of its NodeStopped: "ordered", or why it gave up; None if it has none.
        is_last: of its node, so that without an end it may still run.
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
    """All processes that there were, however many of them are listed.

    Attributes:
        nodes: whose they were, sorted.
        boots: how many.
        killed: of them, surely: the node has a later one.
        gave_up: of them, by themselves.
        unended: without an end in order: these, those, and who perhaps still runs.
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
    """See `gold.roles`."""

    group: str
    node: str
    boot: int
    role: str
    number: int | None
    leader: str
    from_us: int
    until_us: int


@attrs.frozen(kw_only=True)
class Line:
    """One curve over time.

    Attributes:
        group: the picture that it belongs to.
        name: of what; "" if the group has one curve only.
        unit: of its values.
        points: (microsecond, value), rising; each value holds until the next one. None: from here
            on there is nothing to know.
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
"""What a time without an answer was: somebody waited OUTAGE_US or longer; or less; or nobody
is known to have waited."""


@attrs.frozen(kw_only=True)
class Outage:
    """A time without an answer: see `gold.outages`."""

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
    """Counts all times without an answer, listed or not, by `Wait`.

    Attributes:
        worst_us: the longest in which somebody waited; 0 without any.
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
    """How long a group's writes waited: see `gold.latency`.

    Attributes:
        by_rank: (rank, milliseconds): `rank` of all writes, 0 to 1, waited no longer.
    """

    group: str
    writes: int
    records: int
    worst_ms: float
    by_rank: tuple[tuple[float, float], ...]


@attrs.frozen(kw_only=True)
class Table:
    """A gold table's most telling rows, for reading.

    Attributes:
        name: of the table.
        columns: in order.
        rows: values by column.
        count: of all rows that there are.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    count: int


@attrs.frozen(kw_only=True)
class MissingLog:
    """A node of which events are missing, though others name it: see `unknown`.

    Attributes:
        before_us: its log begins there; None: nothing is missing before.
        after_us: its log ends there; None: nothing is missing behind.
    """

    node: str
    before_us: int | None = None
    after_us: int | None = None


@attrs.frozen(kw_only=True)
class Facts:
    """Everything on a page.

    Attributes:
        data: the data directory.
        tables_at: where the tables are.
        axis: None if there are no events.
        events: of all boots.
        outside: events that lie outside of `axis`.
        boots: see BOOTS_MAX; `processes` are all.
        roles: see SPANS_MAX; `roles_count` are all of these groups.
        led: by group, how many times somebody else led, or the same anew.
        outages: see OUTAGES_MAX.
        all_outages: of all groups, "" as the group, and of each that has pictures.
        hidden: what was left out, a sentence for each list or picture that was cut.
        unknown: by group, from when to when nothing is known of it, in microseconds since 1970.
        missing: nodes of which events are missing.
        is_judged: False of a page that comes before the verdicts.
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
"""Points of one curve: more than a screen can tell apart. Each is the worst, or the sum, of its
seconds."""
LINES_MAX = 6
"""Curves in one picture, those with the worst values: as many as dashes and colours tell apart."""
GROUPS_MAX = 6
"""Groups with pictures of their own, the busiest."""
NODES_MAX = 12
"""Nodes in the timeline."""
SPANS_MAX = 600
"""Intervals of roles in the timeline, the longest."""
BOOTS_MAX = 400
"""Processes that are shown, the newest."""
OUTAGES_MAX = 200
"""Those in which somebody waited before those in which nobody did, the longest first."""
OUTAGE_US = 1_000_000
"""From here on it is an outage: a disk's sync, or a collection of garbage, makes shorter pauses."""
ROWS_MAX = 50
"""Rows of a table on the page, the most telling ones; the tables on the disk have all."""
HOURS_MAX = 20_000
"""Node-hours with events, those in which a node stopped before those with most events: from them
follows which time is drawn."""
