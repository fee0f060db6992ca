"""Logs as a few rows for many records, added up where they are read, for audits of whole logs.

    spark.read.format("triolog_log_sums").option("form", "dledger_store").option("bits", "12")...
    spark.read.format("triolog_log_stretches").option("within", '{"n0": [[0, 4096]]}')...

A record costs a row in Java, and its bytes a way there, as much as everything else that is done
with it. So the workers that read a log say how many records there are, and what they add up to;
whoever then wants to see some of them asks for these stretches alone.

Options of both: those of the logs themselves (`options`), and `form`, a format's name.

| Key of `triolog_log_sums` | Value |
|---|---|
| bits | of a position, that one bucket leaves out |
| receipts | `packed_receipts`; none: no row is about a receipt |

| Key of `triolog_log_stretches` | Value |
|---|---|
| within | JSON: node -> array of [begin, end], offsets where records begin and end |

Columns of the sums are `SUMS`, those of stretches the format's. A row of sums is one of these:

| Row | What is not null beside `node` |
|---|---|
| damage | offset, size, damage: as the logs' own rows |
| a piece: records of one bucket that follow each other | bucket, begin, end, digest, and all sums |
| a part of what a receipt points to | receipt, all sums, and crc or text |
| records that no receipt points to | all sums |

Sums are records, bytes, low, high (positions: an index, or an offset). A digest is of all bytes of
the records, in which their positions are: 64 bits of BLAKE2b. Two pieces of one bucket lie in
different partitions, or something else lies between them. `crc` is that of the bodies, a newline
between two; where more of them may lie in another row, there is `text` instead, these bodies.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition

from actors.pipeline.sources.cells import Numbers
from actors.pipeline.sources.formats import FORMATS, Chunk, Format
from actors.pipeline.sources.log_files import LogFolder, logs_at
from actors.pipeline.sources.log_source import LogReader
from actors.pipeline.sources.options import Options, read_options
from actors.pipeline.sources.plan import LogPartition, packed, parts_of
from actors.pipeline.sources.rows import schema_text, text_of, wrong_records
from actors.pipeline.sources.stretches import Finding, Reading, Span, Tail, stretches
from wire.crc import crc32

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SUMS_NAME: Final = "triolog_log_sums"
STRETCHES_NAME: Final = "triolog_log_stretches"
_DIGEST_BYTES: Final = 8
_NUMBERS: Final = (
    *("offset", "size", "bucket", "begin", "end", "digest"),
    *("receipt", "records", "bytes", "low", "high", "crc"),
)
SUMS: Final = pa.schema(
    [("node", pa.string()), ("damage", pa.string()), ("text", pa.binary())]
    + [(name, pa.int64()) for name in _NUMBERS]
)
Row = dict[str, Any]


# ---- adding up ----


def packed_receipts(stretches: Iterable[tuple[int, int]]) -> str:
    """Encode the first and last position of each receipt, in the order of numbers, as an option."""
    both = np.array(list(stretches), np.int64).reshape(-1, 2)
    steps = np.diff(both, axis=0, prepend=np.zeros((1, 2), np.int64))
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode()


@attrs.frozen(eq=False)
class Receipts:
    """The positions of receipts, ordered by their first position.

    Attributes:
        numbers, firsts, lasts: each receipt's number, first and last position.
        widest: the largest `last - first`.
    """

    numbers: Numbers
    firsts: Numbers
    lasts: Numbers
    widest: int

    @classmethod
    def of(cls, text: str) -> Receipts:
        """Decode a text of `packed_receipts`."""
        steps = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.int64).reshape(-1, 2)
        firsts, lasts = np.cumsum(steps, axis=0).T
        order = np.argsort(firsts, kind="stable")
        widest = int((lasts - firsts).max(initial=0))
        return cls(order, firsts[order], lasts[order], widest)

    def near(self, low: int, high: int) -> slice:
        """Return a slice with all receipts that may include a position from `low` to `high`."""
        return slice(
            int(np.searchsorted(self.firsts, low - self.widest)),
            int(np.searchsorted(self.firsts, high, "right")),
        )


@attrs.define(eq=False)
class _Piece:
    node: str
    bucket: int
    records: int
    bytes: int
    low: int
    high: int
    begin: int
    end: int
    digest: Any

    def row(self) -> Row:
        digest = int.from_bytes(self.digest.digest(), "big", signed=True)
        return {**attrs.asdict(self, recurse=False), "digest": digest}


@attrs.frozen(eq=False)
class _Good:
    """The records of a chunk without those that are damaged in themselves.

    Attributes:
        at, sizes: each record's position in `buf` and size in bytes.
        positions: the positions of the records, in rising order.
        is_whole: whether no record was left out, so that each begins where the one before ends.
    """

    chunk: Any
    node: str
    at: Numbers
    sizes: Numbers
    positions: Numbers
    bodies: Numbers | None
    is_whole: bool


@attrs.define
class Adding:
    """Adds up what is read of a log, chunk by chunk.

    Attributes:
        bits: see the module's text.
        receipts: the receipts whose records are added up; None: there are none.
    """

    form: Format
    bits: int
    receipts: Receipts | None
    _piece: _Piece | None = None

    def rows(self, items: Sequence[Span | Finding], reading: Reading) -> Iterator[list[Row]]:
        """Yield the rows of these parts of logs, some at a time."""
        for item in items:
            if isinstance(item, Finding):
                yield [*self._ended(), _damage(item)]
                continue
            for part in stretches(item, reading):
                assert not isinstance(part, Tail)
                if isinstance(part, Finding):
                    yield [*self._ended(), _damage(part)]
                else:
                    yield list(self._added(part, item.log.name))
        yield list(self._ended())

    def _added(self, chunk: Chunk, node: str) -> Iterator[Row]:
        yield from map(_damage, wrong_records(self.form, chunk, node))
        good = self._good(chunk, node)
        if len(good.at):
            yield from self._pieces(good)
            if self.receipts is not None:
                yield from _receipt_rows(good, self.receipts)

    def _good(self, chunk: Chunk, node: str) -> _Good:
        columns, wrong = self.form.columns, self.form.wrong(chunk)
        named = columns["index" if "index" in columns else "offset"]
        positions = named[1](chunk, node).to_numpy()
        bodies = None
        if self.receipts is not None:
            bodies = columns["body"][1](chunk, node).to_numpy(zero_copy_only=False)
        at, sizes = chunk.starts, chunk.sizes
        if wrong is not None:
            at, sizes, positions = at[~wrong], sizes[~wrong], positions[~wrong]
            bodies = None if bodies is None else bodies[~wrong]
        return _Good(chunk, node, at, sizes, positions, bodies, wrong is None)

    def _pieces(self, good: _Good) -> Iterator[Row]:
        buckets = good.positions >> self.bits
        cuts = (np.flatnonzero(np.diff(buckets)) + 1).tolist()
        view, position = memoryview(good.chunk.buf), good.chunk.position
        for first, behind in zip([0, *cuts], [*cuts, len(buckets)], strict=True):
            begin, end = int(good.at[first]), int(good.at[behind - 1] + good.sizes[behind - 1])
            low, high = int(good.positions[first]), int(good.positions[behind - 1])
            piece = self._piece
            key = good.node, int(buckets[first])
            if piece is None or (piece.node, piece.bucket) != key or piece.high >= low:
                yield from self._ended()
                digest = blake2b(digest_size=_DIGEST_BYTES)
                piece = _Piece(*key, 0, 0, low, high, begin + position, 0, digest)
                self._piece = piece
            piece.records += behind - first
            piece.bytes += int(good.sizes[first:behind].sum())
            piece.high, piece.end = high, end + position
            if good.is_whole:
                piece.digest.update(view[begin:end])
                continue
            for at, size in zip(good.at[first:behind], good.sizes[first:behind], strict=True):
                piece.digest.update(view[at : at + size])

    def _ended(self) -> Iterator[Row]:
        if self._piece is not None:
            yield self._piece.row()
        self._piece = None


def _damage(found: Finding) -> Row:
    return {
        "node": found.log,
        "offset": found.offset,
        "size": found.size,
        "damage": found.damage,
    }


def _receipt_rows(good: _Good, receipts: Receipts) -> Iterator[Row]:
    """Yield the parts of receipts that are in a chunk, and the records of no receipt."""
    positions, bodies = good.positions, good.bodies
    assert bodies is not None
    low, high = int(positions[0]), int(positions[-1])
    near = receipts.near(low, high)
    firsts, lasts = receipts.firsts[near], receipts.lasts[near]
    begins = np.searchsorted(positions, firsts)
    ends = np.searchsorted(positions, lasts, "right")
    total = np.concatenate([[0], np.cumsum(good.sizes)])
    count = len(positions)
    has = begins < ends
    is_inside = (firsts >= low) & (lasts <= high)
    chosen = zip(
        *(each[has].tolist() for each in (receipts.numbers[near], begins, ends, is_inside)),
        strict=True,
    )
    for number, begin, end, inside in chosen:
        text = b"\n".join(bodies[begin:end])
        yield {
            "node": good.node,
            "receipt": number,
            "records": end - begin,
            "bytes": int(total[end] - total[begin]),
            "low": int(positions[begin]),
            "high": int(positions[end - 1]),
            "crc": crc32(text) if inside else None,
            "text": None if inside else text,
        }
    opened = np.bincount(begins[has], minlength=count + 1)
    closed = np.bincount(ends[has], minlength=count + 1)
    others = np.cumsum(opened - closed)[:count] == 0
    if others.any():
        rest = positions[others]
        yield {
            "node": good.node,
            "records": len(rest),
            "bytes": int(good.sizes[others].sum()),
            "low": int(rest[0]),
            "high": int(rest[-1]),
        }


# ---- the data sources ----


def _given(options: MutableMapping[str, str], *own: str) -> tuple[Format, Options, list[str]]:
    """Return the format, the options of the logs, and the values of these; "" if not given."""
    given = dict(options)
    form = FORMATS[given.pop("form")]
    values = [given.pop(name, "") for name in own]
    read = read_options(given, tuple(form.columns), form.default, form.has_crc)
    return form, read, values


class LogSumsSource(DataSource):
    """See the module."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._form, self._read, (bits, self._receipts) = _given(options, "bits", "receipts")
        self._bits = int(bits)

    @classmethod
    def name(cls) -> str:
        return SUMS_NAME

    def schema(self) -> str:
        return text_of(SUMS)

    def reader(self, schema: StructType) -> LogSumsReader:
        return LogSumsReader(self._form.name, self._read, self._bits, self._receipts)


class LogSumsReader(LogReader):
    """Adds up all that is whole in the logs when the reading is planned."""

    def __init__(self, form: str, options: Options, bits: int, receipts: str) -> None:
        super().__init__(form, options)
        self._bits, self._receipts = bits, receipts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        form, options = FORMATS[self._form], self._options
        receipts = Receipts.of(self._receipts) if self._receipts else None
        reading = Reading(form, options.crc, options.record_bytes_max)
        for rows in Adding(form, self._bits, receipts).rows(partition.parts, reading):
            if rows:
                yield pa.RecordBatch.from_pylist(rows, SUMS)


class LogStretchesSource(DataSource):
    """See the module."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._form, self._read, (self._within,) = _given(options, "within")

    @classmethod
    def name(cls) -> str:
        return STRETCHES_NAME

    def schema(self) -> str:
        return schema_text(self._form, self._read.columns)

    def reader(self, schema: StructType) -> LogStretchesReader:
        return LogStretchesReader(self._form.name, self._read, json.loads(self._within))


class LogStretchesReader(LogReader):
    """Reads some ranges of the logs as rows."""

    def __init__(
        self, form: str, options: Options, within: Mapping[str, Sequence[tuple[int, int]]]
    ) -> None:
        super().__init__(form, options)
        self._within = within

    def partitions(self) -> Sequence[InputPartition]:
        form, options = FORMATS[self._form], self._options
        packs: list[InputPartition] = []
        for log in logs_at(options.paths, form.inner, options.nodes):
            folder = LogFolder(log)
            segments = folder.written(folder.segments())
            parts = [
                part
                for begin, end in self._within.get(log.name, ())
                for part in parts_of(log, segments, begin, end)
            ]
            packs += map(LogPartition, packed(parts, options.partition_bytes))
        return packs or [LogPartition(())]


def register(spark: SparkSession) -> None:
    """Make both sources known to a session."""
    spark.dataSource.register(LogSumsSource)
    spark.dataSource.register(LogStretchesSource)
