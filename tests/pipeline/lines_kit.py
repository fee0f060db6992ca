"""Events by hand, through the real encoder and the real transformations, to silver's table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from actors.events.codec import LineEncoder
from actors.pipeline import event_files, silver

SECOND = 1_000_000
START_US = 1_800_000_000 * SECOND


@attrs.define
class Boot:
    """One boot of one node: its lines, numbered as they are said.

    Attributes:
        lines: encoded, without newlines.
    """

    node: str
    boot: int = 1
    seq: int = 1
    lines: list[str] = attrs.field(factory=list)

    def say(self, at_s: float, place: str, event: Any, incarnation: int = 1) -> None:
        """An event at a time after START_US, of the actor /NODE/place."""
        path = f"/{self.node}/{place}" if place else f"/{self.node}"
        ts_us = START_US + round(at_s * SECOND)
        encoder = LineEncoder(self.node, self.boot)
        line = encoder.encode(self.seq, path, incarnation, ts_us, event)
        self.lines.append(line.decode().removesuffix("\n"))
        self.seq += 1


def bronze_of(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    """Lines as if one file had them."""
    path = "file:/d/n0/events/v=1/dt=2027-01-15/node=n0/000001-000000000001.jsonl.gz"
    table = pa.Table.from_batches(event_files.rows_of(path, [event_files.Part(lines=list(lines))]))
    return spark.createDataFrame(table)


def typed_of(spark: SparkSession, *boots: Boot) -> DataFrame:
    """Silver's events of some boots, as the plan that types them."""
    return silver.typed(bronze_of(spark, [line for boot in boots for line in boot.lines]))


def events_of(spark: SparkSession, *boots: Boot) -> DataFrame:
    """The same, typed already: whatever is asked of them does not type them again."""
    return spark.createDataFrame(typed_of(spark, *boots).toArrow(), silver.SCHEMA)


def rows(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The table's rows, sorted, as tuples."""
    chosen = table.select(*columns) if columns else table
    return sorted((tuple(row) for row in chosen.collect()), key=str)
