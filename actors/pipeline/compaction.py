"""Compaction of bronze: many batches -> one folder with a file for each day and node.

Done once a day. The new folder, `bronze/days/through=N/day=DAY`, holds the rows of all batches up
to N that no earlier compaction has; the note `bronze/days.json` then says so, and from there on
readers leave those batches alone. They stay until the next compaction, for readers that have just
begun. Rows stand in the order of the nodes' logs, which packs better and lets a reader skip.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from actors.pipeline.bronze import (
    batches_after,
    compacted_through,
    days_note,
    finished_after,
    read_batches,
)
from actors.pipeline.places import Place


def in_order(rows: DataFrame) -> DataFrame:
    """Bronze's rows by day and node, in the order of each node's log."""
    return rows.repartition("day", "node").sortWithinPartitions("node", "boot", "seq")


def compact(spark: SparkSession, out: Place) -> tuple[int, int]:
    """Compact what came since the last time. Returns: (batches, files they had before).

    A batch at which a run was killed is left to the next compaction.

    Nothing new is no compaction: (0, 0). Raises: PipelineError if there is no bronze.
    """
    note, done = days_note(out), compacted_through(out)
    fresh = finished_after(out, done)
    if not fresh:
        return 0, 0
    through = max(fresh)
    name = f"through={through:06d}"
    folder = out / "bronze" / "days" / name
    files = sum(
        child.endswith(".parquet") for batch in fresh for child in _folder(out, batch).children()
    )
    writer = in_order(read_batches(spark, out, fresh)).write.mode("overwrite")
    writer.option("compression", "zstd").partitionBy("day").parquet(str(folder))
    known = (note.read_json() or {}).get("folders", [])
    note.write_json({"through": through, "folders": [*known, name]})
    for batch in batches_after(out, -1):
        if batch <= done:
            _folder(out, batch).remove()
    return len(fresh), files


def _folder(out: Place, batch: int) -> Place:
    return out / "bronze" / "events" / f"batch={batch:06d}"
