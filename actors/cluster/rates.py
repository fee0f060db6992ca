"""What the groups of a cluster did between two looks at it, per second."""

from __future__ import annotations

import attrs

from actors.cluster.view import ClusterView


@attrs.frozen(kw_only=True)
class Rates:
    """What one group did lately, per second."""

    bytes_per_s: float = 0.0
    records_per_s: float = 0.0


@attrs.define
class RateMeter:
    """Rates between two looks, per group; the views carry their times."""

    _previous: ClusterView | None = None

    def rates(self, view: ClusterView) -> dict[str, Rates]:
        """The rates since the look before, which this one replaces."""
        before, self._previous = self._previous, view
        if before is None or view.at_s <= before.at_s:
            return {group: Rates() for group in view.groups}
        elapsed_s = view.at_s - before.at_s
        return {group: _rates(before, view, group, elapsed_s) for group in view.groups}


def _rates(before: ClusterView, now: ClusterView, group: str, elapsed_s: float) -> Rates:
    """What is there when it is first seen is no rate."""
    counts_entries = any(own.terms.unit == "entries" for own in now.of(group).values())
    if counts_entries:  # an entry is a record, whoever led, and its bytes are not counted
        ends = [[own.acknowledged for own in view.of(group).values()] for view in (before, now)]
        if not all(ends):
            return Rates()
        return Rates(records_per_s=max(0, max(ends[1]) - max(ends[0])) / elapsed_s)
    then, found = before.leader_of(group), now.leader_of(group)
    if then is None or found is None:
        return Rates()
    records = found[1].counts.get("acknowledged", 0) - then[1].counts.get("acknowledged", 0)
    return Rates(
        bytes_per_s=max(0, found[1].written - then[1].written) / elapsed_s,
        records_per_s=max(0, records) / elapsed_s,
    )
