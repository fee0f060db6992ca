"""A state machine without Trio: a store on a simulated disk against a list, through everything."""

from __future__ import annotations

import itertools
import random

import pytest
from entry_kit import new_entry
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger_kit import FILE, LAYOUT, entries_of, finish, fresh, model, opened, sim_disk, sync

from actors.storage.ledger.file_ledger import FileLedger
from actors.storage.ledger.ledger import BelowCommitted, LedgerStore, TermVote, is_equal
from actors.storage.ledger.memory_ledger import MemoryLedger
from actors.storage.ledger.recovery import first_entry
from actors.storage.log.expiry import HOUR_MS
from wire.dledger.entry import (
    decode_entry,
    position,
)

MACHINE = settings(max_examples=60, stateful_step_count=40, deadline=None)
SIZES = [0, 1, 7, 40, 300, 464, 512, 900, 1500, 4040]
Model = list[tuple[int, int, bytes]]


def body_of(kind: int, size: int, seed: int) -> bytes:
    """Of text, of zeros, with zeros at the end, with zeros in the middle, or of anything."""
    rng = random.Random(seed)
    text = bytes(rng.choices(b"abcdefgh", k=size))
    match kind:
        case 0:
            return text
        case 1:
            return bytes(size)
        case 2:
            return text[: size // 2] + bytes(size - size // 2)
        case 3:
            return text[:5] + bytes(max(size - 10, 0)) + text[5:10]
        case _:
            return rng.randbytes(size)


BODIES = st.lists(
    st.builds(body_of, st.integers(0, 4), st.sampled_from(SIZES), st.integers(0, 1 << 16)),
    min_size=1,
    max_size=8,
)


class LedgerMachine(RuleBasedStateMachine):
    """The model: the entries, how many of them are synced, and where the log begins."""

    ledger: LedgerStore

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed: int) -> None:
        self.disk = sim_disk(seed)
        self.ledger = fresh(self.disk)
        self.entries: Model = []
        self.synced = -1  # index
        self.next = 0
        self.term = 1
        self.committed = -1
        self.vote = TermVote(1, "n0")

    # ---- what an owner does ----

    @rule(bodies=BODIES)
    def append_as_leader(self, bodies: list[bytes]) -> None:
        added = self.ledger.append_as_leader(bodies, self.term)
        assert added.first_index == self.next
        self.take(bodies)

    def take(self, bodies: list[bytes]) -> None:
        self.entries += [(self.next + n, self.term, body) for n, body in enumerate(bodies)]
        self.next += len(bodies)

    @rule(bodies=BODIES)
    def append_as_follower(self, bodies: list[bytes]) -> None:
        pos, found = self.ledger.end_bytes, []
        for number, body in enumerate(bodies):
            pos = position(pos, 48 + len(body), FILE)
            found.append(new_entry(index=self.next + number, term=self.term, pos=pos, body=body))
            pos += 48 + len(body)
        self.ledger.append_as_follower(found)
        assert all(map(is_equal, entries_of(self.ledger)[-len(found) :], found))
        self.take(bodies)

    @rule()
    def raise_term(self) -> None:
        self.term += 1
        self.vote = TermVote(self.term, f"n{self.term % 3}")
        self.ledger.save_vote(self.vote)

    @rule(whole=st.booleans())
    def sync(self, whole: bool) -> None:
        sync(self.ledger, self.disk, whole=whole)
        self.synced = self.last

    @precondition(lambda self: self.entries)
    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        number = int(part * (len(self.entries) - 1))
        index = self.entries[number][0]
        if index <= self.committed:
            return
        finish(self.ledger.truncate(index))
        self.cut_at(number, index)

    def cut_at(self, number: int, index: int) -> None:
        del self.entries[number:]
        self.next = index
        self.synced = min(self.synced, self.last)

    @rule(gap=st.integers(1, 70), size=st.integers(48, 3 * FILE))
    def re_base(self, gap: int, size: int) -> None:
        pos = self.ledger.end_bytes + size
        if 0 < pos % FILE < 48:
            return
        finish(self.ledger.restart_at(self.next + gap, pos))
        self.entries, self.next, self.synced = [], self.next + gap, -1

    @rule(index=st.integers(0, 60), size=st.integers(48, 3 * FILE))
    def re_base_anywhere(self, index: int, size: int) -> None:
        """Where nothing that is there leaves that is committed."""
        pos = self.ledger.end_bytes + size
        if any(index <= entry[0] <= self.committed for entry in self.entries):
            with pytest.raises(BelowCommitted):
                finish(self.ledger.restart_at(index, pos - pos % FILE))
        elif not 0 < pos % FILE < 48:
            finish(self.ledger.restart_at(index, pos))
            self.entries, self.next, self.synced = [], index, -1

    @precondition(lambda self: self.entries)
    @rule(part=st.floats(0, 1))
    def commit(self, part: float) -> None:
        index = self.entries[int(part * (len(self.entries) - 1))][0]
        self.ledger.commit(index)
        self.committed = max(self.committed, index)

    @rule()
    def save_checkpoint(self) -> None:
        self.ledger.save_checkpoint()

    # ---- what happens to it ----

    @property
    def last(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "ledger"):
            return
        ledger = self.ledger
        assert model(ledger) == self.entries
        assert ledger.next_index == self.next
        assert ledger.end_index == self.last
        assert ledger.end_term == (self.entries[-1][1] if self.entries else -1)
        assert ledger.begin_index == (self.entries[0][0] if self.entries else -1)
        assert ledger.committed_index == self.committed
        assert ledger.vote == self.vote
        if self.entries:
            index, term, body = self.entries[len(self.entries) // 2]
            found = decode_entry(ledger.read(index, 0))
            assert (found.term, found.body) == (term, body)


class FileMachine(LedgerMachine):
    """On disk: stops, kills, power losses, deaths in the middle of a cut, expiry."""

    @property
    def file_ledger(self) -> FileLedger:
        assert isinstance(self.ledger, FileLedger)
        return self.ledger

    def reopen(self, *, at_least: int) -> None:
        """Everything synced is there, and nothing but what was appended."""
        self.ledger = opened(self.disk)
        found, held = model(self.ledger), self.entries
        assert found == held[: len(found)], "NothingButWhatWasAppended"
        kept = max((entry[0] for entry in found), default=-1)
        assert kept >= at_least, "NothingSyncedIsLost"
        if not found:
            self.next = 0
        elif len(found) < len(held):
            self.next = found[-1][0] + 1
        self.entries = found
        self.synced = self.last
        assert self.ledger.synced_index == self.last
        assert self.ledger.committed_index <= self.committed, "CommittedWasSaidOnce"
        self.committed = self.ledger.committed_index

    @rule()
    def stop_and_start(self) -> None:
        begin, committed = self.ledger.begin_index, self.committed
        self.ledger.close(ordered=True)
        self.reopen(at_least=self.last)
        if 0 <= begin <= committed:
            assert self.committed == min(committed, self.last)

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.reopen(at_least=self.last)

    @rule(seed=st.integers(0, 1 << 30))
    def power_loss(self, seed: int) -> None:
        self.disk.power_loss(random.Random(seed))
        self.reopen(at_least=self.synced)

    @rule(seed=st.integers(0, 1 << 30), mark=st.booleans())
    def power_loss_in_a_sync(self, seed: int, mark: bool) -> None:
        work = self.ledger.begin_sync(whole=mark)
        for path in work.paths[: len(work.paths) // 2]:
            self.disk.open(path, "w").sync()
        self.disk.power_loss(random.Random(seed))
        self.reopen(at_least=self.synced)

    @precondition(lambda self: self.entries)
    @rule(part=st.floats(0, 1), steps=st.integers(0, 12), seed=st.integers(0, 1 << 30))
    def die_while_truncating(self, part: float, steps: int, seed: int) -> None:
        """Stopped between two yields; dying inside one is tested step by step elsewhere."""
        number = int(part * (len(self.entries) - 1))
        index = self.entries[number][0]
        if index <= self.committed:
            return
        work = self.ledger.truncate(index)
        for _ in itertools.islice(work, steps):
            pass
        work.close()
        self.disk.power_loss(random.Random(seed))
        before = self.entries[number - 1][0] if number else -1
        self.reopen(at_least=min(self.synced, before))

    @rule(floor=st.floats(0, 1))
    def expire(self, floor: float) -> None:
        last = max(self.last, 0)
        ledger = self.file_ledger
        object.__setattr__(ledger._cleaner.env, "wall_clock_ms", lambda: 1 << 42)
        assert ledger._cleaner.env.wall_clock_ms() > 100 * HOUR_MS
        index = int(floor * last)
        before = ledger.begin_index
        reason = ledger.delete_expired(index)
        if reason is None:
            assert ledger.begin_index == before
            return
        assert before < ledger.begin_index <= min(index, self.committed), "FloorIsKept"
        head = first_entry(self.disk, ledger._log, ledger._log.bases()[0])
        assert head is not None
        self.entries = [entry for entry in self.entries if entry[0] >= head.index]


class MemoryMachine(LedgerMachine):
    """The same rules on the store in memory."""

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed: int) -> None:
        super().begin(seed)
        self.ledger = MemoryLedger(file_bytes=FILE)
        self.ledger.save_vote(self.vote)


def test_a_store_on_disk_is_a_list_of_entries() -> None:
    run_state_machine_as_test(FileMachine, settings=MACHINE)  # type: ignore[no-untyped-call]


def test_a_store_in_memory_is_a_list_of_entries() -> None:
    run_state_machine_as_test(MemoryMachine, settings=MACHINE)  # type: ignore[no-untyped-call]


def test_the_cut_folder_is_bounded() -> None:
    """256 files; the oldest leaves."""
    disk = sim_disk()
    ledger = fresh(disk)
    for number in range(300):
        ledger.append_as_leader([b"%d" % number], 1)
        finish(ledger.truncate(0))
    assert len(disk.listdir(LAYOUT.cut)) == 256
