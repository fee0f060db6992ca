"""Carries scripts out on DLedger groups: what an operator of theirs does, besides."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.config import DLedgerGroup
from actors.events.dledger import RoleChanged
from actors.sim.cluster import NotConverged
from actors.sim.dledger.atlas import LedgerAtlas
from actors.sim.dledger.checkers import Chosen
from actors.sim.dledger.ledger_bytes import SimLedgers
from actors.sim.dledger.members import SimGroups, committed_everywhere
from actors.sim.dledger.workload import LedgerWorkload
from actors.sim.runner import LOOK_S, Runner
from actors.sim.world import SimEvent
from actors.storage.dledger.term_files import TermVote, write_term

LAST_WORDS: Final = b"last words %d"


@attrs.define(eq=False, kw_only=True)
class LedgerRunner(Runner):
    """See `Runner`.

    Attributes:
        groups: `cluster`, with its groups.
        ledgers: all of them.
        logs: of each.
        chosen: by group, what is committed.
        atlas: what was damaged.
        terms: by group, the highest that anybody was seen in.
    """

    ledgers: tuple[DLedgerGroup, ...]
    logs: tuple[SimLedgers, ...]
    chosen: dict[str, Chosen]
    cluster: SimGroups
    atlas: LedgerAtlas = attrs.field(init=False)
    log_part: str = attrs.field(default="/data/0", init=False)
    terms: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.atlas = LedgerAtlas(logs=self.logs, chosen=self.chosen, damaged=self.logs[0].damaged)
        self.cluster.world.on_event.append(self._saw)

    @property
    def groups(self) -> SimGroups:
        return self.cluster

    def wipe(self, name: str) -> None:
        """A machine that is off gets an empty disk. Its vote is forgotten, so the operator writes
        down a term after the group's: in that one nobody has voted but, perhaps, the member itself.
        """
        disk = self.cluster.world.node(name).disk
        for log in self.logs:
            layout = log.layout(name)
            if disk.exists(layout.root):
                disk.rmtree(layout.root)
            disk.mkdir(layout.root)
            disk.sync_dir(layout.root.rpartition("/")[0])
            vote = TermVote(self.terms.get(log.group.name, 0) + 1, name)
            write_term(disk, layout.term, vote)
        self.note("wiped", name)

    async def converged(self, loads: tuple[LedgerWorkload, ...], within_s: float) -> None:
        """Wait until every group takes an append, and all its members hold and show it.

        Raises: NotConverged.
        """
        until_s = trio.current_time() + within_s
        for number, load in enumerate(loads):
            missing, last = "no append was committed", -1
            while trio.current_time() < until_s:
                for name in self.cluster.names:
                    if not self.is_on(name):  # its disk had failed just before all was mended
                        await self.up(name)
                if last < 0:
                    with trio.move_on_at(until_s):
                        last = await load.append_now((LAST_WORDS % number,))
                else:
                    missing = await committed_everywhere(self.cluster, load.group, last)
                    if not missing:
                        break
                await trio.sleep(LOOK_S)
            else:
                raise NotConverged(load.group.name, within_s, {}, missing)

    def _saw(self, seen: SimEvent) -> None:
        if isinstance(seen.event, RoleChanged):
            group = seen.path.split("/")[2]
            self.terms[group] = max(self.terms.get(group, 0), seen.event.term)
