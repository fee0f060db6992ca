"""One task of bronze, in a worker: some event files become one Parquet file.

Arrow writes it where the lines are: to hand them to Java, and to have Java write them row by row,
takes ten times the processor time of reading them. Spark deals out the tasks, does a failed one
again, and gets a row for each.

A file is written under a name that no reader takes for a table's. Whoever runs the tasks gives each
its own name when all are done: what a task left that failed, or is still at it when another has
done its work, is no part of the table. It is synced by whoever wrote it, for that may be far away.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyspark import TaskContext

from actors.pipeline import event_files
from actors.pipeline.locations import Location

TASK_BYTES = 2 << 20
"""How many bytes of event files on the disk one task makes one Parquet file of: some 100,000
events, half a second of work."""
GROUP_ROWS = 100_000
"""How many rows a Parquet file's row group has, which are kept in memory: some 30 MB."""
WRITTEN = "name string, events bigint, problems bigint, unknown bigint"
"""The columns of the rows that `write` returns, one for each task; see `Written`."""
_WRITTEN = pa.schema(
    [("name", pa.string()), *((name, pa.int64()) for name in ("events", "problems", "unknown"))]
)


@attrs.frozen(kw_only=True)
class Tasks:
    """The tasks of a batch, each known by its number.

    Attributes:
        paths: by task, its event files, as Spark names them.
        folder: the folder of the Parquet files: an absolute path or a URI.
        run: the run's number; tasks of an earlier run may still be at work.
        kinds: the kinds of events in the catalogue.
    """

    paths: tuple[tuple[str, ...], ...]
    folder: str
    run: int
    kinds: tuple[str, ...]


def shares(files: Iterable[tuple[str, int]], share_bytes: int) -> tuple[tuple[str, ...], ...]:
    """Divide files into shares of about equal size; a single file is never divided.

    Args:
        files: path and size in bytes of each.
        share_bytes: the approximate size of a share; a single file may be larger.

    Returns: the paths of each share. None is empty, but for the single share of no files.
    """
    largest_first = sorted(files, key=lambda file: (-file[1], file[0]))
    total = sum(size for _, size in largest_first)
    count = max(1, min(len(largest_first), -(-total // share_bytes)))
    dealt: list[list[str]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for path, size in largest_first:
        has, number = least[0]
        dealt[number].append(path)
        heapq.heapreplace(least, (has + size + 1, number))  # so that none stays empty
    return tuple(tuple(sorted(paths)) for paths in dealt)


def write(tasks: Tasks, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Carry out tasks.

    Args:
        numbers: batches with the column `id`, the numbers of the tasks to be carried out here.

    Returns: batches of `WRITTEN`. `name` is that of the file in `Tasks.folder`; `unknown` are
        counted among the events.

    Raises:
        OSError: a file cannot be read or written.
    """
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield _write(tasks, number)


def final_name(number: int) -> str:
    """Return the name of a task's file once all tasks are done."""
    return f"part-{number:05d}.zstd.parquet"


def attempt() -> int:
    """Return the number of this attempt among all attempts at tasks of a run."""
    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())


def _write(tasks: Tasks, number: int) -> pa.RecordBatch:
    name = f".{tasks.run}-{attempt()}-{number}.new"
    place = Location(tasks.folder) / name
    system, target = place.system()
    known = pa.array(tasks.kinds, pa.string())
    rows = events = unknown = 0
    schema = event_files.ROWS
    with pyarrow.parquet.ParquetWriter(
        target, schema, filesystem=system, compression="zstd"
    ) as writer:
        for table in _groups(event_files.read_files(tasks.paths[number])):
            writer.write_table(table, row_group_size=table.num_rows)
            good = table["kind"].drop_null()
            rows += table.num_rows
            events += len(good)
            unknown += len(good) - pc.sum(pc.is_in(good, value_set=known), min_count=0).as_py()
    place.sync()
    columns = [[name], [events], [rows - events], [unknown]]
    return pa.record_batch(columns, schema=_WRITTEN)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches, each of one file, into tables of at least GROUP_ROWS; the last may be less."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= GROUP_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
