"""Stores of real brokers: opened, read by offset, by queue and by key, continued, rebuilt."""

import functools
import json
import pathlib
import shutil
from typing import Any

import pytest
import trio
from storage_kit import GOLDEN, GOLDEN_SEGMENT, derived, golden_copy, index_contents, log_bytes
from store_kit import Kit, running, small_group

from actors.config import ClassicGroup
from actors.env.local_disk import LocalDisk
from actors.log_types import Message
from actors.storage.log.log_reader import LogReader
from wire.files.commit_log import decode_properties, decode_record
from wire.files.message_record import has_queue_unit

pytestmark = pytest.mark.real_io
STORES = [("5.3.3", "master"), ("5.3.3", "slave"), ("5.3.3", "late"), ("4.9.7", "master")]
WALL_MS = 1_800_000_000_000


@functools.cache
def manifest(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / version / "manifest.json").read_text())
    return found


def golden_group(**changes: Any) -> ClassicGroup:
    return small_group(
        segment_bytes=GOLDEN_SEGMENT, consume_queue_bytes=2000, max_message_bytes=60_000, **changes
    )


def records_of(version: str, node: str) -> list[dict[str, Any]]:
    least = min(int(path.name) for path in (GOLDEN / version / node / "commitlog").iterdir())
    found = manifest(version)["records"]
    return [each for each in found if "topic" in each and each["physicalOffset"] >= least]


async def read_all(kit: Kit, version: str, node: str) -> None:
    """Every record by offset, by topic and queue position, and by each of its keys."""
    held = await kit.range()
    reader = LogReader(kit.disk, held.folder, held.segment_bytes)
    records = records_of(version, node)
    await kit.dispatched(held.written_bytes)
    for want in records:
        offset, size = want["physicalOffset"], want["size"]
        record = decode_record(reader.read(offset, size, held.written_bytes), 0)
        assert record.topic == want["topic"]
        assert record.physical_offset == offset
        assert record.body_crc == want["bodyCRC"]
        properties = decode_properties(record.properties)
        assert dict(properties) == want["properties"]
        assert has_queue_unit(record.sys_flag)
        found = await kit.units(want["topic"], want["queueId"], want["queueOffset"], 1)
        assert found.first_offset == want["queueOffset"]
        assert found.units[0][:2] == (offset, size)
        for key in (*want["properties"].get("KEYS", "").split(), properties.get("UNIQ_KEY", "")):
            if key:
                assert (offset, size) in await kit.by_key(want["topic"], key)
    reader.close()
    last = records[-1]
    assert held.written_bytes == held.synced_bytes == last["physicalOffset"] + last["size"]


@pytest.mark.checklist(39, 41)
@pytest.mark.parametrize(("version", "node"), STORES)
@pytest.mark.parametrize("is_master", [True, False])
async def test_a_broker_store_opens_and_is_read_completely(
    tmp_path: pathlib.Path, version: str, node: str, is_master: bool
) -> None:
    root = golden_copy(version, node, tmp_path)
    before = log_bytes(root / "commitlog")
    queues, index = derived(root, "consumequeue"), index_contents(root)
    async with running(LocalDisk(), golden_group(), root=str(root), is_master=is_master) as kit:
        await read_all(kit, version, node)
        assert (await kit.units("nobody", 0)).units == ()
        assert await kit.by_key("GoldenA", "no such key") == ()
    # Read, not written: what the broker left is still there, byte for byte.
    assert log_bytes(root / "commitlog") == before
    assert derived(root, "consumequeue") == queues
    assert index_contents(root) == index
    assert not (root / "abort").exists()


@pytest.mark.checklist(41)
@pytest.mark.parametrize(("version", "node"), STORES)
async def test_queues_and_index_built_from_the_log_equal_the_brokers(
    tmp_path: pathlib.Path, version: str, node: str
) -> None:
    root = golden_copy(version, node, tmp_path)
    queues, index = derived(root, "consumequeue"), index_contents(root)
    checkpoint = (root / "checkpoint").read_bytes()
    for folder in ("consumequeue", "index"):
        shutil.rmtree(root / folder)
    (root / "checkpoint").unlink()
    group = golden_group(store_version="5.3.3")
    async with running(LocalDisk(), group, root=str(root)) as kit:
        await read_all(kit, version, node)
    assert derived(root, "consumequeue") == queues
    assert index_contents(root) == index
    assert (root / "checkpoint").read_bytes() == checkpoint


@pytest.mark.checklist(41, 45)
@pytest.mark.parametrize("lost", ["one queue", "one topic", "all queues", "index"])
async def test_missing_derived_files_are_rebuilt(tmp_path: pathlib.Path, lost: str) -> None:
    root = golden_copy("5.3.3", "master", tmp_path)
    queues, index = derived(root, "consumequeue"), index_contents(root)
    async with running(LocalDisk(), golden_group(), root=str(root)):
        pass
    match lost:
        case "one queue":
            shutil.rmtree(root / "consumequeue/GoldenA/2")
        case "one topic":
            shutil.rmtree(root / "consumequeue/GoldenB")
        case "all queues":
            shutil.rmtree(root / "consumequeue")
        case "index":
            shutil.rmtree(root / "index")
    async with running(LocalDisk(), golden_group(), root=str(root)) as kit:
        await read_all(kit, "5.3.3", "master")
    assert derived(root, "consumequeue") == queues
    assert index_contents(root) == index


@pytest.mark.checklist(39)
@pytest.mark.parametrize(("version", "node"), STORES)
async def test_a_broker_store_is_continued(tmp_path: pathlib.Path, version: str, node: str) -> None:
    root = golden_copy(version, node, tmp_path)
    before = log_bytes(root / "commitlog")
    group = golden_group()
    async with running(LocalDisk(), group, root=str(root), wall_clock_ms=lambda: 5) as kit:
        end = (await kit.range()).written_bytes
        topic, queue = "GoldenA", 1
        length = (await kit.units(topic, queue)).next_offset
        answer = await kit.append(
            Message(topic, b"more" * 5000, "tag9", "a-new-key", queue_id=queue), b"plain"
        )
        rolled = end - end % GOLDEN_SEGMENT + GOLDEN_SEGMENT
        assert answer.first_bytes in (end, rolled)
        await kit.dispatched(answer.next_bytes)
        await read_continued(kit, answer.first_bytes, topic, queue, length)
    assert log_bytes(root / "commitlog").startswith(before[: end - min_of(version, node)])
    async with running(LocalDisk(), group, root=str(root)) as kit:
        assert (await kit.range()).written_bytes == answer.next_bytes
        await read_continued(kit, answer.first_bytes, topic, queue, length)


def min_of(version: str, node: str) -> int:
    return min(int(path.name) for path in (GOLDEN / version / node / "commitlog").iterdir())


async def read_continued(kit: Kit, first: int, topic: str, queue: int, length: int) -> None:
    units = await kit.units(topic, queue, length)
    assert [unit[0] for unit in units.units] == [first]
    assert [offset for offset, _ in await kit.by_key(topic, "a-new-key")] == [first]
    reader = LogReader(kit.disk, kit.layout.commit_log, kit.group.segment_bytes)
    record = decode_record(reader.read(first, units.units[0][1], first + 1_000_000), 0)
    reader.close()
    assert record.queue_offset == length
    # Store timestamps never fall, though this machine's clock is behind the broker's.
    last_ts = records_of("5.3.3", "master")[-1]["storeTimestamp"]
    assert record.store_ts >= min(last_ts, records_of("4.9.7", "master")[-1]["storeTimestamp"])
    assert record.body == b"more" * 5000


@pytest.mark.checklist(44, 45)
@pytest.mark.parametrize(("version", "node"), [("5.3.3", "master"), ("5.3.3", "slave")])
async def test_a_killed_brokers_store_is_rebuilt(
    tmp_path: pathlib.Path, version: str, node: str
) -> None:
    """An abort file and a spare file, as a running broker has them: nothing derived is trusted."""
    root = golden_copy(version, node, tmp_path)
    queues, index = derived(root, "consumequeue"), index_contents(root)
    (root / "abort").write_text("4711")
    (root / f"commitlog/{4 * GOLDEN_SEGMENT:020d}").write_bytes(bytes(GOLDEN_SEGMENT))
    one = root / "consumequeue/GoldenA/2/00000000000000000000"
    raw = bytearray(one.read_bytes())
    raw[20:40] = bytes(20)  # a lost unit
    one.write_bytes(raw)
    async with running(LocalDisk(), golden_group(), root=str(root), is_master=False) as kit:
        await read_all(kit, version, node)
    assert derived(root, "consumequeue") == queues
    assert index_contents(root) == index


@pytest.mark.checklist(40, 41)
async def test_a_slave_that_receives_a_brokers_log_has_its_files(tmp_path: pathlib.Path) -> None:
    """Raw bytes in pieces that cut everything: log, queues and index as on the broker."""
    golden = GOLDEN / "5.3.3/master"
    data = log_bytes(golden / "commitlog")
    end = 243_560
    root = tmp_path / "store"
    group = golden_group(store_version="5.3.3")
    async with running(LocalDisk(), group, root=str(root), is_master=False) as kit:
        await kit.open_session(1)
        for at in range(0, end, 7001):
            await kit.receive(1, at, data[at : min(at + 7001, end)])
        await kit.dispatched(end)
        await read_all(kit, "5.3.3", "master")
        for _ in range(100):
            if (await kit.progress()).flushed_bytes >= end:
                break
            await trio.sleep(0.05)
        assert (await kit.progress()).flushed_bytes == end
    assert log_bytes(root / "commitlog") == data
    assert derived(root, "consumequeue") == derived(golden, "consumequeue")
    assert index_contents(root) == index_contents(golden)
    assert (root / "checkpoint").read_bytes() == (golden / "checkpoint").read_bytes()
