"""`check` sums up what a node mends of its consume queues and index while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from tools_kit import GROUP, LAYOUT, checked, node_disk, read_all, write_at

from actors.sim.disk import SimDisk
from wire.files.index_file import (
    IndexUnit,
    decode_index_header,
    decode_index_unit,
    encode_index_unit,
    unit_position,
)

UNITS_NEXT = 36
"""Into an index file: how many units its header says, and one more."""
QUEUE = f"{LAYOUT.consume_queue}/t/0/{0:020d}"


def flip_index(disk: SimDisk, at: int) -> None:
    name = disk.listdir(LAYOUT.index)[0]
    path = f"{LAYOUT.index}/{name}"
    write_at(disk, path, at, bytes([read_all(disk, path)[at] ^ 1]))


UNITS: dict[str, tuple[Callable[[SimDisk], None], str]] = {
    "missing unit": (
        lambda disk: write_at(disk, QUEUE, 40, bytes(20)),
        "fit the records, of 1 queue; the first is consumequeue/t/0: unit 2: miss",
    ),
    "wrong unit": (
        lambda disk: write_at(disk, QUEUE, 47, bytes([read_all(disk, QUEUE)[47] ^ 1])),
        "fit the records, of 1 queue; the first is consumequeue/t/0: unit 2: exp",
    ),
    "page": (
        lambda disk: write_at(disk, QUEUE, 0, bytes(400)),
        "0 units do not fit the records, of 1 queue; the first is consumequeue/t/0: unit 0: miss",
    ),
    "index entry of another record": (
        lambda disk: flip_index(disk, unit_position(3, 50) + 11),
        "index: 1 entry does not fit its record; the first is ",
    ),
    "index chain": (
        lambda disk: flip_index(disk, unit_position(190, 50) + 19),
        "unit 190: the chain of its slot is cut",
    ),
    "index slot": (lambda disk: flip_index(disk, 43), "index: 1 link is wrong between entries"),
    "index header": (lambda disk: flip_index(disk, 31), "header: the end is"),
    "index header in a page of zeros": (
        lambda disk: write_at(disk, index_path(disk), 0, bytes(unit_position(4, 50))),
        "index: 3 entries do not fit their records; the first is ",
    ),
    "index file of zeros": (
        lambda disk: write_at(
            disk, index_path(disk), 0, bytes(len(read_all(disk, index_path(disk))))
        ),
        "entries do not fit their records; the first is ",
    ),
}


@pytest.mark.parametrize("what", UNITS)
@pytest.mark.parametrize("rate", [None, 0])
async def test_what_a_node_mends_of_what_derives_is_summed_up(
    what: str, rate: int | None, autojump_clock: Any
) -> None:
    group = GROUP if rate is None else attrs.evolve(GROUP, scrub_bytes_per_s=rate)
    disk = await node_disk(group=group)
    harm, words = UNITS[what]
    harm(disk)
    findings = checked(disk).findings
    reported, others = findings.mends, findings.damage
    if rate is not None:
        reported, others = others, reported
    assert any(words in line for line in reported)
    assert {"a node on this store mends them" in line for line in reported} == {rate is None}
    assert others == []


async def test_an_entry_that_no_place_is_left_for_is_damage(autojump_clock: Any) -> None:
    disk = await node_disk()
    name = disk.listdir(LAYOUT.index)[0]
    disk.unlink(f"{LAYOUT.index}/{name}")
    (line,) = checked(disk).findings.damage
    assert "keys have no entry" in line


async def test_a_file_of_zeros_has_no_room_for_entries_of_files_before_it(
    autojump_clock: Any,
) -> None:
    group = attrs.evolve(GROUP, index_units_count=50)
    disk = await node_disk(group=group)
    first, *_, last = (f"{LAYOUT.index}/{name}" for name in disk.listdir(LAYOUT.index))
    write_at(disk, last, 0, bytes(len(read_all(disk, last))))
    assert checked(disk).findings.damage == []
    count = decode_index_header(read_all(disk, first)).units_next - 5
    write_at(disk, first, UNITS_NEXT, count.to_bytes(4, "big"))
    (line,) = checked(disk).findings.damage
    assert "keys have no entry" in line


async def test_an_entry_of_another_key_is_put_right_in_its_place(autojump_clock: Any) -> None:
    disk = await node_disk()
    flip_index(disk, unit_position(3, 50) + 3)
    findings = checked(disk).findings
    assert findings.damage == []
    assert any("1 entry does not fit its record" in line for line in findings.mends)


def units_of(disk: SimDisk) -> list[IndexUnit]:
    """From number 1 on."""
    data = read_all(disk, index_path(disk))
    count = decode_index_header(data).units_next
    return [decode_index_unit(data, unit_position(number, 50)) for number in range(1, count)]


def index_path(disk: SimDisk) -> str:
    return f"{LAYOUT.index}/{disk.listdir(LAYOUT.index)[0]}"


@pytest.mark.parametrize("is_later", [False, True])
async def test_an_entry_that_says_another_record_with_its_key_is_put_right(
    is_later: bool, autojump_clock: Any
) -> None:
    disk = await node_disk()
    units = units_of(disk)
    one, other = next(
        (one, other)
        for one, unit in enumerate(units)
        for other, later in enumerate(units)
        if one < other and unit.key_hash == later.key_hash
    )
    if is_later:
        one, other = other, one
    data = encode_index_unit(units[other]._replace(physical_offset=units[one].physical_offset))
    write_at(disk, index_path(disk), unit_position(other + 1, 50), data)
    findings = checked(disk).findings
    assert findings.damage == []
    assert any("not fit" in line for line in findings.mends)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("number", [0, 5])
async def test_junk_entries_do_not_keep_others_from_being_compared(
    number: int, count: int, autojump_clock: Any
) -> None:
    """They say records behind the log's end, and stand before most others."""
    disk = await node_disk()
    units = units_of(disk)
    for at in range(number, number + count):
        data = encode_index_unit(units[at]._replace(physical_offset=1 << 40 | at))
        write_at(disk, index_path(disk), unit_position(at + 1, 50), data)
    findings = checked(disk).findings
    assert (findings.damage, findings.notes) == ([], [])
    entries = "1 entry does not fit its record" if count == 1 else f"{count} entries do not fit"
    assert entries in findings.mends[0]


@pytest.mark.parametrize("half", [0, 8])
async def test_entries_that_are_zero_where_the_log_begins_are_put_right(
    half: int, autojump_clock: Any
) -> None:
    disk = await node_disk()
    bases = disk.listdir(LAYOUT.commit_log)
    disk.unlink(f"{LAYOUT.commit_log}/{bases[0]}")
    assert checked(disk).is_good
    gone = sum(unit.physical_offset < int(bases[1]) for unit in units_of(disk))
    at = unit_position(gone - 5, 50) + half
    write_at(disk, index_path(disk), at, bytes(200))
    findings = checked(disk).findings
    assert findings.damage == []
    assert any("not fit" in line for line in findings.mends)
