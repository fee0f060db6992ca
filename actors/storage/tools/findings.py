"""What a check finds: damage, what a start mends, notes, and the figures of one store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import attrs

FINDINGS_MAX = 50
"""Kept of each kind for each store; the rest is counted. A log with more has one cause."""

MENDED_BY_NODE = "a node on this store mends them while it runs"
"""Said of what derives from a good log: the node's scrub writes it again from that."""


def cut_text(
    at_bytes: int, why: str, what: str, mark_bytes: int | None, settings: Mapping[str, str]
) -> str:
    """What the next start cuts off a log, and what that leaves alone.

    Args:
        at_bytes: offset where the log ends then.
        why: it ends there.
        what: is cut, counted.
        mark_bytes: the synced mark; None without one.
        settings: the group's, key -> JSON; {} of another program's.
    """
    if mark_bytes is not None:
        left = f"nothing below {mark_bytes} is touched, up to where it was acknowledged as synced"
    elif settings.get("durability") == '"written"':
        left = (
            "nothing acknowledged as synced is touched, for this group acknowledges what is written"
        )
    else:
        left = "there is no `synced`, so nobody says whether it was acknowledged as synced"
    return f"offset {at_bytes}: {why}: the next start cuts {what} and sets them aside; {left}"


@attrs.define
class Findings:
    """What was found in one store, in the order in which it was.

    Attributes:
        damage: what a start refuses, or goes on with. One line each.
        mends: what the next start mends by itself, and how; it may cut what was acknowledged.
        notes: what a reader should know; the next start, if any, deals with it.
        damage_count, mend_count, note_count: also those that were not kept.
        starts: a node starts on it; if not, as on a copy, nothing is mended.
    """

    damage: list[str] = attrs.field(factory=list)
    mends: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    damage_count: int = 0
    mend_count: int = 0
    note_count: int = 0
    starts: bool = attrs.field(default=True, kw_only=True)

    def hurt(self, line: str) -> None:
        """Note a damage."""
        self.damage_count += 1
        if len(self.damage) < FINDINGS_MAX:
            self.damage.append(line)

    def mend(self, line: str) -> None:
        """Note what the next start mends."""
        if not self.starts:
            self.hurt(line)
            return
        self.mend_count += 1
        if len(self.mends) < FINDINGS_MAX:
            self.mends.append(line)

    def note(self, line: str) -> None:
        """Note something harmless."""
        self.note_count += 1
        if len(self.notes) < FINDINGS_MAX:
            self.notes.append(line)

    def add(self, other: Findings) -> None:
        """Take what was found elsewhere."""
        self.damage += other.damage[: FINDINGS_MAX - len(self.damage)]
        self.mends += other.mends[: FINDINGS_MAX - len(self.mends)]
        self.notes += other.notes[: FINDINGS_MAX - len(self.notes)]
        self.damage_count += other.damage_count
        self.mend_count += other.mend_count
        self.note_count += other.note_count


@attrs.define(kw_only=True)
class Report(ABC):
    """The findings about one store. Each mode has a subclass.

    Attributes:
        mode: which of `actors.storage.kinds.KINDS` it is of.
        columns: names of the figures that a table shows.
        group: its name.
        state: "stopped", "running", "backup", "not stopped in order"; "in memory": the group
            keeps no entries on disk.
        findings: what is not as it should be.
    """

    mode: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    group: str
    state: str = "stopped"
    findings: Findings = attrs.field(factory=Findings)

    @property
    @abstractmethod
    def row(self) -> tuple[str, ...]:
        """What stands in `columns`, without the group, the result and the state."""

    @property
    def is_good(self) -> bool:
        """Whether there is no damage, and nothing to be mended."""
        return not self.findings.damage_count and not self.findings.mend_count

    @property
    def result(self) -> str:
        """The result as one word."""
        if self.findings.damage_count:
            return "DAMAGE"
        return "mends" if self.findings.mend_count else "good"


@attrs.define(kw_only=True)
class StoreReport(Report):
    """The store of a classic group.

    Attributes:
        files: log files that hold something.
        first_bytes: offset of the log's first byte.
        end_bytes: offset behind the last good record.
        records: good records.
        mark_bytes: the synced mark; None without one.
        dispatched_bytes: up to where the derived files surely reach; None if nobody says it.
        queues, units: consume queues, and units that were compared.
        index_files, entries: the same for the index.
        torn_bytes: bytes behind the end that the next start will set aside.
        bytes_read: of the log.
    """

    mode = "classic"
    columns = (
        "files", "first", "end", "records", "synced", "dispatched", "units", "index entries"
    )  # fmt: skip
    files: int = 0
    first_bytes: int = 0
    end_bytes: int = 0
    records: int = 0
    mark_bytes: int | None = None
    dispatched_bytes: int | None = None
    queues: int = 0
    units: int = 0
    index_files: int = 0
    entries: int = 0
    torn_bytes: int = 0
    bytes_read: int = 0

    @property
    def row(self) -> tuple[str, ...]:
        numbers = (
            self.files,
            self.first_bytes,
            self.end_bytes,
            self.records,
            self.mark_bytes,
            self.dispatched_bytes,
            self.units,
            self.entries,
        )
        return tuple("-" if number is None else str(number) for number in numbers)


@attrs.define(kw_only=True)
class LedgerReport(Report):
    """The store of a DLedger member. Indexes and terms are -1 where there are none.

    Attributes:
        files: data files that were read.
        first_index, end_index: of the first and the last good entry.
        end_term: of the last one.
        first_bytes, end_bytes: where the log begins, and where the last good entry ends.
        entries: good entries.
        summed: of these, how many were compared with their checksums; Java keeps none.
        indexed: of these, how many the index leads to.
        committed_index: as the checkpoint says.
        mark_bytes: the synced mark; None without one.
        term, voted_for: as currterm says; the vote "" if nobody has it.
        snapshots: indexes of those that are whole.
        torn_bytes: bytes behind the end that the next start will set aside.
        bytes_read: of the log.
    """

    mode = "dledger"
    columns = (
        "files", "first", "end", "entries", "end term", "committed", "term", "vote", "checksums",
        "snapshots",
    )  # fmt: skip
    files: int = 0
    first_index: int = -1
    end_index: int = -1
    end_term: int = -1
    first_bytes: int = 0
    end_bytes: int = 0
    entries: int = 0
    summed: int = 0
    indexed: int = 0
    committed_index: int = -1
    mark_bytes: int | None = None
    term: int = -1
    voted_for: str = ""
    snapshots: list[int] = attrs.field(factory=list)
    torn_bytes: int = 0
    bytes_read: int = 0

    @property
    def row(self) -> tuple[str, ...]:
        numbers = (
            self.files,
            self.first_index,
            self.end_index,
            self.entries,
            self.end_term,
            self.committed_index,
            self.term,
        )
        shown = ("-" if number < 0 else str(number) for number in numbers)
        return (*shown, self.voted_for or "-", str(self.summed), str(len(self.snapshots)))
