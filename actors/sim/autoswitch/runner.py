"""Carries scripts out on an auto-switch cluster, and does what only an operator of one does."""

from __future__ import annotations

import attrs

from actors.config import AutoSwitchGroup
from actors.events import ha
from actors.sim.actions.runner import Seen
from actors.sim.autoswitch.judges import Known
from actors.sim.classic.runner import FaultRunner
from actors.sim.history import AppendAnswered, Observation, RecordsRead
from actors.sim.world import SimEvent


@attrs.define(eq=False, kw_only=True)
class AutoSwitchRunner(FaultRunner):
    """The runner of an auto-switch cluster; see `Runner`.

    Attributes:
        known: what the judges know.
    """

    group: AutoSwitchGroup
    known: Known
    _power_took: bool = attrs.field(default=False, init=False)

    def saw(self, seen: Seen) -> None:
        """Take an event, after the history: where a fixed number of copies is enough, or a power
        loss takes them, an election takes back what the new master has not.
        """
        super().saw(seen)
        known = self.known
        match seen:
            case SimEvent(event=ha.EpochBegun(start_bytes=start)) if known.is_of(seen):
                had = max(len(known.acknowledged), known.shown_bytes)
                lost = seen.node in known.power_lost and start < had
                self._power_took = self._power_took or lost
                if lost:
                    others = (each for each in self.group.members if each != seen.node)
                    known.behind |= dict.fromkeys(others, start)
                if lost or not self.group.all_ack_in_sync_state_set:
                    self.note("lost", f"{seen.node} {start}")

    def hears(self, seen: Observation) -> None:
        """Take any observation: an answer of a master that was deposed meanwhile may come late, and
        who has not heard of a loss shows what was lost.
        """
        match seen:
            case RecordsRead(node=node, batch=batch) if node in self.known.behind:
                if batch.acknowledged > self.known.behind[node]:
                    self.note("lost", f"{node} {self.known.behind[node]}")
            case AppendAnswered(receipt=receipt) if receipt is not None:
                may = self._power_took or not self.group.all_ack_in_sync_state_set
                if may and self.known.taken_back(receipt):
                    self.note("lost", f"{self.master} {self.known.newest[1]}")

    def _tend(self, name: str) -> None:
        """Mend a node that rightly refuses to start.

        Nobody empties it instead: its controllers may have elected it, and then its log alone is
        sure to have everything.
        """
        self.repair(name)
