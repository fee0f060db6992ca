"""Consume queues that lack their newest units at a start: no queue offset is given twice."""

from typing import Any

import pytest
from storage_kit import finish
from store_kit import ROOT, Kit, running, sim_disk, small_group
from test_storage_opening import LAYOUT, flushed_files, opened

from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.commitlog.opening import next_offsets
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.dispatch_state import UNKNOWN_COUNT, DispatchState, known_count
from actors.storage.derived.queue_files import Queue
from wire.files.commit_log import scan_heads

QUEUE = f"{ROOT}/consumequeue/t/0"
LAST = f"{QUEUE}/{2000:020d}"
FIRST_COUNT, OTHER_COUNT = 150, 30  # a file of the queue holds 100 units


def lose_file(disk: SimDisk) -> None:
    disk.unlink(LAST)


def lose_content(disk: SimDisk) -> None:
    disk.open(LAST, "w").pwrite(bytes(400), 0)


def damage_unit(disk: SimDisk) -> None:
    """Its physical offset lies far behind the log."""
    disk.open(LAST, "w").pwrite(b"\x7f", 20 * 30)


async def appended(kit: Kit) -> None:
    for topic, count in (("t", FIRST_COUNT), ("u", OTHER_COUNT)):
        await kit.append(*(Message(topic, b"x") for _ in range(count)))
    await kit.dispatched((await kit.range()).written_bytes)


@pytest.mark.parametrize("damage", [lose_file, lose_content, damage_unit])
@pytest.mark.parametrize("ordered", [True, False])
async def test_no_queue_offset_is_given_twice(
    autojump_clock: Any, damage: Any, ordered: bool
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await appended(kit)
    if not ordered:
        disk.open(f"{ROOT}/abort", "x").close()
    damage(disk)
    async with running(disk) as kit:
        assert kit.of(events.DispatchStarted)[0].from_bytes == 0
        await kit.append(Message("t", b"new"), Message("u", b"new"))
        await kit.dispatched((await kit.range()).written_bytes)
        for topic, count in (("t", FIRST_COUNT), ("u", OTHER_COUNT)):
            found = await kit.units(topic)
            assert found.next_offset == count + 1
        more = await kit.units("t", position=100)
        assert len({unit[0] for unit in more.units}) == FIRST_COUNT + 1 - 100


async def test_queues_that_are_whole_are_not_built_again(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await appended(kit)
    async with running(disk) as kit:
        end = (await kit.range()).written_bytes
        assert kit.of(events.DispatchStarted)[0].from_bytes == end


def test_units_are_counted_only_up_to_what_is_flushed() -> None:
    """A full disk, or a rebuild, leaves units of records that are dispatched once more."""
    env, size, data = flushed_files(sim_disk())
    files = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    finish(files.recover(0, len(data)))
    half = files.begin_flush(5 * size, len(data), len(data))
    assert half is not None
    assert half.state.units_count == UNKNOWN_COUNT
    files.end_flush(half)
    whole = files.begin_flush(len(data), len(data), len(data))
    assert whole is not None
    assert whole.state.units_count == 10
    files.close()


def test_a_sum_that_no_field_holds_is_unknown() -> None:
    far = Queue(folder="", bases=[0], next_bytes=20 << 62, end_bytes=1)
    assert known_count(far.units_count) == 1 << 62
    assert known_count(2 * far.units_count) == UNKNOWN_COUNT


@pytest.mark.parametrize(
    ("first", "end", "from_unit"),
    [(0, 0, 4), (0, 10, 0), (0, 8, 0), (2, 10, 0), (3, 6, 0), (6, 8, 0)],
)
def test_damaged_units_of_a_log_that_was_cut_below_them(
    first: int, end: int, from_unit: int
) -> None:
    """Ten units were flushed, and the log now holds four of their records."""
    disk = sim_disk()
    env, size, data = flushed_files(disk)
    disk.open(f"{QUEUE}/{0:020d}", "w").pwrite(bytes(20 * (end - first)), 20 * first)
    store = opened(disk)
    store.log.append(data[: 4 * size])
    state = DispatchState.read(disk, LAYOUT.dispatched)
    offsets = finish(next_offsets(disk, LAYOUT, small_group(), store.log, state))
    assert offsets == {("t", 0): 4}
    files = DerivedFiles(env=env, layout=LAYOUT, group=small_group())
    at_bytes = finish(files.recover(0, 4 * size))
    assert at_bytes == from_unit * size
    finish(files.put(scan_heads(data[at_bytes:], physical_offset=at_bytes)[0]))
    units = files.queues.units("t", 0, 0, 20)
    assert [unit[0] for unit in units] == [number * size for number in range(10)]
    files.close()
