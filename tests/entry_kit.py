"""Entries, and their bytes in data and index files, as a DLedger member writes them."""

from __future__ import annotations

from collections.abc import Iterable

from wire.dledger.entry import (
    ENTRY_HEAD,
    ENTRY_HEAD_BYTES,
    INDEX_RECORD,
    MAGIC_NORMAL,
    Entry,
)


def new_entry(*, index: int, term: int, pos: int, body: bytes) -> Entry:
    """The entry that a leader of `term` makes of `body` at this index and position."""
    size = ENTRY_HEAD_BYTES + len(body)
    return Entry(body=body, index=index, magic=MAGIC_NORMAL, pos=pos, size=size, term=term)


def encode_entry(entry: Entry) -> bytes:
    head = ENTRY_HEAD.pack(
        entry.magic, entry.size, entry.index, entry.term, entry.pos, entry.channel,
        entry.chain_crc, entry.body_crc, len(entry.body),
    )  # fmt: skip
    return head + entry.body


def encode_entries(entries: Iterable[Entry]) -> bytes:
    return b"".join(map(encode_entry, entries))


def encode_index(entries: Iterable[Entry]) -> bytes:
    return b"".join(
        INDEX_RECORD.pack(entry.magic, entry.pos, entry.size, entry.index, entry.term)
        for entry in entries
    )
