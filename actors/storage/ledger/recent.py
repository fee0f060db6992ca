"""The entries that a leader appended last, in the form in which they are sent, made once for all
dispatchers.

Upstream: none; each of its dispatchers reads and encodes each entry (DLedgerEntryPusher.java).

Like a log's published range it is read without a message. The store adds the entries that it has
written, and drops them all when a session begins, so all entries here were appended in the present
session. A dispatcher asks only for entries that the store has reported; it reads those that are no
longer here from the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import attrs
from msgspec import Raw

from actors.storage.ledger.ledger import Batch
from wire.dledger.entry import ENTRY_HEAD_BYTES, MAGIC_NORMAL, Entry
from wire.dledger.push_rpc import encode_batch

RECENT_BYTES_MAX: Final = 4 << 20
"""How many bytes of the latest entries are kept at least: a dispatcher sends them at once, or is
far behind."""
RECENT_ENTRIES_MAX: Final = 16_384
ENCODED_MAX: Final = 4
"""How many stretches are kept as JSON: dispatchers that keep up ask for the same one right after
each other."""
HELD_BYTES_MAX: Final = 2 * RECENT_BYTES_MAX + ENCODED_MAX * (512 << 10)
"""What these entries may take in memory: they are dropped at twice what is kept, and a stretch is
256 KiB, as JSON at most twice that."""


@attrs.define(eq=False)
class RecentEntries:
    """The recent entries of one group on one member; only the store adds and drops them."""

    _entries: list[Entry] = attrs.field(factory=list, init=False)  # consecutive indexes
    _encoded: dict[tuple[int, int], tuple[tuple[Entry, ...], Raw]] = attrs.field(
        factory=dict, init=False
    )

    def forget(self) -> None:
        """Drop all entries: the session that begins may write others at the same indexes."""
        self._entries.clear()
        self._encoded.clear()

    def add(self, added: Batch, bodies: Sequence[bytes]) -> None:
        """Add the entries that were just written. They follow the last ones that were added."""
        entries, term = self._entries, added.term
        # RecentWithoutGap
        assert not entries or entries[-1].index + 1 == added.first_index
        entries += [
            Entry(
                body=body,
                index=index,
                magic=MAGIC_NORMAL,
                pos=pos,
                size=ENTRY_HEAD_BYTES + len(body),
                term=term,
            )
            for index, body, pos in zip(
                range(added.first_index, added.last_index + 1), bodies, added.positions, strict=True
            )
        ]
        held_bytes = _end_of(entries[-1]) - entries[0].pos
        if held_bytes > 2 * RECENT_BYTES_MAX or len(entries) > 2 * RECENT_ENTRIES_MAX:
            self._drop_older()

    def _drop_older(self) -> None:
        """Drop the oldest entries down to the bounds. One call makes room for many additions."""
        entries = self._entries
        limit = _end_of(entries[-1]) - RECENT_BYTES_MAX
        behind = bisect_right(entries, limit, key=_pos_of)
        del entries[: min(max(behind, len(entries) - RECENT_ENTRIES_MAX), len(entries) - 1)]

    def end_of(self, index: int) -> int | None:
        """Return the offset of the end of this entry in the log; None if the entry is not here."""
        held = self._entries
        return _end_of(held[index - held[0].index]) if self._has(index) else None

    def stretch(self, index: int, bytes_max: int) -> list[Entry]:
        """Return entries from this one on, at least one, of about `bytes_max` bytes; [] if it is
        not here.
        """
        held = self._entries
        if not self._has(index):
            return []
        at = index - held[0].index
        limit = held[at].pos + bytes_max
        return held[at : max(at + 1, bisect_right(held, limit, lo=at, key=_end_of))]

    def _has(self, index: int) -> bool:
        held = self._entries
        return len(held) > 0 and held[0].index <= index <= held[-1].index

    def _holds(self, entry: Entry) -> bool:
        """Whether this very object is here, and not another entry with its index."""
        held = self._entries
        return self._has(entry.index) and held[entry.index - held[0].index] is entry

    def batch(self, entries: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], Raw | None]:
        """Return these entries and their JSON, the same objects for each caller; None if they are
        not here.
        """
        first, last = entries[0], entries[-1]
        known = self._encoded.get((first.index, last.index))
        if known is not None and known[0][0] is first:
            return known
        if not self._holds(first):
            return entries, None
        made = entries, encode_batch(entries)
        while len(self._encoded) >= ENCODED_MAX:
            del self._encoded[next(iter(self._encoded))]
        self._encoded[first.index, last.index] = made
        return made


def _pos_of(entry: Entry) -> int:
    return entry.pos


def _end_of(entry: Entry) -> int:
    return entry.pos + entry.size
