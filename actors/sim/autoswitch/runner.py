"""Carries scripts out on an auto-switch cluster, and does what only an operator of one does."""

from __future__ import annotations

import attrs

from actors.sim.classic.runner import FaultRunner


@attrs.define(eq=False, kw_only=True)
class AutoSwitchRunner(FaultRunner):
    """The runner of an auto-switch cluster; see `Runner`."""

    def _tend(self, name: str) -> None:
        """Mend a node that rightly refuses to start.

        Nobody empties it instead: its controllers may have elected it, and then its log alone is
        sure to have everything.
        """
        self.repair(name)
