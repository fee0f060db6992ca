"""Queues of deleted topics: they go, whatever stops the node meanwhile, and newer records stay."""

from __future__ import annotations

import errno
import random
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from dispatcher_kit import received
from scrub_kit import damage, found_by_a_round, mend, queue_file
from storage_kit import record
from store_kit import ROOT, Kit, running, sim_disk, small_group
from tools_kit import LAYOUT, checked, twin

from actors.events import store as events
from actors.events.runtime import ActorCrashed
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.dispatch.dispatcher_messages import DeleteTopics, TopicsDeleted
from wire.broker.java_json import encode
from wire.broker.topics import DELETED_KEY, TopicTable
from wire.files.consume_queue import UNIT_BYTES, is_filler


async def delete(kit: Kit, **topics: int) -> int:
    """Returns: how many queues were removed."""
    answer = await kit.dispatcher.ask(
        TopicsDeleted,
        lambda reply_to: DeleteTopics(topics=topics, reply_to=reply_to),
        timeout_s=30.0,
    )
    return answer.queue_count


def write_topics(disk: SimDisk, **deleted: int) -> None:
    """The table's file, as the metadata's keeper writes it."""
    more = {DELETED_KEY: msgspec.Raw(msgspec.json.encode(deleted))}
    disk.mkdir(LAYOUT.config)
    file = disk.open(LAYOUT.topics, "x")
    file.pwrite(encode(TopicTable(more=more)), 0)
    file.sync()
    file.close()
    disk.sync_dir(LAYOUT.config)


async def filled(kit: Kit, *topics: str, count: int = 3) -> None:
    """Some records in two queues of each topic, all of them derived."""
    for number in range(2 * count):
        await kit.append(*(Message(topic, b"x", queue_id=number % 2) for topic in topics))
    await kit.dispatched((await kit.range()).written_bytes)


async def test_a_topic_begins_anew_and_others_stay(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        for _ in range(2):
            await delete(kit, t=kit.wall_ms)
            assert disk.listdir(LAYOUT.consume_queue) == ["u"]
        assert kit.of(events.QueuesDeleted) == [
            events.QueuesDeleted(topic="t", topic_count=1, queue_count=2)
        ]
        assert (await kit.units("t")).next_offset == 0
        await kit.append(Message("t", b"x"), Message("u", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        assert ((await kit.units("t")).next_offset, (await kit.units("u")).next_offset) == (1, 4)
        assert kit.of(events.QueuesBegunAnew) == kit.of(events.QueueRebuilt) == []
    assert checked(disk, ROOT).findings.damage == []
    async with running(disk) as kit:
        assert kit.of(events.DerivedAnew) == []
        assert (await kit.units("t")).next_offset == 1
        await kit.append(Message("t", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t")).next_offset == 2


async def test_a_queue_with_newer_records_stays(autojump_clock: Any) -> None:
    """The topic was made again before this node has heard that it was deleted."""
    data = b"".join(
        record(93 * number, b"x", queue_offset=offset, ts=ts)
        for number, (offset, ts) in enumerate([(0, 10), (1, 11), (0, 21), (1, 22)])
    )
    async with running(sim_disk(), is_master=False) as kit:
        await kit.open_session(1)
        await received(kit, data, 0)
        assert await delete(kit, t=20) == 0
        assert [unit[0] for unit in (await kit.units("t")).units] == [2 * 93, 3 * 93]
        assert await delete(kit, t=22) == 1
        assert (await kit.units("t")).next_offset == 0


async def test_what_stays_of_a_deleted_topic_is_no_damage(autojump_clock: Any) -> None:
    """Units of older records, in a queue with a newer one or where the process has ended before it
    removed them.
    """
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        write_topics(disk, t=kit.wall_ms, u=kit.wall_ms)
        deleted_ms, kit.wall_ms = kit.wall_ms, kit.wall_ms + 10
        await kit.append(Message("t", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        await delete(kit, t=deleted_ms)
        assert (await kit.units("t")).next_offset == 4
    found = checked(disk, ROOT).findings
    assert found.damage == []
    assert [each for each in found.notes if "deleted" in each] == [
        "consumequeue: 9 units lead to records of deleted topics, consumequeue/t/0, unit 0 first: a"
        " start removes the queues in which nothing was stored since"
    ]


async def test_a_slave_that_is_behind_derives_nothing_that_was_deleted(autojump_clock: Any) -> None:
    data = b"".join(
        record(93 * number, b"x", queue_offset=offset, ts=ts)
        for number, (offset, ts) in enumerate([(5, 10), (6, 11), (0, 21)])
    )
    disk = sim_disk()
    async with running(disk, is_master=False) as kit:
        await delete(kit, t=20)
        await kit.open_session(1)
        await received(kit, data, 0)
        assert [unit[0] for unit in (await kit.units("t")).units] == [2 * 93]
    write_topics(disk, t=20)
    assert checked(disk, ROOT).findings.damage == []


async def test_what_is_derived_anew_does_not_come_back(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        write_topics(disk, t=kit.wall_ms)
        await delete(kit, t=kit.wall_ms)
    disk.unlink(LAYOUT.dispatched)
    async with running(disk) as kit:
        await kit.dispatched((await kit.range()).written_bytes)
        assert disk.listdir(LAYOUT.consume_queue) == ["u"]
    assert checked(disk, ROOT).findings.damage == []


@pytest.mark.parametrize("is_lost", [False, True], ids=["kill", "power loss"])
@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.004, 0.3, 1.2, 3.0])
async def test_a_crash_while_queues_go(autojump_clock: Any, after_s: float, is_lost: bool) -> None:
    """Syncs are slow, and so is the removal of many queues; a start ends what was begun."""
    disk, group = sim_disk(), small_group(durability="written")
    topics = [f"t{number}" for number in range(30)]
    async with running(disk, group) as kit:
        await filled(kit, "u", *topics, count=1)
        await trio.sleep(2.0)
        gone = dict.fromkeys(topics, kit.wall_ms)
        write_topics(disk, **gone)
        await filled(kit, "u", *topics, count=1)  # a flush may be under way
        disk.faults.slow_syncs(0.2, 10.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(delete, kit, **gone))
            await trio.sleep(after_s)
            later = twin(disk)
    if is_lost:
        later.power_loss(random.Random(1))
    else:
        later.kill()
    async with running(later, group) as kit:
        await delete(kit, **gone)
        assert is_lost or not kit.of(events.DerivedAnew), "a start does not look for them"
        assert later.listdir(LAYOUT.consume_queue) == ["u"]
        assert (await kit.units("u")).next_offset == 2
        await kit.append(Message("t3", b"x"), Message("u", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        found = await kit.units("t3")
        assert len(found.units) == 1
        assert not after_s or found.next_offset == 1, "it begins anew, once the queues were going"
        assert len((await kit.units("u")).units) == 3
    assert checked(later, ROOT).findings.damage == []


async def test_a_full_disk_delays_it(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        disk.faults.fill(10.0)
        began_s = trio.current_time()
        assert await delete(kit, t=kit.wall_ms) == 2
        assert disk.listdir(LAYOUT.consume_queue) == ["u"]
        assert trio.current_time() - began_s < 15.0


async def test_a_name_that_is_no_folder_of_a_topic_removes_nothing(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t")
        disk.mkdir(f"{ROOT}/empty")
        await delete(kit, **{"../empty": kit.wall_ms, "": kit.wall_ms, "t/0": kit.wall_ms})
        assert disk.exists(f"{ROOT}/empty")
        assert (await kit.units("t")).next_offset == 3


@pytest.mark.parametrize("is_derived", [False, True])
async def test_what_was_stored_before_the_queues_went_is_found(
    autojump_clock: Any, is_derived: bool
) -> None:
    """The dispatcher hears late of the deletion, and may not have derived yet what came after
    it.
    """
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        deleted_ms = kit.wall_ms
        kit.wall_ms += 10
        newer = [(await kit.append(Message("t", b"x"), Message("u", b"x"))).first_bytes]
        if is_derived:
            await kit.dispatched((await kit.range()).written_bytes)
        await delete(kit, t=deleted_ms)
        newer.append((await kit.append(Message("t", b"x"), Message("u", b"x"))).first_bytes)
        await kit.dispatched((await kit.range()).written_bytes)
        assert [unit[0] for unit in (await kit.units("t")).units][-2:] == newer
        assert (await kit.units("t", 1)).next_offset == 0
        await kit.append(Message("t", b"x", queue_id=1))
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t", 1)).next_offset == 1
    assert checked(disk, ROOT).findings.damage == []


async def test_what_was_stored_before_a_start_that_removes_queues_is_found(
    autojump_clock: Any,
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        deleted_ms = kit.wall_ms
        write_topics(disk, t=deleted_ms)
        kit.wall_ms += 10
        newer = [(await kit.append(Message("t", b"x"))).first_bytes]
        later = twin(disk)
    later.kill()
    async with running(later) as kit:
        kit.wall_ms += 20
        await delete(kit, t=deleted_ms)
        for _ in range(2):
            newer.append((await kit.append(Message("t", b"x"))).first_bytes)
        await kit.dispatched((await kit.range()).written_bytes)
        assert [unit[0] for unit in (await kit.units("t")).units][-3:] == newer
    assert checked(later, ROOT).findings.damage == []


async def test_a_queue_goes_although_there_is_no_room_for_its_first_file(
    autojump_clock: Any,
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "u")
        disk.faults.fail("create", errno.ENOSPC, path_part="/t/0/", times=1000, name="full")
        await kit.append(Message("t", b"x"))
        await trio.sleep(2.0)
        assert disk.faults.counts
        await delete(kit, t=kit.wall_ms)
        assert kit.of(ActorCrashed) == []
        disk.faults.disarm("full")
        await kit.append(Message("t", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t")).next_offset == 1
    assert checked(disk, ROOT).findings.damage == []


async def test_a_deletion_by_a_clock_that_was_ahead_hides_nothing_newer(
    autojump_clock: Any,
) -> None:
    """Nothing but the file has the deletion: the group has no metadata of its own any more."""
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
        write_topics(disk, t=kit.wall_ms + 3_600_000)
    for count in (1, 2):
        disk.unlink(LAYOUT.dispatched)
        async with running(disk) as kit:
            await kit.append(Message("t", b"x"))
            await kit.dispatched((await kit.range()).written_bytes)
            found = await kit.units("t")
            assert sum(not is_filler(*unit) for unit in found.units) == count
    assert checked(disk, ROOT).findings.damage == []


async def test_what_is_no_time_of_a_deletion_deletes_nothing(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await filled(kit, "t", "u")
    write_topics(disk, t=1 << 62, v=1 << 80, w=-1)
    disk.unlink(LAYOUT.dispatched)
    async with running(disk) as kit:
        await kit.append(Message("t", b"x"))
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t")).next_offset == 4
    assert checked(disk, ROOT).findings.damage == []


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_a_damaged_unit_leads_to_the_newer_record_again(
    autojump_clock: Any, number: int
) -> None:
    async with running(sim_disk()) as kit:
        await filled(kit, "t", "u")
        await delete(kit, t=kit.wall_ms)
        kit.wall_ms += 10
        newer = [(await kit.append(Message("t", b"x"))).first_bytes for _ in range(3)]
        await kit.dispatched((await kit.range()).written_bytes)
        damage(kit, queue_file(kit), bytes(range(8)), number * UNIT_BYTES)
        await mend(kit, await found_by_a_round(kit))
        assert [unit[0] for unit in (await kit.units("t")).units] == newer
        assert await found_by_a_round(kit) == []
