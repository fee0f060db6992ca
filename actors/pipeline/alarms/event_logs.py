"""Lists what nodes have published of their event logs, and how each file ends, without Spark.

A log is an `events/` folder. Its files are named BOOT-SEQ by their first event, are published in
that order and never change; what a node still writes is hidden. So the last file read says what is
left to read, whatever day's folder it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs
import msgspec
from pyarrow.fs import FileInfo, FileSelector, FileType

from actors.events.node import ORDERED
from actors.pipeline import event_files
from actors.pipeline.event_files import Kind, Moment, Number
from actors.pipeline.locations import Location, event_folders

LOOKS_OF_ALL = 30
"""The number of looks after which a change that a store's folders do not show is seen at the
latest.
"""
_NAME = re.compile(r"(\d{6,})-(\d{12,})\.jsonl(?:\.gz)?")


@attrs.frozen(order=True)
class Published:
    """A file of a log. Files are ordered as they were written.

    Attributes:
        boot, first_seq: those of its first event.
        path: its path for `event_files.read_bytes`.
        stamp: its size in bytes and time of change. If both are the same, so are all bytes.
    """

    boot: int
    first_seq: int
    path: str = attrs.field(order=False)
    stamp: tuple[int, int] = attrs.field(default=(0, 0), order=False)

    @property
    def key(self) -> tuple[int, int]:
        return self.boot, self.first_seq


@attrs.frozen(kw_only=True)
class Ending:
    """How a file ends.

    Attributes:
        last_us: the time of its last event, by the node's clock; None if it has no whole event.
        last: boot and seq of that event; None likewise.
        stopped: whether that event is NodeStopped.
        groups: the node's groups, if a boot begins in the file.
    """

    last_us: int | None = None
    last: tuple[int, int] | None = None
    stopped: bool = False
    groups: tuple[str, ...] | None = None


class Head(msgspec.Struct, frozen=True, gc=False):
    """The fields that decide whether the rest of a line is read, with the ranges that they have in
    events.
    """

    node: str
    boot: Number
    seq: Number
    path: str
    ts_us: Moment
    kind: Kind


class _Started(msgspec.Struct, frozen=True, gc=False):
    groups: tuple[str, ...] = ()


class _Stopped(msgspec.Struct, frozen=True, gc=False):
    kind: str
    reason: str = ORDERED


decode_head = msgspec.json.Decoder(Head).decode
_decode_started = msgspec.json.Decoder(_Started).decode
_decode_stopped = msgspec.json.Decoder(_Stopped).decode


@attrs.frozen
class _Folder:
    """The contents of a folder.

    Attributes:
        mtime_ns: its time of change before it was read; None if the store has none.
        settled: whether it had that time at the look before, too.
        files, inner: the node's files in it, and the paths of its folders.
        instead: the paths that have the name of a file and are none.
    """

    mtime_ns: int | None
    settled: bool
    files: tuple[Published, ...]
    inner: tuple[str, ...]
    instead: tuple[str, ...]


@attrs.define
class Listing:
    """Lists a log's files again and again; a folder in which nothing changed is not read again.

    A node keeps a folder for each day, with thousands of files, and adds to one of them. A folder's
    time of change shows whether a name came or went; as two changes may have the same time, a
    folder is read again at the look after it changed. Stores differ in what they know of folders,
    so one look in LOOKS_OF_ALL reads all folders.
    """

    log: Location
    _folders: dict[str, _Folder] = attrs.field(factory=dict)
    _looks: int = 0

    def look(self) -> list[Published]:
        """Return the files, in order; ignore other names, which are not a node's."""
        system, path = self.log.system()
        known = self._folders if self._looks % LOOKS_OF_ALL else {}
        self._looks += 1
        self._folders = {}
        waiting = [f"{path}/{event_files.FORMAT}"]
        while waiting:
            infos = system.get_file_info(waiting)
            waiting = []
            for info in infos:
                if info.type is FileType.Directory:
                    folder = self._folder(info, known.get(info.path))
                    self._folders[info.path] = folder
                    waiting += folder.inner
        found = [file for folder in self._folders.values() for file in folder.files]
        return sorted(found, key=lambda file: file.key)

    def instead(self) -> list[str]:
        """Return the paths that had a file's name at the last look and were none."""
        return [path for folder in self._folders.values() for path in folder.instead]

    def _folder(self, info: FileInfo, known: _Folder | None) -> _Folder:
        same = known is not None and known.mtime_ns == info.mtime_ns is not None
        if known is not None and same and known.settled:
            return known
        infos = entries(self.log, info.path)
        files = [file for each in infos if (file := _file(self.log, each)) is not None]
        inner = [each.path for each in infos if each.type is FileType.Directory]
        instead = [
            _place(self.log, each)
            for each in infos
            if each.type is not FileType.File and _NAME.fullmatch(each.base_name)
        ]
        return _Folder(info.mtime_ns, same, tuple(files), tuple(inner), tuple(instead))


def entries(log: Location, folder: str) -> list[FileInfo]:
    """Return what is in a folder of a log; [] if it is gone."""
    system, _ = log.system()
    found: list[FileInfo] = system.get_file_info(FileSelector(folder, allow_not_found=True))
    return found


def _file(log: Location, info: FileInfo) -> Published | None:
    name = _NAME.fullmatch(info.base_name)
    if name is None or info.type is not FileType.File:
        return None
    stamp = info.size or 0, info.mtime_ns or 0
    return Published(int(name[1]), int(name[2]), _place(log, info), stamp)


def _place(log: Location, info: FileInfo) -> str:
    _, path = log.system()
    return str(log / info.path[len(path) + 1 :])


def published(log: Location) -> list[Published]:
    """Return the files of a log, in order, by a single look."""
    return Listing(log).look()


def passed_over(data: Location) -> list[tuple[str, str]]:
    """Return what Spark skips silently, sorted: the paths, and what is wrong there.

    These are files without a byte, which no node publishes, but of which a copy may have been cut
    off; and paths that have the name of a file and are none.

    Raises: PipelineError: there are no event logs.
    """
    found: list[tuple[str, str]] = []
    for folder in event_folders(data):
        listing = Listing(folder)
        empty = [file.path for file in listing.look() if file.stamp[0] == 0]
        found += [(path, event_files.EMPTY) for path in empty]
        found += [(path, event_files.NO_FILE) for path in listing.instead()]
    return sorted(found)


def ending(parts: Iterable[list[str]]) -> Ending:
    """Find out how a file ends. Lines that are no events are skipped; bronze counts them.

    Args:
        parts: the lists that make up the file's lines, in order.
    """
    first, last = "", None
    for lines in filter(None, parts):
        first = first or lines[0]
        heads = (head for line in reversed(lines) if (head := head_of(line)) is not None)
        last = next(heads, last)
    if last is None:
        return Ending()
    return Ending(
        last_us=last.ts_us,
        last=(last.boot, last.seq),
        stopped=last.kind == "NodeStopped",
        groups=groups_of(first),
    )


def groups_of(line: str) -> tuple[str, ...] | None:
    """Return the groups that a boot's first event names; None for any other line."""
    head = head_of(line)
    if head is None or head.kind != "NodeStarted":
        return None
    try:
        return _decode_started(line).groups
    except msgspec.DecodeError:
        return None


def gave_up(line: str) -> str:
    """Return why a node stopped by itself; "" for an ordered stop, and for any other line."""
    try:
        said = _decode_stopped(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return said.reason if said.kind == "NodeStopped" and said.reason != ORDERED else ""


def head_of(line: str) -> Head | None:
    try:
        return decode_head(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
