"""Bytes of the commit log -> the records that a reader gets."""

from __future__ import annotations

from actors.log_types import Record
from wire.message_record import decode_record
from wire.properties import KEYS, TAGS
from wire.record_scan import scan


def to_records(data: bytes, position: int) -> tuple[Record, ...]:
    """The records of `data`, which holds whole ones and begins at `position` of the log.

    Raises: RemoteProtocolError for a record that fails its CRC (the disk's fault).
    """
    found, stopped = scan(data, physical_offset=position, check_crc=False, size_max=len(data))
    assert stopped.end == len(data), stopped  # PulledIsWholeRecords
    return tuple(_to_record(data, at, size, position + at) for at, size in found)


def _to_record(data: bytes, at: int, size: int, position: int) -> Record:
    record = decode_record(data, at, size_max=size)
    properties = dict(record.properties_map)
    tags = properties.pop(TAGS, "")
    keys = properties.pop(KEYS, "")
    return Record(
        position=position,
        next_position=position + size,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        body=record.body,
        tags=tags,
        keys=tuple(keys.split()),
        properties=tuple(properties.items()),
        store_timestamp_ms=record.store_ts,
        born_timestamp_ms=record.born_ts,
    )
