"""Knows which bytes of a node's log were damaged on purpose, and which may be: never the last good
copy. Bytes that some member still has to copy may be damaged, but not those that were just written.

Model: tigerbeetle/tigerbeetle, src/testing/storage.zig, ClusterFaultAtlas.
"""

from __future__ import annotations

import random
from contextlib import closing
from typing import Final

import attrs
import trio

from actors.config import CommitLogGroup
from actors.events.store import RecoveryFinished
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster
from actors.sim.disk import SimDisk
from actors.sim.disk.pages import PAGE_BYTES
from actors.sim.world import SimEvent
from actors.storage.files.side_file import SLOT_BYTES, SLOT_COUNT, SideFile
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.storage.log.digests import ENTRY_BYTES, RANGE_BYTES
from actors.storage.scrub.approval import HOLDS_S
from wire.files.commit_log import decode_record, scan_heads

GUARDED_BYTES: Final = 12
"""Size, magic and body CRC: a changed bit in these is always noticed. So is one in the body; no
checksum covers another field of a record."""


DIGESTED_S: Final = 2.0
"""In this time after a start everything that was parsed has a digest: these logs are short."""
CACHED_S: Final = 2 * HOLDS_S
"""Bytes that a master has read or written in this time do not rot: twice as long as it relies on
them, because of the turn and the frame that are under way."""


@attrs.frozen
class Damage:
    """Damaged bytes of a node's log, from offset `start` to `end`, exclusive.

    Attributes:
        good: the bytes that were there before.
    """

    start: int
    end: int
    good: bytes


@attrs.define(kw_only=True)
class FaultAtlas:
    """The damage of one group with a commit log.

    Attributes:
        cluster, group, logs: the group, its nodes, and their logs.
        damaged: the damage by node, until it is repaired; also of files that have expired since,
            because whole logs are compared.
    """

    cluster: SimCluster
    group: CommitLogGroup
    logs: DiskLogBytes
    damaged: dict[str, list[Damage]] = attrs.field(factory=dict, init=False)

    def may_damage(self, node: str, start: int, end: int) -> bool:
        """Whether these bytes of a node's log may be damaged.

        Every other member has to have them on its disk, undamaged, or only one of them if they lie
        in a complete file. The node's own synced mark has to cover them, so that a start finds the
        damage instead of cutting the log.
        """
        mark = self._mark(node)
        if self.damaged.get(node) or end > mark or self.is_cached(node, start, end):
            return False
        good = self.logs.durable(node, start, end)
        if len(good) != end - start:
            return False
        others = [name for name in self.group.members if name != node]
        if any(self._overlaps(other, start, end) for other in others):
            return False
        have = [other for other in others if self.logs.durable(other, start, end) == good]
        is_old = end <= mark - mark % self.group.segment_bytes
        return have == others or (is_old and bool(have))

    def is_cached(self, node: str, start: int, end: int) -> bool:
        """Whether a master has just compared or written these bytes, so that it may send them
        unread (`storage.scrub.approval`).

        Its system still has them in memory.
        """
        base, disk = start - start % self.group.segment_bytes, self._disk(node)
        if node != self.logs.master or not disk.exists(path := self._path(node, base)):
            return False
        since_s = trio.current_time() - CACHED_S
        return disk.inode(path).was_used(start - base, end - base, since_s)

    def is_damaged(self, node: str) -> bool:
        """Whether there is damage in files that the node still has."""
        return any(self.is_there(node, damage) for damage in self.damaged.get(node, []))

    def is_there(self, node: str, damage: Damage) -> bool:
        """Whether the node still has the damaged file, which may have expired."""
        base = damage.start - damage.start % self.group.segment_bytes
        return self._disk(node).exists(self._path(node, base))

    def may_refill(self, node: str) -> bool:
        """Whether the node may be emptied, to copy everything from the master."""
        return self.logs.master != node and not self.damaged.get(self.logs.master)

    def flip_bit(self, node: str, rng: random.Random) -> str | None:
        """Flip a bit of one record that a checksum covers. Returns: where, for people; None:
        nowhere.
        """
        segments = self._segments(node)
        rng.shuffle(segments)
        for base in segments:
            data = self.logs.written(node, base, base + self.group.segment_bytes)
            heads, _ = scan_heads(data, physical_offset=base)
            spared = [
                head
                for head in heads
                if self.may_damage(node, head.physical_offset, head.physical_offset + head.size)
            ]
            if spared:
                head = rng.choice(spared)
                return self._flip_bit(node, rng, base, head.physical_offset - base, head.size, data)
        return None

    def flip_old_bit(
        self, node: str, rng: random.Random, *, beside: int | None = None
    ) -> str | None:
        """Flip any bit in a record of a complete file, also in a field that no CRC covers.

        It is a byte that has a digest, or has to have one soon; otherwise the damage could not be
        found. Returns: where, for people; None: nowhere.

        Args:
            beside: only in the file that holds this byte of the log; None: in any file.
        """
        mark, size = self._mark(node), self.group.segment_bytes
        bases = [base for base in self._segments(node) if base + size <= mark]
        if beside is not None:
            bases = [base for base in bases if base <= beside < base + size]
        rng.shuffle(bases)
        for base in bases:
            heads, _ = scan_heads(self.logs.written(node, base, base + size), physical_offset=base)
            head = rng.choice(heads) if heads else None
            if head is not None and self.may_damage(
                node, head.physical_offset, head.physical_offset + head.size
            ):
                position = head.physical_offset + rng.randrange(head.size)
                if self._has_digest(node, base, position - base) or self._was_parsed(node, base):
                    return self._flip_at(node, rng, base, position - base)
        return None

    def _has_digest(self, node: str, base: int, position: int) -> bool:
        """Whether the node has written a digest for this position."""
        disk, path = self._disk(node), segment_path(self._layout(node).digests, base)
        if not disk.exists(path):
            return False
        with disk.faults.spared(), closing(disk.open(path, "r")) as file:
            return any(file.pread(position // RANGE_BYTES * ENTRY_BYTES, ENTRY_BYTES))

    def _was_parsed(self, node: str, base: int) -> bool:
        """Whether the node is running, and its start has parsed this complete file so long ago that
        it must have digests.
        """
        if self.cluster.running(node) is None:
            return False
        for seen in reversed(self.cluster.world.events):
            match seen.event:
                case RecoveryFinished() as found if self._is_of(node, seen):
                    is_whole = base + self.group.segment_bytes <= found.end_bytes
                    is_long_ago = seen.at_s + DIGESTED_S <= trio.current_time()
                    return found.scanned_from_bytes <= base and is_whole and is_long_ago
        return False

    def _is_of(self, node: str, seen: SimEvent) -> bool:
        """Whether the group's part of this node has emitted the event."""
        return seen.node == node and seen.path.split("/")[2] == self.group.name

    def _flip_bit(
        self, node: str, rng: random.Random, base: int, at: int, size: int, data: bytes
    ) -> str:
        body = decode_record(data, at).body
        body_at = data.find(body, at, at + size)
        position = rng.choice(
            [*range(at, at + GUARDED_BYTES), *range(body_at, body_at + len(body))]
        )
        return self._flip_at(node, rng, base, position)

    def _flip_at(self, node: str, rng: random.Random, base: int, position: int) -> str:
        """Flip a bit at `position` bytes from the beginning of the file at `base`. Returns:
        where.
        """
        start, disk = base + position, self._disk(node)
        damage = self._damage(node, start, start + 1)
        disk.inode(self._path(node, base)).flip_bit(position, rng.randrange(8))
        disk.faults.count("bit_rot")
        return self._note(node, damage)

    def revert_page(self, node: str, rng: random.Random) -> str | None:
        """Give a page of the log the content from before its last sync. Returns: where; None:
        nowhere.
        """
        disk = self._disk(node)
        pages = [
            (base, page)
            for base in self._segments(node)
            for page in disk.inode(self._path(node, base)).older_pages()
        ]
        rng.shuffle(pages)
        for base, page in pages:
            start = base + page * PAGE_BYTES
            end = min(start + PAGE_BYTES, base + self.group.segment_bytes)
            if self.may_damage(node, start, end):
                damage = self._damage(node, start, end)
                disk.inode(self._path(node, base)).revert_page(page)
                return self._note(node, damage)
        return None

    def newest_good(self, node: str) -> bytes:
        """Return the bytes that a node's newest damage has replaced."""
        return self.damaged[node][-1].good

    def repair(self, node: str) -> list[str]:
        """Put the bytes back, as another member has or had them. Returns: where, one text each."""
        shown = []
        for damage in self.damaged.pop(node, []):
            base = damage.start - damage.start % self.group.segment_bytes
            path = self._path(node, base)
            disk = self._disk(node)
            expired = self.cluster.expired.own(node, self.group.name, base)
            file = disk.inode(path) if disk.exists(path) else expired
            if damage.good and file is not None:
                file.patch(damage.good, damage.start - base)
                shown.append(f"{damage.start} to {damage.end}")
        return shown

    def forget(self, node: str) -> None:
        """Forget the damage of a node, whose log is gone."""
        self.damaged.pop(node, None)

    def _damage(self, node: str, start: int, end: int) -> Damage:
        """Make a note of the damage that is about to be done, with the bytes before it."""
        return Damage(start, end, self.logs.durable(node, start, end))

    def _note(self, node: str, damage: Damage) -> str:
        self.damaged.setdefault(node, []).append(damage)
        return f"{damage.start} to {damage.end}"

    def _overlaps(self, node: str, start: int, end: int) -> bool:
        return any(each.start < end and start < each.end for each in self.damaged.get(node, []))

    def _layout(self, node: str) -> StoreLayout:
        return self.cluster.layout(node, self.group.name)

    def _disk(self, node: str) -> SimDisk:
        return self.cluster.disk(node)

    def _path(self, node: str, base: int) -> str:
        return segment_path(self._layout(node).commit_log, base)

    def _segments(self, node: str) -> list[int]:
        return segment_bases(self._disk(node), self._layout(node).commit_log)

    def _mark(self, node: str) -> int:
        return synced_mark(self._disk(node), self._layout(node).synced, 1)


def synced_mark(disk: SimDisk, path: str, values_count: int) -> int:
    """Return the end that a store's synced mark would have after a power loss now.

    Args:
        values_count: how many values the mark's file has; the first is the end.
    """
    data = disk.durable(path)
    if data is None or len(data) < SLOT_BYTES * SLOT_COUNT:
        return 0
    copy = SimDisk(random.Random(0))
    file = copy.open("/mark", "x")
    file.pwrite(data, 0)
    _, values = SideFile.open(copy, "/mark", values_count)
    return values[0] if values else 0
