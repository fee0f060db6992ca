"""Records which bytes of which member's logs were damaged on purpose.

The last good copies are never damaged. Only entries are that are committed, lie on every member,
and are covered by the member's own synced mark and by checksums on its disk. Checksums are synced
once a second, and an entry whose checksum was lost counts as undamaged.

A group of fewer than three members loses its quorum with one copy, so its logs are not damaged.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import attrs

from actors.sim.classic.atlas import synced_mark
from actors.sim.disk.pages import PAGE_BYTES
from actors.sim.dledger.judges.checkers import Chosen
from actors.sim.dledger.ledger_bytes import LedgerDamage, SimLedgers, index_of, position_of
from actors.storage.ledger.per_index import SUM_BYTES, all_known, sums_file_bytes
from actors.storage.log.commit_log import segment_bases, segment_path

MEMBERS_MIN = 3
MARK_VALUES = 4
TRIES_MAX = 8


@attrs.define(kw_only=True)
class LedgerAtlas:
    """The damage of all groups.

    Attributes:
        logs: the logs of each group.
        chosen: the committed entries, by group.
        damaged: the damage, by node; the logs share this dict.
    """

    logs: tuple[SimLedgers, ...]
    chosen: Mapping[str, Chosen]
    damaged: dict[str, list[LedgerDamage]]

    def flip_bit(self, node: str, rng: random.Random) -> str | None:
        """Flip one bit of one committed entry. Returns: the place, for people; None if no entry was
        found.
        """
        log = rng.choice(self.logs)
        entries = self.chosen[log.group.name].entries
        for _ in range(TRIES_MAX if entries else 0):
            entry = rng.choice(entries)
            start = position_of(entry)
            if self._may_damage(log, node, [entry], start + len(entry)):
                at = start + rng.randrange(len(entry))
                size = log.group.data_file_bytes
                path = segment_path(log.layout(node).commit_log, at - at % size)
                inode = log.disk(node).inode(path)
                good = inode.read(at % size, 1)
                inode.flip_bit(at % size, rng.randrange(8))
                log.disk(node).faults.count("bit_rot")
                return self._note(node, LedgerDamage(path=path, start=at % size, good=good))
        return None

    def revert_page(self, node: str, rng: random.Random) -> str | None:
        """Give one page of a log, full of committed entries, its content from before its last sync.
        Returns: the place, for people; None if no page was found.
        """
        log = rng.choice(self.logs)
        disk, folder, size = log.disk(node), log.layout(node).commit_log, log.group.data_file_bytes
        if not disk.exists(folder):
            return None
        pages = [
            (base, page)
            for base in segment_bases(disk, folder)
            for page in disk.inode(segment_path(folder, base)).older_pages()
        ]
        rng.shuffle(pages)
        for base, page in pages[:TRIES_MAX]:
            start = base + page * PAGE_BYTES
            end = min(start + PAGE_BYTES, base + size)
            touched = [
                entry
                for entry in self.chosen[log.group.name].entries
                if start < position_of(entry) + len(entry) and position_of(entry) < end
            ]
            covered = sum(
                min(end, position_of(entry) + len(entry)) - max(start, position_of(entry))
                for entry in touched
            )
            if covered < end - start or not self._may_damage(log, node, touched, end):
                continue
            path = segment_path(folder, base)
            good = disk.inode(path).read(start - base, end - start)
            disk.inode(path).revert_page(page)
            return self._note(node, LedgerDamage(path=path, start=start - base, good=good))
        return None

    def newest_good(self, node: str) -> bytes:
        """Return the bytes that stood at the newest damage of a node before."""
        return self.damaged[node][-1].good

    def repair(self, node: str) -> list[str]:
        """Put the undamaged bytes back, and return the places, for people."""
        shown = []
        disk = self.logs[0].disk(node)
        for damage in self.damaged.pop(node, []):
            if disk.exists(damage.path):
                disk.inode(damage.path).patch(damage.good, damage.start)
                shown.append(f"{damage.path} at {damage.start}")
        return shown

    def is_summed(self, log: SimLedgers, node: str, index: int) -> bool:
        """Whether the entry's checksum would survive a loss of power."""
        disk, size = log.disk(node), sums_file_bytes(log.group.index_file_bytes)
        at = index * SUM_BYTES % size
        path = segment_path(log.layout(node).sums, index * SUM_BYTES - at)
        if not disk.exists(path):
            return False
        record = disk.inode(path).durable_range(at, at + SUM_BYTES)
        return len(record) == SUM_BYTES and all_known(record)

    # ---- inside ----

    def _may_damage(self, log: SimLedgers, node: str, entries: list[bytes], end: int) -> bool:
        members = log.group.members
        if self.damaged or log.group.store == "memory" or len(members) < MEMBERS_MIN:
            return False
        if end > self._mark(log, node) or not entries:
            return False
        first = position_of(entries[0])
        if not all(self.is_summed(log, node, index_of(entry)) for entry in entries):
            return False
        return not log.has_let_go(node, first) and all(
            log.holds(member, entry) and not log.has_let_go(member, first)
            for member in members
            for entry in entries
        )

    def _note(self, node: str, damage: LedgerDamage) -> str:
        self.damaged.setdefault(node, []).append(damage)
        return f"{damage.path} at {damage.start}"

    def _mark(self, log: SimLedgers, node: str) -> int:
        return synced_mark(log.disk(node), log.layout(node).synced, MARK_VALUES)
