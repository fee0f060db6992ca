"""The files of config/: a real broker's are read, ours are whole at any time."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import random
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.env.local_disk import LocalDisk
from actors.metadata.config_folder import ConfigFolder
from actors.metadata.core import kinds
from actors.metadata.core.changes import put_topic
from actors.metadata.core.kinds import KINDS, Kind
from actors.metadata.core.tables import Tables
from actors.sim.disk import SimDisk
from actors.storage.files.room import NoRoom
from wire.broker.metadata import TimerCheckpoint
from wire.broker.topics import DataVersion, TopicConfig, TopicTable

GOLDEN = Path(__file__).parents[1] / "golden" / "classic"
FOLDER = "/data/config"
LONG_S = 3600.0


def disk_with(**files: bytes) -> SimDisk:
    """A folder with files, "__" for a dot in their names."""
    disk = SimDisk(random.Random(1))
    disk.mkdir(FOLDER)
    for name, data in files.items():
        put(disk, f"{FOLDER}/{name.replace('__', '.')}", data)
    return disk


def put(disk: Any, path: str, data: bytes) -> None:
    with contextlib.closing(disk.open(path, "x")) as file:
        file.pwrite(data, 0)
        file.sync()
    disk.sync_dir(FOLDER)


def content(disk: Any, name: str, folder: str = FOLDER) -> bytes:
    with contextlib.closing(disk.open(f"{folder}/{name}", "r")) as file:
        data: bytes = file.pread(0, 1 << 20)
        return data


def folder(disk: Any, path: str = FOLDER) -> ConfigFolder:
    return ConfigFolder(disk, path, "n0/orders")


def topics(*names: str) -> Any:
    tables = Tables()
    for name in names:
        tables = put_topic(tables, TopicConfig(topic_name=name), 1000)
    return tables.topics


def encoded(*names: str) -> bytes:
    return kinds.TOPICS.encode_file(topics(*names))


@pytest.mark.parametrize(
    ("version", "node"), [("4.9.7", "master"), ("5.3.3", "master"), ("5.3.3", "slave")]
)
async def test_a_brokers_folder_is_read_and_written_again(
    version: str, node: str, tmp_path: Path
) -> None:
    """Every file, with the same content; what was there is the backup."""
    disk = LocalDisk()
    path = tmp_path / "config"
    shutil.copytree(GOLDEN / version / node / "config", path)
    for each in path.iterdir():
        each.chmod(0o644)
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    with contextlib.closing(folder(disk, str(path))) as config:
        tables = config.read()
        assert "GoldenA" in tables.topics.topic_config_table
        assert tables.consumer_offsets.offset_table["GoldenA@C_drive"][1] in (5, 6)
        for kind in KINDS:
            await config.write(kind, getattr(tables, kind.name))
        assert folder(disk, str(path)).read() == tables
    for name, text in before.items():
        assert (path / f"{name}.bak").read_bytes() == text
        json.loads((path / name).read_bytes())
    assert len(list(path.iterdir())) == len(before) + len(KINDS)


async def test_an_empty_folder_has_empty_tables(autojump_clock: object) -> None:
    disk = SimDisk(random.Random(1))
    with contextlib.closing(folder(disk)) as config:
        assert config.read() == Tables()
        await config.write(kinds.TOPICS, topics("a"))
        checkpoint = TimerCheckpoint(last_read_ms=5, data_version=DataVersion(counter=1))
        await config.write(kinds.TIMER_CHECKPOINT, checkpoint)
    assert len(content(disk, "timercheck")) == 4096
    assert folder(disk).read() == Tables(topics=topics("a"), timer_checkpoint=checkpoint)


@pytest.mark.parametrize("damaged", [b"", b"\0" * 4096, b"{", b"[]", b"\xff" * 9])
async def test_the_backup_is_used_and_survives_what_is_damaged(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, damaged: bytes
) -> None:
    disk = disk_with(topics__json=damaged, topics__json__bak=encoded("a"))
    with contextlib.closing(folder(disk)) as config:
        assert config.read().topics == topics("a")
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "topics.json is" in caplog.text
        assert "its backup is used" in caplog.text
        await config.write(kinds.TOPICS, topics("a", "b"))
        assert content(disk, "topics.json.bak") == encoded("a"), "never a damaged one"
        assert content(disk, "topics.json.damaged") == damaged
        await config.write(kinds.TOPICS, topics("a", "b", "c"))
    assert content(disk, "topics.json.bak") == encoded("a", "b")
    assert folder(disk).read().topics == topics("a", "b", "c")


async def test_what_neither_file_has_begins_empty_and_says_so(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_with(
        topics__json=b"{", topics__json__bak=b"", delayOffset__json=b'{"offsetTable":{1:1}}'
    )
    tables = folder(disk).read()
    assert tables.topics == Tables().topics
    assert tables.delay_offsets.offset_table == {1: 1}, "each by itself"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "its backup is empty: it begins empty" in caplog.text


async def test_a_missing_file_is_read_from_its_backup(autojump_clock: object) -> None:
    """4.9 removes the file before it renames the new one."""
    disk = disk_with(topics__json__bak=encoded("a"))
    with contextlib.closing(folder(disk)) as config:
        assert config.read().topics == topics("a")
        await config.write(kinds.TOPICS, topics("b"))
    assert content(disk, "topics.json.bak") == encoded("a")


@pytest.mark.parametrize("how", ["bytes", "inodes"])
async def test_a_full_disk_keeps_the_old_content(autojump_clock: object, how: str) -> None:
    disk = disk_with(topics__json=encoded("a"))
    with contextlib.closing(folder(disk)) as config:
        if how == "bytes":
            disk.faults.fill(LONG_S)
        else:
            disk.faults.use_up_inodes(LONG_S)
        with pytest.raises(NoRoom):
            await config.write(kinds.TOPICS, topics("a", "b"))
        assert folder(disk).read().topics == topics("a")
        await trio.sleep(2 * LONG_S)
        await config.write(kinds.TOPICS, topics("a", "b"))
    assert folder(disk).read().topics == topics("a", "b")


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("seed", range(20))
async def test_a_power_loss_leaves_one_of_the_two_contents(
    autojump_clock: object, seed: int, exchanges: bool
) -> None:
    """At any moment of a write, the folder's names included."""
    disk = disk_with(topics__json=encoded("a"))
    if not exchanges:
        disk.exchange = _cannot  # type: ignore[method-assign]
    rng = random.Random(seed)
    with contextlib.closing(folder(disk)) as config:
        with trio.move_on_after(rng.choice([0, 0.001, 0.01, 1])):
            await config.write(kinds.TOPICS, topics("a", "b"))
        disk.power_loss(rng)
    found = folder(disk).read().topics
    assert found in (topics("a"), topics("a", "b"))
    assert exchanges is False or content(disk, "topics.json") in (encoded("a"), encoded("a", "b"))


def _cannot(one: str, other: str) -> None:
    raise OSError(errno.EINVAL, "this file system cannot", one)


async def test_kinds_fail_by_themselves(autojump_clock: object) -> None:
    """A kind that JSON cannot hold is no reason to lose another."""
    disk = disk_with()
    broken: Kind = attrs.evolve(kinds.GROUPS, encode_file=_no_room)
    with contextlib.closing(folder(disk)) as config:
        with pytest.raises(NoRoom):
            await config.write(broken, None)
        await config.write(kinds.TOPICS, topics("a"))
    assert folder(disk).read().topics == topics("a")


def _no_room(value: Any) -> bytes:
    raise NoRoom(errno.ENOSPC, "no room")


@pytest.mark.parametrize("seed", range(5))
async def test_what_was_written_survives_a_power_loss(autojump_clock: object, seed: int) -> None:
    """Also where an earlier write broke off behind a longer content."""
    disk = disk_with(topics__json=encoded("a"), topics__json__tmp=encoded("a", "b", "c"))
    with contextlib.closing(folder(disk)) as config:
        await config.write(kinds.TOPICS, topics("b"))
    disk.power_loss(random.Random(seed))
    assert content(disk, "topics.json") == encoded("b")
    assert content(disk, "topics.json.bak") == encoded("a")


@pytest.mark.parametrize("counter", [0, (1 << 63) - 2, (1 << 63) - 1])
async def test_a_table_is_read_after_a_change_whatever_its_counter_was(counter: int) -> None:
    """Java's counter goes on with the smallest number after the largest."""
    disk = disk_with()
    version = DataVersion(counter=counter, state_version=0, timestamp=1)
    tables = Tables(topics=TopicTable(data_version=version))
    for name in ("b", "c"):
        tables = put_topic(tables, TopicConfig(topic_name=name), 2)
    with contextlib.closing(folder(disk)) as files:
        await files.write(kinds.TOPICS, tables.topics)
        assert files.read().topics == tables.topics
