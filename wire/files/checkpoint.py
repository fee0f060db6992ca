"""The `checkpoint` file: up to where log, consume queues and index are surely flushed.

Upstream: apache/rocketmq, store/.../StoreCheckpoint.java, 5.5.0.

| Offset | Width | Type | Field                 | Meaning                                | Since |
|--------|-------|------|-----------------------|----------------------------------------|-------|
| 0      | 8     | long | log_ts                | store time of the last flushed record  |       |
| 8      | 8     | long | queue_ts              | the same for the consume queues        |       |
| 16     | 8     | long | index_ts              | end_ts of the last full index file     |       |
| 24     | 8     | long | master_flushed_offset | bytes; not used by the classic mode    | 5.0.0 |
| 32     | 8     | long | confirm_offset        | bytes; not used by the classic mode    | 5.1.1 |
| 40     | 8     | long | logics_offset         | the newest record whose unit was       | 5.5.0 |
|        |       |      |                       | flushed begins there; the queues hold  |       |
|        |       |      |                       | all before it                          |       |

Size: CHECKPOINT_BYTES = 4096, the rest zero. Older versions leave the later fields 0.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from wire.errors import LocalProtocolError, RemoteProtocolError

CHECKPOINT_BYTES: Final = 4096

_FIELDS = struct.Struct(">6q")


@attrs.frozen(kw_only=True)
class Checkpoint:
    """The six values of the file.

    Attributes:
        log_ts, queue_ts, index_ts: store timestamps in ms since 1970.
        master_flushed_offset, confirm_offset, logics_offset: offsets in bytes.
    """

    log_ts: int = 0
    queue_ts: int = 0
    index_ts: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    logics_offset: int = 0


_NAMES: Final = tuple(field.name for field in attrs.fields(Checkpoint))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode the whole file.

    Raises:
        LocalProtocolError: a value is no long.
    """
    try:
        fields = _FIELDS.pack(*attrs.astuple(checkpoint))
    except struct.error as error:
        raise LocalProtocolError(f"{checkpoint} is out of range: {error}") from None
    return fields.ljust(CHECKPOINT_BYTES, b"\0")


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Decode the values of a file.

    Raises:
        RemoteProtocolError: it does not hold all six values.
    """
    if len(data) < _FIELDS.size:
        raise RemoteProtocolError(f"a checkpoint has {CHECKPOINT_BYTES} bytes, not {len(data)}")
    return Checkpoint(**dict(zip(_NAMES, _FIELDS.unpack_from(data), strict=True)))
