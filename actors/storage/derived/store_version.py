"""Finds the RocketMQ version whose derived files a store has, where versions differ.

| Since | What |
|-------|------|
| 5.4.0 | the index has one entry more for each record with tags, of the key `topic#T#tags` |
| 5.5.0 | `checkpoint` has logicsPhysicalOffset, which enableAcceleratedRecovery needs |

A store keeps its version, so that all its records are found in the same way and an older broker
finds files that it knows. A store that does not show its version, such as a new one, is of the
newest.

Upstream: apache/rocketmq store/.../index/IndexService.java buildIndex, StoreCheckpoint.java (5.3.3,
5.4.0, 5.5.0).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Final

import attrs

from actors.env.protocols import Disk
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.small_files import read_checkpoint
from actors.storage.layout import StoreLayout
from actors.storage.log.log_reader import LogReader, OffsetGone
from wire.errors import RemoteProtocolError
from wire.files.commit_log import scan_heads
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    decode_index_header,
    decode_index_unit,
    index_file_bytes,
    key_hash,
    tag_key,
)

UNKNOWN: Final = 0
OLDEST: Final = 50303
WITH_TAG_KEYS: Final = 50400
WITH_LOGICS_OFFSET: Final = 50500
NEWEST: Final = WITH_LOGICS_OFFSET
UNITS_LOOKED: Final = 4096
"""How many of the newest entries of an index file are read: some records with tags are among
them."""
TAGGED_LOOKED: Final = 8
"""If so many records with tags lack an entry for them, a crash is not the reason."""


def number_of(version: str) -> int:
    """Return a version as the side file `dispatched` holds it: 50303 for "5.3.3"."""
    major, minor, patch = map(int, version.split("."))
    return 10_000 * major + 100 * minor + patch


@attrs.frozen
class FoundFiles:
    """A store whose version is to be found.

    Attributes:
        segment_bytes: the size of its log's files.
        slots, units: how many of them its index files have.
        log_min_bytes, log_end_bytes: the offsets between which its log can be read.
    """

    disk: Disk
    layout: StoreLayout
    segment_bytes: int
    slots: int
    units: int
    log_min_bytes: int
    log_end_bytes: int

    def version(self) -> Generator[None, None, int]:
        """Return the version that the files show; UNKNOWN if they show none. Yields after each
        record.
        """
        if read_checkpoint(self.disk, self.layout.checkpoint).logics_offset > 0:
            return WITH_LOGICS_OFFSET
        reader = LogReader(self.disk, self.layout.commit_log, self.segment_bytes)
        without = 0
        with closing(reader):
            for offset, hashes in self._newest_entries():
                yield
                tagged = self._tag_key(reader, offset)
                if tagged and key_hash(tagged) in hashes:
                    return WITH_TAG_KEYS
                without += bool(tagged)
                if without == TAGGED_LOOKED:
                    break
        return OLDEST if without else UNKNOWN

    def _newest_entries(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the offsets of records and the key hashes of their entries in the newest file.

        The newest record comes first.
        """
        folder, size = self.layout.index, index_file_bytes(self.slots, self.units)
        names = self.disk.listdir(folder) if self.disk.exists(folder) else []
        sized = [
            name
            for name in names
            if is_index_name(name) and self.disk.stat(f"{folder}/{name}").size_bytes == size
        ]
        if not sized:
            return
        file = self.disk.open(f"{folder}/{sized[-1]}", "r")
        try:
            header = decode_index_header(file.pread(0, HEADER_BYTES))
            first = max(1, header.units_next - UNITS_LOOKED)
            count = max(0, min(header.units_next, self.units) - first)
            at = index_file_bytes(self.slots, first)
            data = file.pread(at, count * INDEX_UNIT_BYTES)
        except RemoteProtocolError:
            return
        finally:
            file.close()
        offset, hashes = -1, list[int]()
        for position in reversed(range(0, len(data), INDEX_UNIT_BYTES)):
            unit = decode_index_unit(data, position)
            if unit.physical_offset != offset:
                if hashes:
                    yield offset, hashes
                offset, hashes = unit.physical_offset, []
            hashes.append(unit.key_hash)
        if hashes:
            yield offset, hashes

    def _tag_key(self, reader: LogReader, offset: int) -> str:
        """Return the index key of the tags of the record there; "" if it has none."""
        if not self.log_min_bytes <= offset < self.log_end_bytes:
            return ""
        try:
            size = int.from_bytes(reader.read(offset, 4, self.log_end_bytes), "big")
            data = reader.read(offset, min(size, self.segment_bytes), self.log_end_bytes)
        except OffsetGone:
            return ""
        heads, _ = scan_heads(data, physical_offset=offset, size_max=self.segment_bytes)
        return tag_key(heads[0].topic, heads[0].tags) if heads and heads[0].tags else ""
