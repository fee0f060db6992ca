"""Finds out whether the last record of a log is only half written, although its size is there.

Writers write upwards, one record after the other, so everything before the last record is whole.
The last record may have its head while the rest is still zeros.

| Format | The record is whole if |
|---|---|
| commit log | the CRC of its body is right, and its last byte, which is text, is not 0 |
| DLedger | its record is in the index, which is written behind the entry |

If a ledger has no index beside it, as in a copy of `data` alone, only its heads are judged.
"""

from __future__ import annotations

from typing import Final

from actors.pipeline.errors import SourceError
from actors.pipeline.sources.entry_chunk import Entries
from actors.pipeline.sources.log_files import Log, LogFolder, Segment
from actors.pipeline.sources.message_chunk import Messages
from wire.dledger.entry import INDEX_BYTES, INDEX_RECORD, MAGIC_NORMAL

_DATA: Final = "/data"
_INDEX: Final = "/index"


def message_unfinished(log: Log, last: Messages) -> str:
    """Return why the single record of `last` is not whole; "" if it is."""
    if last.wrong is not None:
        return "the CRC of the last record is wrong"
    has_text = bool(last.topic_bytes[0] or last.properties_bytes[0])
    at = -1 if last.properties_bytes[0] else int(last.topic_at[0] + last.topic_bytes[0]) - 1
    return "the last record ends in zeros" if has_text and last.buf[at] == 0 else ""


def entry_unfinished(log: Log, last: Entries) -> str:
    """Return why the single entry of `last` is not whole; "" if it is."""
    if not log.folder.endswith(_DATA):
        return ""
    folder = LogFolder(Log(log.name, log.folder.removesuffix(_DATA) + _INDEX))
    try:
        segments = folder.segments()
    except SourceError:
        return ""
    index = int(last.indexes[0])
    position, size, term = (
        int(last.starts[0]) + last.position,
        int(last.sizes[0]),
        int(last.terms[0]),
    )
    wanted = INDEX_RECORD.pack(MAGIC_NORMAL, position, size, index, term)
    if _read(folder, segments, index * INDEX_BYTES) == wanted:
        return ""
    return "the index does not have the last entry yet"


def _read(folder: LogFolder, segments: list[Segment], at: int) -> bytes:
    for segment in segments:
        if segment.start <= at < segment.end:
            try:
                with folder.open(segment) as file:
                    record: bytes = file.read_at(INDEX_BYTES, at - segment.start)
            except FileNotFoundError:
                break
            return record
    return b""
