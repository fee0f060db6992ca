"""Prints the records of a classic group's log as JSON lines.

| Key | Type | Meaning |
|---|---|---|
| offset, size_bytes | int | the record's position in the log, and its length |
| version | int | version of the record's layout, 1 or 2 |
| topic, queue_id, queue_offset | str, int, int | its queue, and its number in the queue |
| store_timestamp_ms, store_host | int, str | when and where the master stored it |
| born_timestamp_ms, born_host | int, str | when and where it was made |
| tags, keys | str, list of str | the tags that filter it, the keys that find it |
| properties | object | all other properties |
| flag, sys_flag, reconsume_times, prepared_transaction_offset | int | as stored |
| body | str | the payload: text, or Base64 where it is not UTF-8 |
| body_encoding | str | "utf-8" or "base64": which of the two |

It only reads, and does not stop at damage: records behind the damage are printed too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.readable import readable_json
from actors.storage.commitlog.recovery import Ending, FileEnd
from actors.storage.files.stepping import Running, Step, Work
from actors.storage.log.commit_log import segment_path
from actors.storage.tools.commitlog.walk import Piece, read_file
from actors.storage.tools.stores import GroupStore, bytes_to_read, log_bases
from wire.files.commit_log import RecordHead, decode_record, scan_heads
from wire.files.properties import KEYS, TAGS


@attrs.frozen(kw_only=True)
class Wanted:
    """Which records are printed. None: any.

    Attributes:
        start: only records that begin at this offset or later.
        topic, queue_id: only records of this topic, of this queue.
        key: only records that have this key.
        count_max: how many records at most.
    """

    start: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    key: str | None = None
    count_max: int | None = None

    def takes(self, head: RecordHead) -> bool:
        """Whether a record is wanted, apart from `count_max`."""
        return (
            (self.start is None or head.physical_offset >= self.start)
            and (self.topic is None or head.topic == self.topic)
            and (self.queue_id is None or head.queue_id == self.queue_id)
            and (self.key is None or self.key == head.uniq_key or self.key in head.keys.split(" "))
        )


@attrs.define
class Dumped:
    """The result of a dump.

    Attributes:
        records: how many lines were written.
        expired: how many files a running node deleted before they were read.
        problems: where records could not be read, one line each.
    """

    records: int = 0
    expired: int = 0
    problems: list[str] = attrs.field(factory=list)


def dump_store(
    disk: Disk,
    store: GroupStore,
    wanted: Wanted,
    write: Callable[[bytes], object],
    limit: int | None = None,
    more: Callable[[int], dict[str, Any]] = lambda offset: {},
) -> Work[Dumped]:
    """Call `write` with lines of the wanted records, many at a time.

    Args:
        limit: nothing from this offset on is read.
        more: gives further keys of the record at an offset.

    Raises: ConfigError: the wanted start is outside of the log. OSError, also from `write`.
    """
    done = Dumped()
    bases = _from_start(list(log_bases(disk, store)), store, wanted.start)
    total, at = bytes_to_read(disk, store, bases, limit), 0
    for base in bases:
        if limit is not None and base >= limit:
            break
        reading = Running(read_file(disk, store, base, limit=limit))
        try:
            for piece in reading:
                at += sum(piece.found[-1])
                write(_lines(piece, wanted, done, store.record_bytes_max, more))
                yield Step(f"{store.name}: dump", at, max(at, total))
                if wanted.count_max is not None and done.records >= wanted.count_max:
                    return done
            _note_end(store, reading.result, done)
        except FileNotFoundError:
            done.expired += 1
    return done


def _from_start(bases: list[int], store: GroupStore, start: int | None) -> list[int]:
    if start is None or not bases:
        return bases
    first, end = bases[0], bases[-1] + store.segment_bytes
    if not first <= start <= end:
        raise ConfigError(f"--from: expected an offset from {first} to {end}, found {start}")
    return [base for base in bases if base + store.segment_bytes > start]


def _note_end(store: GroupStore, end: FileEnd, done: Dumped) -> None:
    if end.ending is Ending.BAD:
        path = segment_path(store.layout.commit_log, end.base)
        done.problems.append(
            f"{path}: offset {end.at_bytes}: {end.reason}: damage, or a torn end (check says which)"
        )


def _lines(
    piece: Piece,
    wanted: Wanted,
    done: Dumped,
    size_max: int,
    more: Callable[[int], dict[str, Any]],
) -> bytes:
    at, size = piece.found[-1]
    heads, _ = scan_heads(piece.data, 0, at + size, physical_offset=piece.offset, size_max=size_max)
    out = []
    for (at, _), head in zip(piece.found, heads, strict=True):
        if done.records == wanted.count_max:
            break
        if wanted.takes(head):
            fields = _fields(piece.data, at, size_max) | more(head.physical_offset)
            out.append(readable_json(msgspec.json.encode(fields)))
            done.records += 1
    return b"\n".join([*out, b""])


def _fields(data: bytes, at: int, size_max: int) -> dict[str, Any]:
    record = decode_record(data, at, check_crc=False, size_max=size_max)
    properties = dict(record.properties_map)
    tags, keys = properties.pop(TAGS, ""), properties.pop(KEYS, "")
    return {
        "offset": record.physical_offset,
        "size_bytes": record.size,
        "version": record.version,
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "store_timestamp_ms": record.store_ts,
        "store_host": _host(record.store_host),
        "born_timestamp_ms": record.born_ts,
        "born_host": _host(record.born_host),
        "tags": tags,
        "keys": keys.split(),
        "properties": properties,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        **body_fields(record.body),
    }


def body_fields(body: bytes) -> dict[str, str]:
    """Return the two keys of a payload: `body` and `body_encoding`."""
    try:
        return {"body": body.decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def _host(host: tuple[str, int]) -> str:
    address, port = host
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
