"""Tables on disk that are replaced whole: `LAYER/version=N/TABLE`, and a note that names N.

A version is written beside the one that is read, and the note is what changes; so a killed run
leaves the old tables, and a reader never sees half of the new ones. One version before the current
one stays, for readers that have just begun.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import msgspec
import pyarrow.dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.side_by_side import side_by_side

NOTE = "current.json"
_VERSION = re.compile(r"version=(\d{6,})")
_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""Where Spark notes in a file of Parquet which columns it has written."""


class _Current(msgspec.Struct, frozen=True):
    """The note of the current version."""

    version: Annotated[int, msgspec.Meta(ge=1)]


def publish(
    layer: Location,
    tables: Mapping[str, DataFrame],
    partitions: Mapping[str, str] | None = None,
    written: Callable[[str], None] = lambda _: None,
) -> Location:
    """Write the tables as the next version, make it the current one, and return its folder.

    Args:
        partitions: by table, the column whose values get folders of their own.
        written: called with each table's name, in their order, once it is written.
    """
    now = _current(layer)
    folder = layer / f"version={now + 1:06d}"

    def write(name: str) -> str:
        writer = tables[name].write.mode("overwrite").option("compression", "zstd")
        column = (partitions or {}).get(name)
        if column is not None:
            writer = writer.partitionBy(column)
        writer.parquet(str(folder / name))
        return name

    side_by_side((partial(write, name) for name in tables), written)
    (layer / NOTE).write_json({"version": now + 1})
    for name in layer.children():
        found = _VERSION.fullmatch(name)
        if found is not None and int(found[1]) < now:
            (layer / name).remove()
    return folder


def current(layer: Location) -> Location:
    """Return the folder of the current version. Raises: PipelineError: there is none."""
    version = _current(layer)
    if not version:
        step = layer.name.rpartition("/")[2]
        raise PipelineError(f"{layer}: nothing here; run the step `{step}` first")
    return layer / f"version={version:06d}"


def read(spark: SparkSession, table: Location, schema: StructType | None = None) -> DataFrame:
    """Read a table of a version, with its own schema or with `schema`; missing columns are null."""
    return spark.read.schema(schema or _schema_of(table)).parquet(table.for_readers())


def count_rows(table: Location) -> int:
    """Return the number of a table's rows, by the metadata of its files, without a job."""
    return int(_files_of(table).count_rows())


def _schema_of(table: Location) -> StructType:
    """Return the schema that Spark noted in the table's files; Spark reads it there with a job."""
    return StructType.fromJson(json.loads(_files_of(table).schema.metadata[_SCHEMA]))


def _files_of(table: Location) -> pyarrow.dataset.Dataset:
    system, path = table.system()
    return pyarrow.dataset.dataset(path, filesystem=system, format="parquet")


def _current(layer: Location) -> int:
    """Return the number of the current version; 0 if there is none. Raises: PipelineError."""
    note = (layer / NOTE).read_as(_Current)
    return 0 if note is None else note.version
