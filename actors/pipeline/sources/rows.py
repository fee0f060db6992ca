"""Makes Arrow batches of records and findings, with the columns that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from actors.pipeline.errors import SourceError
from actors.pipeline.sources.cells import TEXT_BY_NAME, TEXTS
from actors.pipeline.sources.formats import Chunk, Format
from actors.pipeline.sources.message_chunk import WRONG_CRC
from actors.pipeline.sources.options import Options
from actors.pipeline.sources.stretches import Finding, Reading, Span, Tail, stretches

_SPARK_TYPES = {
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    TEXTS: "ARRAY<STRING>",
    TEXT_BY_NAME: "MAP<STRING, STRING>",
}


def schema_text(form: Format, columns: Sequence[str]) -> str:
    """Return the schema as Spark declares it."""
    return text_of(arrow_schema(form, columns))


def text_of(schema: pa.Schema) -> str:
    """Return an Arrow schema as Spark declares it."""
    return ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema)


def arrow_schema(form: Format, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns as Arrow declares it."""
    return pa.schema([(name, form.columns[name][0]) for name in columns])


def chunk_batch(form: Format, columns: Sequence[str], chunk: Chunk, node: str) -> pa.RecordBatch:
    """Return a batch with one row for each record."""
    made = [form.columns[name][1](chunk, node) for name in columns]
    return pa.RecordBatch.from_arrays(made, schema=arrow_schema(form, columns))


def findings_batch(
    form: Format, columns: Sequence[str], findings: Sequence[Finding]
) -> pa.RecordBatch:
    """Return one row for each finding: node, offset, size and damage; other columns are null."""
    known = {
        "node": [each.log for each in findings],
        "offset": [each.offset for each in findings],
        "size": [each.size for each in findings],
        "damage": [each.damage for each in findings],
    }
    schema = arrow_schema(form, columns)
    nothing = [None] * len(findings)
    made = [pa.array(known.get(field.name, nothing), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def batches(
    form: Format, options: Options, items: Sequence[Span | Finding]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these parts of logs, and of what is wrong with them.

    Raises:
        SourceError: something is wrong, and the option damage is fail.
    """
    reading = Reading(form, options.crc, options.record_bytes_max)
    found: list[Finding] = []
    for item in items:
        if isinstance(item, Finding):
            found.append(item)
            continue
        for part in stretches(item, reading):
            assert not isinstance(part, Tail)
            if isinstance(part, Finding):
                found.append(part)
                _fail(options, found)
                continue
            if options.fail:
                _fail(options, wrong_records(form, part, item.log.name))
            yield chunk_batch(form, options.columns, part, item.log.name)
    _fail(options, found)
    if found:
        yield findings_batch(form, options.columns, found)


def wrong_records(form: Format, chunk: Chunk, node: str) -> list[Finding]:
    """Return a finding for each record of a chunk that is damaged in itself."""
    wrong = form.wrong(chunk)
    if wrong is None:
        return []
    at = (chunk.starts[wrong] + chunk.position).tolist()
    sizes = chunk.sizes[wrong].tolist()
    return [Finding(node, *each, WRONG_CRC) for each in zip(at, sizes, strict=True)]


def _fail(options: Options, findings: Sequence[Finding]) -> None:
    if options.fail and findings:
        first = findings[0]
        raise SourceError(f"{first.log}: damage at offset {first.offset}: {first.damage}")
