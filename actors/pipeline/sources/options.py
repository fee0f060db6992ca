"""The options of a source, `.option(KEY, VALUE)`, all of them text, which are read strictly.

| Key | Value | Default |
|---|---|---|
| path | a store root, or a pattern; `load` takes it, several with commas | |
| node | names of the logs, with commas | from the paths |
| from | earliest, latest (streams) or a record's offset; of later logs always earliest | earliest |
| crc | whether to compare the CRC of each body (commit log) | true |
| damage | count: rows that say it in their column `damage`; fail: an error that names it | count |
| columns | those wanted, with commas, or `*`: Spark cannot tell a source which it needs | some |
| partition_bytes | bytes of a partition, about | 128 MiB |
| batch_bytes | bytes of a micro-batch, all logs together; 0: no limit | 256 MiB |
| hold | looks without anything new in a log, after which it no longer holds back the others | 3 |
| record_bytes_max | largest record (commit log) | 4 MiB + 64 KiB |
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from actors.pipeline.errors import SourceError
from wire.files.message_record import RECORD_BYTES_MAX

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BATCH_BYTES: Final = 256 << 20
PARTITION_BYTES: Final = 128 << 20
HOLD: Final = 3
_INT_MAX: Final = 2**63 - 1
_RECORD_BYTES_MAX: Final = 1 << 30
"""The largest record that the option allows: above upstream's largest file, below Arrow's buffers.
"""
_KEYS: Final = (
    "path", "paths", "node", "from", "crc", "damage", "columns", "partition_bytes", "batch_bytes",
    "hold", "record_bytes_max",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Options:
    """See the module's table.

    Attributes:
        start: EARLIEST, LATEST or an offset in bytes.
        fail: whether damage is an error.
    """

    paths: tuple[str, ...]
    nodes: tuple[str, ...]
    start: str | int
    crc: bool
    fail: bool
    columns: tuple[str, ...]
    partition_bytes: int
    batch_bytes: int
    hold: int
    record_bytes_max: int


def read_options(
    given: Mapping[str, str], known: Sequence[str], default: Sequence[str], has_crc: bool
) -> Options:
    """Return the options as given.

    Args:
        given: the values by key, in upper or lower case.
        known, default: all columns, and those without the option columns.
        has_crc: whether the format has a CRC.

    Raises:
        SourceError: a key or value is unknown.
    """
    options = {key.lower(): value for key, value in given.items()}
    for key in options:
        if key not in _KEYS or (key == "crc" and not has_crc):
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f": did you mean {near[0]}?" if near and near[0] != key else ""
            raise SourceError(f"option {key} is unknown{hint}")
    columns = tuple(_words(options.get("columns", ""))) or tuple(default)
    if columns == ("*",):
        columns = tuple(known)
    for column in columns:
        if column not in known:
            raise SourceError(f"option columns: {column!r} is none of {', '.join(known)}")
        if columns.count(column) > 1:
            raise SourceError(f"option columns: {column!r} twice")
    damage = options.get("damage", "count")
    if damage not in ("count", "fail"):
        raise SourceError(f"option damage: expected count or fail, found {damage!r}")
    return Options(
        paths=_paths(options),
        nodes=tuple(_words(options.get("node", ""))),
        start=_start(options.get("from", EARLIEST)),
        crc=has_crc and _flag(options, "crc"),
        fail=damage == "fail",
        columns=columns,
        partition_bytes=_number(options, "partition_bytes", PARTITION_BYTES, least=1),
        batch_bytes=_number(options, "batch_bytes", BATCH_BYTES, least=0),
        hold=_number(options, "hold", HOLD, least=0),
        record_bytes_max=_number(
            options, "record_bytes_max", RECORD_BYTES_MAX, least=128, most=_RECORD_BYTES_MAX
        ),
    )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    if "paths" in options:  # load(["a", "b"]): Spark hands over a JSON list
        return tuple(json.loads(options["paths"]))
    paths = tuple(_words(options.get("path", "")))
    if not paths:
        raise SourceError("no path: which store? load(PATH) or option path")
    return paths


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _start(text: str) -> str | int:
    if text in (EARLIEST, LATEST):
        return text
    if text.isdecimal() and text.isascii() and int(text) <= _INT_MAX:
        return int(text)
    raise SourceError(f"option from: expected earliest, latest or an offset, found {text!r}")


def _flag(options: Mapping[str, str], key: str) -> bool:
    text = options.get(key, "true").lower()
    if text not in ("true", "false"):
        raise SourceError(f"option {key}: expected true or false, found {text!r}")
    return text == "true"


def _number(
    options: Mapping[str, str], key: str, default: int, *, least: int, most: int = _INT_MAX
) -> int:
    text = options.get(key)
    if text is None:
        return default
    if not (text.isdecimal() and text.isascii()) or not least <= int(text) <= most:
        raise SourceError(f"option {key}: expected a number from {least} to {most}, found {text!r}")
    return int(text)
