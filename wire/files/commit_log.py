"""RocketMQ's store formats: file names, and a table of the modules that have the other parts.

| Module           | Knows                                                      |
|------------------|------------------------------------------------------------|
| `message_record` | the record's layout; one record at a time                  |
| `record_encoder` | many records into one buffer; the BLANK that ends a file   |
| `record_scan`    | which records a stretch of log holds, and where they stop  |
| `properties`     | property blocks, tags codes, Java's string hash            |
| `hosts`          | stored hosts, offset message ids                           |
| `consume_queue`, `index_file`, `checkpoint` | the derived files               |

Upstream: apache/rocketmq, store/.../MappedFileQueue.java and UtilAll.offset2FileName, 5.3.3.
"""

from __future__ import annotations

from typing import Final

from wire.errors import LocalProtocolError
from wire.files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from wire.files.hosts import Host, decode_message_id, encode_message_id
from wire.files.message_record import (
    BODY_BYTES_MAX,
    RECORD_BYTES_MAX,
    Record,
    decode_record,
    encode_record,
    has_queue_unit,
)
from wire.files.properties import (
    decode_properties,
    encode_properties,
    java_string_hash,
    queue_tags_code,
    tags_code,
)
from wire.files.record_encoder import BLANK_BYTES, RecordEncoder, encode_blank, fits_in_segment
from wire.files.record_scan import RecordHead, begins_record, scan, scan_heads
from wire.files.scanned import Scanned, Stop

__all__ = [
    "BLANK_BYTES",
    "BODY_BYTES_MAX",
    "RECORD_BYTES_MAX",
    "SEGMENT_BYTES",
    "SEGMENT_NAME_DIGITS",
    "Checkpoint",
    "Host",
    "Record",
    "RecordEncoder",
    "RecordHead",
    "Scanned",
    "Stop",
    "begins_record",
    "decode_checkpoint",
    "decode_message_id",
    "decode_properties",
    "decode_record",
    "encode_blank",
    "encode_checkpoint",
    "encode_message_id",
    "encode_properties",
    "encode_record",
    "fits_in_segment",
    "has_queue_unit",
    "java_string_hash",
    "queue_tags_code",
    "scan",
    "scan_heads",
    "segment_name",
    "segment_offset",
    "tags_code",
]

SEGMENT_BYTES: Final = 1 << 30  # mappedFileSizeCommitLog's default; equal on all nodes of a group
SEGMENT_NAME_DIGITS: Final = 20


def segment_name(offset: int) -> str:
    """Return the name of the file whose first byte is at `offset`: 20 decimal digits.

    Raises:
        LocalProtocolError: `offset` is no long >= 0.
    """
    if not 0 <= offset < 2**63:
        raise LocalProtocolError(f"a file cannot begin at {offset}")
    return f"{offset:0{SEGMENT_NAME_DIGITS}d}"


def segment_offset(name: str) -> int | None:
    """Return the offset in a file's name; None for any other name."""
    if len(name) != SEGMENT_NAME_DIGITS or not (name.isascii() and name.isdigit()):
        return None
    offset = int(name)
    return offset if offset < 2**63 else None
