"""What a run has done in one group, of whichever kind: what was fed, and how it went."""

from __future__ import annotations

import attrs

from actors.cluster.view import ClusterView, FeedView
from actors.config.sizes import size


@attrs.frozen(kw_only=True)
class GroupRun:
    """One group's run.

    Attributes:
        appended: records that the feed handed to the master or leader.
        acknowledged: of these, records whose receipt came; what became of the others when the run
            ended is not known.
        outcome_unknown: records of appends whose outcome was never learnt; sent again, so that they
            may stand in the log twice.
        size_bytes: bodies acknowledged.
        seconds: from the first append to the last answer.
        restarts: of the nodes' processes and of the group's actors.
        unanswered: nodes that did not answer at the end.
        fed: a feed was opened for it here; otherwise the counts are 0, and say nothing.
    """

    group: str
    appended: int
    acknowledged: int
    outcome_unknown: int
    size_bytes: int
    seconds: float
    restarts: int
    unanswered: tuple[str, ...]
    fed: bool = True


def group_run(
    view: ClusterView,
    group: str,
    members: tuple[str, ...],
    answered: set[str],
    seconds: float,
) -> GroupRun:
    """Read one group's end from the last view.

    Args:
        members: the group's nodes that this run has.
        answered: those that have said something of the group.
        seconds: of the feed.
    """
    found = {node.node: node for node in view.nodes}
    feeds = [feed for feed in view.feeds if feed.group == group]
    return GroupRun(
        group=group,
        appended=_sum(feeds, "sent_count"),
        acknowledged=_sum(feeds, "acknowledged_count"),
        outcome_unknown=_sum(feeds, "unknown_count"),
        size_bytes=_sum(feeds, "acknowledged_bytes"),
        seconds=seconds,
        restarts=sum(found[name].restarts_of(group) for name in members if name in found),
        unanswered=tuple(name for name in members if name not in answered),
        fed=bool(feeds),
    )


def run_line(run: GroupRun) -> str:
    """For people."""
    if not run.fed:
        return f"  {run.group}: {run.restarts} restarts"
    rate = run.acknowledged / run.seconds if run.seconds > 0 else 0.0
    fed = f"{run.acknowledged} of {run.appended} records acknowledged"
    left = run.appended - run.acknowledged
    open_end = f" ({left} were unanswered at the end, and may be stored)" if left else ""
    again = " sent again" if run.outcome_unknown else ""
    return (
        f"  {run.group}: {fed}{open_end}, {size(run.size_bytes)}, {rate:.0f} records/s"
        f", {run.outcome_unknown} with unknown outcome{again}, {run.restarts} restarts"
    )


def _sum(feeds: list[FeedView], field: str) -> int:
    return sum(getattr(feed, field) for feed in feeds)
