"""Invariants of a classic group. They are cheap, judge every observation of a run, and a test shows
each of them fail.

There are two kinds of evidence: events say what a node believes, `LogBytes` is what its disk really
has. An invariant about durability never relies on a node's own statement.

`validations` has what is checked once, at the end. Model: apache/kafka,
raft/.../RaftEventSimulationTest.java, Invariant and Validation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import attrs

from actors.config import ClassicGroup, CommitLogGroup
from actors.events import ha, roles, store
from actors.sim.classic.judges.survival import AcknowledgedIsOnDisks, FurthestHolds
from actors.sim.classic.log_bytes import LogBytes, left_by_resync
from actors.sim.history import (
    AppendAnswered,
    FaultInjected,
    Invariant,
    Observation,
    OffsetsSeen,
    RecordsRead,
    given_up,
    is_of,
)
from actors.sim.judges.liveness import NoSilentStall, of_any_node
from actors.sim.world import SimEvent
from wire.files.message_record import BLANK_MAGIC
from wire.files.record_encoder import BLANK_BYTES


@attrs.define(kw_only=True)
class NoDamagedCopyCounts:
    """Damaged bytes of one node are not copied: a slave that reports these bytes has them as they
    were before.

    Bytes before a slave's oldest file are not judged: they are shown as some node had them that has
    deleted them for their age.
    """

    group: CommitLogGroup
    logs: LogBytes
    _good: dict[str, list[tuple[int, bytes]]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case FaultInjected(kind="damaged", where=where, good=good):
                node, start, _, _ = where.split()
                self._good.setdefault(node, []).append((int(start), good))
            case FaultInjected(kind="repaired" | "wiped", where=where):
                self._good.pop(where.split()[0], None)
            case SimEvent(event=ha.OffsetReported(offset_bytes=offset)) if is_of(self.group, seen):
                yield from self._check(seen.node, offset)

    def _check(self, reporter: str, offset: int) -> Iterator[str]:
        for node, damaged in self._good.items():
            for start, good in damaged if node != reporter else ():
                end = start + len(good)
                is_there = self.logs.begin(reporter) <= start and end <= offset
                if is_there and self.logs.written(reporter, start, end) != good:
                    yield (
                        f"{reporter} reported {offset}, and has from {start} to {end} what was"
                        f" damaged on {node}"
                    )


def invariants(group: ClassicGroup, logs: LogBytes) -> tuple[Invariant, ...]:
    """Return all invariants that hold for a classic group in every run, even with deliberate
    bugs.
    """
    held = HeldByReports(group=group, logs=logs)
    return (
        ReceivedIsOnMaster(group=group, logs=logs),
        ReportedIsHeld(group=group, logs=logs),
        NoDamagedCopyCounts(group=group, logs=logs),
        AcknowledgedOnEnoughNodes(held=held),
        ReadsOnlyAcknowledged(held=held),
        ReadsAgree(segment_bytes=group.segment_bytes),
        AcknowledgedMonotonic(),
        LogTiles(segment_bytes=group.segment_bytes),
        SyncedSurvives(group=group, logs=logs),
        AcknowledgedIsOnDisks(group=group, logs=logs),
        FurthestHolds(group=group, logs=logs),
        NoSilentStall(group=group),
        *of_any_node(),
    )


@attrs.define(kw_only=True)
class HeldByReports:
    """Knows how far `copies` nodes hold the log, by the slaves' reports and the master's disk.

    Attributes:
        group: the group.
        logs: the logs on the disks.
    """

    group: ClassicGroup
    logs: LogBytes
    _reported: dict[str, int] = attrs.field(factory=dict, init=False)
    _own: int = attrs.field(default=0, init=False)
    _highest: int = attrs.field(default=0, init=False)

    def learn(self, seen: Observation) -> None:
        """Take a report, or the growth of the master's log."""
        if isinstance(seen, SimEvent) and isinstance(seen.event, roles.GroupOpened):
            self._own = max(self._own, seen.event.start_bytes)
        if (end := given_up(seen)) is not None:
            self._own, self._highest = min(self._own, end), min(self._highest, end)
            self._reported = {name: min(held, end) for name, held in self._reported.items()}
        if not isinstance(seen, SimEvent) or not is_of(self.group, seen):
            return
        synced = self.group.durability == "synced"
        match seen.event:
            case ha.OffsetReported(offset_bytes=offset):
                self._reported[seen.node] = max(self._reported.get(seen.node, 0), offset)
            case store.LogSynced(offset_bytes=offset) if seen.node == self.logs.master and synced:
                self._master_holds(seen.node, offset)
            case store.RecordsAppended(next_bytes=offset) if not synced:
                self._master_holds(seen.node, offset)
            case store.RecoveryFinished(end_bytes=offset) if seen.node == self.logs.master:
                self._master_holds(seen.node, offset)

    def _master_holds(self, master: str, offset: int) -> None:
        """Count what a master holds as its report, too: under the next master it is a slave."""
        self._own = max(self._own, offset)
        self._reported[master] = max(self._reported.get(master, 0), offset)

    def highest(self) -> int:
        """Return the highest offset that `copies` nodes have held together at some time."""
        others = [name for name in self.group.counting_nodes if name != self.logs.master]
        counting = [self._reported.get(name, 0) for name in others]
        reports = sorted(counting, reverse=True)
        count = self.group.sure_copies - 1
        held = min([self._own, *reports[:count]]) if len(reports) >= count else 0
        self._highest = max(self._highest, held)
        return self._highest

    def master_lacks(self, start: int, end: int) -> str | None:
        """Say why the master's disk does not hold [start, end) as the group guarantees; None: it
        does.
        """
        master = self.logs.master
        written = self.logs.written(master, start, end)
        if len(written) < end - start:
            return f"{master} has only {len(written)} of the bytes {start} to {end}"
        if self.group.durability == "synced" and self.logs.durable(master, start, end) != written:
            return f"bytes {start} to {end} are not on the disk of {master}"
        return None


@attrs.define(kw_only=True)
class AcknowledgedOnEnoughNodes:
    """What is acknowledged is held by `copies` distinct nodes, one of which is the master, by its
    disk.
    """

    held: HeldByReports

    def see(self, seen: Observation) -> Iterator[str]:
        self.held.learn(seen)
        match seen:
            case SimEvent(event=ha.AppendsAcknowledged(first_bytes=first, next_bytes=end)):
                yield from self._check(f"{seen.node} acknowledged", first, end)
            case AppendAnswered(receipt=receipt) if receipt is not None:
                yield from self._check(f"{seen.client} was answered", receipt.first, receipt.next)

    def _check(self, who: str, first: int, end: int) -> Iterator[str]:
        if end > self.held.highest():
            copies = self.held.group.sure_copies
            yield f"{who} up to {end}, but {copies} nodes held only {self.held.highest()}"
        lacks = self.held.master_lacks(first, end)
        if lacks is not None:
            yield f"{who} up to {end}, but {lacks}"


@attrs.define(kw_only=True)
class ReadsOnlyAcknowledged:
    """No node shows a record, or an acknowledged end, that `copies` nodes did not hold."""

    held: HeldByReports

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case RecordsRead(batch=batch):
                shown = batch.records[-1].next_position if batch.records else 0
                end = max(shown, batch.acknowledged)
            case OffsetsSeen(offsets=offsets):
                end = offsets.acknowledged
            case _:
                return
        if end > self.held.highest():
            yield f"{seen.node} shows up to {end}, enough nodes held only {self.held.highest()}"


@attrs.define(kw_only=True)
class ReadsAgree:
    """A position holds the same record for ever, on every node, unless a forced promotion gives it
    up; and a read leaves no record out.

    Before a read's first record there may be the filler of one file, or what was deleted for its
    age.
    """

    segment_bytes: int
    _known: dict[int, tuple[int, bytes]] = attrs.field(factory=dict, init=False)
    # the beginnings of logs after files were deleted
    _begins: dict[int, None] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, SimEvent) and isinstance(seen.event, store.SegmentExpired):
            self._begins[seen.event.min_bytes] = None
        if (end := given_up(seen)) is not None:
            self._known = {at: known for at, known in self._known.items() if known[0] <= end}
        if not isinstance(seen, RecordsRead):
            return
        expected = seen.start
        for number, record in enumerate(seen.batch.records):
            here = (record.next_position, record.body)
            if self._known.setdefault(record.position, here) != here:
                yield f"{seen.node} shows another record at {record.position} than was read before"
            filled = expected - expected % -self.segment_bytes
            first = (filled, *(begin for begin in self._begins if begin > expected))
            if record.position != expected and (number or record.position not in first):
                yield f"{seen.node} left out {expected} to {record.position}"
            expected = record.next_position


@attrs.define
class AcknowledgedMonotonic:
    """The acknowledged end that a node shows never falls while it runs: no answer is below one that
    was given before it was asked for.

    What restarts the node's readers (a disk error, another role) resets this.
    """

    _count: int = attrs.field(default=0, init=False)
    _excused: dict[str, None] = attrs.field(factory=dict, init=False)
    _shown: dict[tuple[str, int], list[tuple[int, int]]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        self._count += 1
        match seen:
            case FaultInjected(kind="felt", where=where):
                self._excused[where.partition(" ")[0]] = None
                return
            case FaultInjected(kind="start", where=node):
                self._excused.pop(node, None)
                return
            case SimEvent(event=store.RecoveryFinished()):
                self._shown.pop((seen.node, seen.boot), None)
                return
            case RecordsRead(batch=batch):
                now = batch.acknowledged
            case OffsetsSeen(offsets=offsets):
                now = offsets.acknowledged
            case _:
                return
        shown = self._shown.setdefault(
            (seen.node, seen.boot), []
        )  # position and highest, ascending
        earlier = bisect_right(shown, seen.asked, key=lambda pair: pair[0])
        before = shown[earlier - 1][1] if earlier else 0
        if now < before and seen.node not in self._excused:
            yield f"{seen.node}#{seen.boot} shows {now} as acknowledged after {before}"
        if not shown or now > shown[-1][1]:
            shown.append((self._count, now))


@attrs.define(kw_only=True)
class ReceivedIsOnMaster:
    """A slave writes what the master has at the same offsets; in a `synced` group, what the master
    has on its disk, because no byte leaves it before its own sync.

    Bytes of the master that have rotted before the slave's event are not compared.
    """

    group: ClassicGroup
    logs: LogBytes
    _damaged: dict[str, list[tuple[int, int]]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, FaultInjected) and seen.kind == "damaged":
            node, start, _, to = seen.where.split()
            self._damaged.setdefault(node, []).append((int(start), int(to)))
        if not (isinstance(seen, SimEvent) and isinstance(seen.event, store.BytesReceived)):
            return
        if not is_of(self.group, seen):
            return
        first, end = seen.event.first_bytes, seen.event.next_bytes
        received = self.logs.written(seen.node, first, end)
        master = self.logs.master
        on_disk = self.group.durability == "synced"
        theirs = (self.logs.durable if on_disk else self.logs.written)(master, first, end)
        if len(received) < end - first:
            yield f"{seen.node} wrote {first} to {end}, but has only {len(received)} bytes of it"
        elif self._sound(master, first, received) != self._sound(master, first, theirs):
            where = "on the disk of" if on_disk else "in the log of"
            yield f"{seen.node} wrote {first} to {end}, which is not what is {where} {master}"

    def _sound(self, master: str, first: int, data: bytes) -> bytes:
        """Return the bytes without those that have rotted on the master."""
        out = bytearray(data)
        for start, end in self._damaged.get(master, ()):
            low, high = max(start - first, 0), min(end - first, len(out))
            if low < high:
                out[low:high] = bytes(high - low)
        return bytes(out)


@attrs.define(kw_only=True)
class ReportedIsHeld:
    """A slave reports only what it has, in a `synced` group on its disk, and never less than before
    in the same session.
    """

    group: CommitLogGroup
    logs: LogBytes
    _good: dict[str, int] = attrs.field(factory=dict, init=False)
    _sessions: dict[tuple[str, int, int], int] = attrs.field(factory=dict, init=False)

    @property
    def _synced(self) -> bool:
        return self.group.durability == "synced"

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent) or not is_of(self.group, seen):
            return
        match seen.event:
            case store.RecoveryFinished(end_bytes=end):
                self._good[seen.node] = min(self._good.get(seen.node, 0), end)
            case ha.OffsetReported(session=session, offset_bytes=offset):
                key = (seen.node, seen.boot, session)
                before = self._sessions.get(key, 0)
                self._sessions[key] = offset
                if offset < before:
                    yield f"{seen.node} reported {offset} after {before} in session {session}"
                yield from self._check(seen.node, offset)

    def _check(self, node: str, offset: int) -> Iterator[str]:
        start = self._good.get(node, 0)
        if offset <= start:
            return
        written = self.logs.written(node, start, offset)
        if len(written) < offset - start:
            yield f"{node} reported {offset}, but its log ends at {start + len(written)}"
        elif self._synced and self.logs.durable(node, start, offset) != written:
            yield f"{node} reported {offset}, but bytes from {start} on are not on its disk"
        self._good[node] = offset


@attrs.define(kw_only=True)
class LogTiles:
    """The writes of a master, and of a slave in a session, follow each other without gap or
    overlap.

    Between two records there is at most a filler up to the next file.
    """

    segment_bytes: int
    _ends: dict[tuple[str, str], int] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent):
            return
        key = (seen.node, seen.path)
        match seen.event:
            case store.RecoveryFinished(end_bytes=end):
                self._ends[key] = end
            case store.RecordsAppended(first_bytes=first, next_bytes=end):
                yield from self._follows(key, first, end)
            case store.BytesReceived(first_bytes=first, next_bytes=end):
                yield from self._follows(key, first, end)

    def _follows(self, key: tuple[str, str], first: int, end: int) -> Iterator[str]:
        before = self._ends.get(key, 0)
        self._ends[key] = end
        # an empty slave may begin anywhere, but in a new file
        begun = before == 0 and first % self.segment_bytes == 0
        if first != before and not begun and not self._filled(before, first):
            yield f"{key[1]} wrote {first} to {end} behind {before}"
        if end <= first:
            yield f"{key[1]} wrote {first} to {end}, which is nothing"

    def _filled(self, before: int, first: int) -> bool:
        rest = -before % self.segment_bytes
        return rest >= BLANK_BYTES and first == before + rest


@attrs.define(kw_only=True)
class SyncedSurvives:
    """A restart never ends the log below a whole record that was synced.

    A slave also syncs parts of a record, or of the filler before one, which may be cut.
    """

    group: ClassicGroup
    logs: LogBytes
    _synced: dict[str, int] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, FaultInjected) and seen.kind == "wiped":
            self._synced.pop(seen.where, None)
        if isinstance(seen, FaultInjected) and seen.kind == "resync":
            left = left_by_resync(self.logs, seen.where)
            self._synced[seen.where] = min(self._synced.get(seen.where, 0), left)
        if not isinstance(seen, SimEvent) or not is_of(self.group, seen):
            return
        match seen.event:
            case store.LogSynced(offset_bytes=offset):
                self._synced[seen.node] = max(self._synced.get(seen.node, 0), offset)
            case store.RecoveryFinished(end_bytes=end):
                synced = self._synced.get(seen.node, 0)
                self._synced[seen.node] = end
                if synced > end and not self._only_begun(seen.node, end, synced):
                    yield f"{seen.node} starts with {end}, but {synced} was synced"

    def _only_begun(self, node: str, end: int, synced: int) -> bool:
        """Whether the next record behind `end`, as the master has it, ends above `synced`.

        After a forced promotion the master may have nothing there; then another member's log
        decides.
        """
        if node == self.logs.master:
            return False
        others = [name for name in self.group.members if name not in (node, self.logs.master)]
        for other in (self.logs.master, *others):
            whole_end = self._end_behind(other, end)
            if whole_end > end:
                return whole_end > synced
        return False

    def _end_behind(self, node: str, end: int) -> int:
        """Return where the next record after `end` ends, behind a filler if there is one; `end` if
        there is none.
        """
        for _ in range(2):
            head = self.logs.written(node, end, end + BLANK_BYTES)
            size, magic = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
            end += size
            if magic != BLANK_MAGIC:
                break
        return end
