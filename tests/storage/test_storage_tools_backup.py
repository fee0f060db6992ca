"""`backup` and `seed`: whole or called incomplete; killed at every step; a node starts from it."""

from __future__ import annotations

import errno
import json
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from backup_kit import DEST, NEW, backup, copied_log, seeded, seeding
from meddling_disk import MeddlingDisk
from storage_kit import GOLDEN
from store_kit import running, small_group
from tools_kit import (
    LAYOUT,
    NODE_DIR,
    S,
    checked,
    deaths,
    expire,
    log_of,
    node_disk,
    read_all,
    store_of,
    twin,
    write_at,
)

from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError, CorruptLog, StorageError
from actors.sim.disk import SimDisk
from actors.storage.files.side_file import SideFile
from actors.storage.files.stepping import finish
from actors.storage.tools.backup import copy_stores, held_backup, make_manifest, open_backup
from actors.storage.tools.commitlog.backup import stopped_limit
from actors.storage.tools.commitlog.dump import Wanted, dump_store
from actors.storage.tools.copying import BackedUp, Limit, verify_group
from actors.storage.tools.manifest import write_manifest
from actors.storage.tools.target import Kind, find_target

COPIED = f"{DEST}/groups/orders/commitlog"


async def test_a_stopped_node(autojump_clock: Any) -> None:
    disk = await node_disk()
    before, end = log_of(disk), checked(disk).end_bytes
    done = backup(disk)
    assert done.notes == []
    assert copied_log(disk) == before
    target = find_target(disk, DEST)
    assert target.kind is Kind.BACKUP
    assert target.manifest is not None
    (group,) = target.manifest.copies
    assert (group.first_bytes, group.end_bytes) == (0, end)
    assert sum(file.size_bytes for file in group.files) == end
    assert finish(verify_group(disk, COPIED, group)) == []
    assert (target.manifest.cluster, target.manifest.node, target.manifest.boot) == (
        "demo",
        "n0",
        1,
    )
    found = checked(disk, DEST, is_backup=True)
    assert found.is_good, found.findings
    assert found.records == 150
    assert find_target(disk, f"{DEST}/groups/orders").kind is Kind.BACKUP


@pytest.mark.parametrize("cut", [0, 1, 50, 4096, 5000])
async def test_the_copy_ends_where_a_record_does(cut: int, autojump_clock: Any) -> None:
    disk = await node_disk()
    end = checked(disk).end_bytes
    (group,) = backup(disk, end - cut).copies
    assert end - cut - 1000 < group.end_bytes <= end - cut
    found = checked(disk, DEST, is_backup=True)
    assert found.is_good, found.findings
    assert found.end_bytes in (group.end_bytes, group.end_bytes + -group.end_bytes % S)


async def test_of_a_running_node_only_what_its_limit_allows(autojump_clock: Any) -> None:
    disk = await node_disk()
    async with running(disk) as kit:
        held = await kit.range()
        await kit.append(b"later" * 50)
        (group,) = backup(disk, held.synced_bytes).copies
        assert group.end_bytes == held.synced_bytes
        await kit.append(b"later" * 500)
    assert checked(disk, DEST, is_backup=True).end_bytes == held.synced_bytes


async def test_files_that_expire_while_they_are_copied(autojump_clock: Any) -> None:
    """Whenever they go: the copy begins later, without a hole, and says so."""
    group = small_group(consume_queue_bytes=200, index_units_count=20)
    template = await node_disk(120, group=group)
    end, noted = checked(template).end_bytes, 0
    for number in range(10_000):
        disk = twin(template)
        meddling = MeddlingDisk(disk, number, partial(expire, disk, group, 3))
        done = backup(meddling, end)
        if not meddling.met:
            break
        (copied,) = done.copies
        assert copied.first_bytes in (0, 3 * S), number
        assert copied.first_bytes or not done.notes
        noted += len(done.notes)
        found = checked(disk, DEST, is_backup=True)
        assert found.is_good, found.findings
        assert (found.first_bytes, found.end_bytes) == (copied.first_bytes, end)
    assert number > 30
    assert noted > 2


async def test_a_hole_is_no_expiry(autojump_clock: Any) -> None:
    disk = await node_disk()
    target = find_target(disk, NODE_DIR)
    open_backup(disk, target, DEST)
    work = copy_stores(
        disk, target, DEST, {"orders": Limit(end_bytes=3 * S, why="test")}, BackedUp()
    )
    next(work)
    disk.unlink(f"{LAYOUT.commit_log}/{S:020d}")
    with pytest.raises(StorageError, match="vanished, though older files exist"):
        finish(work)


@pytest.mark.parametrize("power_loss", [False, True])
async def test_a_backup_may_be_killed_at_every_step(power_loss: bool, autojump_clock: Any) -> None:
    template = await node_disk(60)
    before = log_of(template)
    count, reused = 0, 0
    for number, disk in deaths(template, backup, power_loss=power_loss):
        count += 1
        was_whole = disk.exists(f"{DEST}/backup.json")
        if was_whole:
            assert copied_log(disk) == before, number
            assert checked(disk, DEST, is_backup=True).is_good, number
            continue
        if disk.listdir(DEST) and disk.exists(f"{DEST}/groups"):
            with pytest.raises(ConfigError, match="found an incomplete one"):
                find_target(disk, DEST)
            with pytest.raises(ConfigError, match="found an incomplete one"):
                find_target(disk, f"{DEST}/groups/orders")
        done = backup(disk)
        reused = max(reused, done.reused_bytes)
        assert copied_log(disk) == before, number
        assert checked(disk, DEST, is_backup=True).is_good, number
        assert not disk.exists(f"{DEST}/backup.incomplete"), number
        names = disk.listdir(f"{DEST}/groups/orders/commitlog")
        assert not [name for name in names if name.endswith(".part")], number
    assert count > 20
    assert reused >= S
    assert was_whole, "what had ended was lost"


@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename"])
async def test_a_full_disk_leaves_an_incomplete_backup(operation: Any, autojump_clock: Any) -> None:
    template = await node_disk(60)
    failed = 0
    for skip in range(30):
        disk = twin(template)
        disk.faults.fail(operation, errno.ENOSPC, path_part=DEST, skip=skip)
        try:
            backup(disk)
        except OSError:
            failed += 1
            if not disk.exists(f"{DEST}/backup.json"):
                backup(disk)
        assert copied_log(disk) == log_of(template)
        assert checked(disk, DEST, is_backup=True).is_good
    assert failed > 2


async def test_what_an_interrupted_backup_left_is_compared(autojump_clock: Any) -> None:
    """Another history under the same name is copied anew."""
    template = await node_disk(60)
    path = f"{DEST}/groups/orders/commitlog/{0:020d}"
    for _, disk in deaths(template, backup, power_loss=False):
        if disk.exists(path):
            write_at(disk, path, 100, b"other")
            backup(disk)
            assert copied_log(disk) == log_of(template)
            return
    raise AssertionError("no kill came after the first file")


REFUSED: dict[str, tuple[Callable[[SimDisk], object], str]] = {
    "whole": (backup, "found a whole backup"),
    "full": (lambda disk: disk.mkdir(f"{DEST}/things"), "an empty folder, found things"),
    "of another": (
        lambda disk: (
            disk.mkdir(DEST),
            disk.open(f"{DEST}/backup.incomplete", "x").pwrite(
                b'{"cluster": "demo", "node": "n7", "groups": [["orders", 4096]]}', 0
            ),
        ),
        r"of n0 \(orders\), found one of n7 \(orders\)",
    ),
    "unreadable": (
        lambda disk: (disk.mkdir(DEST), disk.open(f"{DEST}/backup.incomplete", "x")),
        "an unknown source",
    ),
    **{
        f"unlike: {content}": (
            lambda disk, content=content: (
                disk.mkdir(DEST),
                disk.open(f"{DEST}/backup.incomplete", "x").pwrite(content.encode(), 0),
            ),
            "an unknown source",
        )
        for content in ("[]", '{"groups": 5}', '{"groups": [[]]}', '{"groups": [7]}')
    },
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_target_that_holds_something_else(what: str, autojump_clock: Any) -> None:
    disk = await node_disk(10)
    prepare, words = REFUSED[what]
    prepare(disk)
    with pytest.raises(ConfigError, match=words):
        backup(disk)


async def test_two_backups_at_once_into_one_folder(autojump_clock: Any) -> None:
    disk = await node_disk()
    target = find_target(disk, NODE_DIR)
    with held_backup(disk, target, DEST):
        with pytest.raises(ConfigError, match=f"{DEST}: another backup copies into it"):
            with held_backup(disk, target, DEST):
                raise AssertionError
    with held_backup(disk, target, DEST):
        pass
    assert disk.listdir(DEST) == ["backup.incomplete"]
    with pytest.raises(ConfigError, match="outside of"):
        with held_backup(disk, target, f"{target.path}/copy"):
            raise AssertionError
    assert not disk.exists(f"{target.path}/copy")


async def test_sources_that_are_refused(autojump_clock: Any) -> None:
    disk = await node_disk(60)
    with pytest.raises(ConfigError, match="expected a folder outside of"):
        backup(disk, dest=f"{NODE_DIR}/backup")
    with pytest.raises(ConfigError, match="expected a folder outside of"):
        backup(disk, dest="/data")
    backup(disk)
    with pytest.raises(ConfigError, match="found a backup: copy it"):
        open_backup(disk, find_target(disk, DEST), "/other")
    hurt = twin(disk)
    side, _ = SideFile.open(hurt, LAYOUT.truncating, 2)
    side.write((S, S))
    with pytest.raises(ConfigError, match="a truncation to 4096 was interrupted"):
        finish(stopped_limit(hurt, store_of(hurt)))
    hurt = twin(disk)
    hurt.unlink(f"{LAYOUT.commit_log}/{S:020d}")
    with pytest.raises(CorruptLog, match="is missing"):
        finish(stopped_limit(hurt, store_of(hurt)))
    hurt = twin(disk)
    write_at(hurt, LAYOUT.synced, 0, b"x" * 1024)
    with pytest.raises(CorruptLog, match="the synced mark cannot be read"):
        finish(stopped_limit(hurt, store_of(hurt)))
    hurt = twin(disk)
    write_at(hurt, f"{LAYOUT.commit_log}/{S:020d}", 28, b"\xff")
    with pytest.raises(CorruptLog, match="physical offset"):
        backup(hurt, S + 2000, "/other")


async def test_a_damaged_backup_is_found(autojump_clock: Any) -> None:
    disk = await node_disk(60)
    backup(disk)
    (group,) = seeding(disk).manifest.copies
    path = f"{DEST}/groups/orders/commitlog/{0:020d}"
    hurt = twin(disk)
    write_at(hurt, path, 20, b"\x07")  # the queue offset: no CRC of the record covers it
    assert checked(hurt, DEST, is_backup=True).is_good
    assert "expected CRC-32" in finish(verify_group(hurt, COPIED, group))[0]
    with pytest.raises(CorruptLog, match="expected CRC-32"):
        seeded(hurt)
    assert not hurt.exists(f"{NEW}/identity.json")
    hurt = twin(disk)
    hurt.open(path, "w").resize(100)
    assert "expected 4096 bytes, found 100" in finish(verify_group(hurt, COPIED, group))[0]
    hurt = twin(disk)
    hurt.unlink(path)
    assert "is missing" in finish(verify_group(hurt, COPIED, group))[0]
    for content in (b"", b"{}", b"[1]", b'{"format_version": 1, "groups": [1]}', b"[" * 99999):
        hurt = twin(disk)
        file = hurt.open(f"{DEST}/backup.json", "w")
        file.resize(0)
        file.pwrite(content, 0)
        with pytest.raises(ConfigError, match="expected a backup's manifest"):
            find_target(hurt, DEST)
    newer = json.loads(read_all(disk, f"{DEST}/backup.json")) | {"format_version": 2}
    write_at(disk, f"{DEST}/backup.json", 0, json.dumps(newer).encode().ljust(5000))
    with pytest.raises(ConfigError, match="expected format 1 or older, found 2"):
        find_target(disk, DEST)


@pytest.mark.real_io
def test_a_store_of_a_real_broker(tmp_path: pathlib.Path) -> None:
    """Also a slave's that begins in the middle, with the end that its log really has."""
    disk, dest = LocalDisk(), str(tmp_path / "copy")
    for name, first, end in (("master", 0, 243560), ("late", 196608, 243560)):
        target = find_target(disk, str(GOLDEN / "5.3.3" / name))
        (store,) = target.stores
        limit = finish(stopped_limit(disk, store))
        assert limit.end_bytes == end
        open_backup(disk, target, dest + name)
        done = BackedUp()
        finish(copy_stores(disk, target, dest + name, {name: limit}, done))
        write_manifest(disk, dest + name, make_manifest(disk, target, done, 5))
        assert (done.copies[0].first_bytes, done.copies[0].end_bytes) == (first, end)
        log = pathlib.Path(f"{dest}{name}/groups/{name}/commitlog")
        for path in (GOLDEN / "5.3.3" / name / "commitlog").iterdir():
            assert (log / path.name).read_bytes() == path.read_bytes()


async def test_a_backup_is_dumped_as_its_source(autojump_clock: Any) -> None:
    disk = await node_disk(30)
    backup(disk)
    of_source: list[bytes] = []
    of_copy: list[bytes] = []
    finish(dump_store(disk, store_of(disk), Wanted(), of_source.append))
    finish(dump_store(disk, store_of(disk, DEST), Wanted(), of_copy.append))
    assert of_copy == of_source
    assert b"".join(of_source).count(b"\n") == 30
