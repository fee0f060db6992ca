"""`check`: nothing is said of whole stores, and every kind of damage is found."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from meddling_disk import MeddlingDisk
from storage_kit import GOLDEN, golden_copy, record
from store_kit import ROOT, running, small_group
from tools_kit import (
    LAYOUT,
    NODE_DIR,
    S,
    checked,
    expire,
    forget_derived,
    node_disk,
    read_all,
    starts,
    store_of,
    twin,
    write_at,
)

from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.derived.small_files import create_abort
from actors.storage.files.side_file import SideFile
from actors.storage.files.stepping import finish
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.commitlog.dump import Wanted, dump_store
from actors.storage.tools.findings import FINDINGS_MAX, StoreReport
from actors.storage.tools.stores import bytes_to_read
from actors.storage.tools.target import find_target
from wire.files.commit_log import Stop, scan
from wire.files.consume_queue import encode_unit


def real(path: pathlib.Path, **options: Any) -> StoreReport:
    disk = LocalDisk()
    (store,) = find_target(disk, str(path)).stores
    return finish(check_store(disk, store, CheckOptions(**options)))


@pytest.mark.real_io
@pytest.mark.parametrize(
    ("name", "first", "end", "records"),
    [
        ("5.3.3/master", 0, 243560, 35),
        ("5.3.3/slave", 0, 243560, 35),
        ("5.3.3/late", 196608, 243560, 18),
        ("4.9.7/master", 0, 242497, 36),
    ],
)
def test_stores_of_real_brokers_are_good(name: str, first: int, end: int, records: int) -> None:
    found = real(GOLDEN / name, index_slots=50)
    assert found.is_good, found.findings
    assert found.findings.notes == []
    assert (found.first_bytes, found.end_bytes, found.records) == (first, end, records)
    assert found.units == records
    assert found.entries > records


@pytest.mark.real_io
@pytest.mark.parametrize("stops_at", [None, 240_000])
def test_progress_counts_what_is_read(tmp_path: pathlib.Path, stops_at: int | None) -> None:
    """The last file is mostly room that was prepared, and behind its mark a log is not read."""
    path, disk = golden_copy("5.3.3", "master", tmp_path), LocalDisk()
    last = path / "commitlog" / f"{196_608:020d}"
    data = last.read_bytes()[: 243_560 - 196_608]
    with last.open("wb") as file:
        file.write(data)
        file.truncate(16 << 20)
    (store,) = find_target(disk, str(path)).stores
    bases = (0, 65_536, 131_072, 196_608)
    found = bytes_to_read(disk, attrs.evolve(store, segment_bytes=16 << 20), bases, stops_at)
    assert stops_at in (None, found)
    assert 240_000 <= found < 250_000


@pytest.mark.real_io
def test_a_check_changes_nothing(tmp_path: pathlib.Path) -> None:
    store = golden_copy("5.3.3", "master", tmp_path)

    def content() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(store.rglob("*")) if p.is_file()}

    before = content()
    real(store, index_slots=50)
    assert content() == before


@pytest.mark.real_io
def test_the_number_of_index_slots_has_to_be_known(tmp_path: pathlib.Path) -> None:
    found = real(GOLDEN / "5.3.3/master")
    assert found.is_good
    assert "--index-slots" in found.findings.notes[0]
    with pytest.raises(ConfigError, match=r"--index-slots: expected .*, found 7777"):
        real(GOLDEN / "5.3.3/master", index_slots=7777)


@pytest.mark.real_io
def test_damage_in_a_brokers_store_is_found(tmp_path: pathlib.Path) -> None:
    store = golden_copy("5.3.3", "master", tmp_path)
    path = store / "commitlog" / f"{65536:020d}"
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    found = real(store, index_slots=50)
    assert [line for line in found.findings.damage if "body CRC" in line]


async def test_a_node_that_was_stopped_in_order_is_good(autojump_clock: Any) -> None:
    disk = await node_disk()
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.findings.notes == []
    assert (found.records, found.units, found.queues) == (150, 150, 6)
    assert found.entries == 200
    assert found.index_files > 0
    assert found.files > 2
    assert found.end_bytes == found.mark_bytes == found.dispatched_bytes


def queue_path(disk: SimDisk) -> str:
    folder = f"{LAYOUT.consume_queue}/t/0"
    return f"{folder}/{disk.listdir(folder)[0]}"


def index_path(disk: SimDisk) -> str:
    return f"{LAYOUT.index}/{disk.listdir(LAYOUT.index)[0]}"


def segment(number: int) -> str:
    return f"{LAYOUT.commit_log}/{number * S:020d}"


def flip(disk: SimDisk, path: str, at: int) -> None:
    write_at(disk, path, at, bytes([read_all(disk, path)[at] ^ 1]))


def mark(disk: SimDisk, offset: int) -> None:
    side, _ = SideFile.open(disk, LAYOUT.synced, 1)
    side.write((offset,))
    side.sync()
    side.close()


def resize(disk: SimDisk, path: str, size: int) -> None:
    file = disk.open(path, "w")
    file.resize(size)
    file.sync()


def change_blank(disk: SimDisk) -> None:
    """The first file's filler says another size."""
    _, stopped = scan(read_all(disk, segment(0)), physical_offset=0)
    assert stopped.stop is Stop.BLANK
    flip(disk, segment(0), stopped.end + 3)


DAMAGES: dict[str, tuple[Callable[[SimDisk], None], str]] = {
    "place": (lambda disk: flip(disk, segment(1), 35), "physical offset"),
    "magic": (lambda disk: flip(disk, segment(1), 5), "magic"),
    "zeros below the mark": (
        lambda disk: write_at(disk, segment(1), 0, bytes(S)),
        "was synced once",
    ),
    "filler": (change_blank, "a BLANK of"),
    "missing file": (lambda disk: disk.unlink(segment(1)), "the file is missing"),
    "last file missing": (
        lambda disk: [
            disk.unlink(f"{LAYOUT.commit_log}/{name}")
            for name in disk.listdir(LAYOUT.commit_log)[2:]
        ],
        "all below",
    ),
    "short file": (lambda disk: resize(disk, segment(0), 1000), "expected 4096 bytes"),
    "no files": (lambda disk: disk.rmtree(LAYOUT.commit_log), "no files"),
    "unreadable mark": (
        lambda disk: write_at(disk, LAYOUT.synced, 0, b"x" * 1024),
        "the synced mark cannot be read",
    ),
    "mark above the end": (lambda disk: mark(disk, 1 << 20), "was synced"),
    "unit without a record": (
        lambda disk: write_at(disk, queue_path(disk), 25 * 20, encode_unit(5000, 100, 0)),
        "unit 25: points at 5000",
    ),
    "queue without a record": (
        lambda disk: (
            disk.mkdir(f"{LAYOUT.consume_queue}/v/0"),
            disk.open(f"{LAYOUT.consume_queue}/v/0/{0:020d}", "x").resize(2000),
            write_at(disk, f"{LAYOUT.consume_queue}/v/0/{0:020d}", 0, encode_unit(5000, 100, 0)),
        ),
        "v/0: unit 0: points at 5000",
    ),
    "queue file of a wrong size": (
        lambda disk: resize(disk, queue_path(disk), 1980),
        "expected 2000",
    ),
    "index header counts too much": (
        lambda disk: write_at(disk, index_path(disk), 36, b"\0\1\0\0"),
        "more than it can hold",
    ),
    "no index": (lambda disk: disk.unlink(index_path(disk)), "keys missing"),
}


@pytest.mark.parametrize("what", DAMAGES)
async def test_damage_is_found_and_named(what: str, autojump_clock: Any) -> None:
    disk = await node_disk()
    harm, words = DAMAGES[what]
    harm(disk)
    found = checked(disk)
    assert not found.is_good
    assert any(words in line for line in found.findings.damage), found.findings


async def test_a_check_is_half_way_when_half_of_the_log_is_read(autojump_clock: Any) -> None:
    """Most of its only file was never written."""
    disk = await node_disk(group=small_group(segment_bytes=1 << 20))
    store = store_of(disk)
    steps = list(check_store(disk, store, CheckOptions()))
    ends = [(step.done_bytes, step.total_bytes) for step in steps if step.what == "orders: log"]
    assert ends
    assert all(done == total < 65_536 for done, total in ends)
    dumped = list(dump_store(disk, store, Wanted(), lambda data: None))
    assert all(step.done_bytes < 65_536 for step in dumped)


async def test_every_record_is_looked_at(autojump_clock: Any) -> None:
    """A flipped bit in any body is found: the CRC of each is compared."""
    disk = await node_disk(30)
    data = read_all(disk, segment(0))
    for at in range(200, 1200, 97):
        if data[at : at + 1].isdigit():
            hurt = twin(disk)
            flip(hurt, segment(0), at)
            assert not checked(hurt).is_good, at


async def test_a_torn_end_above_the_mark_is_no_damage(autojump_clock: Any) -> None:
    """What a power loss leaves: the next start sets it aside, and says the same end."""
    disk = await node_disk()
    end = checked(disk).end_bytes
    torn = record(end, b"torn")[:-20]
    write_at(disk, segment(end // S), end % S, torn)
    create_abort(disk, LAYOUT.abort, "n0")
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.state == "not stopped in order"
    assert found.end_bytes == end
    assert found.torn_bytes == len(torn.rstrip(b"\0"))
    assert "sets them aside" in found.findings.notes[0]
    assert starts(disk) == end


async def test_good_records_above_the_mark_belong_to_the_log(autojump_clock: Any) -> None:
    disk = await node_disk()
    end = checked(disk).end_bytes
    more = record(end, b"unsynced")
    write_at(disk, segment(end // S), end % S, more)
    create_abort(disk, LAYOUT.abort, "n0")
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.end_bytes == end + len(more) == starts(disk)


async def test_damage_and_a_start_agree(autojump_clock: Any) -> None:
    """Whatever bit flips in the last file, `check` refuses where the start does."""
    disk = await node_disk(40)
    end = checked(disk).end_bytes
    base = end - end % S
    for at in range(0, end - base, 41):
        hurt = twin(disk)
        flip(hurt, segment(base // S), at)
        forget_derived(hurt)  # a start does not compare them with the log
        create_abort(hurt, LAYOUT.abort, "n0")
        good = checked(hurt).is_good
        if good:
            starts(hurt)
        else:
            with pytest.raises(CorruptLog):
                starts(hurt)


async def test_an_interrupted_truncation_is_reported(autojump_clock: Any) -> None:
    disk = await node_disk()
    side, _ = SideFile.open(disk, LAYOUT.truncating, 2)
    side.write((S, S))
    side.sync()
    assert "a truncation to 4096 was interrupted" in checked(disk).findings.notes[0]


async def test_what_is_not_dispatched_yet_is_not_missed(autojump_clock: Any) -> None:
    """After a kill the derived files reach as far as the last flush noted, and no further."""
    disk = await node_disk()
    before = checked(disk)
    async with running(disk) as kit:
        await kit.append(b"x" * 100)
        assert checked(disk, is_running=True).is_good
    write_at(disk, queue_path(disk), 25 * 20, encode_unit(1 << 30, 100, 0))
    create_abort(disk, LAYOUT.abort, "n0")
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.records == before.records + 1


async def test_a_running_node_is_read_up_to_its_mark(autojump_clock: Any) -> None:
    """Whatever stands above it may be half written."""
    disk = await node_disk()
    end = checked(disk).end_bytes
    async with running(disk):
        write_at(disk, segment(end // S), end % S, b"half a record")
        found = checked(disk, is_running=True)
        assert found.is_good, found.findings
        assert found.state == "running"
        assert found.end_bytes == end
        write_at(disk, segment(end // S), end % S, bytes(13))
        flip(disk, segment(0), 35)
        damage = checked(disk, is_running=True).findings.damage
        assert "byte 0 (offset 0): physical offset" in damage[0]


async def test_what_is_derived_before_it_is_synced_is_no_stray(autojump_clock: Any) -> None:
    """A `written` group's dispatcher runs ahead of the mark; so does the log."""
    disk = await node_disk()
    end = checked(disk).end_bytes
    mark(disk, end - 2000)
    found = checked(disk, is_running=True)
    assert found.is_good, found.findings
    assert found.findings.notes == []
    assert found.end_bytes <= end - 2000


async def test_what_expires_while_it_is_checked_is_not_missed(autojump_clock: Any) -> None:
    """Whenever the files go: none is missed, and nothing that they held."""
    group = small_group(consume_queue_bytes=200, index_units_count=20)
    template = await node_disk(120, group=group)
    noted = 0
    for number in range(10_000):
        disk = twin(template)
        meddling = MeddlingDisk(disk, number, partial(expire, disk, group, 4))
        found = checked(meddling, is_running=True)
        if not meddling.met:
            break
        assert found.is_good, (number, found.findings)
        assert all("expired while it was checked" in line for line in found.findings.notes)
        noted += len(found.findings.notes)
    assert number > 100
    assert noted > 3


async def test_a_file_that_cannot_be_read_is_damage(autojump_clock: Any) -> None:
    disk = await node_disk()
    records = checked(disk).records
    disk.faults.fail("read", errno.EIO, path_part=segment(1), times=99)
    found = checked(disk)
    assert found.findings.damage == [f"{segment(1)}: Input/output error"]
    assert records / 2 < found.records < records
    disk.faults.clear()
    assert checked(disk).is_good


async def test_findings_are_bounded(autojump_clock: Any) -> None:
    disk = await node_disk(400)
    for queue in (f"{topic}/{number}" for topic in "tu" for number in range(3)):
        write_at(disk, f"{LAYOUT.consume_queue}/{queue}/{0:020d}", 0, bytes(2000))
    for number in range(6):
        folder = f"{LAYOUT.consume_queue}/v/{number}"
        disk.mkdir(folder)
        disk.open(f"{folder}/{0:020d}", "x").resize(2000)
        write_at(disk, f"{folder}/{0:020d}", 0, encode_unit(5000, 100, 0) * 20)
    found = checked(disk)
    assert len(found.findings.damage) == FINDINGS_MAX
    assert found.findings.damage_count == 120
    assert found.findings.mend_count == 1
    assert "400 units do not fit the records, of 6 queues" in found.findings.mends[0]


async def test_an_empty_store_and_a_node_without_groups(autojump_clock: Any) -> None:
    disk = await node_disk(0)
    found = checked(disk)
    assert found.is_good
    assert (found.files, found.records, found.end_bytes) == (0, 0, 0)
    disk.rmtree(f"{NODE_DIR}/groups")
    assert find_target(disk, NODE_DIR).stores == ()


async def test_what_a_folder_is(autojump_clock: Any) -> None:
    disk = await node_disk(5)
    assert find_target(disk, ROOT).node_dir == NODE_DIR
    with pytest.raises(ConfigError, match=r", orders, found order"):
        find_target(disk, NODE_DIR, "order")
    with pytest.raises(ConfigError, match="found no such folder"):
        find_target(disk, "/nowhere")
    disk.mkdir("/empty")
    with pytest.raises(ConfigError, match="found nothing in it"):
        find_target(disk, "/empty")
    disk.unlink(f"{NODE_DIR}/identity.json")
    with pytest.raises(ConfigError, match="the copy is incomplete"):
        find_target(disk, NODE_DIR)
    write_at_new(disk, "/file", b"x")
    with pytest.raises(ConfigError, match="found a file"):
        find_target(disk, "/file")


def write_at_new(disk: SimDisk, path: str, data: bytes) -> None:
    disk.open(path, "x").pwrite(data, 0)
