"""Damage in consume queues and index is found by comparing them with the log, and written again
from it; what only looks like damage is let be.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from dispatcher_kit import received
from scrub_kit import (
    COUNT,
    GROUP,
    SLOTS,
    UNITS,
    content,
    damage,
    filled,
    found_by_a_round,
    index_file,
    is_found_and_mended,
    mend,
    queue_file,
    scrub_range,
    walk_of,
)
from storage_kit import finish, record
from store_kit import Kit, running, sim_disk, small_group

from actors.events import store as events
from actors.log_types import Message
from actors.storage.derived.derived_mends import EntryMend, HeaderMend, SlotMend, UnitMend
from wire.files.consume_queue import FILLER_UNIT, UNIT_BYTES, encode_unit
from wire.files.index_file import HEADER_BYTES, slot_position, unit_position

PAGE = 4096


async def test_a_round_over_what_is_good_finds_nothing(autojump_clock: object) -> None:
    async with filled() as kit:
        assert len(kit.disk.listdir(kit.layout.commit_log)) > 1
        assert len(kit.disk.listdir(kit.layout.index)) == 3
        assert await found_by_a_round(kit) == []


@pytest.mark.parametrize("byte", [0, 3, 6, 7, 8, 11, 12, 16, 19])
@pytest.mark.parametrize("unit", [0, 1, 450, COUNT - 1])
async def test_a_bit_of_a_unit(autojump_clock: object, unit: int, byte: int) -> None:
    async with filled() as kit:
        path, at = queue_file(kit), unit * UNIT_BYTES + byte
        flipped = bytes([content(kit, path)[at] ^ 0x40])
        (found,) = await is_found_and_mended(kit, path, flipped, at)
        assert isinstance(found, UnitMend)
        assert (found.topic, found.queue_id, found.offset) == ("t", 0, unit)
        assert kit.of(events.DerivedMended) == [
            events.DerivedMended(file="consumequeue/t/0", count=1)
        ]


@pytest.mark.parametrize("page", range(5))
async def test_a_page_of_a_queue_that_is_zero(autojump_clock: object, page: int) -> None:
    async with filled() as kit:
        path = queue_file(kit)
        size = min(PAGE, COUNT * UNIT_BYTES - page * PAGE)
        found = await is_found_and_mended(kit, path, bytes(size), page * PAGE)
        assert len(found) >= size // UNIT_BYTES
        assert len((await kit.units("t", 0, 0, 1000)).units) == COUNT


@pytest.mark.parametrize("byte", [0, 3, 4, 11, 16, 19])
@pytest.mark.parametrize("unit", [1, 2, 500, UNITS - 1])
async def test_a_bit_of_an_entry(autojump_clock: object, unit: int, byte: int) -> None:
    async with filled() as kit:
        path, at = index_file(kit), unit_position(unit, SLOTS) + byte
        flipped = bytes([content(kit, path)[at] ^ 0x20])
        found = await is_found_and_mended(kit, path, flipped, at)
        assert all(isinstance(each, EntryMend) for each in found)


@pytest.mark.parametrize("number", range(3))
async def test_pages_of_an_index_file_that_are_zero(autojump_clock: object, number: int) -> None:
    """Its header and slots, slots and entries, entries."""
    async with filled() as kit:
        path = index_file(kit, number)
        used = len(content(kit, path).rstrip(b"\0"))
        for first in range(0, used, PAGE):
            part = content(kit, path)[first : first + PAGE]
            if any(part):
                found = await is_found_and_mended(kit, path, bytes(len(part)), first)
                assert {EntryMend, SlotMend, HeaderMend} >= {type(each) for each in found}
        for at in (0, COUNT - 1):
            assert len(await kit.by_key("t", f"k{at}")) == 1


@pytest.mark.parametrize("byte", [5, 13, 21, 29, 35, 39])
async def test_a_bit_of_the_header_of_a_full_file(autojump_clock: object, byte: int) -> None:
    async with filled() as kit:
        path = index_file(kit)
        flipped = bytes([content(kit, path)[byte] ^ 1])
        (found,) = await is_found_and_mended(kit, path, flipped, byte)
        assert isinstance(found, HeaderMend)
        assert byte < HEADER_BYTES


async def test_entries_that_were_added_since_are_kept(autojump_clock: object) -> None:
    async with filled() as kit:
        held = await scrub_range(kit)
        path = f"{kit.layout.index}/{held.index_name:017d}"
        newest = content(kit, path)
        slot = next(s for s in range(SLOTS) if any(newest[slot_position(s) : slot_position(s) + 4]))
        damage(kit, path, bytes(4), slot_position(slot))
        found = await found_by_a_round(kit)
        more = [
            Message("t", b"x", keys=" ".join(f"new{n}.{m}" for m in range(3))) for n in range(60)
        ]
        await kit.append(*more)
        await kit.dispatched((await kit.range()).written_bytes)
        await mend(kit, found)
        await mend(kit, await found_by_a_round(kit))  # a chain that was begun anew meanwhile
        assert await found_by_a_round(kit) == []
        for n in range(COUNT):
            assert len(await kit.by_key("t", f"k{n}")) == 1
        for n in range(60):
            assert len(await kit.by_key("t", f"new{n}.2")) == 1


async def test_what_has_changed_meanwhile_is_not_written_over(autojump_clock: object) -> None:
    async with filled() as kit:
        damage(kit, queue_file(kit), bytes(UNIT_BYTES), 10 * UNIT_BYTES)
        damage(kit, index_file(kit), bytes(20), unit_position(7, SLOTS))
        found = await found_by_a_round(kit)
        done = await mend(kit, found)
        assert done.count == len(found) >= 2
        assert (await mend(kit, found)).count == 0


# ---- what is shown ----


async def test_a_lookup_ends_before_a_damaged_unit_and_it_is_reported_once(
    autojump_clock: object,
) -> None:
    async with filled() as kit:
        good = (await kit.units("t", 0, 0, 1000)).units
        damage(kit, queue_file(kit), bytes(PAGE), PAGE)
        first = PAGE // UNIT_BYTES  # of which the page has the last bytes of the tags code
        assert (await kit.units("t", 0, 0, 1000)).units == good[:first]
        assert (await kit.units("t", 0, first, 1000)).units == ()
        assert (await kit.units("t", 0, 600, 1000)).units == good[600:]
        held = await scrub_range(kit)
        assert held.suspects == ((("t", 0), first),)
        assert (await scrub_range(kit)).suspects == ()
        walk = walk_of(kit, held, index=None, only=("t", 0))
        walk.at, walk.end = walk.queues.around(("t", 0), first)
        assert walk.end - walk.at < (held.limit_bytes - held.min_bytes) / 3
        found: list[Any] = []
        while not walk.is_done:
            found += finish(walk.step(held.min_bytes, held.limit_bytes))
        await mend(kit, found)
        assert (await kit.units("t", 0, 0, 1000)).units == good


@pytest.mark.parametrize("byte", [7, 10, 11])
async def test_a_lookup_shows_no_record_of_another_number(
    autojump_clock: object, byte: int
) -> None:
    async with filled() as kit:
        good = (await kit.units("t", 0, 0, 1000)).units
        path = queue_file(kit)
        other = content(kit, path)[6 * UNIT_BYTES : 7 * UNIT_BYTES]
        damage(kit, path, other, 5 * UNIT_BYTES)
        assert (await kit.units("t", 0, 0, 1000)).units == good[:5]
        flipped = bytes([content(kit, path)[3 * UNIT_BYTES + byte] ^ 1])
        damage(kit, path, flipped, 3 * UNIT_BYTES + byte)
        assert (await kit.units("t", 0, 0, 1000)).units == good[:3]


# ---- what is no damage ----


async def fed(kit: Kit, *parts: dict[str, Any]) -> int:
    """Records by their fields, as a slave receives them. Gives the end."""
    data = b""
    for fields in parts:
        data += record(len(data), b"x" * 10, **fields)
    await kit.open_session(1)
    await received(kit, data, 0)
    return len(data)


async def nothing_is_damaged(kit: Kit) -> None:
    """Who owns a queue knows where it ends: older records may have numbers behind that."""
    kit.events.clear()
    found = await found_by_a_round(kit)
    assert {getattr(each, "is_sure", None) for each in found} <= {False}
    assert (await mend(kit, found)).count == 0
    assert kit.of(events.QueueRebuilt) == []


NUMBERED = [{"queue_offset": n} for n in range(12)]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([{"queue_offset": n} for n in range(7, 20)], id="it begins late"),
        pytest.param([*NUMBERED, *NUMBERED[:5]], id="it began anew, and is shorter"),
        pytest.param([*NUMBERED[:5], *NUMBERED], id="it began anew, and is longer"),
        pytest.param([*NUMBERED, *NUMBERED[8:], {"queue_offset": 12}], id="given twice"),
        pytest.param([NUMBERED[0], NUMBERED[3], NUMBERED[4]], id="numbers are left out"),
        pytest.param([{"queue_offset": 0, "topic": "a\nb"}], id="a topic that is no name"),
        pytest.param(
            [
                {
                    "queue_offset": n,
                    "properties": {
                        "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b",
                        "INNER_MULTI_QUEUE_OFFSET": f"{n},{n + 3}",
                    },
                }
                for n in range(9)
            ],
            id="light queues",
        ),
        pytest.param(
            [
                {"queue_offset": n, "topic": "SCHEDULE_TOPIC_XXXX", "properties": {"DELAY": "3"}}
                for n in range(4)
            ],
            id="delayed",
        ),
    ],
)
async def test_other_states_of_queues_are_no_damage(
    autojump_clock: object, parts: list[dict[str, Any]]
) -> None:
    group = small_group(**{**GROUP, "segment_bytes": 1 << 16})
    async with running(sim_disk(), group, is_master=False) as kit:
        await fed(kit, *parts)
        await nothing_is_damaged(kit)


async def test_what_a_broker_leaves_otherwise_is_no_damage(autojump_clock: object) -> None:
    """Addresses of tags elsewhere, units of older records, fillers where nobody built a queue."""
    async with running(sim_disk(), small_group(**GROUP), is_master=False) as kit:
        end = await fed(kit, *NUMBERED, {"queue_offset": 0, "topic": "SCHEDULE_TOPIC_XXXX"})
        size = end - len(record(0, b"x" * 10, topic="SCHEDULE_TOPIC_XXXX"))
        one = size // len(NUMBERED)
        kit.disk.mkdir(f"{kit.layout.root}/consumequeue_ext")
        damage(kit, queue_file(kit), encode_unit(3 * one, one, -(1 << 40)), 3 * UNIT_BYTES)
        damage(kit, queue_file(kit), FILLER_UNIT, 4 * UNIT_BYTES)
        damage(
            kit,
            queue_file(kit, ("SCHEDULE_TOPIC_XXXX", 0)),
            encode_unit(size, end - size, 1_700_000_000_000),
            0,
        )
        assert await found_by_a_round(kit) == []
        kit.disk.rmtree(f"{kit.layout.root}/consumequeue_ext")
        assert [each.offset for each in await found_by_a_round(kit)] == [3]  # type: ignore[union-attr]


async def test_older_units_of_a_topic_that_was_made_again(autojump_clock: object) -> None:
    """As a slave of RocketMQ keeps them."""
    async with running(sim_disk(), small_group(**GROUP), is_master=False) as kit:
        end = await fed(kit, *NUMBERED, *NUMBERED[:5])
        one = end // 17
        older = b"".join(encode_unit(n * one, one, 0) for n in range(5))
        damage(kit, queue_file(kit), older, 0)
        await nothing_is_damaged(kit)


async def test_a_queue_that_began_anew_is_built_anew(autojump_clock: object) -> None:
    """Both an older and a newer record have the number of the damaged unit."""
    async with running(sim_disk(), small_group(**GROUP), is_master=False) as kit:
        await fed(kit, *NUMBERED, *NUMBERED[:5])
        before = (await kit.units("t")).units
        damage(kit, queue_file(kit), bytes(UNIT_BYTES), 2 * UNIT_BYTES)
        found = await found_by_a_round(kit)
        assert {each.is_sure for each in found} == {False}  # type: ignore[union-attr]
        assert (await mend(kit, found)).count == 0
        await trio.sleep(2)
        assert len(kit.of(events.QueueRebuilt)) == 1
        assert (await kit.units("t")).units == before
        await nothing_is_damaged(kit)


async def test_a_damaged_record_takes_nothing_with_it(autojump_clock: object) -> None:
    """What cannot be read of the log says nothing of what derives from it."""
    async with filled() as kit:
        base = kit.disk.listdir(kit.layout.commit_log)[0]
        damage(kit, f"{kit.layout.commit_log}/{base}", b"\xff" * 8, 0)
        assert await found_by_a_round(kit) == []
        damage(kit, queue_file(kit), bytes(UNIT_BYTES), (COUNT - 1) * UNIT_BYTES)
        assert len(await found_by_a_round(kit)) == 1
