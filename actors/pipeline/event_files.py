"""Event files as Spark's workers read them: one pass over a file, and nothing lost without a word.

A file is `DATA_DIR/NODE/events/v=1/dt=DAY/node=NODE/BOOT-SEQ.jsonl.gz`: gzip members, each some
hundred lines of JSON. Spark's own reader fails a whole job where a file is cut short, or hides it;
this one gives what is readable and a row that says what is wrong.

Plain functions of bytes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, TypeAlias

import attrs
import msgspec
import pyarrow as pa
import pyarrow.fs

FORMAT = "v=1"
ROWS_MAX = 20_000
"""Lines of one Arrow batch: some 3 MB."""
UNPACKED_MAX = 1 << 30
"""Of one file, which has 50,000 lines: damage may unpack to a thousand times its size."""

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
"""Of `rows_of`: an event, a line that is none, or last the file's own problem. Only the latter two
say where they were read: a path in each row is half of what there is to move.
"""
_DAY = re.compile(r"/dt=([^/]*)/")
_GZIP = b"\x1f\x8b"
_WBITS_GZIP = 31

NUMBER_MAX: Final = 2**62
"""Of boots, seqs, numbers and places; more is damage, and two of them apart fit into 64 bits."""
MOMENT_MAX_US: Final = 2**57
"""In the year 6536; more is damage, and what Spark and calendars count with ends in the year 9999.
"""
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOMENT_MAX_US)]
Kind: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}\Z")]
"""A class's name, in ASCII: silver has a folder for each, no disk takes more than 255 bytes for its
name, and Spark takes "" and __HIVE_DEFAULT_PARTITION__ for null.
"""


class _Head(msgspec.Struct, frozen=True, gc=False):
    """The envelope, as columns hold it. Spark's JSON reader takes five times as long for it."""

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
        return Unpacked(data=raw, problem="" if raw else EMPTY)
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

    A last line without its newline is half written: it is a line too, for it may be readable. Bytes
    that are no UTF-8 become U+FFFD.
    """
    return _content_of(raw)[:2]


def _content_of(raw: bytes) -> tuple[list[str], str, bool]:
    """As `lines_of`, and whether the last line is half written."""
    unpacked = unpack(raw)
    text = unpacked.data.decode(errors="replace")
    problem = unpacked.problem
    is_cut = bool(text) and not text.endswith("\n")
    if is_cut:
        problem = problem or "the last line has no end"
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines, problem, is_cut


def read_files(paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The lines of files, as Spark names them: batches of `ROWS`. Raises: OSError."""
    for path in paths:
        yield from rows_of(path, *_content_of(read_bytes(path)))


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


def rows_of(
    path: str, lines: list[str], problem: str = "", is_cut: bool = False
) -> Iterator[pa.RecordBatch]:
    """The lines of the file `path`, and what is wrong with it, as batches of `ROWS`.

    Args:
        is_cut: the last line is half written. If that is why it is no event, the file's problem is
            that line's: they are one.
    """
    for start in range(0, len(lines), ROWS_MAX):
        part = lines[start : start + ROWS_MAX]
        heads, problems = map(list, zip(*map(_head, part), strict=True))
        if is_cut and start + len(part) == len(lines) and problems[-1] is not None:
            problems[-1], problem = problem, ""
        numbers = range(start + 1, start + len(part) + 1)
        yield _batch(path, heads, part, problems, numbers)
    if problem:
        yield _batch(path, [_NOTHING], [None], [problem], [len(lines) + 1])


def _head(line: str) -> tuple[tuple[Any, ...], str | None]:
    """The envelope's values and None, or nothing and why."""
    try:
        return msgspec.structs.astuple(_decode(line)), None
    except msgspec.ValidationError:
        return _NOTHING, NO_EVENT
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOTHING, NO_JSON


def first_us(head: bytes) -> int | None:
    """The time of a file's first event, from the first bytes of the file; None: that is none."""
    line, _, _ = unpack(head).data.partition(b"\n")
    try:
        return _decode(line).ts_us
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
