"""What the groups of a cluster did between two looks at it, per second."""

from __future__ import annotations

import attrs

from actors.cluster.view import ClusterView, GroupView


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
        return {
            group: _ledger_rates(before, view, group, elapsed_s)
            if view.is_ledger(group)
            else _rates(before.master_of(group), view.master_of(group), elapsed_s)
            for group in view.groups
        }


def _rates(
    before: tuple[str, GroupView] | None, now: tuple[str, GroupView] | None, elapsed_s: float
) -> Rates:
    if before is None or now is None:  # what a master has when it is first seen is no rate
        return Rates()
    then, found = before[1], now[1]
    return Rates(
        bytes_per_s=max(0, found.written_bytes - then.written_bytes) / elapsed_s,
        records_per_s=max(0, found.acknowledged_count - then.acknowledged_count) / elapsed_s,
    )


def _ledger_rates(before: ClusterView, now: ClusterView, group: str, elapsed_s: float) -> Rates:
    """What was committed, whoever led; an entry is a record, and its bytes are not counted."""
    ends = [
        max(node.ledgers[group].committed_index for node in view.nodes if group in node.ledgers)
        for view in (before, now)
        if view.is_ledger(group)
    ]
    if len(ends) < 2:  # what is there when it is first seen is no rate
        return Rates()
    return Rates(records_per_s=max(0, ends[1] - ends[0]) / elapsed_s)
