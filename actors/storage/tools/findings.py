"""What a check finds in one store: damage, what a start mends, notes, and figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import attrs

from actors.storage.commitlog.recovery import CURE

FINDINGS_MAX = 50
"""How many lines of each kind are kept for each store; more are counted. Such a log has one cause
for all."""

MENDED_BY_NODE = "a node on this store mends them while it runs"
"""Added to findings about what derives from a good log: a node's scrub makes it again."""


def cut_text(
    at_bytes: int, why: str, what: str, mark_bytes: int | None, settings: Mapping[str, str]
) -> str:
    """Describe, for people, what the next start cuts off a log, and what it does not touch.

    Args:
        at_bytes: the offset at which the log will end.
        why: why it ends there.
        what: what is cut, with its size.
        mark_bytes: the synced mark; None: there is none.
        settings: the group's settings, key -> JSON; {} for another program's store.
    """
    if mark_bytes is not None:
        left = f"nothing below {mark_bytes} is touched, up to where it was acknowledged as synced"
    elif settings.get("durability") == '"written"':
        left = (
            "nothing acknowledged as synced is touched, for this group acknowledges what is written"
        )
    else:
        left = "there is no `synced`, so it is unknown whether it was acknowledged as synced"
    return f"offset {at_bytes}: {why}: the next start cuts {what} and sets them aside; {left}"


@attrs.define
class Findings:
    """What was found in one store, in order.

    Attributes:
        damage: lines about damage, with which a start is refused or goes on.
        mends: lines about what the next start mends by itself, and how; it may cut what was
            acknowledged.
        notes: lines about what is worth knowing; if something has to be done, the next start does
            it.
        damage_count, mend_count, note_count: how many there are, with those that were not kept.
        starts: whether a node will start on the store; on a copy none does, so nothing is mended.
    """

    damage: list[str] = attrs.field(factory=list)
    mends: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    damage_count: int = 0
    mend_count: int = 0
    note_count: int = 0
    starts: bool = attrs.field(default=True, kw_only=True)

    def hurt(self, line: str) -> None:
        """Add a line about damage."""
        self.damage_count += 1
        if len(self.damage) < FINDINGS_MAX:
            self.damage.append(line)

    def mend(self, line: str) -> None:
        """Add a line about what the next start mends; it is damage if there is no next start."""
        if not self.starts:
            self.hurt(line)
            return
        self.mend_count += 1
        if len(self.mends) < FINDINGS_MAX:
            self.mends.append(line)

    def note(self, line: str) -> None:
        """Add a note."""
        self.note_count += 1
        if len(self.notes) < FINDINGS_MAX:
            self.notes.append(line)

    def add(self, other: Findings) -> None:
        """Add the findings of `other`."""
        self.damage += other.damage[: FINDINGS_MAX - len(self.damage)]
        self.mends += other.mends[: FINDINGS_MAX - len(self.mends)]
        self.notes += other.notes[: FINDINGS_MAX - len(self.notes)]
        self.damage_count += other.damage_count
        self.mend_count += other.mend_count
        self.note_count += other.note_count


@attrs.define(kw_only=True)
class Report(ABC):
    """The result of a check of one store. Each mode has a subclass.

    Attributes:
        mode: the mode of the store, a key of `actors.storage.kinds.KINDS`.
        columns: the headings of the figures in a table.
        cure: what to do about damage with which a node does not start, for people; "": each
            finding says so itself.
        group: the name of the group.
        state: "stopped", "running", "backup", "not stopped in order"; "in memory": the group
            keeps no entries on disk.
        findings: what was found.
    """

    mode: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    cure: ClassVar[str] = ""
    group: str
    state: str = "stopped"
    findings: Findings = attrs.field(factory=Findings)

    @property
    @abstractmethod
    def row(self) -> tuple[str, ...]:
        """The figures that belong to `columns`, as text."""

    @property
    def is_good(self) -> bool:
        """Whether there is no damage, and nothing to be mended."""
        return not self.findings.damage_count and not self.findings.mend_count

    @property
    def result(self) -> str:
        """The result as one word: "DAMAGE", "mends" or "good"."""
        if self.findings.damage_count:
            return "DAMAGE"
        return "mends" if self.findings.mend_count else "good"


@attrs.define(kw_only=True)
class StoreReport(Report):
    """The result of a check of a classic group's store.

    Attributes:
        files: how many log files hold something.
        first_bytes: the offset of the log's first byte.
        end_bytes: the end of the last good record.
        records: how many good records there are.
        mark_bytes: the synced mark; None: there is none.
        dispatched_bytes: the offset up to which the derived files surely reach; None: unknown.
        queues, units: how many consume queues there are, and how many units were compared.
        index_files, entries: how many index files there are, and how many entries were compared.
        torn_bytes: how many bytes behind the end the next start will cut and keep.
        bytes_read: how many bytes of the log were read.
    """

    mode = "classic"
    cure = CURE
    columns: ClassVar[tuple[str, ...]] = (
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
class ReplicaReport(StoreReport):
    """The result of a check of an auto-switch group's store.

    Attributes:
        epochs: how many epochs its history has; epoch 0, of bytes older than the first, is none.
        last_epoch: the number of the last one; 0: there is none.
        confirmed_bytes: the confirm offset in the checkpoint.
        replica: the text in the file of its identity, CLUSTER#NAME#ID; "": it has none.
    """

    mode = "autoswitch"
    columns = (*StoreReport.columns, "confirmed", "epochs", "last epoch", "replica")
    epochs: int = 0
    last_epoch: int = 0
    confirmed_bytes: int = 0
    replica: str = ""

    @property
    def row(self) -> tuple[str, ...]:
        numbers = (self.confirmed_bytes, self.epochs, self.last_epoch)
        return (*super().row, *map(str, numbers), self.replica or "-")


@attrs.define(kw_only=True)
class LedgerReport(Report):
    """The result of a check of a DLedger member's store. An index or a term is -1 if there is none.

    Attributes:
        files: how many data files were read.
        first_index, end_index: the index of the first and of the last good entry.
        end_term: the term of the last good entry.
        first_bytes, end_bytes: the offset of the log's first byte, and the end of the last good
            entry.
        entries: how many good entries there are.
        summed: how many of them have a checksum and fit it; Java writes no checksums.
        indexed: to how many of them the index leads.
        committed_index: the committed index in the checkpoint.
        mark_bytes: the synced mark; None: there is none.
        term, voted_for: term and vote in `currterm`; "" if no member has the vote.
        snapshots: the indexes of the snapshots that are good.
        torn_bytes: how many bytes behind the end the next start will cut and keep.
        bytes_read: how many bytes of the log were read.
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
