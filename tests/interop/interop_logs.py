"""The files of a store read without the project's own code: the judge of these tests."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import attrs

MAGIC_MESSAGE = {0xDAA320A7, 0xDAA320AB}  # versions 1 and 2 of the record
MAGIC_BLANK = 0xCBD43194
UNIT = struct.Struct(">qiq")  # of a consume queue: physical offset, size, tags code
UNIT_OF_NOTHING = (0, 0x7FFFFFFF, 0)

Unit = tuple[int, int, int]


@attrs.frozen
class LogFiles:
    """A commit-log folder.

    Attributes:
        files: content by start offset, all of one size.
        min_bytes: the log's first byte.
        end_bytes: the byte after its last.
    """

    files: dict[int, bytes]
    min_bytes: int
    end_bytes: int

    @classmethod
    def read(cls, folder: Path) -> LogFiles:
        names = sorted(path for path in folder.glob("[0-9]" * 20)) if folder.is_dir() else []
        files = {int(path.name): path.read_bytes() for path in names}
        assert len({len(data) for data in files.values()}) <= 1, (
            f"files of different sizes in {folder}"
        )
        starts = list(files)
        assert all(b - a == len(files[a]) for a, b in pairwise(starts)), starts
        end = starts[0] if starts else 0
        for start, data in files.items():
            length, full = records_length(data)
            if length:
                end = start + length
            if not full:
                break
        return cls(files, starts[0] if starts else 0, end)

    def range(self, start: int, end: int) -> bytes:
        pieces = []
        for name, data in self.files.items():
            pieces.append(data[max(0, start - name) : max(0, end - name)])
        return b"".join(pieces)


def records_length(data: bytes) -> tuple[int, bool]:
    """How many bytes at the beginning of a file are in use, and whether the file is full."""
    at = 0
    while at + 8 <= len(data):
        size, magic = struct.unpack_from(">iI", data, at)
        if magic == MAGIC_BLANK and size == len(data) - at:
            return len(data), True
        if magic not in MAGIC_MESSAGE or not 0 < size <= len(data) - at:
            break
        at += size
    return at, at == len(data)


def record_offsets(folder: Path) -> list[int]:
    """Where each record of a log begins, fillers left out."""
    log, offsets = LogFiles.read(folder), []
    for start, data in log.files.items():
        at = 0
        while start + at < log.end_bytes and at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic not in MAGIC_MESSAGE:
                break
            offsets.append(start + at)
            at += size
    return offsets


def first_difference(left: Path, right: Path) -> str | None:
    """Where two commit logs differ, as `cmp` would say it; None if they are the same log.

    The same log: both begin at the same byte, end at the same byte, and all bytes between are
    equal, fillers included.
    """
    a, b = LogFiles.read(left), LogFiles.read(right)
    if (a.min_bytes, a.end_bytes) != (b.min_bytes, b.end_bytes):
        return f"{left}: {a.min_bytes}..{a.end_bytes}, {right}: {b.min_bytes}..{b.end_bytes}"
    return common_difference(left, right)


def common_difference(left: Path, right: Path) -> str | None:
    """The first differing byte of what both logs hold; None if there is none.

    An empty common range is a difference: it proves nothing.
    """
    a, b = LogFiles.read(left), LogFiles.read(right)
    start, end = max(a.min_bytes, b.min_bytes), min(a.end_bytes, b.end_bytes)
    if start >= end:
        return f"nothing in common: {a.min_bytes}..{a.end_bytes} and {b.min_bytes}..{b.end_bytes}"
    ours, theirs = a.range(start, end), b.range(start, end)
    assert len(ours) == len(theirs) == end - start
    if ours == theirs:
        return None
    at = next(i for i, (x, y) in enumerate(zip(ours, theirs, strict=True)) if x != y)
    return f"{left} {right} differ: byte {start + at}"


def consume_queues(store: Path) -> dict[tuple[str, int], dict[int, Unit]]:
    """The units of every queue that has one, by topic and queue, then by their place in the queue.

    A unit is physical offset, size and tags code. The units that fill the place of messages which
    a store never had are left out.
    """
    queues = {}
    for folder in sorted((store / "consumequeue").glob("*/*")):
        units: dict[int, Unit] = {}
        for path in sorted(folder.glob("[0-9]" * 20)):
            data = path.read_bytes()
            whole = data[: len(data) // UNIT.size * UNIT.size]
            for place, unit in enumerate(UNIT.iter_unpack(whole), int(path.name) // UNIT.size):
                if unit[1] > 0 and unit != UNIT_OF_NOTHING:
                    units[place] = unit
        if units:
            queues[folder.parent.name, int(folder.name)] = units
    return queues


def queue_difference(left: Path, right: Path, start_bytes: int, end_bytes: int) -> str | None:
    """How the consume queues of two stores differ for a range of the log; None if they do not.

    A range without any unit is a difference: it proves nothing.
    """
    a = _within(consume_queues(left), start_bytes, end_bytes)
    b = _within(consume_queues(right), start_bytes, end_bytes)
    if not a:
        return f"{left} has no consume queue units for {start_bytes}..{end_bytes}"
    for topic, queue in sorted(a.keys() | b.keys()):
        ours, theirs = a.get((topic, queue), {}), b.get((topic, queue), {})
        for place in sorted(ours.keys() | theirs.keys()):
            one, other = ours.get(place), theirs.get(place)
            if one != other:
                return f"{topic}/{queue} unit {place}: {one} in {left}, {other} in {right}"
    return None


def index_difference(left: Path, right: Path) -> str | None:
    """Where the index files of two stores differ; None if their content is the same.

    Their names are the local time of their making, so they are compared in that order.
    """
    ours, theirs = (
        [p.read_bytes() for p in sorted((s / "index").glob("*"))] for s in (left, right)
    )
    if not ours or len(ours) != len(theirs):
        return f"{len(ours)} index files in {left}, {len(theirs)} in {right}"
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one != other:
            pairs = zip(one, other, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
            return f"index file {number} of {left} and {right} differ: byte {at}"
    return None


def _within(
    queues: dict[tuple[str, int], dict[int, Unit]], start: int, end: int
) -> dict[tuple[str, int], dict[int, Unit]]:
    cut = {
        key: {place: unit for place, unit in units.items() if start <= unit[0] < end}
        for key, units in queues.items()
    }
    return {key: units for key, units in cut.items() if units}
