"""The logs as streams: each micro-batch ends where a whole record does, in every log.

A stream's offset holds for each log, by its name, `end`, the offset behind what was read, and
`last`, where the last record read begins. If no record begins there any more, the log was cut
back (a DLedger follower's tail, `resync`), and what was read of it is no longer true: an error says
so, for Spark cannot take rows back.

A log that appears later is read from its begin, whatever option from says of those that were there:
all in it is new.

`begin` is where a log's first batch begins. Spark asks for the first offset once more when it reads
the batch, and again after a crash, and of a log that appears later it has none: looked up then, the
begin would be wherever the log is by that time, and what lies before would never be read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from actors.pipeline.errors import SourceError
from actors.pipeline.sources.cells import Numbers
from actors.pipeline.sources.formats import FORMATS
from actors.pipeline.sources.log_files import Log, LogFolder, logs_at
from actors.pipeline.sources.options import EARLIEST, Options
from actors.pipeline.sources.plan import (
    LogPartition,
    begin_of,
    cuts_of,
    extent_of,
    packed,
    parts_of,
)
from actors.pipeline.sources.rows import batches
from actors.pipeline.sources.stretches import Reading
from actors.pipeline.sources.walk import NOBODY, Walked, is_there, walk

Offset: TypeAlias = dict[str, Any]  # log's name -> {"begin": bytes, "end": bytes, "last": bytes}
logger = logging.getLogger("triolog.pipeline")


@attrs.frozen(eq=False, kw_only=True)
class Offer:
    """The records that one log has for the next batch.

    Attributes:
        times: the times of its records, in the log's order. They may go back; the newest so far
            counts.
        more: whether it has more records than these.
        is_final: whether it will have no more in this run.
        last_time: the time of its last record in earlier batches; None if it is unknown.
        quiet_looks: for how many looks in a row, with this one, it had no records.
    """

    times: Numbers
    more: bool
    is_final: bool = False
    last_time: int | None = None
    quiet_looks: int = 0


def frontier(offers: list[Offer], hold_looks: int) -> int | None:
    """Return the time at which all logs end in one micro-batch; None if there is no such bound.

    A watermark follows the newest row of a batch, and drops older rows that come later. A batch
    that takes a log's newest megabytes beside another's oldest loses rows of the other (measured:
    three quarters). So a batch ends in every log at the same time: the least of the last times that
    the logs offer.

    A log without new records would hold the others back for ever. It does so only for `hold_looks`
    looks in a row, and not at all in a run that ends (availableNow), in which it will offer no
    more.
    """
    times = [time for offer in offers if (time := _held_at(offer, hold_looks)) is not None]
    return min(times, default=None)


def _held_at(offer: Offer, hold_looks: int) -> int | None:
    if len(offer.times):
        return None if offer.is_final and not offer.more else int(offer.times.max())
    return None if offer.is_final or offer.quiet_looks > hold_looks else offer.last_time


def admitted(offer: Offer, until: int | None) -> int:
    """Return how many records of an offer are in a batch that ends at `until`.

    An offer that holds the others back is in it whole, so each batch has progress: FrontierMoves.
    """
    if until is None:
        return len(offer.times)
    reached = np.maximum.accumulate(offer.times)
    return int(np.searchsorted(reached, until, "right"))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads growing logs, each up to its last whole record.

    Args:
        form: the format's name.
        options: see `options`.
    """

    def __init__(self, form: str, options: Options) -> None:
        self._form, self._options = form, options
        self._targets: dict[str, int] | None = None
        self._quiet: dict[str, int] = {}
        self._last_times: dict[str, int] = {}
        self._cuts: dict[str, list[int]] = {}
        self._reach: Offset = {}
        self._stopped: dict[str, int] = {}

    # ---- what Spark asks ----

    def initialOffset(self) -> Offset:  # noqa: N802
        return {log.name: self._at(log, self._options.start) for log in self._logs()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.batch_bytes
        return ReadMaxBytes(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        reading = self._reading()
        self._targets = {log.name: extent_of(log, reading).end for log in self._logs()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        logs = self._logs()
        if self._targets is not None:
            logs = [log for log in logs if log.name in self._targets]
        share = (
            max(1, limit.max_bytes // max(1, len(logs)))
            if isinstance(limit, ReadMaxBytes)
            else None
        )
        walks = {}
        for log in logs:
            position = start.get(log.name) or self._at(log, EARLIEST)
            walks[log.name] = (position, self._look(log, position, share))
        offers = {name: self._offer(name, walked) for name, (_, walked) in walks.items()}
        until = frontier(list(offers.values()), self._options.hold) if share is not None else None
        latest = dict(start)
        for name, (position, walked) in walks.items():
            taken = walked.cut(admitted(offers[name], until))
            latest[name] = self._taken(name, position, taken)
        return latest

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return self._reach or None

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        found: list[InputPartition] = []
        for log in self._logs():
            if log.name not in end:
                continue
            begin = _begin_of_batch(start.get(log.name), end[log.name])
            stop = end[log.name]["end"]
            if begin >= stop:
                continue
            segments = LogFolder(log).segments()
            parts = parts_of(log, segments, begin, stop, self._cuts.get(log.name, ()))
            found += [LogPartition(pack) for pack in packed(parts, self._options.partition_bytes)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return batches(FORMATS[self._form], self._options, partition.parts)

    # ---- inside ----

    def _logs(self) -> list[Log]:
        return logs_at(self._options.paths, FORMATS[self._form].inner, self._options.nodes)

    def _reading(self) -> Reading:
        return Reading(FORMATS[self._form], self._options.crc, self._options.record_bytes_max)

    def _at(self, log: Log, start: str | int) -> dict[str, int]:
        """Return the position of a log that was not read yet."""
        reading = self._reading()
        begin = begin_of(log, extent_of(log, reading), start, reading)
        return {"begin": begin, "end": begin, "last": NOBODY}

    def _look(self, log: Log, position: dict[str, int], share: int | None) -> Walked:
        """Return what is new in a log. Raises: SourceError: it was cut below what was read."""
        reading, folder = self._reading(), LogFolder(log)
        segments = folder.written(folder.segments())
        end, last = position["end"], position["last"]
        expired = not segments or segments[0].start > last
        if last != NOBODY and not expired and not is_there(log, segments, last, end, reading):
            raise SourceError(
                f"{log.name} was cut back below offset {end}, up to which it has been read: "
                "begin anew with another checkpoint"
            )
        until = None if self._targets is None else self._targets[log.name]
        walked = walk(log, segments, end, reading, limit_bytes=share, until=until)
        self._watch(log.name, walked)
        return walked

    def _watch(self, name: str, walked: Walked) -> None:
        """Log once that a log does not continue, as no record begins with the bytes at its end."""
        tail = walked.tail
        if tail is None or not tail.reason or tail.is_unfinished:
            self._stopped.pop(name, None)
        elif self._stopped.get(name) != tail.end:
            self._stopped[name] = tail.end
            logger.warning("%s stops at offset %d: %s", name, tail.end, tail.reason)
        self._reach[name] = {"end": walked.end}

    def _offer(self, name: str, walked: Walked) -> Offer:
        quiet = 0 if len(walked.times) else self._quiet.get(name, 0) + 1
        self._quiet[name] = quiet
        return Offer(
            times=walked.times,
            more=walked.more,
            is_final=self._targets is not None,
            last_time=self._last_times.get(name),
            quiet_looks=quiet,
        )

    def _taken(self, name: str, position: dict[str, int], taken: Walked) -> dict[str, int]:
        if not len(taken.starts):
            return {**position, "end": taken.end}
        self._last_times[name] = int(taken.times.max())
        self._cuts[name] = cuts_of(taken.starts, self._options.partition_bytes)
        return {**position, "end": taken.end, "last": taken.last}


def _begin_of_batch(start: dict[str, int] | None, end: dict[str, int]) -> int:
    """Return where the batch begins in one log, which may have been replaced since its start."""
    if start is None or start.get("begin") != end.get("begin"):
        return end["begin"]
    return start["end"]
