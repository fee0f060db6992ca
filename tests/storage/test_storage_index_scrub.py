"""Entries of an index that are damaged, but say what an entry may say: what stands around them
tells; and those that stand where the log begins.
"""

from __future__ import annotations

import errno
import random
import struct
from bisect import bisect_left
from typing import Any

import attrs
import pytest
import trio
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
    round_over,
    scrub_range,
    walk_of,
)
from storage_kit import finish
from store_kit import Kit, running, sim_disk, small_group

from actors.log_types import Message
from actors.sim.disk import SimDisk, SimFile
from actors.storage.derived.derived_mends import EntryMend, SlotMend
from actors.storage.dispatch import index_scrub
from actors.storage.dispatch.index_scrub import anchors
from wire.files.consume_queue import UNIT_BYTES
from wire.files.index_file import (
    HEADER_BYTES,
    INDEX_UNIT_BYTES,
    SLOT_BYTES,
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    decode_slot,
    encode_index_unit,
    slot_position,
    unit_position,
)

KEYS = 3
"""Of each record: one of its own, one that all have, and a tag that each fifth has."""
OWN, COMMON, TAG = range(KEYS)
PAGE = 4096


def position_of(kit: Kit, record: int, key: int) -> tuple[str, int]:
    """File and position of an entry."""
    file, before = divmod(KEYS * record + key, UNITS - 1)
    return index_file(kit, file), unit_position(before + 1, SLOTS)


def entry_of(kit: Kit, record: int, key: int) -> IndexUnit:
    path, at = position_of(kit, record, key)
    return decode_index_unit(content(kit, path), at)


@pytest.mark.parametrize(
    ("record", "other"),
    [
        *((300, 0), (300, 299), (300, 301), (300, 320), (300, COUNT - 1), (0, 1), (0, 500)),
        *((332, 333), (333, 332), (334, 0), (COUNT - 1, 0), (COUNT - 1, COUNT - 2)),
    ],
)
@pytest.mark.parametrize("key", [COMMON, TAG])
async def test_an_entry_that_another_record_could_have(
    autojump_clock: object, record: int, other: int, key: int
) -> None:
    async with filled() as kit:
        path, at = position_of(kit, record, key)
        data = struct.pack(">q", entry_of(kit, other, key).physical_offset)
        found = await is_found_and_mended(kit, path, data, at + 4)
        assert {type(each) for each in found} == {EntryMend}


@pytest.mark.parametrize("record", [0, 300, 332, 333, COUNT - 1])
@pytest.mark.parametrize(("key", "other"), [(OWN, COMMON), (COMMON, OWN), (TAG, COMMON)])
async def test_an_entry_that_says_another_key_of_its_record(
    autojump_clock: object, record: int, key: int, other: int
) -> None:
    async with filled() as kit:
        path, at = position_of(kit, record, key)
        data = struct.pack(">i", entry_of(kit, record, other).key_hash)
        await is_found_and_mended(kit, path, data, at)


@pytest.mark.parametrize("byte", [0, 4, 8, 12, 16])
async def test_zeros_that_begin_within_an_entry(autojump_clock: object, byte: int) -> None:
    """It has the tag of the log's first record, whose offset is zero."""
    async with filled() as kit:
        path, at = position_of(kit, 400, TAG)
        assert entry_of(kit, 400, TAG).key_hash == entry_of(kit, 0, TAG).key_hash
        await is_found_and_mended(kit, path, bytes(PAGE), at + byte)


@pytest.mark.parametrize("field", [0, 4, 12, 16])
@pytest.mark.parametrize("record", [0, 300, COUNT - 1])
async def test_a_field_that_became_negative(
    autojump_clock: object, record: int, field: int
) -> None:
    """Hash, offset, seconds and link of an entry."""
    async with filled() as kit:
        path, at = position_of(kit, record, OWN)
        await is_found_and_mended(kit, path, negative(content(kit, path), at + field), at + field)


@pytest.mark.parametrize("record", [0, 300, COUNT - 1])
async def test_an_entry_that_says_another_time(autojump_clock: object, record: int) -> None:
    """By which a broker passes it, where it is asked for what was stored then."""
    async with filled() as kit:
        path, at = position_of(kit, record, OWN)
        seconds = content(kit, path)[at + 15]
        await is_found_and_mended(kit, path, bytes([seconds ^ 1 << 6]), at + 15)


@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_an_entry_of_a_key_that_a_record_names_more_than_once(
    autojump_clock: object, count: int, share: float
) -> None:
    async with running(sim_disk(), small_group(**GROUP)) as kit:
        await kit.append(Message("t", b"", keys="before"))
        await kit.append(Message("t", b"", keys="often " * count))
        await kit.append(Message("t", b"", keys="behind"))
        await kit.dispatched((await kit.range()).written_bytes)
        await trio.sleep(2)  # all is flushed
        at = unit_position(2 + round(share * (count - 1)), SLOTS)
        await is_found_and_mended(kit, index_file(kit), bytes(8), at)


@pytest.mark.parametrize("is_used", [True, False])
async def test_a_slot_that_became_negative(autojump_clock: object, is_used: bool) -> None:
    async with filled() as kit:
        path = index_file(kit)
        data = content(kit, path)
        places = map(slot_position, range(SLOTS))
        at = next(each for each in places if (decode_slot(data, each) > 0) == is_used)
        await is_found_and_mended(kit, path, negative(data, at), at)


def negative(data: bytes, at: int) -> bytes:
    """The byte there, with its first bit set."""
    return bytes([data[at] | 1 << 7])


async def test_slots_of_a_file_are_mended_with_one_reading_of_what_was_added(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled() as kit:
        path = index_file(kit, 2)
        damage(kit, path, bytes(SLOTS * SLOT_BYTES), HEADER_BYTES)
        found = await found_by_a_round(kit)
        assert len(found) > 100
        messages = [Message("t", b"", keys=f"late{n}") for n in range(50)]
        await kit.append(*messages)
        await kit.dispatched((await kit.range()).written_bytes)
        reads: list[int] = []
        pread = SimFile.pread

        def counted(file: SimFile, at: int, size: int) -> bytes:
            reads.append(at)
            return pread(file, at, size)

        monkeypatch.setattr(SimFile, "pread", counted)
        assert (await mend(kit, found)).count > 100
        monkeypatch.undo()
        assert len(reads) <= len(found) + 1
        assert await found_by_a_round(kit) == []
        for number in (0, COUNT - 1):
            assert len(await kit.by_key("t", f"k{number}")) == 1
        assert len(await kit.by_key("t", "late49")) == 1


async def test_more_slots_than_are_mended_at_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_scrub, "MENDS_MAX", 100)
    async with filled() as kit:
        before = content(kit, index_file(kit))
        damage(kit, index_file(kit), bytes(SLOTS * SLOT_BYTES), HEADER_BYTES)
        while found := await found_by_a_round(kit):
            assert (await mend(kit, found)).count == len(found) <= 100
        assert content(kit, index_file(kit)) == before


@pytest.mark.parametrize("seed", range(8))
async def test_damage_of_any_kind(autojump_clock: object, seed: int) -> None:
    """Bits, pages, and entries in another's place, several at once."""
    rng = random.Random(seed)
    async with filled() as kit:
        files = [index_file(kit, number) for number in range(3)]
        before = [content(kit, path) for path in files]
        for _ in range(rng.randint(1, 4)):
            path = rng.choice(files)
            data = content(kit, path)
            used = len(data.rstrip(b"\0"))
            at = rng.randrange(unit_position(1, SLOTS), used)
            match rng.randrange(3):
                case 0:
                    part = bytes([data[at] ^ 1 << rng.randrange(8)])
                case 1:
                    part = bytes(min(PAGE, used - at))
                case _:
                    at -= (at - unit_position(1, SLOTS)) % INDEX_UNIT_BYTES
                    others = content(kit, rng.choice([each for each in files if each != path]))
                    other = unit_position(rng.randint(1, 600), SLOTS)
                    part = others[other : other + rng.randint(1, 8) * INDEX_UNIT_BYTES]
                    part = part[: used - at]
            damage(kit, path, part, at)
        await mend(kit, await found_by_a_round(kit))
        assert await found_by_a_round(kit) == []
        assert [entries(data) for data in map(content, [kit] * 3, files)] == [
            entries(data) for data in before
        ]


def entries(data: bytes) -> list[tuple[int, int, int]]:
    """Hash, offset and the entry before it."""
    return [
        (unit.key_hash, unit.physical_offset, unit.previous)
        for at in range(unit_position(1, SLOTS), len(data), INDEX_UNIT_BYTES)
        for unit in [decode_index_unit(data, at)]
    ]


# ---- where the log begins ----


@pytest.mark.parametrize("shift", [0, 4, 8, 13])
@pytest.mark.parametrize(
    ("begin", "first", "end"),
    [
        pytest.param(200, 100, 300, id="around its begin"),
        pytest.param(200, 0, 201, id="up to its first record"),
        pytest.param(320, 250, 400, id="over two files"),
        pytest.param(400, 320, 420, id="over two files, before its begin"),
        pytest.param(880, 860, COUNT, id="up to the index's end"),
        pytest.param(880, 0, COUNT, id="all of it"),
    ],
)
async def test_zeros_where_the_log_begins(
    autojump_clock: object, begin: int, first: int, end: int, shift: int
) -> None:
    """Entries of records that are gone are lost, and no others."""
    async with filled() as kit:
        min_bytes = entry_of(kit, begin, OWN).physical_offset
        places = [position_of(kit, record, key) for record in range(COUNT) for key in range(KEYS)]
        before = [entry_of(kit, *divmod(number, KEYS))[:2] for number in range(KEYS * COUNT)]
        for path, at in places[KEYS * first : KEYS * end - 1]:
            damage(kit, path, bytes(INDEX_UNIT_BYTES), at + shift)
        found = await found_by_a_round(kit, min_bytes)
        assert (await mend(kit, found)).count == len(found) > 0
        after = [decode_index_unit(content(kit, path), at)[:2] for path, at in places]
        assert after[KEYS * begin :] == before[KEYS * begin :]
        assert await found_by_a_round(kit, min_bytes) == []
        for record in range(begin, COUNT, 7):
            assert len(await kit.by_key("t", f"k{record}")) == 1


@pytest.mark.parametrize("min_record", [0, 200])
async def test_more_zeros_than_can_wait(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, min_record: int
) -> None:
    """Where the log begins it takes several rounds."""
    monkeypatch.setattr(index_scrub, "HELD_MAX", 256)
    monkeypatch.setattr(index_scrub, "AHEAD", 32)
    async with filled() as kit:
        min_bytes = entry_of(kit, min_record, OWN).physical_offset
        places = [position_of(kit, record, key) for record in range(COUNT) for key in range(KEYS)]
        before = [decode_index_unit(content(kit, path), at)[:2] for path, at in places]
        for path, at in places[KEYS * 100 : KEYS * 600]:
            damage(kit, path, bytes(INDEX_UNIT_BYTES), at)
        rounds = 0
        while found := await found_by_a_round(kit, min_bytes):
            assert (await mend(kit, found)).count == len(found)
            rounds += 1
        after = [decode_index_unit(content(kit, path), at)[:2] for path, at in places]
        assert after[KEYS * min_record :] == before[KEYS * min_record :]
        assert (rounds > 1) == (min_record > 0)


async def test_the_time_at_which_a_file_begins(autojump_clock: object) -> None:
    """Its header is zero, and its first record gone: other entries say it, less a second."""
    async with filled() as kit:
        path = index_file(kit)
        before = decode_index_header(content(kit, path))
        damage(kit, path, bytes(HEADER_BYTES), 0)
        min_bytes = entry_of(kit, 100, OWN).physical_offset
        await mend(kit, await found_by_a_round(kit, min_bytes))
        after = decode_index_header(content(kit, path))
        assert before.begin_ts <= after.begin_ts < before.begin_ts + 1000
        assert attrs.evolve(after, begin_ts=before.begin_ts, begin_offset=0) == before
        assert await found_by_a_round(kit, min_bytes) == []


async def test_a_file_that_cannot_be_read_is_left_for_another_round(
    autojump_clock: object,
) -> None:
    async with filled() as kit:
        disk = kit.disk
        assert isinstance(disk, SimDisk)
        held = await scrub_range(kit)
        walk = walk_of(kit, held)
        assert walk.index is not None
        walk.index.newest = (held.index_name, held.index_units_next)
        disk.faults.fail("read", errno.EIO, path_part="/index/", skip=1)
        with pytest.raises(OSError, match="index"):
            finish(walk.step(held.min_bytes, held.limit_bytes))
        damage(kit, queue_file(kit), bytes(UNIT_BYTES), (COUNT - 1) * UNIT_BYTES)
        found = []
        while not walk.is_done:
            found += finish(walk.step(held.min_bytes, held.limit_bytes))
        assert len(found) == 1
        damage(kit, index_file(kit), bytes(PAGE), unit_position(1, SLOTS))
        await mend(kit, await found_by_a_round(kit))
        assert await found_by_a_round(kit) == []


async def test_records_that_went_during_a_round_take_nothing_with_them(
    autojump_clock: object,
) -> None:
    async with filled() as kit:
        held = await scrub_range(kit)
        walk = walk_of(kit, held)
        assert walk.index is not None
        walk.index.newest = (held.index_name, held.index_units_next)
        assert finish(walk.step(held.min_bytes, held.limit_bytes)) == []
        min_bytes = entry_of(kit, COUNT - 100, OWN).physical_offset
        while not walk.is_done:
            assert finish(walk.step(min_bytes, held.limit_bytes)) == []


# ---- what is no damage ----


@pytest.mark.parametrize("number", range(3))
async def test_records_that_have_no_entries(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(index_scrub, "HELD_MAX", 256)
    async with filled() as kit:
        kit.disk.unlink(index_file(kit, number))
        assert await found_by_a_round(kit) == []


async def test_keys_that_are_not_due_any_more_and_keys_that_never_were(
    autojump_clock: object,
) -> None:
    async with filled(store_version="5.3.3") as kit:
        assert await found_by_a_round(kit) == []
        assert await found_by_a_round(kit, with_tag_keys=True) == []
    async with filled() as kit:
        assert await found_by_a_round(kit, with_tag_keys=False) == []
        path, at = position_of(kit, 300, OWN)
        damage(kit, path, bytes(INDEX_UNIT_BYTES), at)
        await mend(kit, await found_by_a_round(kit, with_tag_keys=False))
        assert await found_by_a_round(kit) == []


def chained(units: list[IndexUnit]) -> bytes:
    """Slots and units, from number 0 on."""
    slots, data = [0] * SLOTS, bytes(INDEX_UNIT_BYTES)
    for number, unit in enumerate(units, 1):
        slot = unit.key_hash % SLOTS
        data += encode_index_unit(unit._replace(previous=slots[slot]))
        slots[slot] = number
    return struct.pack(f">{SLOTS}i", *slots) + data


async def test_entries_that_stand_there_twice(autojump_clock: object) -> None:
    """As a RocketMQ broker leaves them that was killed: some of a record, and then all of it."""
    async with filled() as kit:
        held = await scrub_range(kit)
        path, end = index_file(kit, 2), held.index_units_next
        data = content(kit, path)
        units = [decode_index_unit(data, unit_position(number, SLOTS)) for number in range(1, end)]
        for at in (600, 300, 0):
            units[at:at] = units[at : at + 2]
        damage(kit, path, chained(units), HEADER_BYTES)
        held = attrs.evolve(held, index_units_next=end + 6)
        assert round_over(kit, held) == []
        all_of_it = set(units)
        for number in (1, 2, 3, 4, 5, 302, 303, 304, 305, 306, 307, end + 5):
            at, good = unit_position(number, SLOTS), content(kit, path)
            for other in (number - 1, number, number + 2):  # number: zeros
                there = unit_position(other, SLOTS)
                part = good[there : there + INDEX_UNIT_BYTES] if other != number else bytes(20)
                damage(kit, path, part, at)
                for each in round_over(kit, held):
                    if isinstance(each, EntryMend):
                        damage(kit, path, each.wanted, unit_position(each.unit, SLOTS))
                    else:
                        assert isinstance(each, SlotMend)
                        damage(kit, path, struct.pack(">i", each.wanted), slot_position(each.slot))
                assert round_over(kit, held) == []
                found = entries(content(kit, path))
                assert {unit[:2] for unit in all_of_it} <= {entry[:2] for entry in found}
                damage(kit, path, good, 0)


# ---- which are right ----


@pytest.mark.parametrize(
    ("due", "stored", "expected"),
    [
        ("", "", []),
        ("abc", "", []),
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "xabc", [(0, 1), (1, 2), (2, 3)]),
        ("abc", "axc", [(0, 0), (2, 2)]),
        ("abcd", "dabc", [(0, 1), (1, 2), (2, 3)]),
        ("abcd", "bcda", [(1, 0), (2, 1), (3, 2)]),
        ("aab", "aab", [(0, 0), (1, 1), (2, 2)]),
        ("ab", "aab", [(0, 1), (1, 2)]),
        ("aaa", "a0a", [(0, 0), (2, 2)]),
        ("aaaa", "a0aa", [(0, 0), (2, 2), (3, 3)]),
        ("aaaab", "0aa0b", [(1, 1), (2, 2), (4, 4)]),
        ("aab", "xaab", [(0, 1), (1, 2), (2, 3)]),
        ("abab", "ab0b", [(0, 0), (1, 1), (3, 3)]),
        ("aaaaaaa", "aaaa0aa", [(0, 0), (1, 1), (2, 2), (3, 3), (5, 5), (6, 6)]),
        ("aaaaaaa", "0aaaaaa", [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]),
    ],
)
def test_anchors(due: str, stored: str, expected: list[Any]) -> None:
    found = finish(anchors(*([(ord(each), 0) for each in text] for text in (due, stored))))
    assert found == expected


def test_the_work_for_equal_entries_does_not_grow_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a record that names a key a thousand times, one of whose entries is damaged."""
    tried: list[int] = []

    def counted(ends: list[int], place: int) -> int:
        tried.append(place)
        return bisect_left(ends, place)

    monkeypatch.setattr(index_scrub, "bisect_left", counted)
    count, damaged = 1000, 300
    due = [(7, 7)] * count
    stored = [*due[:damaged], (0, 0), *due[damaged + 1 :]]
    assert len(finish(anchors(due, stored))) == count - 1
    assert len(tried) <= 2 * count


@pytest.mark.parametrize(("first", "end"), [(100, 150), (0, 150), (100, COUNT), (130, 700)])
async def test_zeros_around_records_that_cannot_be_read(
    autojump_clock: object, first: int, end: int
) -> None:
    """Their entries keep their positions until they can."""
    async with filled() as kit:
        places = [position_of(kit, record, key) for record in range(COUNT) for key in range(KEYS)]
        before = [entry_of(kit, *divmod(number, KEYS))[:2] for number in range(KEYS * COUNT)]
        log = f"{kit.layout.commit_log}/{0:020d}"
        bad, at = content(kit, log), before[KEYS * 120][1]
        damage(kit, log, b"\xff" * 8, at)
        for path, position in places[KEYS * first : KEYS * end]:
            damage(kit, path, bytes(INDEX_UNIT_BYTES), position)
        found = await found_by_a_round(kit)
        assert (await mend(kit, found)).count == len(found) > 0
        after = [decode_index_unit(content(kit, path), where)[:2] for path, where in places]
        assert all(each in (due, (0, 0)) for each, due in zip(after, before, strict=True))
        damage(kit, log, bad, 0)
        while found := await found_by_a_round(kit):
            assert (await mend(kit, found)).count == len(found)
        after = [decode_index_unit(content(kit, path), where)[:2] for path, where in places]
        assert after == before
