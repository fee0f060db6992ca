"""Bronze: every line of every event file once, as it was, with what can be known of each alone.

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
"""Bytes of files on the disk. Some 4 million events: what a killed run has to do again. By
bytes, for a quiet node's files have a thousandth of a busy one's, and each batch costs a second."""
LOOK_S = 1
"""Between looks at what is finished, to show that it goes on."""
LAYER = "bronze"
CHECKPOINT = "checkpoint"
"""Spark's, in the layer."""
_BATCH = re.compile(r"batch=(\d{6}|[1-9]\d{6,})")
_FILES = "path string, modificationTime timestamp, length bigint, content binary"
"""Spark's columns of files. Nobody asks for the content here: workers read it by `path`."""


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
    """What is compacted.

    Attributes:
        through: the last batch; -1: none.
        folders: of `bronze/days`, with the rows of all batches up to that one.
    """

    through: Annotated[int, msgspec.Meta(ge=-1)]
    folders: tuple[str, ...]


class _Note(msgspec.Struct, frozen=True):
    """What `BatchRead` has of a batch's note. `generations` reads more of it."""

    run: int
    files: tuple[tuple[str, int], ...]
    events: int
    problems: int
    unknown: int


class _Runs(msgspec.Struct, frozen=True):
    """How many runs there were."""

    runs: int


@attrs.frozen(kw_only=True)
class BatchRead:
    """One batch of files, as it is written.

    Attributes:
        batch: its number, from 0.
        files: what was read, each with its bytes, sorted.
        events: good lines.
        problems: lines that are no events, and files with something wrong.
        unknown: good lines whose kind the catalogue lacks; they are among the events.
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
        bytes_per_batch: of files, at most; a file alone may have more.

    Raises:
        PipelineError: no event logs, or `out` belongs to other ones, or to an earlier generation of
            theirs: see `generations`.
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
    """All that was ingested, compacted or not. Raises: PipelineError if nothing was."""
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
    """The rows of some batches."""
    root = out / LAYER / "events"
    folders = [(root / f"batch={batch:06d}").for_readers() for batch in batches]
    reader = spark.read.schema(SCHEMA).option("basePath", str(root))
    return reader.parquet(*folders).select(*SCHEMA.names)


def batches_after(out: Location, batch: int) -> list[int]:
    """The numbers of the batches above `batch` that are there, rising.

    Raises: PipelineError: somebody put a folder beside them that would be taken for one.
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
    """Those of `batches_after` that are whole. One at which a run was killed is written anew by the
    next, and has its note then.
    """
    noted = (out / LAYER / generations.NOTES).children()
    return [number for number in batches_after(out, batch) if _note_name(number) in noted]


def days_note(out: Location) -> Location:
    """The note of `compaction`: `Days`."""
    return out / LAYER / "days.json"


def days_of(out: Location) -> Days:
    """What is compacted. Raises: PipelineError: the note of that is none."""
    return days_note(out).read_as(Days) or Days(through=-1, folders=())


def _write_batch(files: DataFrame, batch: int, out: Location, run: int) -> None:
    """With Spark Connect this runs in the server: what it has to say is a note on the disk.

    A batch may have the note of a run that was killed behind it: without its rows it has none.
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
    """Have the workers write the files' lines into a folder; returns what `BatchRead` counts.

    Dealt out here: Spark reckons 4 MB for the opening of each file, and would have as many tasks of
    small ones.
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
    """Pass on the batches from `first` on that this run has finished, each once."""
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
    """The first batch that Spark has not committed: what a run writes begins there."""
    names = (out / LAYER / CHECKPOINT / "commits").children()
    return 1 + max((int(name) for name in names if name.isdecimal()), default=-1)


def _next_run(out: Location) -> int:
    """Number this run, so that its batches are known from those of a killed one."""
    counter = out / LAYER / "runs.json"
    run = (counter.read_as(_Runs) or _Runs(runs=0)).runs + 1
    counter.write_json({"runs": run})
    return run
