"""Reads a group's logs once for all audits that need them, and the receipts to compare them with.

What comes of it is small (`log_sums`), and stays for the next audit. Only what does not add up to
the same on all nodes is read again, record by record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import Final

import attrs
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from actors.pipeline.audits.data_record import Record, records_in
from actors.pipeline.audits.data_stores import GroupStores, groups_in
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.pipeline.side_by_side import one_at_a_time
from actors.pipeline.sources import log_sums

BITS: Final = {False: 22, True: 14}
"""How many low bits of a position a bucket leaves out, for bytes and for indexes: some thousand
records are read again for each position at which logs differ.
"""
Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""By node, ranges of offsets at which records begin and end."""


@attrs.define(slots=False)
class LogScans:
    """The logs of a data directory; the owner calls `close`.

    Attributes:
        data: the data directory.
    """

    spark: SparkSession
    data: Location
    _of: dict[str, DataFrame] = attrs.field(factory=dict, init=False)
    _finding: AbstractContextManager[object] = attrs.field(factory=one_at_a_time, init=False)

    @cached_property
    def groups(self) -> tuple[GroupStores, ...]:
        """The groups of the data directory, of `groups_in`."""
        return groups_in(self.data)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of the feed, of `records_in`."""
        return records_in(self.data, tuple(group.name for group in self.groups))

    def sums(self, group: GroupStores) -> DataFrame:
        """Return the rows of `log_sums` of a group, read once; receipts have the record's numbers.

        A log that cannot be read raises PySparkException when the rows are collected, with the line
        of its source.
        """
        with self._finding:  # two audits may ask at once
            if group.name not in self._of:
                reader = self._reader(group, log_sums.SUMS_NAME)
                reader = reader.option("bits", BITS[group.is_ledger])
                with suppress(PipelineError, OSError):  # who needs the record meets the same
                    for each in self.records:
                        if each.group == group.name:
                            reader = reader.option("receipts", _points(each))
                self._of[group.name] = _loaded(reader, group).persist()
            return self._of[group.name]

    def records_within(
        self, group: GroupStores, columns: Sequence[str], within: Ranges
    ) -> DataFrame:
        """Return the records of these ranges, a row for each; errors come as with `sums`."""
        reader = self._reader(group, log_sums.STRETCHES_NAME)
        reader = reader.option("columns", ",".join(columns)).option("within", json.dumps(within))
        return _loaded(reader, group)

    def close(self) -> None:
        """Forget all that was read."""
        for each in self._of.values():
            each.unpersist()
        self._of.clear()

    def _reader(self, group: GroupStores, name: str) -> DataFrameReader:
        log_sums.register(self.spark)
        reader = self.spark.read.format(name).option("form", group.form.name)
        return reader.option("node", ",".join(group.nodes))


def _points(record: Record) -> str:
    return log_sums.packed_receipts((each.first, each.last) for each in record.receipts)


def _loaded(reader: DataFrameReader, group: GroupStores) -> DataFrame:
    return reader.load([store.path for store in group.stores])
