"""A follower's log as it will be, while the store has not answered all that it was asked."""

from __future__ import annotations

import attrs
from entry_kit import new_entry

from actors.dledger.core.intake_effects import StoreChange
from actors.dledger.replication.pending_ledger import PendingLedger
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.memory_ledger import MemoryEntries, MemoryLedger, MemoryReader
from wire.dledger.entry import (
    Entry,
    decode_entries,
)

FILE_BYTES = 1 << 16


@attrs.define
class Kit:
    """Forty entries in memory, as the store has them and as they are looked at."""

    entries: tuple[Entry, ...] = attrs.field(init=False)
    store: MemoryLedger = attrs.field(init=False)
    ledger: PendingLedger = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        held = MemoryEntries()
        self.store = MemoryLedger(file_bytes=FILE_BYTES, held=held)
        self.store.append_as_leader([b"old %d" % number for number in range(40)], 1)
        self.entries = tuple(decode_entries(self.store.read(0, FILE_BYTES)))
        self.ledger = PendingLedger(EntryWindow(MemoryReader(held, FILE_BYTES)))
        self.ledger.reset(39)

    def other(self, index: int) -> Entry:
        """A newer leader's, in the place of the one there."""
        return new_entry(index=index, term=2, pos=self.entries[index].pos, body=b"new")

    def cuts(self, number: int, index: int) -> Entry:
        """The store is asked to put that one in the place of all from there on."""
        entry = self.other(index)
        self.ledger.asked(StoreChange(session=1, number=number, cut_from=index, entries=(entry,)))
        return entry

    def restarts(self, index: int) -> Entry:
        entry = self.other(index)
        self.ledger.asked(StoreChange(session=1, number=1, restart=True, entries=(entry,)))
        return entry

    def carries_out(self, entry: Entry) -> None:
        """The store does, and has not said so."""
        list(self.store.truncate(entry.index))
        self.store.append_as_follower([entry])


def test_what_is_looked_at_between_a_cut_and_its_answer() -> None:
    kit = Kit()
    new = kit.cuts(1, 20)
    kit.carries_out(new)
    assert kit.ledger.holds(kit.entries[5])
    assert kit.ledger.holds(new)
    assert not kit.ledger.holds(kit.entries[20])
    assert not kit.ledger.holds(kit.entries[30])
    kit.ledger.done(1, 20)
    assert kit.ledger.holds(new)
    assert not kit.ledger.pending


def test_an_answer_does_not_bring_back_what_a_later_cut_takes() -> None:
    kit = Kit()
    first = kit.cuts(1, 30)
    second = kit.cuts(2, 10)
    kit.carries_out(first)
    kit.carries_out(second)
    kit.ledger.done(1, 30)
    assert kit.ledger.holds(kit.entries[5])
    assert kit.ledger.holds(second)
    assert not kit.ledger.holds(kit.entries[20])
    kit.ledger.done(2, 10)
    assert kit.ledger.window.end == 10


def test_nothing_is_left_of_a_log_that_begins_anew() -> None:
    kit = Kit()
    new = kit.restarts(20)
    assert kit.ledger.holds(new)
    assert not kit.ledger.holds(kit.entries[19])
    kit.ledger.reset(39)
    assert kit.ledger.holds(kit.entries[19])


def test_what_has_expired_meanwhile_is_not_said_to_differ() -> None:
    kit = Kit()
    kit.store.commit(20)
    kit.store.delete_expired(10, snapshot=True)
    assert kit.ledger.holds(kit.entries[5]) is None
    assert kit.ledger.holds(kit.other(15)) is False
    assert kit.ledger.holds(kit.entries[15]) is True
