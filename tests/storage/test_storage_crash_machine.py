"""State machines without Trio: a log, and what derives from it, through kills and power losses."""

from __future__ import annotations

import itertools
import random
from typing import Any

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
from storage_kit import finish, record
from store_kit import ROOT, small_group

from actors.env.protocols import Env
from actors.sim.disk import SimDisk
from actors.storage.commitlog.opening import OpenedStore, close_store, open_store
from actors.storage.derived.derived_files import DerivedFiles, Flush, Put
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import CommitLog, segment_path
from wire.files.commit_log import BLANK_BYTES, encode_blank, scan_heads

S = 4096
LAYOUT = StoreLayout(ROOT)
GROUP = small_group(consume_queue_bytes=200, index_units_count=20, index_slots_count=7)
MACHINE = settings(max_examples=60, stateful_step_count=40, deadline=None)


def canonical(seed: int, segments: int) -> tuple[bytes, list[int]]:
    """What a master would have written, and every offset at which a log may end."""
    rng = random.Random(seed)
    out = bytearray()
    ends = [0]
    offsets: dict[tuple[str, int], int] = {}
    while len(out) < segments * S:
        key = (rng.choice(["t", "u"]), rng.randrange(2))
        number = offsets.get(key, 0)
        if rng.random() < 0.05:  # the topic was deleted and made again
            number = 0
        properties = {"KEYS": f"k{number} k{len(ends)}"} if rng.random() < 0.5 else {}
        properties |= {"TAGS": "tag"} if rng.random() < 0.5 else {}
        data = record(
            len(out),
            rng.randbytes(rng.choice([0, 1, 20, 300, 1500])),
            topic=key[0],
            queue_id=key[1],
            queue_offset=number,
            ts=1_700_000_000_000 + len(ends),
            properties=properties,
        )
        rest = S - len(out) % S
        if len(data) + BLANK_BYTES > rest:
            out += encode_blank(rest) + bytes(rest - BLANK_BYTES)
        else:
            out += data
            offsets[key] = number + 1
        ends.append(len(out))
    return bytes(out), ends


SOURCE, ENDS = canonical(1, 40)
RECORD_ENDS = [0] + [
    after
    for before, after in itertools.pairwise(ENDS)
    if SOURCE[before + 4 : before + 8] != encode_blank(8)[4:]
]
"""A filler that is the last thing may be cut: it is written or sent again."""


def read_log(disk: SimDisk, log: CommitLog) -> bytes:
    parts = []
    for base in log.bases():
        file = disk.open(segment_path(log.folder, base), "r")
        parts.append(file.pread(0, S))
    return b"".join(parts)


class LogMachine(RuleBasedStateMachine):
    """The model: a prefix of SOURCE is written, a shorter one is synced."""

    opened: OpenedStore

    @initialize(seed=st.integers(0, 1 << 30), is_master=st.booleans())
    def begin(self, seed: int, is_master: bool) -> None:
        self.disk = SimDisk(random.Random(seed))
        self.is_master = is_master
        self.min = self.written = self.synced = 0
        self.reopen()

    @property
    def log(self) -> CommitLog:
        return self.opened.log

    def reopen(self) -> None:
        opening = open_store(self.disk, LAYOUT, GROUP, is_master=self.is_master, owner="n0")
        self.opened = finish(opening)

    @rule(count=st.integers(1, 6))
    def append_records(self, count: int) -> None:
        ends = [end for end in ENDS if end > self.written][:count]
        if not ends:
            return
        for start, end in zip([self.written, *ends], ends, strict=False):
            rest = S - start % S
            is_blank = SOURCE[start + 4 : start + 8] == encode_blank(8)[4:]
            if is_blank and self.is_master and start in ENDS and end - start == rest:
                self.log.roll()
            else:
                self.log.append_raw(start, SOURCE[start:end])
            self.written = end

    @precondition(lambda self: not self.is_master)
    @rule(size=st.integers(1, 2500))
    def append_cut(self, size: int) -> None:
        data = SOURCE[self.written : self.written + size]
        self.log.append_raw(self.written, data)
        self.written += len(data)

    @rule(mark=st.booleans())
    def sync(self, mark: bool) -> None:
        for path in self.log.take_dirty():
            if self.disk.stat(path).kind == "folder":
                self.disk.sync_dir(path)
            else:
                self.disk.open(path, "w").sync()
        self.synced = self.written
        self.opened.mark.write((self.synced,))
        if mark:
            self.opened.mark.sync()

    @precondition(lambda self: len(self.log.bases()) > 2 and self.log.bases()[1] <= self.synced)
    @rule()
    def expire(self) -> None:
        self.min = self.log.delete_first()

    @rule()
    def stop_and_start(self) -> None:
        paths = self.log.take_dirty()
        close_store(self.disk, LAYOUT, self.log, self.opened.mark, paths, synced_bytes=0)
        self.synced = self.written
        self.reopen()
        self.check_reopened(kill=True)

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.reopen()
        self.check_reopened(kill=True)

    @rule(seed=st.integers(0, 1 << 30))
    def power_loss(self, seed: int) -> None:
        self.disk.power_loss(random.Random(seed))
        self.reopen()
        self.check_reopened(kill=False)

    def check_reopened(self, *, kill: bool) -> None:
        end = self.log.written_bytes
        assert end in ENDS, "LogEndsAtARecord"
        whole = max(each for each in ENDS if each <= self.written)
        held = max(each for each in RECORD_ENDS if each <= self.synced)
        # A record without properties ends with two zero bytes, which need not have come.
        assert held <= end <= self.written + 2, "NothingSyncedIsLost"
        self.written = max(self.written, end)
        whole = max(whole, min(end, self.written))
        if kill:
            assert end == whole or whole not in RECORD_ENDS, "AKillLosesNothingWhole"
        self.written = self.synced = end

    @invariant()
    def the_log_is_the_prefix_and_then_zeros(self) -> None:
        raw = read_log(self.disk, self.log)
        assert self.log.written_bytes == self.written
        assert raw[: self.written - self.min] == SOURCE[self.min : self.written]
        assert not any(raw[self.written - self.min :])
        assert self.log.min_bytes == self.min


def test_a_log_through_kills_and_power_losses() -> None:
    run_state_machine_as_test(LogMachine, settings=MACHINE)  # type: ignore[no-untyped-call]


class DerivedMachine(RuleBasedStateMachine):
    """The model: queues and index of a log that is there; they must equal those built at once."""

    files: DerivedFiles

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed: int) -> None:
        self.disk = SimDisk(random.Random(seed))
        self.disk.mkdir(ROOT)
        self.env: Any = Env(
            network=None,  # type: ignore[arg-type]
            disk=self.disk,
            rng=random.Random(1),
            wall_clock_ms=lambda: 1_700_000_000_000,
            events=lambda path, incarnation, event: None,
        )
        self.limit = len(SOURCE) // 4
        self.flush: Flush | None = None
        self.reopen()

    def reopen(self) -> None:
        self.flush = None
        self.files = DerivedFiles(env=self.env, layout=LAYOUT, group=GROUP)
        self.at = finish(self.files.recover(0, self.limit))

    @rule(size=st.integers(1, 8000))
    def dispatch(self, size: int) -> None:
        end = min(self.at + size, self.limit)
        heads, stopped = scan_heads(SOURCE[:end], self.at, physical_offset=self.at)
        put = Put()
        finish(self.files.put(heads, put))
        assert not put.refused
        self.at = stopped.end
        if stopped.end + stopped.blank_bytes <= end:
            self.at += stopped.blank_bytes

    @rule(size=st.integers(1, 8000))
    def grow(self, size: int) -> None:
        self.limit = min(self.limit + size, len(SOURCE))

    @rule()
    def begin_flush(self) -> None:
        if self.flush is None:
            self.flush = self.files.begin_flush(self.at, self.limit, self.limit)

    @precondition(lambda self: self.flush is not None)
    @rule()
    def end_flush(self) -> None:
        assert self.flush is not None
        for path in self.flush.paths:
            if self.disk.stat(path).kind == "folder":
                self.disk.sync_dir(path)
            else:
                self.disk.open(path, "w").sync()
        self.files.end_flush(self.flush)
        self.flush = None

    @rule()
    def stop_and_start(self) -> None:
        self.begin_flush()
        if self.flush is not None:
            self.end_flush()
        self.files.close()
        self.reopen()

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.reopen()

    @rule(seed=st.integers(0, 1 << 30))
    def power_loss(self, seed: int) -> None:
        self.disk.power_loss(random.Random(seed))
        self.reopen()

    @rule(steps=st.integers(0, 6), cut=st.integers(0, 8000))
    def die_while_recovering(self, steps: int, cut: int) -> None:
        """From a log that was cut, which then grows again to where it was."""
        self.disk.kill()
        limit = max(end for end in ENDS if end <= max(self.at - cut, 0))
        work = DerivedFiles(env=self.env, layout=LAYOUT, group=GROUP).recover(0, limit)
        for _ in itertools.islice(work, steps):
            pass
        self.disk.kill()
        self.reopen()

    @rule(cut=st.integers(0, 8000))
    def the_log_was_cut(self, cut: int) -> None:
        self.disk.kill()
        self.limit = max(end for end in ENDS if end <= max(self.at - cut, 0))
        self.reopen()

    def contents(self) -> dict[str, bytes]:
        found = {}
        queues = self.files.queues
        for (topic, queue_id), queue in sorted(queues._queues.items()):
            for base in queue.bases:
                path = f"{queue.folder}/{base:020d}"
                file = self.disk.open(path, "r")
                if base < queue.next_bytes:
                    found[f"{topic}/{queue_id}/{base}"] = file.pread(0, file.size_bytes)
        for number, name in enumerate(self.disk.listdir(LAYOUT.index)):
            file = self.disk.open(f"{LAYOUT.index}/{name}", "r")
            found[f"index {number}"] = file.pread(0, file.size_bytes)
        return found

    def dispatch_all(self) -> None:
        before = -1
        while self.at > before:
            before = self.at
            self.dispatch(1 << 20)

    def teardown(self) -> None:
        if not hasattr(self, "files"):
            return
        self.dispatch_all()
        mine, units = self.contents(), live_index(self)
        self.disk = SimDisk(random.Random(0))
        self.disk.mkdir(ROOT)
        self.env = Env(
            network=None,  # type: ignore[arg-type]
            disk=self.disk,
            rng=random.Random(1),
            wall_clock_ms=lambda: 1_700_000_000_000,
            events=lambda path, incarnation, event: None,
        )
        self.reopen()
        self.dispatch_all()
        fresh, fresh_units = self.contents(), live_index(self)
        queues = {name: data for name, data in mine.items() if not name.startswith("index")}
        assert queues == {n: d for n, d in fresh.items() if not n.startswith("index")}
        assert units == fresh_units


def live_index(machine: DerivedMachine) -> list[tuple[Any, ...]]:
    """Headers (but the end's time, which a cut makes coarse), slots and live units of all files."""
    index = machine.files.index
    found: list[tuple[Any, ...]] = []
    for each in index._files:
        header = each.header
        slots = [each.slot(slot) for slot in range(index.slots)]
        units = [each.unit(unit) for unit in range(1, header.units_next)]
        found.append((header.begin_ts, header.begin_offset, header.end_offset, slots, units))
        assert header.slots_used == sum(slot > 0 for slot in slots)
    return found


def test_derived_files_through_kills_and_power_losses() -> None:
    run_state_machine_as_test(DerivedMachine, settings=MACHINE)  # type: ignore[no-untyped-call]
