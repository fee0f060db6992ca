"""The feed's own record of what was acknowledged, DATA_DIR/feed/GROUP.jsonl and GROUP.1.jsonl.

Its form is `actors.cluster.feed_record`'s. It is evidence against the nodes, so a line that is none
is counted and named; only a file's last line may be torn. Needs no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from actors.pipeline import event_files
from actors.pipeline.locations import Location

FOLDER: Final = "feed"
_SUFFIX: Final = ".jsonl"
_OLDER: Final = ".1"
_SHOWN_CHARS: Final = 60
_MOST: Final = 2**63 - 1
"""The largest number in Spark's tables."""
STRETCH_MAX: Final = 64 << 20
"""The largest distance between the first and the last position of a receipt: an append has up to
256 KiB, or one record. A wider receipt would be taken for millions of positions.
"""


@attrs.frozen(kw_only=True)
class Receipt:
    """One receipt, and what was fed for it.

    Attributes:
        session: the feed's session, from 0 in each file.
        line: the number of its first line in the source, from 0; it has `count` lines.
        first, last: the positions of the first and the last record.
        copies: how many nodes had all of it by then; 0 if the record does not tell.
        crc: the CRC of the lines; None if the record is of an older version.
    """

    session: int
    line: int
    count: int
    first: int
    last: int
    copies: int
    crc: int | None


@attrs.frozen(kw_only=True)
class Record:
    """What was recorded for one group.

    Attributes:
        problems: the lines that are no rows: file, number from 1, and content.
    """

    group: str
    receipts: tuple[Receipt, ...]
    problems: tuple[tuple[str, int, str], ...] = ()

    @property
    def out_of_order(self) -> int:
        """The number of receipts before one for earlier lines, whose lines were sent again."""
        highest: dict[int, int] = {}
        found = 0
        for each in sorted(self.receipts, key=lambda each: (each.session, each.line)):
            found += each.first < highest.get(each.session, -1)
            highest[each.session] = max(each.first, highest.get(each.session, -1))
        return found


def records_in(data: Location, groups: Sequence[str]) -> tuple[Record, ...]:
    """Return the records of a data directory, ordered by group.

    Args:
        groups: the groups that have logs, so that GROUP.1.jsonl is not taken for the record of a
            group "GROUP.1".
    """
    files: dict[str, list[Location]] = {}
    for name in (data / FOLDER).children():
        if name.endswith(_SUFFIX):
            bare = name.removesuffix(_SUFFIX)
            group = bare if bare in groups else bare.removesuffix(_OLDER)
            files.setdefault(group, []).append(data / FOLDER / name)
    return tuple(_read(group, files[group]) for group in sorted(files))


def _read(group: str, files: Sequence[Location]) -> Record:
    receipts: list[Receipt] = []
    problems: list[tuple[str, int, str]] = []
    session = 0
    for file in files:
        for number, row in _rows(event_files.read_bytes(str(file))):
            match row:
                case {"kind": "opened", "source": str(), "line": int()}:
                    session += 1
                case {"kind": "ended"}:
                    pass
                case {"kind": "acked"} if (receipt := _receipt(session, row)) is not None:
                    receipts.append(receipt)
                case _:
                    shown = str(row)[:_SHOWN_CHARS]
                    problems.append((str(file), number, shown))
    return Record(group=group, receipts=tuple(receipts), problems=tuple(problems))


def _receipt(session: int, row: dict[str, Any]) -> Receipt | None:
    """Return a row as a receipt; None if a receipt cannot have one of its numbers."""
    numbers: list[Any] = [row.get(name) for name in ("line", "count", "first", "last")]
    numbers += [row.get("copies") or 0, row.get("crc")]
    line, count, first, last, copies, crc = numbers
    if not all(type(each) is int and 0 <= each <= _MOST for each in (*numbers[:5], crc or 0)):
        return None
    if count < 1 or not 0 <= last - first <= STRETCH_MAX or (crc or 0) >= 1 << 32:
        return None
    return Receipt(
        session=session, line=line, count=count, first=first, last=last, copies=copies, crc=crc
    )


def _rows(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield each line's number and its value, or its text if that is no JSON.

    A torn last line is left out.
    """
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            if number < len(lines) or rest:
                yield number, line.decode("utf-8", "replace")
