"""The logs as Python Data Sources: `format("rocketmq_commitlog")` and `format("dledger_store")`.

    register(spark)
    log = spark.read.format("rocketmq_commitlog").load("var/demo/*/groups/orders")
    spark.readStream.format("dledger_store").option("columns", "node,index,term").load(...)

Options: `options`. Columns: `message_chunk` and `entry_chunk`. Each row is a record, or names in
its column `damage` what is wrong: bytes that are no record, a file that is missing or expired, a
log that ends in something else than zeros. A user's mistake is a `SourceError`, which Spark
wraps: `mistakes.line_of` finds its line.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from actors.pipeline.sources.formats import COMMIT_LOG, DLEDGER, FORMATS, Format
from actors.pipeline.sources.log_files import logs_at
from actors.pipeline.sources.log_stream import LogStreamReader
from actors.pipeline.sources.options import Options, read_options
from actors.pipeline.sources.plan import LogPartition, batch_parts, packed
from actors.pipeline.sources.rows import batches, schema_text
from actors.pipeline.sources.stretches import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class _LogSource(DataSource):
    form: ClassVar[Format]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        form = self.form
        self._read = read_options(dict(options), tuple(form.columns), form.default, form.has_crc)

    @classmethod
    def name(cls) -> str:
        return cls.form.name

    def schema(self) -> str:
        logs_at(self._read.paths, self.form.inner, self._read.nodes)  # a mistake is said at load
        return schema_text(self.form, self._read.columns)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(self.form.name, self._read)

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802
        return LogStreamReader(self.form.name, self._read)


class CommitLogSource(_LogSource):
    """The source of RocketMQ's commit log."""

    form = COMMIT_LOG


class DLedgerSource(_LogSource):
    """The source of DLedger's data files."""

    form = DLEDGER


class LogReader(DataSourceReader):
    """Reads all that is whole in the logs when the reading is planned."""

    def __init__(self, form: str, options: Options) -> None:
        self._form, self._options = form, options

    def partitions(self) -> Sequence[InputPartition]:
        form, options = FORMATS[self._form], self._options
        reading = Reading(form, options.crc, options.record_bytes_max)
        packs = [
            pack
            for log in logs_at(options.paths, form.inner, options.nodes)
            for pack in packed(batch_parts(log, options, reading), options.partition_bytes)
        ]
        return [LogPartition(pack) for pack in packs] or [LogPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        return batches(FORMATS[self._form], self._options, partition.parts)


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    spark.dataSource.register(CommitLogSource)
    spark.dataSource.register(DLedgerSource)
