"""Reads event logs back, and says whether anything is missing. For tests and tools, offline.

A boot is whole if its `seq` runs from 1 without a hole that no `EventsDropped` names. It may lack
an end (no `NodeStopped`: a crash) and, where old files were deleted, a beginning.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import attrs

from actors.env.protocols import Disk
from actors.events.codec import EventFormatError, LoggedEvent, decode_line
from actors.events.node import EventsDropped, NodeStarted, NodeStopped
from actors.storage.node import event_files
from actors.storage.node.event_files import EventFile


@attrs.frozen(kw_only=True)
class BootSummary:
    """One boot of one node, by its event log.

    Attributes:
        first_seq: of the oldest event that is there.
        last_seq: of the newest.
        events: how many are there.
        dropped: how many are missing and named.
        ended: True if NodeStopped is the last.
        problems: holes, doubles, disorder; empty for a sound log.
    """

    node: str
    boot: int
    first_seq: int
    last_seq: int
    events: int
    dropped: int
    ended: bool
    problems: tuple[str, ...]


def read_events(disk: Disk, root: str) -> Iterator[LoggedEvent]:
    """Every event under `root` (a node's `events/` folder), by node, boot and seq.

    The live file counts as far as it is whole. Raises: EventFormatError for a published file that
    is damaged, OSError.
    """
    for node in nodes(disk, root):
        for file, is_live in _files(disk, root, node):
            yield from _read_file(disk, file.part_path if is_live else file.path, is_live)


def last_stop(disk: Disk, root: str, node: str) -> NodeStopped | None:
    """How a node's newest boot ended, by its own word; None: it said none, or there is no boot.

    Raises: EventFormatError: the file is damaged. OSError.
    """
    whole = event_files.published(disk, root, node)
    if not whole or any(file > whole[-1] for file in event_files.live(disk, root, node)):
        return None
    members, _ = event_files.decompress(event_files.read_all(disk, whole[-1].path))
    line = members[-1].rstrip(b"\n").rpartition(b"\n")[2] if members else b""
    event = decode_line(line).event if line else None
    return event if isinstance(event, NodeStopped) else None


def newest_boot(disk: Disk, root: str, node: str) -> Iterator[LoggedEvent]:
    """The events of a node's newest boot as far as they are there, the oldest first.

    A node that runs publishes meanwhile: a file is gone from one place before it is read.

    Raises: EventFormatError: a file is damaged. OSError.
    """
    files = _files(disk, root, node)
    newest = max((file.boot for file, _ in files), default=0)
    for file, is_live in files:
        if file.boot == newest:
            yield from _read_file(disk, file.part_path if is_live else file.path, is_live)


def _files(disk: Disk, root: str, node: str) -> list[tuple[EventFile, bool]]:
    """A node's files, the oldest first, and whether each is still written, or was at a crash.

    One that was published before the crash is not read from where it was written as well.
    """
    whole = event_files.published(disk, root, node)
    known = {(file.boot, file.start_seq) for file in whole}
    live = event_files.live(disk, root, node)
    torn = [(file, True) for file in live if (file.boot, file.start_seq) not in known]
    return sorted([*((file, False) for file in whole), *torn])


def nodes(disk: Disk, root: str) -> list[str]:
    """The nodes that have event files under `root`, sorted."""
    version = f"{root}/{event_files.FORMAT}"
    names = {
        name.removeprefix("node=")
        for day in disk.listdir(version)
        for name in disk.listdir(f"{version}/{day}")
        if name.startswith("node=")
    }
    return sorted(names)


def summarize(events: Iterable[LoggedEvent]) -> tuple[BootSummary, ...]:
    """One summary per (node, boot), in the order of `events`, which is that of `read_events`."""
    boots: dict[tuple[str, int], _Boot] = {}
    for event in events:
        boots.setdefault((event.node, event.boot), _Boot()).add(event)
    return tuple(boot.summary(node, number) for (node, number), boot in boots.items())


def _read_file(disk: Disk, path: str, torn: bool) -> Iterator[LoggedEvent]:
    data = event_files.read_all(disk, path)
    members, whole_bytes = event_files.decompress(data)
    if whole_bytes != len(data) and not torn:
        raise EventFormatError(f"{path}: damaged at byte {whole_bytes} of {len(data)}")
    for content in members:
        for line in io.BytesIO(content):  # one by one: a member may be 64 MiB of newlines
            yield decode_line(line.removesuffix(b"\n"))


@attrs.define
class _Boot:
    """Collects the summary of one boot while its events are read."""

    first_seq: int = 0
    last_seq: int = 0
    events: int = 0
    dropped: int = 0
    ended: bool = False
    holes: list[tuple[int, int]] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    def add(self, logged: LoggedEvent) -> None:
        seq = logged.seq
        if self.events == 0:
            self.first_seq = seq
        elif seq > self.last_seq + 1:
            self.holes.append((self.last_seq + 1, seq - 1))
        elif seq <= self.last_seq:
            self.problems.append(f"seq {seq} after {self.last_seq}")
        if self.ended:
            self.problems.append(f"seq {seq} after NodeStopped")
        if isinstance(logged.event, NodeStarted) != (seq == 1):
            self.problems.append(f"{logged.kind} is seq {seq}")
        if isinstance(logged.event, EventsDropped):
            self._named(logged.event)
        self.ended = self.ended or isinstance(logged.event, NodeStopped)
        self.last_seq = max(self.last_seq, seq)
        self.events += 1

    def summary(self, node: str, boot: int) -> BootSummary:
        holes = [f"seq {first} to {last} are missing" for first, last in self.holes]
        return BootSummary(
            node=node,
            boot=boot,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            events=self.events,
            dropped=self.dropped,
            ended=self.ended,
            problems=(*self.problems, *holes),
        )

    def _named(self, event: EventsDropped) -> None:
        """The event stands right behind the hole that it names."""
        self.dropped += event.last_seq - event.first_seq + 1
        hole = (event.first_seq, event.last_seq)
        if hole in self.holes:
            self.holes.remove(hole)
        else:
            self.problems.append(f"seq {hole[0]} to {hole[1]} are named as dropped but are there")
