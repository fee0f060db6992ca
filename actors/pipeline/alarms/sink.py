"""Keeps findings, each batch's once: `format("triolog_findings")`, option `path`.

A batch is the file BATCH.jsonl in that folder, and one without findings is no file. The file is
finished under another name, synced and renamed; a batch that Spark repeats after a kill finds its
name taken. So a finding is there once, whenever the stream was killed, and readers need no Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

from actors.pipeline import event_files
from actors.pipeline.alarms.findings import NAMES, SCHEMA, Finding, of_dict
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "triolog_findings"
_SUFFIX = ".jsonl"
_BATCH = re.compile(r"\d{9,}\.jsonl", re.ASCII)


@attrs.frozen
class Written(WriterCommitMessage):
    """A task's findings. They are few, so they are sent in its commit message."""

    lines: tuple[str, ...]


class Findings(DataSource):
    """See the module."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamWriter(self, schema: StructType, overwrite: bool) -> FindingsWriter:  # noqa: N802
        return FindingsWriter(Location(self._given["path"]))


class FindingsWriter(DataSourceStreamWriter):
    """Writes one batch after the other."""

    def __init__(self, folder: Location) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[Row]) -> Written:
        rows = ({name: row[name] for name in NAMES} for row in iterator)
        return Written(tuple(json.dumps(row, sort_keys=True) for row in rows))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        lines = [line for each in messages if isinstance(each, Written) for line in each.lines]
        file = self._folder / f"{batchId:09d}{_SUFFIX}"
        if lines and not file.exists():
            file.write_bytes("".join(f"{line}\n" for line in sorted(lines)).encode())

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass


def batches_after(folder: Location, batch: int) -> list[int]:
    """Return the numbers of the batches above `batch` that have findings, in rising order.

    Raises: PipelineError: there is a foreign file beside them that looks like a batch.
    """
    names = [name for name in folder.children() if name.endswith(_SUFFIX)]
    for name in names:
        if _BATCH.fullmatch(name) is None:
            raise PipelineError(f"{folder / name}: no batch of this program; move it elsewhere")
    return sorted(number for name in names if (number := int(name.removesuffix(_SUFFIX))) > batch)


def findings_of(folder: Location, batch: int) -> list[Finding]:
    """Return the findings of a batch of `batches_after`, ordered by time.

    Raises: PipelineError: the batch is damaged, or of another version.
    """
    file = folder / f"{batch:09d}{_SUFFIX}"
    found = []
    for number, line in enumerate(event_files.read_bytes(str(file)).splitlines(), 1):
        try:
            found.append(of_dict(json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise PipelineError(
                f"{file}: line {number} is no finding of this program: {error}: move the file "
                "elsewhere, and what comes after it is reported"
            ) from error
    return sorted(found, key=lambda each: (each.at_us, each.group, each.subject))
