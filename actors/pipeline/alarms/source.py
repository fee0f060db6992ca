"""Growing event logs as a stream of facts: `format("triolog_event_facts")`.

Options: `path`, the data directory; `files`, at most so many in a batch; `silent_us`: `reading`.
Columns: those of `facts.Fact`, and `clock`, the batch's time, which is the watermark's column.

A stream's offset is a `reading.Position`. Files do not change, so the same two offsets always give
the same rows; of files that were deleted in between, retention has the last word. A task reads what
a batch has of one log, for its facts have to be in order.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import typing
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from actors.pipeline import event_files
from actors.pipeline.alarms.event_logs import Ending, Listing, Published, ending
from actors.pipeline.alarms.facts import Fact, FactReader
from actors.pipeline.alarms.reading import LogRead, Position, left, next_position
from actors.pipeline.locations import Location, event_folders

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "triolog_event_facts"
CLOCK: Final = "clock"
FILES_MAX: Final = 64
"""How many files a batch has: some 3 million events of nodes under load. Each is read twice."""
ENDINGS_MAX: Final = 1024
"""How many endings of unchanged files are kept, as each log's last file is looked at again."""
_FACT: Final = {
    name: ("string", pa.string()) if kind is str else ("bigint", pa.int64())
    for name, kind in typing.get_type_hints(Fact).items()
}
SCHEMA: Final = ", ".join(
    [*(f"{name} {kind}" for name, (kind, _) in _FACT.items()), f"{CLOCK} timestamp"]
)
_ARROW: Final = pa.schema(
    [
        *((name, kind) for name, (_, kind) in _FACT.items()),
        (CLOCK, pa.timestamp("us", tz="UTC")),
    ]
)


@attrs.frozen(kw_only=True)
class LogPart(InputPartition):
    """The part of one log in a batch.

    Attributes:
        paths: the paths of its files, in order.
        groups: the node's groups, as earlier files named them.
        is_anew: whether the log begins anew with these files.
        before: see `FactReader`.
        time_ms: the batch's time.
    """

    paths: tuple[str, ...]
    groups: tuple[str, ...]
    is_anew: bool
    before: tuple[int, int, int] | None
    time_ms: int


class EventFacts(DataSource):
    """See the module."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> FactStream:  # noqa: N802
        given = self._given
        return FactStream(Location(given["path"]), int(given["files"]), int(given["silent_us"]))


class FactStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The logs of a data directory, also those of nodes that are added later."""

    def __init__(self, data: Location, files_max: int, silent_us: int) -> None:
        self._data, self._files_max, self._silent_us = data, files_max, silent_us
        self._until: dict[str, tuple[int, int]] | None = None
        self._listings: dict[str, Listing] = {}
        self._seen: dict[str, list[Published]] = {}

    # ---- what Spark asks ----

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _offset(Position())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        found = self._logs()
        self._until = {name: files[-1].key for name, files in found.items() if files}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        files = self._logs()
        if self._until is not None:
            files = {
                name: [file for file in files.get(name, ()) if file.key <= until]
                for name, until in self._until.items()
            }
        end = next_position(
            _position(start),
            files,
            _look,
            files_max=self._files_max,
            silent_us=self._silent_us,
        )
        return _offset(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogPart]:
        before, after = _position(start), _position(end)
        parts = []
        # What was seen when `end` was chosen; nothing, if that was before a restart.
        for name, files in sorted((self._seen or self._logs()).items()):
            read, known = after.logs.get(name), before.logs.get(name)
            if read is None:
                continue
            is_anew = known is not None and known.lives != read.lives
            new = left(files, None if is_anew else known)
            part = LogPart(
                paths=tuple(file.path for file in new if file.key <= read.key),
                groups=known.groups if known is not None else (),
                is_anew=is_anew,
                before=_before(known),
                time_ms=after.time_ms,
            )
            if part.paths:
                parts.append(part)
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPart)
        reader = FactReader(partition.groups, partition.is_anew, partition.before)
        for path in partition.paths:
            lines = event_files.lines_of(event_files.read_bytes(path))
            yield from batches(reader.read(lines), partition.time_ms)

    # ---- inside ----

    def _logs(self) -> dict[str, list[Published]]:
        folders = {str(each): each for each in event_folders(self._data)}
        known = self._listings
        self._listings = {name: known.get(name) or Listing(each) for name, each in folders.items()}
        self._seen = {name: listing.look() for name, listing in self._listings.items()}
        return self._seen


@functools.lru_cache(maxsize=ENDINGS_MAX)
def _look(file: Published) -> Ending:
    return ending(part.lines for part in event_files.parts_of(event_files.read_bytes(file.path)))


def _before(known: LogRead | None) -> tuple[int, int, int] | None:
    if known is None or known.last is None or known.reached_us is None:
        return None
    return (*known.last, known.reached_us)


def _offset(position: Position) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(position)
    return found


def _position(offset: dict[str, Any]) -> Position:
    return msgspec.convert(offset, Position)


def batches(facts: Iterator[Fact], time_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield facts as the columns of SCHEMA, with the batch's time."""
    clock = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
        milliseconds=time_ms
    )
    while part := list(itertools.islice(facts, event_files.ROWS_MAX)):
        columns = [[getattr(fact, name) for fact in part] for name in _FACT]
        columns.append([clock] * len(part))
        arrays = [pa.array(each, field.type) for each, field in zip(columns, _ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
