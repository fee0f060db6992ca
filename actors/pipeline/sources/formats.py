"""The differences between the two formats, for all that reads them.

| | rocketmq_commitlog | dledger_store |
|---|---|---|
| folder in a store root | commitlog | data |
| a record's own check | CRC of its body | none |
| the last record is whole | see `unfinished` | see `unfinished` |
| follows from the one before | nothing | index and term |
| logs are aligned by | store time | index |
| may begin inside a file, behind a BLANK | no | yes |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import attrs
import pyarrow as pa

from actors.pipeline.sources.cells import Numbers
from actors.pipeline.sources.entry_chunk import (
    ENTRY_COLUMNS,
    ENTRY_DEFAULT,
    Behind,
    entry_candidates,
    find_entries,
)
from actors.pipeline.sources.log_files import Log
from actors.pipeline.sources.message_chunk import (
    MESSAGE_COLUMNS,
    MESSAGE_DEFAULT,
    find_messages,
    message_candidates,
)
from actors.pipeline.sources.unfinished import entry_unfinished, message_unfinished
from wire.files.scanned import Scanned


class Chunk(Protocol):
    """Whole records that follow each other in one piece of a file."""

    @property
    def position(self) -> int: ...
    @property
    def starts(self) -> Numbers: ...
    @property
    def sizes(self) -> Numbers: ...
    @property
    def times(self) -> Numbers: ...
    @property
    def scanned(self) -> Scanned: ...


Columns: TypeAlias = Mapping[str, tuple[pa.DataType, Callable[[Any, str], pa.Array]]]


@attrs.frozen(kw_only=True)
class Format:
    """One format.

    Attributes:
        name: the name for `format(NAME)`.
        inner: the log's folder in a store root.
        has_crc: whether the option crc has a meaning.
        has_blank_heads: whether a file may begin with a BLANK that records follow.
        columns, default: all columns, and those without the option columns.
        find: finds the records of a piece, see `find_messages`; the fourth argument is what the
            first record must follow.
        follow: returns what the next piece must follow.
        wrong: returns the records of a piece that are damaged in themselves.
        candidates: returns where records may begin, see `message_candidates`.
        unfinished: returns why the last record of a log, alone in its piece, is not whole; "" if it
            is.
        size_at: where in a record the four bytes of its size are.
    """

    name: str
    inner: str
    has_crc: bool
    has_blank_heads: bool
    columns: Columns
    default: tuple[str, ...]
    find: Callable[[bytes, int, bool, Behind, int], Chunk]
    follow: Callable[[Any, Behind], Behind]
    wrong: Callable[[Any], Numbers | None]
    candidates: Callable[[bytes, int], list[int]]
    unfinished: Callable[[Log, Any], str]
    size_at: int


def _follow_entries(chunk: Any, behind: Behind) -> Behind:
    if not len(chunk.starts):
        return behind
    return Behind(int(chunk.indexes[-1]), int(chunk.terms[-1]))


COMMIT_LOG: Final = Format(
    name="rocketmq_commitlog",
    inner="commitlog",
    has_crc=True,
    has_blank_heads=False,
    columns=MESSAGE_COLUMNS,
    default=MESSAGE_DEFAULT,
    find=lambda buf, position, crc, _, size_max: find_messages(
        buf, position, crc=crc, size_max=size_max
    ),
    follow=lambda _, behind: behind,
    wrong=lambda chunk: chunk.wrong,
    candidates=message_candidates,
    unfinished=message_unfinished,
    size_at=0,
)
DLEDGER: Final = Format(
    name="dledger_store",
    inner="data",
    has_crc=False,
    has_blank_heads=True,
    columns=ENTRY_COLUMNS,
    default=ENTRY_DEFAULT,
    find=lambda buf, position, _, behind, __: find_entries(buf, position, behind),
    follow=_follow_entries,
    wrong=lambda _: None,
    candidates=entry_candidates,
    unfinished=entry_unfinished,
    size_at=4,
)
FORMATS: Final = {each.name: each for each in (COMMIT_LOG, DLEDGER)}
