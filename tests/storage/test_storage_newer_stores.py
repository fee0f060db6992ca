"""What RocketMQ 5.4.0 and 5.5.0 leave: deleted topics, light message queues, batches, extended tags
codes, queues in RocksDB, entries for tags, and the sixth long of `checkpoint`.
"""

import pathlib
import shutil
import struct
from typing import Any

import pytest
from storage_kit import GOLDEN, finish, golden_copy, log_bytes, record
from store_kit import Kit, running, sim_disk, small_group
from test_storage_golden import derived, golden_group, index_contents
from test_storage_tools_check import real
from tools_kit import LAYOUT, checked, node_disk

from actors.config import ClassicGroup
from actors.env.local_disk import LocalDisk
from actors.events import store as events
from actors.log_types import Message
from actors.storage.derived.small_files import read_checkpoint, write_checkpoint
from actors.storage.derived.store_version import (
    OLDEST,
    UNKNOWN,
    WITH_LOGICS_OFFSET,
    WITH_TAG_KEYS,
    FoundFiles,
    number_of,
)
from actors.storage.layout import StoreLayout
from wire.files.commit_log import Checkpoint, scan_heads
from wire.files.index_file import key_hash, tag_key

GONE = (
    "consumequeue: {} of {} records not there, consumequeue/{} first: their topics were"
    " deleted, or they are light message queues that nobody has built, or units are kept elsewhere"
    " (RocksDB, batches); a node makes them again when it derives everything anew"
)


def group_of(**changes: Any) -> ClassicGroup:
    return small_group(
        segment_bytes=65536, consume_queue_bytes=1000, max_message_bytes=60_000, **changes
    )


@pytest.mark.real_io
@pytest.mark.parametrize(
    ("name", "records", "notes"),
    [
        ("5.5.0/states", 34, [GONE.format("2 queues", 8, "Batch/0")]),
        ("5.4.0/states", 34, [GONE.format("2 queues", 8, "Batch/0")]),
        (
            "5.5.0/extended",
            28,
            [
                GONE.format("1 queue", 5, "Gone/0"),
                "consumequeue: 16 units lead to `consumequeue_ext` for their tags,"
                " consumequeue/Again/0, unit 0 first: only a broker looks there",
            ],
        ),
        ("5.5.0/killed", 12, []),
        (
            "5.5.0/rocksdb",
            28,
            [
                GONE.format("4 queues", 28, "Again/0"),
                "checkpoint: empty or unreadable: an unclean start reads the whole log",
            ],
        ),
    ],
)
def test_valid_states_are_no_damage(name: str, records: int, notes: list[str]) -> None:
    found = real(GOLDEN / name, index_slots=50)
    assert found.is_good, found.findings
    assert found.findings.notes == notes
    assert found.records == records


@pytest.mark.real_io
async def test_the_rest_of_a_buffer_behind_the_end_is_no_damage(tmp_path: pathlib.Path) -> None:
    """A broker with writeWithoutMmap leaves it there, up to a page's end."""
    root = golden_copy("5.5.0", "nommap", tmp_path)
    found = real(root, index_slots=50)
    assert found.is_good, found.findings
    assert (found.end_bytes, found.torn_bytes) == (43658, 841)
    assert "offset 43658: magic" in found.findings.notes[0]
    path = root / "commitlog" / f"{0:020d}"
    whole = path.read_bytes()
    last = bytearray(whole)
    (size,) = struct.unpack_from(">i", whole, 43658 - 153)
    assert size == 153, "of the last record"
    last[43658 - 10] ^= 1  # in its properties: it is still whole
    last[43658 - 153 + 95] ^= 1  # in its body: it is not
    path.write_bytes(last)
    assert real(root, index_slots=50).findings.mend_count == 1
    path.write_bytes(whole)
    async with running(LocalDisk(), group_of(), root=str(root)) as kit:
        answer = await kit.append(Message("T", b"x"))
        assert answer.first_bytes == 43658
        await kit.dispatched(answer.next_bytes)
    assert real(root, index_slots=50).is_good
    assert len(list((root / "cut").iterdir())) == 1


@pytest.mark.real_io
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("4.9.7/master", OLDEST),
        ("5.3.3/slave", OLDEST),
        ("5.4.0/states", WITH_TAG_KEYS),
        ("5.5.0/states", WITH_LOGICS_OFFSET),
        ("5.5.0/killed", WITH_LOGICS_OFFSET),
    ],
)
def test_the_version_follows_from_the_files(name: str, version: int) -> None:
    assert found_version(GOLDEN / name) == version


def found_version(root: pathlib.Path) -> int:
    layout = StoreLayout(str(root))
    return finish(FoundFiles(LocalDisk(), layout, 65536, 50, 200, 0, 1 << 40).version())


@pytest.mark.real_io
def test_a_store_that_says_nothing_has_no_version(tmp_path: pathlib.Path) -> None:
    assert found_version(tmp_path) == UNKNOWN
    assert number_of("4.9.7") < number_of("5.3.3") == OLDEST < number_of("5.4.0") == WITH_TAG_KEYS
    root = golden_copy("5.4.0", "states", tmp_path)
    (index,) = (root / "index").iterdir()
    raw = bytearray(index.read_bytes())
    raw[36:40] = b"\xff" * 4  # its count of units
    index.write_bytes(raw)
    assert found_version(root) == UNKNOWN
    raw[36:40] = struct.pack(">i", 1)
    index.write_bytes(raw)
    assert found_version(root) == UNKNOWN


@pytest.mark.real_io
@pytest.mark.parametrize("version", ["5.4.0", "5.5.0"])
async def test_what_is_built_from_the_log_equals_the_brokers(
    tmp_path: pathlib.Path, version: str
) -> None:
    """But for the deleted topic, which comes back, and for batches, which are kept elsewhere."""
    root = golden_copy(version, "states", tmp_path)
    queues, index = derived(root, "consumequeue"), index_contents(root)
    checkpoint = read_checkpoint(LocalDisk(), str(root / "checkpoint"))
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    (root / "checkpoint").unlink()
    group = group_of(store_version=version)
    async with running(LocalDisk(), group, root=str(root), is_master=False) as kit:
        await kit.dispatched(4926)
    assert real(root, index_slots=50).is_good
    built = derived(root, "consumequeue")
    assert {name: built[name] for name in queues} == queues
    assert {name.partition("/")[0] for name in built.keys() - queues.keys()} == {"Gone", "Batch"}
    assert index_contents(root) == index
    mine = read_checkpoint(LocalDisk(), str(root / "checkpoint"))
    assert mine.logics_offset == checkpoint.logics_offset
    assert (mine.logics_offset > 0) == (version == "5.5.0")
    assert log_bytes(root / "commitlog") == log_bytes(GOLDEN / version / "states" / "commitlog")


@pytest.mark.real_io
async def test_what_a_broker_keeps_in_rocksdb_stays(tmp_path: pathlib.Path) -> None:
    """Queues are derived beside it, and once more when they are derived anew."""
    root = golden_copy("5.5.0", "rocksdb", tmp_path)
    (root / "index" / "notes").write_text("of a person")
    theirs = derived(root, "consumequeue")
    assert "CURRENT" in theirs
    for _ in range(2):
        async with running(LocalDisk(), group_of(), root=str(root), is_master=False) as kit:
            await kit.dispatched(3818)
            assert (await kit.units("Again")).next_offset == 4
        built = derived(root, "consumequeue")
        assert {name: built[name] for name in theirs} == theirs
        assert (root / "index" / "notes").read_text() == "of a person"
        assert real(root, index_slots=50).findings.notes == []
        (root / "dispatched").unlink()
        (root / "abort").write_text("")


@pytest.mark.real_io
async def test_a_store_goes_on_as_it_was(tmp_path: pathlib.Path) -> None:
    """Its version is found once, and outlasts the loss of all that it was found by."""
    for name, in_index in (("5.3.3/master", False), ("5.5.0/states", True)):
        version, node = name.split("/")
        root = golden_copy(version, node, tmp_path / version)
        group = golden_group() if version == "5.3.3" else group_of()
        async with running(LocalDisk(), group, root=str(root)) as kit:
            assert await has_tag_entry(kit, root, b"one") == in_index
        shutil.rmtree(root / "index")
        (root / "checkpoint").unlink()
        async with running(LocalDisk(), group, root=str(root)) as kit:
            assert await has_tag_entry(kit, root, b"two") == in_index
            assert kit.of(events.DerivedAnew)
        logics = read_checkpoint(LocalDisk(), str(root / "checkpoint")).logics_offset
        assert (logics > 0) == in_index


async def has_tag_entry(kit: Kit, root: pathlib.Path, body: bytes) -> bool:
    """Whether a record that is appended gets an entry for its tags."""
    answer = await kit.append(Message("T", body, "shade", "key"))
    await kit.dispatched(answer.next_bytes)
    wanted = struct.pack(">iq", key_hash(tag_key("T", "shade")), answer.first_bytes)
    return any(wanted in data for data in index_contents(root))


LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b/c,x", "INNER_MULTI_QUEUE_OFFSET": "{0},{0},{0}"}


def light_record(at: int, number: int, **fields: Any) -> bytes:
    properties = {name: value.format(number) for name, value in LIGHT.items()}
    return record(at, b"x", queue_offset=number, properties=properties, **fields)


async def test_light_message_queues_are_built(autojump_clock: Any) -> None:
    """What is no light queue, or no folder's name, is passed over; so are those of other topics."""
    data = b""
    for number in range(3):
        data += light_record(len(data), number)
    data += light_record(len(data), 0, topic="%RETRY%group")
    disk = await node_disk(0)
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, data)
        await kit.dispatched(len(data))
        found = await kit.units("%LMQ%a")
        assert found.units == (await kit.units("t")).units
        assert len(found.units) == 3
        assert (await kit.progress()).queue_count == 3
    assert checked(disk).findings.notes == []
    async with running(disk) as kit:
        answer = await kit.append(Message("%LMQ%a", b"x"))
        await kit.dispatched(answer.next_bytes)
        assert (await kit.units("%LMQ%a")).next_offset == 4


async def test_light_queues_that_begin_late_are_noted(autojump_clock: Any) -> None:
    """As in a store that was written before they were built."""
    disk = await node_disk(0)
    data = b""
    for number in range(3):
        data += light_record(len(data), number)
    async with running(disk, is_master=False) as kit:
        await kit.open_session(1)
        await kit.receive(1, 0, data)
        await kit.dispatched(len(data))
    path = f"{LAYOUT.consume_queue}/%LMQ%a/0/{0:020d}"
    filler = bytes.fromhex("00000000000000007fffffff0000000000000000")
    disk.open(path, "w").pwrite(filler * 2, 0)
    found = checked(disk)
    assert found.is_good, found.findings
    (line,) = found.findings.notes
    assert line.startswith("consumequeue: 2 records have no unit in a light message queue, ")
    disk.open(f"{LAYOUT.consume_queue}/t/0/{0:020d}", "w").pwrite(filler, 0)
    assert not checked(disk).is_good


async def test_a_missing_entry_for_tags_is_damage_only_behind_one(autojump_clock: Any) -> None:
    """A store that older versions began has records without."""
    disk = await node_disk(0)
    async with running(disk, small_group(store_version="5.3.3")) as kit:
        await kit.append(
            *(Message("t", b"x", "old", f"k{n}") for n in range(3)), Message("t", b"x", "o")
        )
    assert checked(disk).is_good
    async with running(disk, small_group(store_version="5.5.0")) as kit:
        await kit.append(*(Message("t", b"x", "new", f"n{n}") for n in range(3)))
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.entries == 3 + 2 * 3
    assert found.findings.notes == []
    async with running(disk, small_group(store_version="5.3.3")) as kit:
        await kit.append(Message("t", b"x", "old", "again"))
    assert [line for line in checked(disk).findings.damage if "1 of 2 keys missing" in line]


async def test_an_older_version_needs_no_entries_for_tags(autojump_clock: Any) -> None:
    """Whatever a newer one wrote before."""
    older = small_group(store_version="4.9.7")
    disk = await node_disk(0, group=older)
    for group in (small_group(store_version="5.5.1"), older):
        async with running(disk, group) as kit:
            await kit.append(Message("t", b"x", "shade", "key"))
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.entries == 3


async def test_the_checkpoint_says_no_more_than_the_log_holds(autojump_clock: Any) -> None:
    """A broker with enableAcceleratedRecovery would go on behind a hole."""
    disk = await node_disk(10)
    end, said = checked(disk).end_bytes, read_checkpoint(disk, LAYOUT.checkpoint)
    data = disk.open(f"{LAYOUT.commit_log}/{0:020d}", "r").pread(0, 4096)
    assert said.logics_offset == scan_heads(data)[0][-1].physical_offset
    write_checkpoint(disk, LAYOUT.checkpoint, Checkpoint(logics_offset=end + 7))
    (line,) = [line for line in checked(disk).findings.notes if "logicsPhysicalOffset" in line]
    assert f"{end + 7} lies behind the log's end, {end}" in line
    disk.unlink(f"{LAYOUT.abort}") if disk.exists(LAYOUT.abort) else None
    disk.open(f"{LAYOUT.commit_log}/{0:020d}", "w").pwrite(b"torn", end % 4096)
    async with running(disk):
        assert read_checkpoint(disk, LAYOUT.checkpoint).logics_offset <= end


async def test_a_log_of_one_record_has_no_offset_of_0(autojump_clock: Any) -> None:
    """A broker takes 0 for no offset, and refuses it."""
    disk = sim_disk()
    async with running(disk) as kit:
        answer = await kit.append(b"x")
        await kit.dispatched(answer.next_bytes)
    assert read_checkpoint(disk, LAYOUT.checkpoint).logics_offset == answer.next_bytes


async def test_an_older_version_has_no_sixth_long(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk, small_group(store_version="5.4.0")) as kit:
        answer = await kit.append(b"x", b"y")
        await kit.dispatched(answer.next_bytes)
    assert read_checkpoint(disk, LAYOUT.checkpoint).logics_offset == 0
