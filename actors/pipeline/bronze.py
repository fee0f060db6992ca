"""Bronze: every line of every event file once, as it was, with what it shows by itself.

A stateless stream over the files, which ends when all are read. Its checkpoint knows the files that
it has seen, so the next run reads only new ones. A batch of files becomes one folder,
`bronze/events/batch=N`, written anew if its run was killed meanwhile: whoever reads the folders,
with Spark or without, finds each line once. (Spark's own file sink leaves a killed run's files
beside the good ones, and only Spark knows which are which.)

| Column | Type | Meaning |
|---|---|---|
| node .. kind | as in the envelope | null where the line is no event |
| line | string | the whole line; null in a row about a file |
| day | string | of the file's folder, "2026-01-31"; "" if it has none |
| problem | string | null for an event; else why the line is none, or what is wrong with its file |
| file, line_number | string, bigint | where a problem was read; null for an event |
| batch | int | from the folder's name |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Annotated

import attrs
import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from actors.events.codec import KINDS
from actors.pipeline import bronze_parts, checkpoints, generations
from actors.pipeline.errors import PipelineError
from actors.pipeline.event_schema import ENVELOPE
from actors.pipeline.locations import Location, claim, event_pattern

BATCH_BYTES = 64 << 20
"""How many bytes of files on the disk a batch has: some 4 million events, which a killed run has to
read again. It counts bytes, because a quiet node's files have a thousandth of a busy one's, and
each batch costs a second."""
LOOK_S = 1
"""The seconds between two looks at finished batches, to show progress."""
LAYER = "bronze"
CHECKPOINT = "checkpoint"
"""The folder of Spark's checkpoint in the layer."""
_BATCH = re.compile(r"batch=(\d{6}|[1-9]\d{6,})")
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
"""Spark's columns of files. The content is not read here; workers read it by `path`."""


SCHEMA = StructType(
    [
        *ENVELOPE,
        StructField("line", StringType()),
        StructField("day", StringType()),
        StructField("problem", StringType()),
        StructField("file", StringType()),
        StructField("line_number", LongType()),
        StructField("batch", IntegerType()),
    ]
)


class Days(msgspec.Struct, frozen=True):
    """The note of what is compacted.

    Attributes:
        through: the last compacted batch; -1 for none.
        folders: the folders in `bronze/days` with the rows of all batches up to that one.
    """

    through: Annotated[int, msgspec.Meta(ge=-1)]
    folders: tuple[str, ...]


class _Note(msgspec.Struct, frozen=True):
    """The part of a batch's note that `BatchRead` has. `generations` reads more of it."""

    run: int
    files: tuple[tuple[str, int], ...]
    events: int
    problems: int
    unknown: int


class _Runs(msgspec.Struct, frozen=True):
    """The note of how many runs there were."""

    runs: int


@attrs.frozen(kw_only=True)
class BatchRead:
    """One batch of files that was written.

    Attributes:
        batch: its number, from 0.
        files: the files that were read, each with its size in bytes, sorted.
        events: the number of good lines.
        problems: the number of lines that are no events, and of damaged files.
        unknown: the number of events whose kind is not in the catalogue.
    """

    batch: int
    files: tuple[tuple[str, int], ...]
    events: int
    problems: int
    unknown: int

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.files)


def ingest(
    spark: SparkSession,
    data: Location,
    out: Location,
    tell: Callable[[BatchRead], None],
    bytes_per_batch: int = BATCH_BYTES,
) -> None:
    """Read what no earlier run has read, into `out/bronze`.

    Args:
        tell: called for each batch, once it is written.
        bytes_per_batch: how many bytes of files a batch may have; a single file may have more.

    Raises:
        PipelineError: there are no event logs, or `out` belongs to others, or to an earlier
            generation of them; see `generations`.
    """
    root = event_pattern(data)
    claim(out / LAYER, data)
    generations.check(data, out)
    stream = (
        spark.readStream.format("binaryFile")
        .schema(_FILES)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.{jsonl,jsonl.gz}")
        .option("maxBytesPerTrigger", bytes_per_batch)
        .option("maxFileAge", "36500d")
        .load(root)
        .select("path", "length")
    )

    checkpoints.clear_unbegun(out / LAYER / CHECKPOINT)
    run, first = _next_run(out), _first_open(out)

    def write(files: DataFrame, batch: int) -> None:
        _write_batch(files, batch, out, run)

    query = (
        stream.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(out / LAYER / CHECKPOINT))
        .trigger(availableNow=True)
        .start()
    )
    passed: set[int] = set()
    try:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(LOOK_S))
            _tell_new(out, run, first, passed, tell)
    finally:
        query.stop()


def read_bronze(spark: SparkSession, out: Location) -> DataFrame:
    """Return all ingested rows, compacted or not. Raises: PipelineError: there are none."""
    compacted = days_of(out)
    fresh = batches_after(out, compacted.through)
    parts = [read_batches(spark, out, fresh)] if fresh else []
    days = out / LAYER / "days"
    for name in compacted.folders:
        rows = spark.read.schema(SCHEMA).parquet((days / name).for_readers())
        parts.append(rows.select(*SCHEMA.names).fillna("", ["day"]))
    if not parts:
        raise PipelineError(f"{out}: no bronze here; run the step `bronze` first")
    return reduce(DataFrame.unionByName, parts)


def read_batches(spark: SparkSession, out: Location, batches: Sequence[int]) -> DataFrame:
    """Return the rows of some batches."""
    root = out / LAYER / "events"
    folders = [(root / f"batch={batch:06d}").for_readers() for batch in batches]
    reader = spark.read.schema(SCHEMA).option("basePath", str(root))
    return reader.parquet(*folders).select(*SCHEMA.names)


def batches_after(out: Location, batch: int) -> list[int]:
    """Return the numbers of the existing batches above `batch`, in rising order.

    Raises: PipelineError: there is a foreign folder beside them that looks like a batch.
    """
    root = out / LAYER / "events"
    found = []
    for name in root.children():
        number = _BATCH.fullmatch(name)
        if number is not None:
            found.append(int(number[1]))
        elif name.startswith("batch="):
            raise PipelineError(f"{root / name}: no batch of this program; move it elsewhere")
    return sorted(number for number in found if number > batch)


def finished_after(out: Location, batch: int) -> list[int]:
    """Return the whole batches of `batches_after`.

    A batch that a killed run has left is written anew by the next run, and has its note then.
    """
    noted = (out / LAYER / generations.NOTES).children()
    return [number for number in batches_after(out, batch) if _note_name(number) in noted]


def days_note(out: Location) -> Location:
    """Return the place of the note of `compaction`, which is a `Days`."""
    return out / LAYER / "days.json"


def days_of(out: Location) -> Days:
    """Return what is compacted. Raises: PipelineError: the note is not valid."""
    return days_note(out).read_as(Days) or Days(through=-1, folders=())


def _write_batch(files: DataFrame, batch: int, out: Location, run: int) -> None:
    """Write a batch and its note. With Spark Connect this runs in the server.

    A run that was killed may have left a note for the batch, which is removed before the rows are.
    """
    found = sorted((row["path"], row["length"]) for row in files.collect())
    _note(out, batch).remove()
    layer = out.absolute() / LAYER
    folder = layer / "events" / f"batch={batch:06d}"
    folder.remove()
    folder.make()
    for place in (layer, layer / "events"):
        place.sync()
    counts = _write_parts(files.sparkSession, found, folder, run)
    begins = generations.rows_of(found)
    _note(out, batch).write_json({"run": run, "files": found, "begins": begins, **counts})


def _write_parts(
    spark: SparkSession, files: Sequence[tuple[str, int]], folder: Location, run: int
) -> dict[str, int]:
    """Have the workers write the files' lines into a folder; return what `BatchRead` counts.

    The files are divided among tasks here. Spark reckons 4 MB for the opening of each file, and
    would make as many tasks of small files.
    """
    paths = bronze_parts.shares(files, bronze_parts.TASK_BYTES)
    tasks = bronze_parts.Tasks(paths=paths, folder=str(folder), run=run, kinds=tuple(KINDS))
    numbers = spark.range(0, len(paths), 1, len(paths))
    written = numbers.mapInArrow(partial(bronze_parts.write, tasks), bronze_parts.WRITTEN).collect()
    for number, row in enumerate(written):
        (folder / row["name"]).rename(bronze_parts.final_name(number))
    folder.sync()
    return {name: sum(row[name] for row in written) for name in ("events", "problems", "unknown")}


def _tell_new(
    out: Location, run: int, first: int, passed: set[int], tell: Callable[[BatchRead], None]
) -> None:
    """Report the batches from `first` on that this run has finished, each once."""
    for batch in batches_after(out, first - 1):
        note = None if batch in passed else _note(out, batch).read_as(_Note)
        if note is not None and note.run == run:
            passed.add(batch)
            known = msgspec.structs.asdict(note)
            del known["run"]
            tell(BatchRead(batch=batch, **known))


def _note(out: Location, batch: int) -> Location:
    return out / LAYER / generations.NOTES / _note_name(batch)


def _note_name(batch: int) -> str:
    return f"{batch:06d}.json"


def _first_open(out: Location) -> int:
    """Return the first batch that Spark has not committed, with which a run begins."""
    names = (out / LAYER / CHECKPOINT / "commits").children()
    return 1 + max((int(name) for name in names if name.isdecimal()), default=-1)


def _next_run(out: Location) -> int:
    """Number this run, so that its batches are distinguished from those of a killed one."""
    counter = out / LAYER / "runs.json"
    run = (counter.read_as(_Runs) or _Runs(runs=0)).runs + 1
    counter.write_json({"runs": run})
    return run
