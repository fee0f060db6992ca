"""Checks that a data directory is still that of the nodes whose events are in the tables.

An event is known by (node, boot, seq). A node whose directory was emptied, or put back to an older
copy, gives numbers again that it had given before, and its event files have the names of others.
Spark takes a file for read by its path, so a part of the new generation would be mixed with the old
one, and the rest never read. So each time a boot's first file is compared with the one that was
read: it never changes, wherever it is copied to, and its first event tells when the boot began.

| What is here | Then |
|---|---|
| less than was read: expired, or a node's folder is away | nothing is wrong |
| copies of what was read, with other times of their files | nothing is wrong |
| a boot that began at another moment than the one of its number in the tables | refused |
| a boot that is not in the tables and is lower than one there, but began later | refused |
| two boots of one number and node, in two folders or days | refused |

Only moments of one node's clock are compared, and those of different boots only where an old boot
arrives late. A generation whose boots' first files are gone before the tables are asked for looks
like a gap. Needs no Spark.

`OUT/bronze/boots.json` keeps what is known, so that old notes need not be read again: `through`,
the last batch in it, and `begins`, rows of node, boot, seq, size_bytes, us: see `Begin`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs
import msgspec

from actors.pipeline import event_files
from actors.pipeline.alarms.event_logs import published
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location, event_folders

NOTES: Final = "notes"
HEAD_BYTES: Final = 1 << 16
"""The number of bytes within which a file's first event ends; lines have some hundred bytes."""
_FILE: Final = re.compile(r"/node=([^/]+)/(\d{6,})-(\d{12,})\.jsonl(?:\.gz)?$")
_NOTE: Final = re.compile(r"(\d+)\.json")
_INSTEAD: Final = "name another -o (or --tables), or remove"
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@attrs.frozen(kw_only=True)
class Begin:
    """The first known file of a boot.

    Attributes:
        seq: the seq of its first event, from its name.
        size_bytes: the size of the file.
        us: the time of that event, by the node's clock; None if an older version read the file.
    """

    seq: int
    size_bytes: int
    us: int | None

    def is_same_file(self, other: Begin) -> bool:
        """Return whether a file of the same name is the same one, whole or in part."""
        if self.us is None or other.us is None:
            return self.size_bytes == other.size_bytes
        return self.us == other.us


Boot: TypeAlias = tuple[str, int]
"""A boot: the node and the boot's number."""
Begins: TypeAlias = dict[Boot, Begin]
Row: TypeAlias = tuple[str, int, int, int, int | None]
"""A row of a note: node, boot, and the three fields of a `Begin`."""
Here: TypeAlias = dict[Boot, dict[int, list[str]]]
"""The files of a data directory: by node and boot, and by the seq of the first event, their paths.
"""


class _Known(msgspec.Struct, frozen=True):
    """The file `boots.json`."""

    through: int = -1
    begins: tuple[Row, ...] = ()


class _Note(msgspec.Struct, frozen=True):
    """The part of a batch's note that is read here; a note of an older version has no `begins`."""

    files: tuple[tuple[str, int], ...]
    begins: tuple[Row, ...] | None = None


def rows_of(files: Iterable[tuple[str, int]]) -> list[Row]:
    """Return the rows of a batch's note: the first file of each boot.

    Args:
        files: path and size in bytes of each file, in any order.
    """
    first: dict[Boot, tuple[int, str]] = {}
    for path, _ in files:
        key, seq = _boot_of(path)
        if key is not None and seq < first.get(key, (seq + 1, ""))[0]:
            first[key] = seq, path
    found = ((key, begin_of(path, seq)) for key, (seq, path) in sorted(first.items()))
    return [_row(key, begin) for key, begin in found if begin is not None]


def begin_of(path: str, seq: int) -> Begin | None:
    """Read how a file begins; None if it has just expired, or cannot be read. Raises: OSError."""
    system, name = event_files.system_of(path)
    try:
        with system.open_input_file(name) as file:
            size_bytes, head = int(file.size()), bytes(file.read(HEAD_BYTES))
    except FileNotFoundError:
        return None
    us = event_files.first_us(head)
    return None if us is None else Begin(seq=seq, size_bytes=size_bytes, us=us)


def check(data: Location, out: Location) -> None:
    """Check that the tables are not of an earlier generation of any node in a data directory.

    Raises: PipelineError: they are; or `data`, or the tables, have two generations of one node.
    """
    here = _here(data)
    _check_alone(data, here)
    known = known_begins(out)
    highest: dict[str, int] = {}
    for node, boot in known:
        highest[node] = max(boot, highest.get(node, boot))
    for (node, boot), files in sorted(here.items()):
        was = known.get((node, boot))
        if was is not None and was.seq in files:
            _compare(data, out, (node, boot), (node, boot), was, files)
        elif was is None and boot < highest.get(node, boot):
            last = node, highest[node]
            _compare(data, out, (node, boot), last, known[last], files)


def _compare(
    data: Location, out: Location, now: Boot, then: Boot, was: Begin, files: Mapping[int, list[str]]
) -> None:
    """Compare the files of the boot `now` with the known boot `then`, the same or a later one.

    Raises: PipelineError: `now` is of a newer generation.
    """
    node, boot = now
    seq = was.seq if now == then else min(files)
    found = begin_of(files[seq][0], seq)
    if found is None:
        return
    if now == then:
        is_new = not found.is_same_file(was)
    else:
        is_new = found.us is not None and was.us is not None and found.us > was.us
    if is_new:
        raise PipelineError(
            f"{out}: has events of an earlier {node}, whose boot {then[1]} began {_shown(was)}; in "
            f"{data} boot {boot} began {_shown(found)}: it was begun anew, or put back; nothing is "
            f"read: {_INSTEAD} {out}"
        )


def _check_alone(data: Location, here: Here) -> None:
    """Check that folders with the same boot are copies of each other. Raises: PipelineError."""
    for (node, boot), files in sorted(here.items()):
        seq = next((each for each in sorted(files) if len(files[each]) > 1), None)
        if seq is None:
            continue
        looked = ((path, begin_of(path, seq)) for path in sorted(files[seq]))
        found = [(path, begin) for path, begin in looked if begin is not None]
        for path, begin in found[1:]:
            if not begin.is_same_file(found[0][1]):
                raise PipelineError(
                    f"{data}: has two generations of {node}, each with a boot {boot}: "
                    f"{found[0][0]} and "
                    f"{path}: move the files of one of them elsewhere"
                )


def known_begins(out: Location) -> Begins:
    """Return what the tables have; add notes that are new since the last time to `boots.json`.

    Raises: PipelineError: the tables have two generations of one node, or a note is not valid.
    """
    place = out / "bronze" / "boots.json"
    known = place.read_as(_Known) or _Known()
    folder = out / "bronze" / NOTES
    fresh = [name for name in folder.children() if _number(name) > known.through]
    begins: Begins = {}
    _take(out, begins, known.begins)
    for name in fresh:
        note = (folder / name).read_as(_Note) or _Note(files=())
        _take(out, begins, _rows_without_times(note.files) if note.begins is None else note.begins)
    if fresh:
        rows = [_row(key, begin) for key, begin in sorted(begins.items())]
        place.write_json({"through": max(map(_number, fresh)), "begins": rows})
    return begins


def _take(out: Location, begins: Begins, rows: Iterable[Row]) -> None:
    for node, boot, seq, size_bytes, us in rows:
        new = Begin(seq=seq, size_bytes=size_bytes, us=us)
        old = begins.setdefault((node, boot), new)
        if seq == old.seq and not new.is_same_file(old):
            raise PipelineError(
                f"{out}: has events of two generations of {node}, whose boot {boot} began "
                f"{_shown(old)} "
                f"and {_shown(new)}: {_INSTEAD} {out}"
            )
        if seq < old.seq:
            begins[node, boot] = new


def _rows_without_times(files: Iterable[tuple[str, int]]) -> Iterable[Row]:
    for path, size_bytes in files:
        key, seq = _boot_of(path)
        if key is not None:
            yield (*key, seq, size_bytes, None)


def _row(key: Boot, begin: Begin) -> Row:
    return (*key, begin.seq, begin.size_bytes, begin.us)


def _here(data: Location) -> Here:
    found: Here = {}
    for folder in event_folders(data):
        for file in published(folder):
            key, seq = _boot_of(file.path)
            if key is not None:
                found.setdefault(key, {}).setdefault(seq, []).append(file.path)
    return found


def _boot_of(path: str) -> tuple[Boot | None, int]:
    """Return node and boot, and the first event's seq, by a file's name; None, 0 for others."""
    found = _FILE.search(path)
    return (None, 0) if found is None else ((found[1], int(found[2])), int(found[3]))


def _number(name: str) -> int:
    """Return the number of a batch, from its note's name; -1 if it is no whole note."""
    found = _NOTE.fullmatch(name)
    return -1 if found is None else int(found[1])


def _shown(begin: Begin) -> str:
    if begin.us is None:
        return f"with a file of {begin.size_bytes:,} bytes"
    try:
        return f"at {_EPOCH + datetime.timedelta(microseconds=begin.us):%Y-%m-%d %H:%M:%S.%f}Z"
    except OverflowError:
        return f"at {begin.us} us"
