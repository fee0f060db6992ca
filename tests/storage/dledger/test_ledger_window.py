"""Stretches of a log as entries, over files and over memory: what a dispatcher reads and counts."""

from __future__ import annotations

import pytest
from entry_kit import encode_entries
from ledger_kit import FILE, LAYOUT, finish, fresh, sim_disk, small

from actors.storage.ledger import entry_window
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.ledger import IndexGone, IndexNotThere, LedgerStore
from actors.storage.ledger.memory_ledger import MemoryEntries, MemoryLedger, MemoryReader
from actors.storage.ledger.reader import LedgerReader
from wire.dledger.entry import (
    decode_entries,
)
from wire.errors import IncompleteData, RemoteProtocolError

BODIES = [bytes([65 + number % 26]) * (number % 700) for number in range(60)]


def both() -> list[tuple[LedgerStore, EntryWindow]]:
    """A log over several files, and the same in memory, each with a reader beside it."""
    disk, held = sim_disk(), MemoryEntries()
    file = fresh(disk)
    memory = MemoryLedger(file_bytes=FILE, held=held)
    found: list[tuple[LedgerStore, EntryWindow]] = [
        (file, EntryWindow(LedgerReader.of(disk, LAYOUT, small()))),
        (memory, EntryWindow(MemoryReader(held, FILE))),
    ]
    for ledger, window in found:
        for body in BODIES:
            ledger.append_as_leader([body], 1)
        window.end = ledger.end_index
    return found


@pytest.mark.parametrize("which", [0, 1], ids=["file", "memory"])
def test_a_window_gives_what_the_log_holds(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_window, "AHEAD_BYTES", 1500)
    ledger, window = both()[which]
    assert [entry.body for entry in window.entries(0, 59)] == BODIES
    assert [entry.index for entry in window.entries(7, 31)] == list(range(7, 32))
    assert window.entry(40).body == BODIES[40]
    assert window.entries(59, 59)[0].pos == ledger.end_bytes - 48 - len(BODIES[59])


@pytest.mark.parametrize("which", [0, 1], ids=["file", "memory"])
def test_a_window_counts_bytes(which: int) -> None:
    ledger, window = both()[which]
    first = window.entry(0)
    assert window.bytes_from(0) == ledger.end_bytes
    assert window.bytes_from(59) == 48 + len(BODIES[59])
    assert window.fits(0, 59, first.size) == 0
    assert window.fits(0, 59, 0) == 0, "one at least"
    assert window.fits(0, 59, first.size + window.entry(1).size) == 1
    assert window.fits(3, 4, 1 << 20) == 4, "none behind the last that may be sent"
    last = window.fits(0, 59, 1 << 20)
    assert last > 20
    assert window.entry(last).pos + window.entry(last).size <= FILE, "all of one file"


@pytest.mark.parametrize("which", [0, 1], ids=["file", "memory"])
def test_what_was_cut_is_forgotten(which: int) -> None:
    ledger, window = both()[which]
    assert window.entry(50).body == BODIES[50]
    work = ledger.begin_sync()
    ledger.end_sync(work)
    finish(ledger.truncate(50))
    ledger.append_as_leader([b"other"], 2)
    assert window.entry(50).body == BODIES[50], "nobody has reported it"
    window.forget()
    window.end = ledger.end_index
    assert (window.entry(50).body, window.entry(50).term) == (b"other", 2)
    assert window.bytes_from(50) == 48 + len(b"other")


def test_what_has_expired_is_gone() -> None:
    held = MemoryEntries()
    ledger = MemoryLedger(file_bytes=FILE, held=held)
    window = EntryWindow(MemoryReader(held, FILE), end=90)
    finish(ledger.restart_at(90, FILE))
    ledger.append_as_leader([b"x"], 1)
    with pytest.raises(IndexGone):
        window.entry(12)
    assert (window.bytes_from(12), window.fits(12, 90, 1 << 20)) == (0, 12)
    assert window.entry(90).body == b"x"
    with pytest.raises(IndexNotThere):
        MemoryReader(held, FILE).record(91)
    MemoryLedger(file_bytes=FILE, held=held)
    assert (held.entries, held.first) == ([], 0), "a new life of the store begins empty"


def test_entries_are_decoded_to_the_last_byte() -> None:
    ledger, window = both()[1]
    entries = window.entries(0, 5)
    data = encode_entries(entries)
    assert decode_entries(data) == list(entries)
    assert decode_entries(b"") == []
    for size in (len(data) - 1, len(data) - entries[5].size + 47, 10):
        with pytest.raises(IncompleteData):
            decode_entries(data[:size])
    for at, value in ((3, 2), (8, 0xFF), (16, 0xFF), (24, 0xFF), (44, 0x40)):
        bad = bytearray(data)
        bad[at] = value
        with pytest.raises(RemoteProtocolError):
            decode_entries(bytes(bad))
    assert ledger.end_index == 59
