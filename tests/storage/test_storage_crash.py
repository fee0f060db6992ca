"""Whole stores through kills and power losses: what was answered is there, and is found."""

import errno
import random
from contextlib import suppress
from typing import Any

import pytest
import trio
from storage_kit import finish, record
from store_kit import ROOT, Kit, local_reply, running, sim_disk, small_group
from store_tree import Died, die_after, dying, leaves

from actors.errors import CorruptLog, TriologError
from actors.events import store as events
from actors.log_types import Message
from actors.runtime import ActorDown
from actors.sim.disk import SimDisk
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.opening import OpenedStore, open_store
from actors.storage.files.side_file import SideFile
from actors.storage.layout import StoreLayout
from actors.storage.log import truncation
from actors.storage.log.log_reader import LogReader
from wire.files.commit_log import decode_record

S = 4096


async def life(disk: SimDisk, group: Any, rng: random.Random, answered: dict[str, int]) -> None:
    """Append from several tasks until the machine dies."""

    async def appender(kit: Kit, name: str) -> None:
        number = 0
        while True:
            key = f"{name}.{number}"
            number += 1
            body = rng.randbytes(rng.choice([1, 50, 900]))
            try:
                answer = await kit.append(Message(f"t{rng.randrange(2)}", body, keys=key))
            except (TriologError, ActorDown, OSError):
                return
            answered[key] = answer.first_bytes
            await trio.sleep(rng.random() * 0.01)

    with dying():
        async with running(disk, group) as kit, trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(appender, kit, f"{len(answered)}-{number}")
            await trio.sleep(rng.random() * 1.6)
            if rng.random() < 0.5:
                kit.power_loss()
            else:
                kit.kill()
            nursery.cancel_scope.cancel()


@pytest.mark.checklist(25, 44)
@pytest.mark.parametrize("seed", range(6))
async def test_what_was_answered_survives(autojump_clock: Any, seed: int) -> None:
    rng = random.Random(seed)
    disk = sim_disk(seed)
    group = small_group(
        index_units_count=rng.choice([9, 200]), consume_queue_bytes=rng.choice([100, 2000])
    )
    answered: dict[str, int] = {}
    for _ in range(4):
        await life(disk, group, rng, answered)
    async with running(disk, group) as kit:
        end = (await kit.range()).written_bytes
        await kit.dispatched(end)
        reader = LogReader(disk, kit.layout.commit_log, S)
        by_place = {}
        for key, offset in answered.items():
            size = int.from_bytes(reader.read(offset, 4, end), "big")
            head = decode_record(reader.read(offset, size, end), 0)
            assert head.properties_map["KEYS"] == key
            by_place[offset] = (head.topic, head.queue_offset)
        for topic in ("t0", "t1"):
            units = []
            while (found := await kit.units(topic, 0, len(units))).units:
                units += [unit[0] for unit in found.units]
            assert units == sorted(set(units))
            places = {o: q for o, (t, q) in by_place.items() if t == topic}
            assert all(units[queue_offset] == offset for offset, queue_offset in places.items())
        for key in rng.sample(sorted(answered), min(20, len(answered))):
            topic = by_place[answered[key]][0]
            assert [offset for offset, _ in await kit.by_key(topic, key)] == [answered[key]]
    assert len(answered) > 20


async def test_damage_below_the_mark_refuses_the_start_and_changes_nothing(
    autojump_clock: Any,
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        for number in range(10):
            await kit.append(b"%d" % number * 1000)
    path = f"{ROOT}/commitlog/{S:020d}"
    disk.flip_bits(path, 200, 20)
    before = disk.open(path, "r").pread(0, S)
    disk.open(f"{ROOT}/abort", "x")
    for _ in range(2):
        with pytest.RaisesGroup(CorruptLog, flatten_subgroups=True, allow_unwrapped=True) as caught:
            async with running(disk):
                pass
        (error,) = leaves(caught.value)
        assert path in str(error)
        assert "synced once; nothing was changed" in str(error)
        assert disk.open(path, "r").pread(0, S) == before
    group = small_group(compat="upstream")
    async with running(disk, group) as kit:  # upstream's way: cut, though kept aside
        held = await kit.range()
        assert held.written_bytes == S
        assert len(kit.of(events.LogTruncated)) == 1
    assert len(disk.listdir(f"{ROOT}/cut")) > 1


async def test_an_unreadable_mark_refuses_the_start(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(b"x")
        await kit.append(b"x")
    disk.flip_bits(f"{ROOT}/synced", 8, 8)
    disk.flip_bits(f"{ROOT}/synced", 520, 8)
    with pytest.RaisesGroup(CorruptLog, flatten_subgroups=True, allow_unwrapped=True) as caught:
        async with running(disk):
            pass
    assert "synced mark cannot be read" in str(leaves(caught.value)[0])
    disk.unlink(f"{ROOT}/synced")
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes == 196


async def test_a_log_that_vanished_refuses_the_start(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(b"x")
    disk.rmtree(f"{ROOT}/commitlog")
    with pytest.RaisesGroup(CorruptLog, flatten_subgroups=True, allow_unwrapped=True) as caught:
        async with running(disk):
            pass
    assert "no files, but all below 98 was synced" in str(leaves(caught.value)[0])


async def test_an_unreadable_dispatch_state_means_a_rebuild(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"x", keys="k"))
    disk.flip_bits(f"{ROOT}/dispatched", 8, 8)
    disk.flip_bits(f"{ROOT}/dispatched", 520, 8)
    async with running(disk) as kit:
        assert kit.of(events.DispatchStarted)[0].from_bytes == 0
        await kit.append(Message("t", b"y"))
        await kit.dispatched((await kit.range()).written_bytes)
        assert (await kit.units("t")).next_offset == 2
        assert len(await kit.by_key("t", "k")) == 1


@pytest.mark.checklist(25, 40)
@pytest.mark.parametrize("seed", range(8))
async def test_a_slave_cut_anywhere_goes_on_to_the_same_log(autojump_clock: Any, seed: int) -> None:
    rng = random.Random(seed)
    source = sim_disk(100 + seed)
    async with running(source) as kit:
        for number in range(40):
            size = rng.choice([1, 200, 1500])
            await kit.append(Message("t", rng.randbytes(size), f"tag{number}", f"key{number}"))
        end = (await kit.range()).written_bytes
        reader = LogReader(source, kit.layout.commit_log, S)
        data = b"".join(reader.read(at, S, end) for at in range(0, end, S))
    disk = sim_disk(seed)
    reported = 0
    for session in range(1, 30):
        with dying():
            async with running(disk, is_master=False) as kit:
                at = (await kit.range()).written_bytes
                assert at <= end
                assert reported - 4200 <= at  # at most the record that was cut
                if at == end:
                    break
                await kit.open_session(session)
                for _ in range(rng.randrange(1, 12)):
                    piece = data[at : at + rng.randrange(1, 900)]
                    if piece:
                        await kit.receive(session, at, piece)
                    at += len(piece)
                    await trio.sleep(rng.random() * 0.01)
                reported = (await kit.range()).synced_bytes
                rng.choice([kit.kill, kit.power_loss, lambda: None])()
    async with running(disk, is_master=False) as kit:
        reader = LogReader(disk, kit.layout.commit_log, S)
        held = await kit.range()
        got = b"".join(reader.read(at, S, held.written_bytes) for at in range(0, end, S))
        assert got == data[: held.written_bytes]
        await kit.dispatched(held.written_bytes)
        assert held.written_bytes > end // 2


async def test_an_append_written_but_never_synced_may_be_gone(autojump_clock: Any) -> None:
    """And is not answered: a power loss leaves the log at what was synced."""
    disk = sim_disk()
    with dying():
        async with running(disk) as kit:
            first = await kit.append(b"one")
            disk.faults.slow_syncs(100.0, 100.0)
            await kit.store.tell(
                store_messages.Append(
                    records=(b"two",),
                    deadline_s=trio.current_time() + 9,
                    reply_to=local_reply([]),
                )
            )
            await trio.sleep(1)
            assert (await kit.range()).written_bytes > first.next_bytes
            kit.power_loss()
    async with running(disk) as kit:
        assert (await kit.range()).written_bytes >= first.next_bytes


@pytest.mark.parametrize(("after_s", "sure"), [(1.0, 1), (6.0, 2)])
@pytest.mark.parametrize("seed", range(6))
async def test_a_stop_marks_nothing_whose_sync_is_under_way(
    autojump_clock: Any, seed: int, after_s: float, sure: int
) -> None:
    """The store stops before the syncer, and waits for its sync: power may fail in between."""
    disk = sim_disk(seed)

    async def late(kit: Kit) -> None:
        with suppress(ActorDown):
            await kit.append(b"y")

    with dying():
        async with running(disk) as kit, trio.open_nursery() as nursery:
            await kit.append(b"x")
            disk.faults.slow_syncs(4.0, 0.05)
            nursery.start_soon(late, kit)
            await trio.sleep(0.1)
            kit.system.request_stop()
            await trio.sleep(after_s)
            assert not kit.store.alive
            kit.power_loss()
            nursery.cancel_scope.cancel()
    async with running(disk) as kit:
        (recovered,) = kit.of(events.RecoveryFinished)
        assert sure <= recovered.record_count <= 2


def test_what_an_opening_finds_is_below_the_mark_at_once() -> None:
    """Others learn of it next, so it may not be cut any more."""
    disk, layout, group = sim_disk(), StoreLayout(ROOT), small_group()
    store_ = finish(open_store(disk, layout, group, is_master=True, owner="n0"))
    store_.log.append(record(0, b"x"))
    disk.kill()
    again = finish(open_store(disk, layout, group, is_master=True, owner="n0"))
    end = again.log.written_bytes
    assert end > 0
    disk.power_loss()
    third = finish(open_store(disk, layout, group, is_master=True, owner="n0"))
    assert third.log.written_bytes == end
    assert third.found.scanned_from_bytes == 0
    durable = disk.durable(layout.synced)
    assert durable is not None
    assert end.to_bytes(8, "big") in durable


@pytest.mark.checklist(47)
@pytest.mark.parametrize("marked", [False, True])
def test_what_a_failed_sync_left_in_the_cache_is_written_again(marked: bool) -> None:
    """After a sync that failed, the kernel takes pages for clean that are not on the disk."""
    disk, layout, group = sim_disk(), StoreLayout(ROOT), small_group()
    store_ = finish(open_store(disk, layout, group, is_master=True, owner="n0"))
    log = store_.log
    log.append(record(0, b"x"))
    if marked:
        disk.open(log.path_of(0), "w").sync()
        store_.mark.write((log.written_bytes,))
        store_.mark.sync()
    log.append(record(log.written_bytes, b"y"))
    disk.faults.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        disk.open(log.path_of(0), "w").sync()
    disk.kill()
    again = finish(open_store(disk, layout, group, is_master=True, owner="n0"))
    end = again.log.written_bytes
    assert end == log.written_bytes
    durable = disk.durable(log.path_of(0))
    assert durable is not None
    assert durable[:end] == disk.inode(log.path_of(0)).read(0, end)


@pytest.mark.checklist(45)
@pytest.mark.parametrize("seed", range(8))
def test_a_truncation_that_is_over_does_not_come_back(seed: int) -> None:
    """Killed when its end was written and not synced; then a power loss, with newer records."""
    disk, layout = sim_disk(seed), StoreLayout(ROOT)
    disk.mkdir(ROOT)
    intent, _ = SideFile.open(disk, layout.truncating, 2)
    intent.write((100, S))
    intent.sync()
    intent.write((truncation.NOTHING, 0))
    disk.kill()
    assert truncation.finish_interrupted(disk, layout) is None
    disk.power_loss()
    assert truncation.finish_interrupted(disk, layout) is None


@pytest.mark.checklist(25, 45)
@pytest.mark.parametrize("loses_power", [False, True])
def test_dying_at_every_step_of_an_opening(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool
) -> None:
    """A slave whose synced mark lies inside a record; its opening cuts, and dies over it."""
    layout, group = StoreLayout(ROOT), small_group()

    def open_it(disk: SimDisk) -> OpenedStore:
        return finish(open_store(disk, layout, group, is_master=False, owner="n1"))

    steps = 0
    died = True
    while died:
        disk = sim_disk(steps)
        store_ = open_it(disk)
        whole = record(0, b"x" * 2000)
        cut = record(len(whole), b"y" * 1000)
        store_.log.append(whole + cut[:500])
        disk.open(store_.log.path_of(0), "w").sync()
        store_.mark.write((len(whole) + 500,))
        store_.mark.sync()
        disk.kill()
        die_after(monkeypatch, steps)
        try:
            open_it(disk)
            died = False
        except Died:
            died = True
        monkeypatch.undo()
        if loses_power:
            disk.power_loss()
        else:
            disk.kill()
        again = open_it(disk)
        assert again.log.written_bytes == len(whole)
        kept = [disk.stat(f"{layout.cut}/{name}").size_bytes for name in disk.listdir(layout.cut)]
        assert 500 in kept or not died
        steps += 1
    assert steps > 15
