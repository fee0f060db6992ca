"""Executes scripts on DLedger groups, and does what an operator of such groups does besides."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from actors.config import DLedgerGroup
from actors.errors import TriologError
from actors.events.dledger import CommittedRose, RoleChanged, SnapshotSaved
from actors.events.store import RecoveryFinished
from actors.sim.actions.runner import LOOK_S, Runner, Seen
from actors.sim.disk import SimDisk
from actors.sim.dledger.atlas import LedgerAtlas
from actors.sim.dledger.judges.checkers import Chosen
from actors.sim.dledger.ledger_bytes import SimLedgers
from actors.sim.dledger.members import SimGroups, committed_everywhere
from actors.sim.dledger.workload import LedgerWorkload
from actors.sim.history import LOST_DISK, LOST_LOGS
from actors.sim.machines import NotConverged
from actors.sim.world import SimEvent
from actors.storage.ledger.snapshots import INSTALLED, TAKEN
from actors.storage.ledger.term_files import TermVote, read_term, write_term
from actors.storage.node.identity import identity_path

LAST_WORDS: Final = b"last words %d"
WHOLE_WAIT_S: Final = 40.0
"""How long an operator waits for all members to be well before a disk is taken from one."""
LONG_LOOK_S: Final = 0.25
ANSWER_S: Final = 5.0
OUTGROW_RECORDS: Final = 8
"""How many records such an append has; two appends fill a data file."""
TAKING: Final = "it takes a snapshot"
INSTALLING: Final = "it installs a snapshot"
RECOVERING: Final = "it starts from a snapshot"
GROUP_DEPTH: Final = 2
"""Which part of an event's path names the group."""


@attrs.define(eq=False, kw_only=True)
class LedgerRunner(Runner):
    """Executes scripts on DLedger groups; see `Runner`.

    Attributes:
        ledgers: all groups.
        logs: the logs of each group.
        chosen: the committed entries, by group.
        atlas: what was damaged on purpose.
        terms: the highest term seen, by group.
        loads: the clients, by group.
        one_forgets: held while a member has yet to get back a log that it lost.

    A member is in `_installed` from the moment when it has saved a snapshot of its leader's until
    its log goes on after the snapshot.
    """

    ledgers: tuple[DLedgerGroup, ...]
    logs: tuple[SimLedgers, ...]
    chosen: dict[str, Chosen]
    loads: dict[str, LedgerWorkload] = attrs.field(factory=dict)
    cluster: SimGroups
    atlas: LedgerAtlas = attrs.field(init=False)
    log_part: str = attrs.field(default="/data/0", init=False)
    terms: dict[str, int] = attrs.field(factory=dict, init=False)
    one_forgets: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _installed: dict[tuple[str, str], None] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.atlas = LedgerAtlas(logs=self.logs, chosen=self.chosen, damaged=self.logs[0].damaged)
        self.cluster.on_machine.append(self.saw)
        self.cluster.on_end = self._ends

    def wipe(self, name: str) -> None:
        """Empty the disk of a machine that is off. Its vote is lost, so the operator writes a term
        after the group's: in that term no member has voted except, perhaps, this one.
        """
        disk = self.cluster.disk(name)
        with disk.faults.spared():
            for log in self.logs:
                layout = log.layout(name)
                if disk.exists(layout.root):
                    disk.rmtree(layout.root)
                disk.mkdir(layout.root)
                disk.sync_dir(layout.root.rpartition("/")[0])
                vote = TermVote(self.terms.get(log.group.name, 0) + 1, name)
                write_term(disk, layout.term, vote)
        self.note("wiped", name)

    def lose(self, name: str, *, whole: bool) -> None:
        """Delete the logs of a machine that is off, or, if `whole`, all its files except its
        events.
        """
        disk = self.cluster.disk(name)
        with disk.faults.spared():
            self._lose(disk, name, whole=whole)
        self.note(LOST_DISK if whole else LOST_LOGS, name)

    def _lose(self, disk: SimDisk, name: str, *, whole: bool) -> None:
        root, layouts = self.cluster.config.node_dir(name), [log.layout(name) for log in self.logs]
        votes = [read_term(disk, layout.term) for layout in layouts]
        # files that are inspected meanwhile have to be gone from the disk, too
        for layout in layouts:
            disk.rmtree(layout.root)
            disk.mkdir(layout.root)
            disk.sync_dir(layout.root)
        disk.rmtree(f"{root}/groups")
        if whole:
            disk.unlink(identity_path(root))
        else:
            for layout, vote in zip(layouts, votes, strict=True):
                disk.mkdir(layout.root)
                write_term(disk, layout.term, vote or TermVote())
        disk.sync_dir(root)

    def holds_nothing(self, name: str) -> bool:
        """Whether no log of the member has a committed entry, so that it acknowledges none."""
        return not any(
            log.entry(name, index)
            for log in self.logs
            for index in range(self.chosen[log.group.name].end)
        )

    async def converged(self, within_s: float) -> None:
        """Wait until every group takes an append, and all its members hold and show it.

        Raises: NotConverged: this takes longer than `within_s`.
        """
        until_s, loads = trio.current_time() + within_s, tuple(self.loads.values())
        ends = [
            await self._last_words(load, number, until_s, within_s)
            for number, load in enumerate(loads)
        ]
        while True:  # all groups at once: one may elect again while another is waited for
            lacks = {
                load.group.name: await committed_everywhere(self.cluster, load.group, end)
                for load, end in zip(loads, ends, strict=True)
            }
            group, missing = next((each for each in lacks.items() if each[1]), ("", ""))
            if not missing:
                return
            if trio.current_time() >= until_s:
                raise NotConverged(group, within_s, {}, missing)
            await self._all_up()
            await trio.sleep(LOOK_S)

    async def _last_words(
        self, load: LedgerWorkload, number: int, until_s: float, within_s: float
    ) -> int:
        """Append one more entry to the group, and return its index."""
        while trio.current_time() < until_s:
            await self._all_up()
            with trio.move_on_at(until_s):
                end = await load.append_now((LAST_WORDS % number,))
                if end >= 0:
                    return end
            await trio.sleep(LOOK_S)
        raise NotConverged(load.group.name, within_s, {}, "no append was committed")

    async def _all_up(self) -> None:
        for name in self.cluster.names:
            if not self.is_on(name):  # its disk had failed just before all was mended
                await self.up(name)

    async def all_well(self) -> bool:
        """Wait until all members of all groups hold the same. Returns: False: this takes too
        long.
        """
        with trio.move_on_after(WHOLE_WAIT_S):
            while True:
                missing = [
                    await committed_everywhere(self.cluster, group, -1) for group in self.ledgers
                ]
                if not any(missing):
                    return True
                await trio.sleep(LONG_LOOK_S)
        return False

    async def others_hold(self, node: str, ends: Mapping[str, int]) -> bool:
        """Whether soon each of the other members shows more than was committed when the node
        went.
        """
        others = [name for name in self.cluster.names if name != node]
        with trio.move_on_after(WHOLE_WAIT_S):
            while True:
                try:
                    shown = [
                        (await self.cluster.heard(name, lambda m, g=group: m.offsets(g)), end)  # type: ignore[misc]
                        for name in others
                        for group, end in ends.items()
                    ]
                except TriologError:
                    return False
                if all(each.acknowledged > end or each.written == end for each, end in shown):
                    return True
                await trio.sleep(LONG_LOOK_S)
        return False

    async def outgrow(self, group: DLedgerGroup, rng: random.Random, within_s: float) -> bool:
        """Append until the leader has deleted all entries that are committed now, because its
        snapshots replace them. Returns: False: this takes too long.
        """
        end, load = self.chosen[group.name].end, self.loads[group.name]
        size = group.data_file_bytes // OUTGROW_RECORDS // 2
        with trio.move_on_after(within_s):
            while True:
                last = await load.append_some(rng, OUTGROW_RECORDS, size)
                leader = self.cluster.leader(group.name)
                member = None if leader is None else self.cluster.running(leader)
                if last >= 0 and member is not None:
                    with trio.move_on_after(ANSWER_S):
                        if (await member.offsets(group.name)).min > end:
                            return True
                await trio.sleep(LOOK_S)
        return False

    # ---- inside ----

    def saw(self, seen: Seen) -> None:
        """Take an observation, also one of a state machine."""
        super().saw(seen)
        if not isinstance(seen, SimEvent) or seen.path.count("/") < GROUP_DEPTH:
            return
        group = seen.path.split("/")[GROUP_DEPTH]
        match seen.event:
            case RoleChanged(term=term):
                self.terms[group] = max(self.terms.get(group, 0), term)
            case SnapshotSaved(installed=True):
                self._installed[seen.node, group] = None
            case CommittedRose() | RecoveryFinished():
                self._installed.pop((seen.node, group), None)

    def _ends(self, name: str) -> None:
        """Note whether a process that is about to be killed is at work on a snapshot."""
        if not self.is_on(name):
            return
        for log in self.logs:
            disk, folder = log.disk(name), log.layout(name).snapshot
            machine = self.cluster.machines.get((name, log.group.name))
            if machine is not None and machine.loading:
                started = self.cluster.running(name) is not None
                self.note("ended", f"{name} while {INSTALLING if started else RECOVERING}")
            elif (name, log.group.name) in self._installed or disk.exists(f"{folder}/{INSTALLED}"):
                self.note("ended", f"{name} while {INSTALLING}")
            elif disk.exists(f"{folder}/{TAKEN}"):
                self.note("ended", f"{name} while {TAKING}")
