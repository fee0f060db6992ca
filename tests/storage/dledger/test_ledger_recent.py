"""What a leader has appended last: the same entries as in the log, shared, bounded, forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_kit import FILE, LAYOUT, chain, finish, fresh, sim_disk, small
from ledger_store_kit import Kit, running

from actors.storage.ledger import recent
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.ledger import IndexGone, LedgerStore
from actors.storage.ledger.reader import LedgerReader
from actors.storage.ledger.recent import RecentEntries
from wire.dledger.entry import decode_entries
from wire.dledger.push_rpc import encode_batch

BODIES = [bytes([65 + number % 26]) * (number % 700) for number in range(60)]


class Unread:
    """A log that is not to be read."""

    def record(self, index: int) -> Any:
        raise IndexGone(f"record {index} was read")

    def read(self, index: int, end_index: int, bytes_max: int) -> bytes:
        raise IndexGone(f"entry {index} was read")

    def forget(self) -> None:
        pass


def written(recent: RecentEntries, *groups: list[bytes]) -> LedgerStore:
    """A log over several files, and what its store would have added."""
    ledger = fresh(sim_disk())
    for bodies in groups:
        recent.add(ledger.append_as_leader(bodies, 1), bodies)
    return ledger


def test_they_are_what_the_log_holds() -> None:
    held = RecentEntries()
    ledger = written(held, BODIES[:20], BODIES[20:21], BODIES[21:])
    found = held.stretch(0, 1 << 20)
    at = 0
    while at < 60:
        read = decode_entries(ledger.read(at, 1 << 20))
        assert found[at : at + len(read)] == read
        at += len(read)
    assert held.end_of(59) == ledger.end_bytes
    assert (held.end_of(60), held.stretch(60, 9)) == (None, [])
    assert [entry.index for entry in held.stretch(7, 0)] == [7], "one at least"
    some = held.stretch(7, 2000)
    assert some[-1].pos + some[-1].size <= some[0].pos + 2000 < held.stretch(0, 1 << 20)[59].pos


def test_a_window_reads_nothing_that_is_recent() -> None:
    held = RecentEntries()
    ledger = written(held, BODIES)
    window = EntryWindow(Unread(), end=59, recent=held)
    assert [entry.body for entry in window.entries(0, 59)] == BODIES
    assert window.bytes_from(59) == 48 + len(BODIES[59])
    assert window.bytes_from(0) == ledger.end_bytes
    assert window.fits(0, 40, 1 << 20) == 40, "none behind the last that may be sent"
    held.forget()
    window.forget()
    with pytest.raises(IndexGone, match="entry 3 was read"):
        window.entry(3)


def test_dispatchers_share_what_they_send() -> None:
    held = RecentEntries()
    written(held, BODIES)
    one, two = (EntryWindow(Unread(), end=59, recent=held) for _ in range(2))
    entries, batch = one.batch(5, 30)
    assert [entry.body for entry in entries] == BODIES[5:31]
    assert batch is not None
    assert bytes(batch) == bytes(encode_batch(entries))
    assert two.batch(5, 30)[1] is batch
    others = [two.batch(0, last)[1] for last in range(31, 31 + recent.ENCODED_MAX)]
    assert None not in others
    assert one.batch(5, 30)[1] is not batch, "the oldest has left"


def test_entries_of_an_older_session_are_not_taken_for_those_of_this_one() -> None:
    held = RecentEntries()
    ledger = written(held, [b"old"] * 4)
    window = EntryWindow(Unread(), end=3, recent=held)
    before, batch = window.batch(0, 3)
    work = ledger.begin_sync()
    ledger.end_sync(work)
    finish(ledger.truncate(1))
    held.forget()
    held.add(ledger.append_as_leader([b"new"] * 3, 2), [b"new"] * 3)
    assert window.batch(0, 3) == (before, None), "nobody has reported it"
    assert held.batch(tuple(held.stretch(1, 1 << 20)))[1] is not None
    assert window.batch(1, 3) == (before[1:], None)
    assert batch is not None


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "RECENT_BYTES_MAX", 3000)
    held = RecentEntries()
    ledger = fresh(sim_disk())
    for number in range(200):
        body = [bytes([number]) * 100]
        held.add(ledger.append_as_leader(body, 1), body)
        kept = [index for index in range(number + 1) if held.end_of(index) is not None]
        assert kept[-1] == number
        assert kept == list(range(kept[0], number + 1))
        assert len(kept) * 148 <= 6000
        assert number < 20 or len(kept) * 148 > 2500
    large = [b"x" * 2500]
    held.add(ledger.append_as_leader(large, 1), large)
    window = EntryWindow(LedgerReader.of(ledger._disk, LAYOUT, small()), end=200, recent=held)  # type: ignore[attr-defined]
    assert window.entry(0).body == bytes([0]) * 100, "what has left is read"
    monkeypatch.setattr(recent, "RECENT_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(recent, "RECENT_ENTRIES_MAX", 10)
    more = [b"y"] * 40
    held.add(ledger.append_as_leader(more, 1), more)
    assert held.stretch(240, FILE)
    assert held.stretch(230, FILE) == []
    assert len(held.stretch(231, FILE)) == 10


async def test_the_store_adds_what_a_leader_appends_and_forgets_it_with_the_session(
    autojump_clock: object,
) -> None:
    kit = Kit(sim_disk())
    async with running(kit.disk, kit):
        await kit.open(1, term=2)
        await kit.append(1, b"one", b"two")
        await kit.append(1, b"three")
        found = kit.recent.stretch(0, 1 << 20)
        assert [(each.index, each.term, each.body) for each in found] == [
            (0, 2, b"one"),
            (1, 2, b"two"),
            (2, 2, b"three"),
        ]
        await kit.synced(2)
        await kit.open(2, term=3)
        assert kit.recent.stretch(2, 1) == []
        await kit.change(2, cut_from=2)
        await kit.change(2, entries=tuple(chain([b"theirs"], index=2, pos=102, term=3)))
        assert kit.recent.stretch(2, 1) == [], "a follower pushes nothing"
        await kit.open(3, term=4)
        await kit.append(3, b"mine")
        assert [each.index for each in kit.recent.stretch(3, 1)] == [3]
    async with running(kit.disk, kit):
        await kit.open(1, term=5)
        assert kit.recent.stretch(3, 1) == [], "another life of the store"
