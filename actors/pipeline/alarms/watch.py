"""Runs the query, and reports what it finds while it runs.

| In OUT/alarms | What |
|---|---|
| source.json | the event logs that the alarms are about |
| lock | held by the watch that runs |
| stream-1/checkpoint | Spark's: how far all is read, and what the rules remember |
| stream-1/findings/BATCH.jsonl | the findings |
| stream-1/told.json | the last batch that was printed |

A restart continues where the last run was killed, and first reports what that run found and could
not report. A run that is killed between a print and its note leaves one batch to be printed twice,
which is better than not at all. In the files each finding is once.

Batches are numbered by the checkpoint: without it a new batch would be taken for an old one that is
written and reported. So findings without a checkpoint are refused.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from actors.pipeline import checkpoints
from actors.pipeline.alarms import findings, sink, source
from actors.pipeline.alarms.findings import Finding
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.processor import GroupAlarms
from actors.pipeline.ending import deferred
from actors.pipeline.errors import PipelineError
from actors.pipeline.failures import line_of_failure
from actors.pipeline.locations import Location, claim, held
from actors.readable import readable

logger = logging.getLogger("triolog.pipeline")

LAYER = "alarms"
LOOK_S = 1
"""The seconds between two looks at new findings, and at new files."""
FAILURES_MAX = 3
FAILURES_LOOKS = 300
"""Within how many looks the stream may fail FAILURES_MAX times and is started again. Spark gives a
Python worker ten seconds to start, which is little on a busy processor, and a store may be away.
"""
NOTE = "told.json"
STREAM = "stream-1"
"""The stream's folder. It gets a new number when old checkpoints cannot be read any more; then all
is read and reported anew."""


class _Told(msgspec.Struct, frozen=True):
    """The note of what was printed."""

    batch: Annotated[int, msgspec.Meta(ge=-1)]


def facts(spark: SparkSession, data: Location, limits: Limits, files_max: int) -> DataFrame:
    """Return the stream of facts, with the columns of `source.SCHEMA`."""
    spark.dataSource.register(source.EventFacts)
    return (
        spark.readStream.format(source.NAME)
        .option("path", str(data))
        .option("files", files_max)
        .option("silent_us", limits.silent_us)
        .load()
    )


def alarms(told: DataFrame, limits: Limits) -> DataFrame:
    """Return the stream of findings for a stream of facts."""
    return (
        told.withWatermark(source.CLOCK, "0 seconds")
        .groupBy("group")
        .transformWithState(
            statefulProcessor=GroupAlarms(limits),
            outputStructType=findings.SCHEMA,
            outputMode="Append",
            timeMode="EventTime",
        )
    )


@contextlib.contextmanager
def taken(data: Location, out: Location) -> Iterator[None]:
    """Reserve `out` for a watch of `data`, for a block. Spark may be started after this.

    Raises: PipelineError: `out` belongs to other event logs, or another watch uses it, or its
        findings or its note are damaged.
    """
    claim(out / LAYER, data)
    with held(out / LAYER, "another watch"):
        stream = out / LAYER / STREAM
        _check(stream)
        for batch in sink.batches_after(stream / "findings", _told(stream)):
            sink.findings_of(stream / "findings", batch)
        yield


def watch(
    spark: SparkSession,
    data: Location,
    out: Location,
    limits: Limits,
    tell: Callable[[Finding], None],
    seconds: float | None = None,
    files_max: int = source.FILES_MAX,
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Report every finding once, beginning with those that a killed run could not report.

    Args:
        out: the output, which the caller has `taken`.
        seconds: how long to watch; 0: until all that is there now is read; None: until Ctrl-C.
        begun: called once, as soon as the stream runs.

    Raises:
        PipelineError: there are no event logs, or `out` has lost its checkpoint.
        StreamingQueryException: it failed more than FAILURES_MAX times within FAILURES_LOOKS.
    """
    stream = out / LAYER / STREAM
    _check(stream)
    tell_new(stream, tell)
    looks = itertools.count(1)
    failures: list[int] = []
    while True:
        found = alarms(facts(spark, data, limits, files_max), limits)
        query = _start(spark, found, stream, seconds == 0)
        try:
            if not failures:
                begun()
            return _follow(query, looks, seconds, lambda: tell_new(stream, tell))
        except StreamingQueryException as error:
            now = next(looks)
            failures = [each for each in failures if now - each < FAILURES_LOOKS] + [now]
            if len(failures) > FAILURES_MAX:
                raise
            why = readable(line_of_failure(error))
            logger.warning("watch: it failed, and goes on from its checkpoint: %s", why)


def _check(stream: Location) -> None:
    has_more = (stream / NOTE).exists() or (stream / "findings").children()
    if has_more and not (stream / "checkpoint").children():
        raise PipelineError(
            f"{stream}: has findings, and no checkpoint any more: remove it, and all is "
            "reported anew"
        )


def _follow(
    query: StreamingQuery,
    looks: Iterator[int],
    seconds: float | None,
    look: Callable[[], None],
) -> None:
    """Look again and again, until the query ends or the time is over."""
    try:
        for count in looks:
            with deferred():  # an interrupted call leaves its answer to the next one
                ended = query.awaitTermination(LOOK_S)
                look()
            if ended or (seconds and count * LOOK_S >= seconds):
                return
    finally:
        with deferred():
            query.stop()
            look()


def _start(
    spark: SparkSession, found: DataFrame, stream: Location, is_short: bool
) -> StreamingQuery:
    checkpoint = stream / "checkpoint"
    checkpoints.clear_unbegun(checkpoint)
    spark.dataSource.register(sink.Findings)
    writer = (
        found.writeStream.format(sink.NAME)
        .option("path", str(stream / "findings"))
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
    )
    every = writer.trigger(processingTime=f"{LOOK_S} seconds")
    return (writer.trigger(availableNow=True) if is_short else every).start()


def _told(stream: Location) -> int:
    """Return the last batch that was printed; -1 if there is none. Raises: PipelineError."""
    note = (stream / NOTE).read_as(_Told)
    return -1 if note is None else note.batch


def tell_new(stream: Location, tell: Callable[[Finding], None]) -> None:
    """Report the findings since the last call.

    Raises: PipelineError: a note or batch is damaged.
    """
    folder = stream / "findings"
    told = _told(stream)
    for batch in sink.batches_after(folder, told):
        for finding in sink.findings_of(folder, batch):
            tell(finding)
        (stream / NOTE).write_json({"batch": batch})
