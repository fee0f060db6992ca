"""The table of queue ends that an ordered stop leaves: when a start believes it, and when not."""

import errno
from typing import Any

import pytest
from storage_kit import finish
from store_kit import ROOT, Kit, running, sim_disk

from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.commitlog import opening
from actors.storage.derived import consume_queue, queue_ends
from actors.storage.derived.dispatch_state import DispatchState
from actors.storage.derived.queue_files import Queue
from actors.storage.layout import StoreLayout

LAYOUT = StoreLayout(ROOT)
TOPICS, COUNT = 20, 130  # a file of a queue holds 100 units
FILE = 2000


async def filled(disk: SimDisk) -> int:
    """A store that was stopped in order. Gives its log's end."""
    async with running(disk) as kit:
        for _ in range(COUNT):
            await kit.append(
                *(Message(topic=f"t{number:02}", body=b"x") for number in range(TOPICS))
            )
        end = (await kit.range()).written_bytes
        await kit.dispatched(end)
    return end


def read(disk: SimDisk, end: int) -> dict[tuple[str, int], Queue] | None:
    state = DispatchState.read(disk, LAYOUT.dispatched)
    return finish(queue_ends.read_queue_ends(disk, LAYOUT, state, FILE, end))


async def all_there(kit: Kit, count: int = COUNT) -> None:
    """Every queue gives its units, and its next record the next queue offset."""
    for number in range(TOPICS):
        topic = f"t{number:02}"
        written = await kit.append(Message(topic=topic, body=b"x"))
        await kit.dispatched(written.next_bytes)
        found = await kit.units(topic, position=count)
        assert [unit[0] for unit in found.units] == [written.first_bytes]
        assert len((await kit.units(topic)).units) == 100  # up to the first file's end


async def test_a_start_after_an_ordered_stop_looks_at_no_queue(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = sim_disk()
    await filled(disk)
    assert disk.exists(LAYOUT.queue_ends)
    with monkeypatch.context() as patch:
        for module in (opening, consume_queue):
            patch.setattr(
                module, "scan_cut_queue", lambda *given: pytest.fail("a queue is looked at")
            )
        async with running(disk) as kit:
            assert not disk.exists(LAYOUT.queue_ends), "it serves once"
            await all_there(kit)
    async with running(disk) as kit:
        await all_there(kit, COUNT + 1)


async def test_a_kill_leaves_no_table(autojump_clock: Any) -> None:
    disk = sim_disk()
    end = await filled(disk)
    async with running(disk):
        copy = read(disk, end)
    assert copy is None


def spoil_byte(disk: SimDisk) -> None:
    disk.flip_bits(LAYOUT.queue_ends, 200, 100)


def cut_short(disk: SimDisk) -> None:
    disk.open(LAYOUT.queue_ends, "w").resize(300)


def lose_topic(disk: SimDisk) -> None:
    disk.rmtree(f"{LAYOUT.consume_queue}/t03")


def lose_last_file(disk: SimDisk) -> None:
    disk.unlink(f"{LAYOUT.consume_queue}/t03/0/{FILE:020d}")


def lose_first_file(disk: SimDisk) -> None:
    disk.unlink(f"{LAYOUT.consume_queue}/t03/0/{0:020d}")


def a_queue_more(disk: SimDisk) -> None:
    disk.mkdir(f"{LAYOUT.consume_queue}/t03/7")
    disk.open(f"{LAYOUT.consume_queue}/t03/7/{0:020d}", "x").resize(FILE)


def a_file_more(disk: SimDisk) -> None:
    disk.open(f"{LAYOUT.consume_queue}/t03/0/{2 * FILE:020d}", "x").resize(FILE)


def another_program_writes(disk: SimDisk) -> None:
    disk.open(f"{LAYOUT.consume_queue}/t03/0/{FILE:020d}", "w").pwrite(b"\0" * 20, 20 * 20)
    disk.inode(f"{LAYOUT.consume_queue}/t03/0/{FILE:020d}").modified_ms += 10


def a_topic_more(disk: SimDisk) -> None:
    disk.mkdir(f"{LAYOUT.consume_queue}/new/0")
    disk.open(f"{LAYOUT.consume_queue}/new/0/{0:020d}", "x").resize(FILE)


def another_state(disk: SimDisk) -> None:
    side, state = DispatchState.open(disk, LAYOUT.dispatched)
    assert state is not None
    side.write((*state.values()[:-1], state.units_count + 1))
    side.close()


@pytest.mark.parametrize(
    "change",
    [
        spoil_byte,
        cut_short,
        lose_topic,
        lose_last_file,
        lose_first_file,
        a_queue_more,
        a_file_more,
        another_program_writes,
        a_topic_more,
        another_state,
    ],
)
async def test_what_has_changed_since_is_looked_at(autojump_clock: Any, change: Any) -> None:
    disk = sim_disk()
    end = await filled(disk)
    assert read(disk, end) is not None
    change(disk)
    try:
        assert read(disk, end) is None
    except queue_ends.QueueFilesGone:
        assert change is lose_first_file
    async with running(disk) as kit:
        await all_there(kit)
        assert change is not lose_first_file or kit.of(events.DerivedAnew)


async def test_a_log_that_ends_elsewhere_has_another_table(autojump_clock: Any) -> None:
    disk = sim_disk()
    end = await filled(disk)
    assert read(disk, end - 1) is None
    assert read(disk, end + 1) is None
    assert finish(queue_ends.read_queue_ends(disk, LAYOUT, None, FILE, end)) is None


@pytest.mark.parametrize("operation", ["create", "write", "sync"])
async def test_a_stop_without_room_for_the_table(autojump_clock: Any, operation: Any) -> None:
    disk = sim_disk()
    disk.faults.fail(operation, errno.ENOSPC, path_part="queue_ends", times=1)
    await filled(disk)
    assert not disk.exists(LAYOUT.queue_ends)
    assert not disk.exists(LAYOUT.abort)
    async with running(disk) as kit:
        assert kit.of(events.DispatchStarted)[0].queue_count == TOPICS
        await all_there(kit)
