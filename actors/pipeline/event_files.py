"""Reads event files in Spark's workers, in one pass over each, and reports all that is lost.

A file is `DATA_DIR/NODE/events/v=1/dt=DAY/node=NODE/BOOT-SEQ.jsonl.gz`: gzip members, each some
hundred lines of JSON. Spark's own reader fails a whole job where a file is cut short, or hides it;
this one gives what is readable and a row that says what is wrong.

Plain functions of bytes.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeAlias

import attrs
import msgspec
import pyarrow as pa
import pyarrow.fs

FORMAT = "v=1"
ROWS_MAX = 20_000
"""How many lines an Arrow batch has: some 3 MB."""
UNPACKED_MAX = 1 << 30
"""The most unpacked bytes of one file, which has 50,000 lines; damaged bytes may unpack to a
thousand times their size."""
PIECE_BYTES = 1 << 20
"""How many bytes are unpacked at a time: some 5,000 lines; the shortest lines have 20 bytes."""
INPUT_BYTES = 64 << 10
"""How many bytes of a file are given to zlib at a time."""
LINE_BYTES_MAX = 1 << 20
"""The longest line: an event names a few things, each of some hundred characters."""
_SHORTEST = '{"node":"","boot":1,"seq":1,"path":"","incarnation":0,"ts_us":1,"kind":"K"}'
SHORT_LINES_MAX = 1000
"""How many lines of a file may be too short for an envelope, as each becomes a row. A file with
more is no event log, and 64 KiB of zipped newlines are 64 million lines.
"""

NO_JSON = "not a line of JSON"
NO_EVENT = "not an event"
EMPTY = "the file is empty"
NO_FILE = "a folder, or what else is no file, in the place of an event file"

ROWS = pa.schema(
    [
        ("node", pa.string()),
        ("boot", pa.int64()),
        ("seq", pa.int64()),
        ("path", pa.string()),
        ("incarnation", pa.int64()),
        ("ts_us", pa.int64()),
        ("kind", pa.string()),
        ("line", pa.string()),
        ("day", pa.string()),
        ("problem", pa.string()),
        ("file", pa.string()),
        ("line_number", pa.int64()),
    ]
)
"""The columns of `rows_of`. A row is an event, a line that is none, or as the last one the file's
problem. Only the latter two have their file, because a path in each row would double the data.
"""
_DAY = re.compile(r"/dt=([^/]*)/")
_GZIP = b"\x1f\x8b"
_WBITS_GZIP = 31

NO_GROUPS: Final = ("api", "event_log", "events", "rpc")
"""The parts of a node whose paths have them where others have their group, /n0/GROUP/..."""
ABOVE_GROUPS: Final = ("roles", "owners", "replicas", "broker.registrars")
"""The parts of a node that have one part for each group, /n0/roles/GROUP/..."""
NUMBER_MAX: Final = 2**62
"""The largest boot, seq, number or position; a larger one is damage. The difference of two fits
into 64 bits."""
MOMENT_MAX_US: Final = 2**57
"""The latest time, in the year 6536; a later one is damage. Spark and calendars end in the year
9999.
"""
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOMENT_MAX_US)]
Kind: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}\Z")]
"""The name of an event's class, in ASCII. Silver has a folder for each, whose name no disk allows
to be above 255 bytes, and Spark takes "" and __HIVE_DEFAULT_PARTITION__ for null.
"""


class _Head(msgspec.Struct, frozen=True, gc=False):
    """The envelope, with the ranges of its columns. Spark's JSON reader is five times as slow."""

    node: str
    boot: Number
    seq: Number
    path: str
    incarnation: Number
    ts_us: Moment
    kind: Kind


_decode = msgspec.json.Decoder(_Head).decode
_NOTHING = (None,) * len(_Head.__struct_fields__)


@attrs.frozen(kw_only=True)
class Part:
    """Some of a file's lines, without newlines, in order.

    Attributes:
        problem: what is wrong with the rest of the file, for people; "" if nothing is.
        is_cut: whether the last of these lines is half written; it may be readable nevertheless.
    """

    lines: list[str]
    problem: str = ""
    is_cut: bool = False


def parts_of(raw: bytes, unpacked_max: int = UNPACKED_MAX) -> Iterator[Part]:
    """Yield a file's lines, of gzip with one or more members, or of plain text.

    It never raises, see `Part.problem`. Beside `raw` it holds only one unpacked piece of
    PIECE_BYTES. Bytes that are no UTF-8 become U+FFFD.
    """
    pieces, rest, short = _pieces(raw, unpacked_max), b"", 0
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            problem = end.value
            break
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        lines = whole.decode(errors="replace").split("\n") if newline else []
        for start in range(0, len(lines), ROWS_MAX):
            part = lines[start : start + ROWS_MAX]
            short += sum(len(line) < len(_SHORTEST) for line in part)
            yield Part(lines=part)
            if short > SHORT_LINES_MAX:
                yield Part(lines=[], problem=f"more than {SHORT_LINES_MAX} lines hold no event")
                return
        if len(rest) > LINE_BYTES_MAX:
            yield Part(lines=[], problem=f"a line is longer than {LINE_BYTES_MAX} bytes")
            return
    if rest:
        cut = [rest.decode(errors="replace")]
        yield Part(lines=cut, problem=problem or "the last line has no end", is_cut=True)
    elif problem:
        yield Part(lines=[], problem=problem)


def _pieces(raw: bytes, unpacked_max: int) -> Generator[bytes, None, str]:
    """Yield the unpacked pieces, in order; return what is wrong with the rest."""
    if not raw.startswith(_GZIP):
        yield from (raw[at : at + PIECE_BYTES] for at in range(0, len(raw), PIECE_BYTES))
        return "" if raw else EMPTY
    view, at, room = memoryview(raw), 0, unpacked_max
    while at < len(raw):
        where = f"damaged in the gzip member at byte {at} of {len(raw)}"
        if not raw.startswith(_GZIP, at):
            return f"{where}: no gzip member begins there"
        unpacker = zlib.decompressobj(_WBITS_GZIP)
        while not unpacker.eof:
            fed = unpacker.unconsumed_tail
            if not fed:  # in pieces, because zlib copies all that follows a member
                fed = bytes(view[at : at + INPUT_BYTES])
                at += len(fed)
            try:
                piece = unpacker.decompress(fed, PIECE_BYTES)
            except zlib.error as error:
                return f"{where}: {str(error).split(': ')[-1]}"
            if not piece and not fed:
                return f"{where}: it ends too early"
            if piece:
                yield piece[:room]
            room -= len(piece)
            if room < 0:
                return f"{where}: more than {unpacked_max} bytes unpacked"
        at -= len(unpacker.unused_data)
    return ""


def lines_of(raw: bytes) -> Iterator[str]:
    """Yield the lines of a file, for a caller that counts no damage."""
    return itertools.chain.from_iterable(part.lines for part in parts_of(raw))


def read_files(paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yield the lines of files, named as by Spark, as batches of `ROWS`. Raises: OSError."""
    for path in paths:
        yield from rows_of(path, parts_of(read_bytes(path)))


def read_bytes(path: str) -> bytes:
    """Read a whole file of any file system. Raises: OSError."""
    system, name = system_of(path)
    with system.open_input_file(name) as file:
        return bytes(file.read())


def system_of(path: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a path or URI, and the name there.

    Spark writes file:/x for file:///x, and leaves spaces and percent signs as they are.
    """
    if path.startswith("file:/"):
        return pyarrow.fs.LocalFileSystem(), f"/{path.removeprefix('file:').lstrip('/')}"
    if "://" not in path:
        return pyarrow.fs.LocalFileSystem(), path
    found: tuple[pyarrow.fs.FileSystem, str] = pyarrow.fs.FileSystem.from_uri(path)
    return found


def rows_of(path: str, parts: Iterable[Part]) -> Iterator[pa.RecordBatch]:
    """Yield the lines of the file `path`, and what is wrong with it, as batches of `ROWS`.

    If the last line is half written and therefore no event, it and the file's problem are one row.
    """
    number = 1
    for part in parts:
        problem = part.problem
        if part.lines:
            heads, problems = map(list, zip(*map(_head, part.lines), strict=True))
            if part.is_cut and problems[-1] is not None:
                problems[-1], problem = problem, ""
            following = number + len(part.lines)
            yield _batch(path, heads, part.lines, problems, range(number, following))
            number = following
        if problem:
            yield _batch(path, [_NOTHING], [None], [problem], [number])


def _head(line: str) -> tuple[tuple[Any, ...], str | None]:
    """Return the envelope's values and None; or no values, and why the line is no event."""
    try:
        return msgspec.structs.astuple(_decode(line)), None
    except msgspec.ValidationError:
        return _NOTHING, NO_EVENT
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOTHING, NO_JSON


def first_us(head: bytes) -> int | None:
    """Return the time of a file's first event, from the file's first bytes; None if it has none."""
    try:
        return _decode(next(lines_of(head), "")).ts_us
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _batch(
    path: str,
    heads: Sequence[tuple[Any, ...]],
    lines: Sequence[str | None],
    problems: Sequence[str | None],
    numbers: Iterable[int],
) -> pa.RecordBatch:
    found = _DAY.search(path)
    days = [found[1] if found is not None else ""] * len(lines)
    files = [path if problem else None for problem in problems]
    places = [at if problem else None for at, problem in zip(numbers, problems, strict=True)]
    columns = [*zip(*heads, strict=True), lines, days, problems, files, places]
    arrays = [pa.array(each, field.type) for each, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)
