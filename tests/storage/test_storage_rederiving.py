"""After a mend of the log: queues and index that were derived from damage are derived anew."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio
from store_kit import ROOT, Kit, running, sim_disk, until

from actors.events import store as events
from actors.log_types import Message
from actors.runtime import AskTimeout
from actors.sim.disk import SimDisk
from actors.storage.dispatch.dispatcher_messages import Rederive, Rederived
from actors.storage.layout import StoreLayout

LAYOUT = StoreLayout(ROOT)
UNIT_BYTES = 20
BAD = 3
"""The record whose unit, or entry, is spoilt."""


async def filled(kit: Kit) -> list[int]:
    """Records of two topics over several files; gives where each begins."""
    places = []
    for number in range(30):
        message = Message("ab"[number % 2], b"%03d" % number * 100, keys=f"k{number}")
        places.append((await kit.append(message)).first_bytes)
    await kit.dispatched((await kit.range()).written_bytes)
    await trio.sleep(2)  # all is flushed
    return places


async def rederived(kit: Kit, start: int, end: int) -> bool:
    answer = await kit.dispatcher.ask(
        Rederived,
        lambda reply: Rederive(start_bytes=start, end_bytes=end, reply_to=reply),
        timeout_s=5,
    )
    return answer.anew


def spoil_unit(disk: SimDisk, place: int) -> None:
    """As if the record had another place when its unit was made: its topic's second one."""
    path = f"{LAYOUT.consume_queue}/b/0/{0:020d}"
    assert disk.inode(path).read(BAD // 2 * UNIT_BYTES, 8) == place.to_bytes(8, "big")
    disk.inode(path).flip_bit(BAD // 2 * UNIT_BYTES + 7, 0)


def spoil_entry(disk: SimDisk, place: int) -> None:
    """As if it had another key."""
    (name, *_) = disk.listdir(LAYOUT.index)
    path = f"{LAYOUT.index}/{name}"
    file = disk.inode(path)
    start = 40 + 50 * 4  # header and slots; then entries, a slot's first one leads to
    for number in range(40):
        at = start + number * 20
        if int.from_bytes(file.read(at + 4, 8), "big") == place:
            file.flip_bit(at + 11, 0)
            return
    raise AssertionError("no entry of it")


@pytest.mark.parametrize("spoil", [spoil_unit, spoil_entry])
async def test_what_was_derived_from_damage_is_derived_anew(
    autojump_clock: Any, spoil: Any
) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        places = await filled(kit)
        place = places[BAD]
        spoil(disk, place)
        assert not await rederived(kit, places[BAD + 1], places[BAD + 2])
        assert await rederived(kit, place + 5, place + 6)
        (reported,) = kit.of(events.DerivedAnew)
        assert "the log was damaged" in reported.reason
        await kit.dispatched((await kit.range()).written_bytes)
        for queue, first in (("a", 0), ("b", 1)):
            units = (await kit.units(queue)).units
            assert [unit[0] for unit in units] == places[first::2]
        for number, each in enumerate(places):
            ((at, _),) = await kit.by_key("ab"[number % 2], f"k{number}")
            assert at == each
        following = await kit.append(Message("a", b"more"))
        await kit.dispatched(following.next_bytes)
        await trio.sleep(2)
        assert not await rederived(kit, 0, following.next_bytes)
    async with running(disk) as kit:  # nothing of it was only in memory
        assert kit.of(events.DerivedAnew) == []
        assert [unit[0] for unit in (await kit.units("b")).units] == places[1::2]


async def test_it_waits_for_a_flush_that_runs(autojump_clock: Any) -> None:
    """Whose end says that all is derived."""
    disk = sim_disk()
    async with running(disk) as kit:
        places = await filled(kit)
        spoil_unit(disk, places[BAD])
        disk.faults.slow_syncs(3.0, 20.0)
        following = await kit.append(Message("a", b"more"), timeout_s=20)
        await trio.sleep(1.5)  # its flush has begun
        assert await rederived(kit, places[BAD], places[BAD] + 1)
        await kit.dispatched(following.next_bytes)
        assert [unit[0] for unit in (await kit.units("b")).units] == places[1::2]
        disk.faults.clear()
        await until(lambda: kit.of(events.DerivedAnew))


async def test_a_disk_without_room_is_waited_for(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        places = await filled(kit)
        spoil_unit(disk, places[BAD])
        disk.faults.fail("write", errno.ENOSPC, path_part=LAYOUT.dispatched, times=1)
        with pytest.raises(AskTimeout):
            await rederived(kit, places[BAD], places[BAD] + 1)
        following = await kit.append(Message("a", b"more"))
        await until(lambda: kit.of(events.DerivedAnew))
        await kit.dispatched(following.next_bytes)
        assert [unit[0] for unit in (await kit.units("b")).units] == places[1::2]


async def test_nobody_knows_where_the_log_cannot_be_read(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        places = await filled(kit)
        spoil_unit(disk, places[BAD])
        disk.faults.fail("read", errno.EIO, path_part="commitlog")
        assert not await rederived(kit, places[BAD], places[BAD] + 1)
        assert await rederived(kit, places[BAD], places[BAD] + 1)
