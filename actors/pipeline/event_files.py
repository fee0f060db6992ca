"""Event files as Spark's workers read them: one pass over a file, and nothing lost without a word.

A file is `DATA_DIR/NODE/events/v=1/dt=DAY/node=NODE/BOOT-SEQ.jsonl.gz`: gzip members, each some
hundred lines of JSON. Spark's own reader fails a whole job where a file is cut short, or hides it;
this one gives what is readable and a row that says what is wrong.

Plain functions of bytes; the last one is what `DataFrame.mapInArrow` wants.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
import pyarrow.fs

FORMAT = "v=1"
SUFFIXES = (".jsonl.gz", ".jsonl")
ROWS_MAX = 20_000
"""Lines of one Arrow batch: some 3 MB."""
UNPACKED_MAX = 1 << 30
"""Of one file, which has 50,000 lines: damage may unpack to a thousand times its size."""

LINES = "file string, line_number bigint, line string, problem string"
"""Rows that `read_files` gives. A row has a line or, last of its file, the file's problem."""
_LINES = pa.schema(
    [
        ("file", pa.string()),
        ("line_number", pa.int64()),
        ("line", pa.string()),
        ("problem", pa.string()),
    ]
)
_GZIP = b"\x1f\x8b"
_WBITS_GZIP = 31


@attrs.frozen(kw_only=True)
class Unpacked:
    """The content of an event file.

    Attributes:
        data: all that is readable, to the last byte.
        problem: what is wrong with the rest, for people; "" if there is none.
    """

    data: bytes
    problem: str


def unpack(raw: bytes, unpacked_max: int = UNPACKED_MAX) -> Unpacked:
    """Gzip of one or many members, or plain lines. Never raises: see `Unpacked.problem`."""
    if not raw.startswith(_GZIP):
        return Unpacked(data=raw, problem="" if raw else "the file is empty")
    pieces: list[bytes] = []
    at, room = 0, unpacked_max
    while at < len(raw):
        if not raw.startswith(_GZIP, at):
            return _broken(pieces, at, raw, "no gzip member begins there")
        unpacker = zlib.decompressobj(_WBITS_GZIP)
        try:
            pieces.append(unpacker.decompress(raw[at:] if at else raw, room))
        except zlib.error as error:
            return _broken(pieces, at, raw, str(error).split(": ")[-1])
        room -= len(pieces[-1])
        if not unpacker.eof:
            full = bool(unpacker.unconsumed_tail) or room <= 0
            why = f"more than {unpacked_max} bytes unpacked" if full else "it ends too early"
            return _broken(pieces, at, raw, why)
        at = len(raw) - len(unpacker.unused_data)
    return Unpacked(data=b"".join(pieces), problem="")


def _broken(pieces: list[bytes], at: int, raw: bytes, why: str) -> Unpacked:
    problem = f"damaged in the gzip member at byte {at} of {len(raw)}: {why}"
    return Unpacked(data=b"".join(pieces), problem=problem)


def lines_of(raw: bytes) -> tuple[list[str], str]:
    """The lines of a file, without newlines, and what is wrong with it.

    A last line without its newline is half written: it is a line too, for it can be read, or it
    will be counted as one that cannot. Bytes that are no UTF-8 become U+FFFD.
    """
    unpacked = unpack(raw)
    text = unpacked.data.decode(errors="replace")
    problem = unpacked.problem
    if text and not text.endswith("\n"):
        problem = problem or "the last line has no end"
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines, problem


def read_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Files -> lines, in a worker.

    Args:
        batches: with the column `path`, as Spark names files.

    Returns: batches of `LINES`.
    """
    for batch in batches:
        for path in batch.column("path").to_pylist():
            yield from _rows(path, *lines_of(read_bytes(path)))


def read_bytes(path: str) -> bytes:
    """A whole file, wherever it is. Raises: OSError."""
    system, name = system_of(path)
    with system.open_input_file(name) as file:
        return bytes(file.read())


def system_of(path: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a path or URI and the name there.

    Spark writes file:/x for file:///x, and leaves spaces and percent signs as they are.
    """
    if path.startswith("file:/"):
        return pyarrow.fs.LocalFileSystem(), f"/{path.removeprefix('file:').lstrip('/')}"
    if "://" not in path:
        return pyarrow.fs.LocalFileSystem(), path
    found: tuple[pyarrow.fs.FileSystem, str] = pyarrow.fs.FileSystem.from_uri(path)
    return found


def _rows(path: str, lines: list[str], problem: str) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(lines), ROWS_MAX):
        part = lines[start : start + ROWS_MAX]
        numbers = list(range(start + 1, start + len(part) + 1))
        yield _batch(path, numbers, part, None)
    if problem:
        yield _batch(path, [len(lines) + 1], [None], problem)


def _batch(
    path: str, numbers: list[int], lines: list[str] | list[None], problem: str | None
) -> pa.RecordBatch:
    count = len(numbers)
    columns = [
        pa.array([path] * count, pa.string()),
        pa.array(numbers, pa.int64()),
        pa.array(lines, pa.string()),
        pa.array([problem] * count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_LINES)
