"""Next queue offsets of a start come from records, and a bit of one may have flipped since."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from derived_kit import LAYOUT, derived_on
from storage_kit import finish, record
from store_kit import ROOT, sim_disk, small_group

from actors.sim.disk import SimDisk
from actors.storage.commitlog.given_up import GivenUp, delete_first
from actors.storage.commitlog.opening import OpenedStore, open_store
from actors.storage.derived.queue_heads import NextOffsets
from actors.storage.log.digests import Digests, digest_of
from actors.storage.log.expiry import Cleaner, Expiry
from wire.files.commit_log import scan_heads

SEGMENT: Final = 4096
RECORD_MAX: Final = 300
QUEUE_OFFSET_AT: Final = 20
"""In a record: 8 bytes that no CRC covers."""


@attrs.frozen
class Filled:
    """A log of several files whose queues are missing, and where its records are."""

    disk: SimDisk
    places: list[int]

    def flip(self, number: int, bit: int) -> None:
        """Of the record's queue offset, whose range was digested before."""
        base = self.places[number] - self.places[number] % SEGMENT
        path = f"{LAYOUT.commit_log}/{base:020d}"
        self.disk.inode(path).flip_bit(
            self.places[number] % SEGMENT + QUEUE_OFFSET_AT + 7 - bit // 8, bit % 8
        )

    def derive(self, until: int) -> None:
        """Units of so many records, flushed as the dispatcher does."""
        end = self.places[until]
        data = self.disk.inode(f"{LAYOUT.commit_log}/{0:020d}").read(0, end)
        heads, _ = scan_heads(data, physical_offset=0)
        files = derived_on(self.disk)
        finish(files.recover(0, 0))
        finish(files.put(heads))
        flush = files.begin_flush(end, end, end)
        assert flush is not None
        files.end_flush(flush)
        files.close()

    def opened(self) -> OpenedStore:
        group = small_group(segment_bytes=SEGMENT)
        return finish(open_store(self.disk, LAYOUT, group, is_master=True, owner="n0"))

    def next_offsets(self) -> NextOffsets:
        return dict(self.opened().next_offsets)


def filled(topics: str = "tu" * 30, first: int = 0) -> Filled:
    """A record of each topic, numbered from `first` on; all full files are digested."""
    disk = sim_disk()
    made = Filled(disk, [])
    store = made.opened()
    at = 0
    for number, topic in enumerate(topics):
        if SEGMENT - at % SEGMENT < RECORD_MAX:
            store.log.roll()
            at = store.log.written_bytes
        offset = first + topics[:number].count(topic)
        data = record(at, b"x" * 100, topic=topic, queue_offset=offset)
        made.places.append(at)
        store.log.append(data)
        at += len(data)
    digests = Digests(disk, LAYOUT.digests, SEGMENT)
    disk.mkdir(LAYOUT.digests)
    for base in range(0, at - SEGMENT, SEGMENT):
        content = disk.inode(f"{LAYOUT.commit_log}/{base:020d}").read(0, SEGMENT)
        digests.put(base, digest_of(content))
    digests.close()
    disk.kill()
    return made


def test_what_is_good_is_believed() -> None:
    assert filled().next_offsets() == {("t", 0): 30, ("u", 0): 30}
    assert filled(first=7).next_offsets() == {("t", 0): 37, ("u", 0): 37}


@pytest.mark.parametrize("bit", [0, 3, 17, 40, 62])
@pytest.mark.parametrize("number", [0, 1, 2, 9, 10])
def test_a_bit_of_a_queue_offset_is_not_believed(number: int, bit: int) -> None:
    made = filled()
    made.flip(number, bit)
    assert made.next_offsets() == {("t", 0): 30, ("u", 0): 30}


@pytest.mark.parametrize("bit", [0, 1, 17, 40, 62])
def test_nor_is_that_of_a_queues_newest_record(bit: int) -> None:
    made = filled("t" * 8 + "w" * 52)
    made.flip(7, bit)
    assert made.next_offsets() == {("t", 0): 8, ("w", 0): 52}


def test_what_nothing_contradicts_is_taken_as_it_is() -> None:
    """The only record of its queue may be as it was, as most are of a range with a flipped bit."""
    made = filled("t" + "w" * 59, first=8)
    made.flip(0, 1)
    assert made.next_offsets() == {("t", 0): 11, ("w", 0): 67}


def test_a_zero_that_rots_in_begins_no_queue_anew() -> None:
    made = filled(first=8)
    made.flip(0, 3)
    assert made.next_offsets() == {("t", 0): 38, ("u", 0): 38}


def test_units_say_what_comes_first_behind_them() -> None:
    made = filled("t" * 60)
    made.derive(until=5)
    made.flip(5, 40)
    assert made.next_offsets() == {("t", 0): 60}
    made = filled("t" * 6 + "w" * 54)
    made.derive(until=5)
    made.flip(5, 40)
    assert made.next_offsets() == {("t", 0): 6, ("w", 0): 54}


def test_what_is_given_up_is_not_raised_by_it() -> None:
    made = filled("t" * 60)
    made.flip(3, 40)
    opened = made.opened()
    env = derived_on(made.disk).env
    rules = Expiry.of(small_group())
    cleaner = Cleaner.of(env, opened.log, rules, owner="n0: orders", root=ROOT, emit=print)
    finish(delete_first(LAYOUT, cleaner, "usage"))
    assert GivenUp.read(made.disk, LAYOUT.given_up).next_offset == sum(
        place < SEGMENT for place in made.places
    )
