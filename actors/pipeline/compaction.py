"""Compaction of bronze: makes one folder of many batches, in which a node's day is in one file.

Done once a day. The new folder, `bronze/days/through=N/day=DAY`, holds the rows of all batches up
to N that no earlier compaction has; the note `bronze/days.json` then says so, and from there on
readers leave those batches alone. They stay until the next compaction, for readers that have just
begun. Rows stand in the order of the nodes' logs, which packs better and lets a reader skip; small
nodes share a file.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from actors.pipeline.bronze import (
    batches_after,
    days_note,
    days_of,
    finished_after,
    read_batches,
)
from actors.pipeline.locations import Location


def in_order(rows: DataFrame) -> DataFrame:
    """Return bronze's rows by day and node, in the order of each node's log.

    Spark's writer sorts by the columns that it partitions by, and loses any other order unless the
    rows are sorted by them already; it takes no nullable column for sorted.
    """
    by_day = rows.withColumn("day", fn.coalesce("day", fn.lit("")))
    return by_day.repartition("day", "node").sortWithinPartitions("day", "node", "boot", "seq")


def compact(spark: SparkSession, out: Location) -> tuple[int, int]:
    """Compact the batches since the last compaction.

    An unfinished batch of a killed run is left to the next compaction.

    Returns: the numbers of batches and of files that they had; (0, 0) if nothing is new.

    Raises: PipelineError: there is no bronze.
    """
    done = days_of(out)
    fresh = finished_after(out, done.through)
    if not fresh:
        return 0, 0
    through = max(fresh)
    days = out / "bronze" / "days"
    for batch in fresh:  # a compaction up to it was killed before its note
        (days / _name(batch)).remove()
    folder = days / _name(through)
    files = sum(
        child.endswith(".parquet") for batch in fresh for child in _folder(out, batch).children()
    )
    writer = in_order(read_batches(spark, out, fresh)).write
    writer.option("compression", "zstd").partitionBy("day").parquet(str(folder))
    _sync(folder)
    days.sync()
    days_note(out).write_json({"through": through, "folders": [*done.folders, _name(through)]})
    for batch in batches_after(out, -1):
        if batch <= done.through:
            _folder(out, batch).remove()
    return len(fresh), files


def _sync(place: Location) -> None:
    """Sync a file, or a folder with all in it, as Spark does not, and originals are removed."""
    for name in place.children() if place.is_folder() else ():
        _sync(place / name)
    place.sync()


def _name(through: int) -> str:
    return f"through={through:06d}"


def _folder(out: Location, batch: int) -> Location:
    return out / "bronze" / "events" / f"batch={batch:06d}"
