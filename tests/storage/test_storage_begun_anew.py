"""Queues that begin anew at queue offset 0: their topic was deleted and made again."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
import trio
from dispatcher_kit import received
from storage_kit import fill, finish, record
from store_kit import ROOT, running, sim_disk
from tools_kit import LAYOUT, checked, node_disk, twin

from actors.events import store as events
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.derived.dispatch_state import (
    EVERYWHERE,
    NEVER,
    read_begun_anew,
    write_begun_anew,
)
from actors.storage.derived.queue_heads import add_offsets
from actors.storage.files.side_file import SideFile
from actors.storage.log.commit_log import CommitLog

SIZE = 93
"""Of each record."""


def log_of(offsets: Iterable[int], at: int = 0, **fields: Any) -> bytes:
    """Records of a queue with these queue offsets."""
    data = b""
    for offset in offsets:
        data += record(at + len(data), b"x", queue_offset=offset, **fields)
    return data


MADE_AGAIN = log_of([*range(20), *range(8)])


async def test_the_new_records_are_reachable_and_it_is_reported(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, MADE_AGAIN, 0)
        found = await kit.units("t")
        assert (found.min_offset, found.next_offset) == (0, 8)
        assert [unit[0] for unit in found.units] == [SIZE * at for at in range(20, 28)]
        assert kit.of(events.QueuesBegunAnew) == [
            events.QueuesBegunAnew(
                topic="t", queue_id=0, first_bytes=20 * SIZE, queue_count=1, unit_count=20
            )
        ]
        assert kit.of(events.QueueOffsetsRepeated) == []
    async with running(disk, is_master=False) as kit:
        assert (await kit.units("t")).next_offset == 8
        assert kit.of(events.DispatchStarted)[0].from_bytes == len(MADE_AGAIN)
        assert kit.of(events.QueuesBegunAnew) == kit.of(events.DerivedAnew) == []


async def test_a_master_goes_on_behind_the_new_records(autojump_clock: Any) -> None:
    """Also where no unit leads to them yet."""
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, MADE_AGAIN, 0)
    for without_units in (False, True):
        if without_units:
            disk.unlink(LAYOUT.dispatched)
        async with running(disk) as kit:
            await kit.append(Message("t", b"x"))
            await kit.dispatched((await kit.range()).written_bytes)
            assert (await kit.units("t")).next_offset == 9 + without_units


async def test_more_than_once_and_of_several_queues(autojump_clock: Any) -> None:
    data = b""
    for turn in (3, 2, 1):
        for queue_id in (0, 1):
            data += log_of(range(turn), len(data), queue_id=queue_id)
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, data, 0)
        for queue_id in (0, 1):
            found = await kit.units("t", queue_id)
            assert [unit[0] for unit in found.units] == [SIZE * (10 + queue_id)]
        reported = kit.of(events.QueuesBegunAnew)
        assert sum(event.queue_count for event in reported) == 4
        assert sum(event.unit_count for event in reported) == 10


@pytest.mark.parametrize("is_lost", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("after_s", [0.0, 0.5, 3.0])
async def test_a_cut_brings_the_older_units_back(
    autojump_clock: Any, after_s: float, is_lost: bool
) -> None:
    """The record that the queue began anew with is cut off, before or after a flush of it."""
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, MADE_AGAIN[: 20 * SIZE], 0)
        await trio.sleep(3)
        await kit.receive(1, 20 * SIZE, MADE_AGAIN[20 * SIZE :])
        await kit.dispatched(len(MADE_AGAIN))
        await trio.sleep(after_s)
        later = twin(disk)
    if is_lost:
        later.power_loss(random.Random(1))
    else:
        later.kill()
    cut(later, 19 * SIZE)
    async with running(later) as kit:
        await kit.append(Message("t", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        found = await kit.units("t")
        assert [unit[0] for unit in found.units] == [SIZE * at for at in range(20)]


def cut(disk: SimDisk, end: int) -> None:
    """Zero what lies behind, as a truncation to there leaves it."""
    file = disk.open(f"{LAYOUT.commit_log}/{0:020d}", "w")
    file.pwrite(bytes(4096 - end), end)
    file.sync()
    side, _ = SideFile.open(disk, LAYOUT.synced, 1)
    side.write((end,))
    side.sync()
    side.close()


async def test_the_side_file_says_no_more_than_it_has_to(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, MADE_AGAIN[: 20 * SIZE], 0)
        assert not disk.exists(LAYOUT.begun_anew)
    assert read_begun_anew(disk, LAYOUT.begun_anew) == NEVER
    write_begun_anew(disk, LAYOUT.begun_anew, 700)
    write_begun_anew(disk, LAYOUT.begun_anew, 500)
    assert read_begun_anew(disk, LAYOUT.begun_anew) == 500
    disk.open(LAYOUT.begun_anew, "w").pwrite(b"?" * 1024, 0)
    assert read_begun_anew(disk, LAYOUT.begun_anew) == EVERYWHERE
    async with running(disk, is_master=False) as kit:  # derives all anew, and forgets it
        assert kit.of(events.DispatchStarted)[0].from_bytes == 0
        (reported,) = kit.of(events.DerivedAnew)
        assert reported.reason == "the log ends where a queue had not begun anew yet"
        await kit.dispatched(20 * SIZE)
    assert read_begun_anew(disk, LAYOUT.begun_anew) == NEVER


async def test_a_check_says_what_no_unit_leads_to(autojump_clock: Any) -> None:
    disk = await node_disk(0)
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, log_of([*range(20), *range(8), 3, 4, 8]), 0)
    found = checked(disk)
    assert found.is_good, found.findings
    (line,) = found.findings.notes
    assert line.startswith("consumequeue: 2 records have queue offsets that older ones have, ")
    assert f"t/0, offset {28 * SIZE} first" in line
    found = checked(disk, is_running=True)
    assert found.is_good, found.findings


async def test_a_check_takes_what_older_units_stand(autojump_clock: Any) -> None:
    """As a RocketMQ slave leaves them, and as this program did before it began queues anew."""
    disk = await node_disk(0)
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, MADE_AGAIN[: 20 * SIZE], 0)
        before = disk.open(f"{LAYOUT.consume_queue}/t/0/{0:020d}", "r").pread(0, 400)
        await received(kit, MADE_AGAIN[20 * SIZE :], 20 * SIZE)
    disk.open(f"{LAYOUT.consume_queue}/t/0/{0:020d}", "w").pwrite(before, 0)
    found = checked(disk)
    assert found.is_good, found.findings
    (line,) = found.findings.notes
    assert line.startswith("consumequeue: 20 units lead to older records, ")
    disk.open(f"{LAYOUT.consume_queue}/t/0/{0:020d}", "w").pwrite(bytes(20), 40)
    assert not checked(disk).is_good


async def test_a_queue_that_is_not_there_is_no_damage(autojump_clock: Any) -> None:
    """A broker deletes the queues of a topic with it; what is left without files is no queue."""
    disk = await node_disk()
    folder = f"{ROOT}/consumequeue/u"
    for name in disk.listdir(f"{folder}/1"):
        disk.unlink(f"{folder}/1/{name}")
    disk.rmtree(f"{folder}/2")
    found = checked(disk)
    assert found.is_good, found.findings
    (line,) = found.findings.notes
    assert line.startswith("consumequeue: 2 queues of 50 records not there, ")
    async with running(disk) as kit:
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("u", 1)).next_offset == 25
        (reported,) = kit.of(events.DerivedAnew)
        assert reported.reason == "1 of 6 queues not there: they come back with their records"
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.findings.notes == []


def test_the_end_of_a_queue_follows_from_its_newest_incarnation() -> None:
    disk = sim_disk()
    disk.mkdir(LAYOUT.commit_log)
    log = CommitLog.load(disk, LAYOUT.commit_log, 4096)
    fill(log, [b"x"] * 9)
    fill(log, [b"x"] * 4)
    offsets = {("t", 0): 100}
    assert finish(add_offsets(disk, LAYOUT, log, 0, log.written_bytes, offsets)) == {("t", 0)}
    assert offsets == {("t", 0): 4}


def test_a_light_queue_begins_anew_as_others_do() -> None:
    """Its units do, so its next record has to go on behind them."""
    disk = sim_disk()
    disk.mkdir(LAYOUT.commit_log)
    log = CommitLog.load(disk, LAYOUT.commit_log, 4096)
    for number in (0, 1, 2, 0):
        light = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": f"{number}"}
        end = log.written_bytes
        log.append(record(end, b"x", queue_offset=7 + end, properties=light))
    offsets: dict[tuple[str, int], int] = {("%LMQ%a", 0): 100}
    assert finish(add_offsets(disk, LAYOUT, log, 0, log.written_bytes, offsets)) == {("%LMQ%a", 0)}
    assert offsets["%LMQ%a", 0] == 1
