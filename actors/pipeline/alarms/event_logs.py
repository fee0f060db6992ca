"""What nodes have published of their event logs, and how each file ends. Without Spark.

A log is an `events/` folder. Its files are named BOOT-SEQ by their first event, are published in
that order and never change; what a node still writes is hidden. So the last file read says what is
left to read, whatever day's folder it is in.
"""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import attrs
import msgspec
from pyarrow.fs import FileSelector, FileType

from actors.pipeline import event_files
from actors.pipeline.places import Place

ORDERED = "ordered"
"""The reason of a NodeStopped that was asked for."""
NUMBER_MAX = 2**62
"""Of boots, numbers and places; more is damage, and two of them apart fit into 64 bits."""
MOMENT_MAX_US = 2**57
"""In the year 6536; more is damage, and what Spark and calendars count with ends in the year 9999.
"""
_NAME = re.compile(r"(\d{6,})-(\d{12,})\.jsonl(?:\.gz)?")


@attrs.frozen(order=True)
class Published:
    """A file of a log; ordered as written.

    Attributes:
        boot, first_seq: of its first event.
        path: for `event_files.read_bytes`.
        stamp: size in bytes and time of change; when neither is another, no byte is.
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
    """What the reading of a file begins and ends with.

    Attributes:
        last_us: the time of its last event, by the node's clock; None: it has none that is whole.
        stopped: that event is NodeStopped.
        groups: of the node, if a boot begins in it.
    """

    last_us: int | None = None
    stopped: bool = False
    groups: tuple[str, ...] | None = None


_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
_Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOMENT_MAX_US)]


class Head(msgspec.Struct, frozen=True, gc=False):
    """Of a line, what decides whether the rest is wanted. Out of these ranges it is no event."""

    node: str
    boot: _Number
    seq: _Number
    path: str
    ts_us: _Moment
    kind: str


class _Started(msgspec.Struct, frozen=True, gc=False):
    groups: tuple[str, ...] = ()


class _Stopped(msgspec.Struct, frozen=True, gc=False):
    kind: str
    reason: str = ORDERED


decode_head = msgspec.json.Decoder(Head).decode
_decode_started = msgspec.json.Decoder(_Started).decode
_decode_stopped = msgspec.json.Decoder(_Stopped).decode


def published(log: Place) -> list[Published]:
    """The files of a log, in order. Other names are not a node's, and are left alone."""
    system, path = log.system()
    root = f"{path}/{event_files.FORMAT}"
    found = []
    for info in system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True)):
        name = _NAME.fullmatch(info.base_name)
        if name is not None and info.type is FileType.File:
            inner = info.path[len(root) + 1 :]
            place = str(log / event_files.FORMAT / inner)
            stamp = info.size or 0, info.mtime_ns or 0
            found.append(Published(int(name[1]), int(name[2]), place, stamp))
    return sorted(found)


def ending(lines: list[str]) -> Ending:
    """See the class. Lines that are no events are passed over; bronze counts them."""
    last = next((head for line in reversed(lines) if (head := head_of(line)) is not None), None)
    if last is None:
        return Ending()
    return Ending(
        last_us=last.ts_us,
        stopped=last.kind == "NodeStopped",
        groups=groups_of(lines[0]),
    )


def groups_of(line: str) -> tuple[str, ...] | None:
    """The groups that a boot's first event names; None for any other line."""
    head = head_of(line)
    if head is None or head.kind != "NodeStarted":
        return None
    try:
        return _decode_started(line).groups
    except msgspec.DecodeError:
        return None


def gave_up(line: str) -> str:
    """Why a node stopped by itself; "" if it was told to, and for any other line."""
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
