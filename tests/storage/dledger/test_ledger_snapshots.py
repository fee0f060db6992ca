"""Snapshots on disk: durable before they count, checked before they are used, pruned."""

from __future__ import annotations

import random

import pytest
from ledger_kit import finish, sim_disk

from actors.env.protocols import Disk
from actors.errors import LogFull
from actors.sim.disk import DiskOptions, SimDisk
from actors.storage.files.whole_files import sync_file
from actors.storage.ledger.snapshots import (
    CHUNK_BYTES,
    INSTALLED,
    TAKEN,
    Reader,
    SnapshotDamaged,
    SnapshotFolder,
)
from wire.dledger.snapshot import SnapshotMeta, decode_meta, encode_meta, index_of
from wire.errors import RemoteProtocolError

ROOT = "/data/n0/groups/ledger/snapshot"


def folder(disk: Disk) -> SnapshotFolder:
    found = SnapshotFolder(disk, ROOT, ("n0", "n1", "n2"))
    found.open()
    return found


def begin(snapshots: SnapshotFolder, *chunks: bytes, name: str = TAKEN, index: int = 7) -> None:
    """All but the commit."""
    writer = snapshots.writer(name)
    for chunk in chunks:
        writer.write(chunk)
    writer.finish(index, 3)


def take(snapshots: SnapshotFolder, *chunks: bytes, name: str = TAKEN, index: int = 7) -> None:
    writer = snapshots.writer(name)
    for chunk in chunks:
        writer.write(chunk)
    for path in writer.finish(index, 3):
        sync_file(snapshots.disk, path)
    writer.commit()


def content(snapshots: SnapshotFolder, index: int) -> bytes:
    snapshot = snapshots.snapshot(index)
    finish(snapshots.check(snapshot))
    reader = Reader.open(snapshots.disk, snapshot)
    data = b"".join(reader.chunks())
    reader.close()
    return data


def test_what_was_written_is_read_after_a_power_loss() -> None:
    for seed in range(20):
        disk = sim_disk(seed)
        snapshots = folder(disk)
        take(snapshots, b"one", b"two", index=4)
        begin(snapshots, b"not yet", index=9)
        disk.power_loss()
        snapshots = folder(disk)
        assert snapshots.indexes() == [4]
        assert content(snapshots, 4) == b"onetwo"
        found = snapshots.snapshot(4)
        assert (found.index, found.term, found.size_bytes) == (4, 3, 6)
        assert disk.listdir(ROOT) == ["snapshot_4"]


def test_the_newest_comes_first_and_others_are_pruned() -> None:
    snapshots = folder(sim_disk())
    for index in (3, 20, 100):
        take(snapshots, b"%d" % index, index=index, name=INSTALLED)
    assert snapshots.indexes() == [100, 20, 3]
    snapshots.prune(frozenset({100, 20}))
    assert snapshots.indexes() == [100, 20]
    assert content(snapshots, 20) == b"20"


def test_nothing_is_left_of_one_that_was_abandoned() -> None:
    disk = sim_disk()
    snapshots = folder(disk)
    writer = snapshots.writer(TAKEN)
    writer.write(b"x")
    writer.abandon()
    assert disk.listdir(ROOT) == []
    begin(snapshots, b"first")
    take(snapshots, b"second")
    assert content(snapshots, 7) == b"second"


def test_a_group_that_keeps_nothing_begins_without() -> None:
    disk = sim_disk()
    take(folder(disk), b"x")
    SnapshotFolder(disk, ROOT, ()).open(keeps=False)
    assert disk.listdir(ROOT) == []


def flip(disk: Disk, path: str, at: int) -> None:
    file = disk.open(path, "w")
    byte = file.pread(at, 1)
    file.pwrite(bytes([byte[0] ^ 1]), at)
    file.close()


@pytest.mark.parametrize("name", ["data", "snapshot_meta"])
def test_a_flipped_bit_anywhere_is_noticed(name: str) -> None:
    disk = sim_disk()
    snapshots = folder(disk)
    take(snapshots, b"some bytes")
    path = f"{ROOT}/snapshot_7/{name}"
    for at in range(disk.stat(path).size_bytes):
        flip(disk, path, at)
        with pytest.raises(SnapshotDamaged):
            content(snapshots, 7)
        flip(disk, path, at)
    assert content(snapshots, 7) == b"some bytes"


@pytest.mark.parametrize("name", ["data", "snapshot_meta"])
def test_a_missing_file_is_noticed(name: str) -> None:
    disk = sim_disk()
    snapshots = folder(disk)
    take(snapshots, b"x")
    disk.unlink(f"{ROOT}/snapshot_7/{name}")
    with pytest.raises(SnapshotDamaged, match="missing"):
        snapshots.snapshot(7)
    take(snapshots, b"again")
    assert content(snapshots, 7) == b"again"


def test_a_short_file_is_noticed() -> None:
    disk = sim_disk()
    snapshots = folder(disk)
    take(snapshots, b"some bytes")
    file = disk.open(f"{ROOT}/snapshot_7/data", "w")
    file.resize(4)
    file.close()
    with pytest.raises(SnapshotDamaged, match="4 bytes"):
        content(snapshots, 7)


def test_a_folder_under_another_name_is_not_believed() -> None:
    disk = sim_disk()
    snapshots = folder(disk)
    take(snapshots, b"x")
    disk.rename(f"{ROOT}/snapshot_7", f"{ROOT}/snapshot_8")
    with pytest.raises(SnapshotDamaged, match="of index 7"):
        snapshots.snapshot(8)


def test_a_full_disk_is_named() -> None:
    disk = SimDisk(random.Random(1), DiskOptions(capacity_bytes=2 << 20))
    snapshots = folder(disk)
    writer = snapshots.writer(TAKEN)
    with pytest.raises(LogFull, match="no room for a snapshot"):
        for _ in range(4):
            writer.write(bytes(CHUNK_BYTES))
    writer.abandon()
    take(snapshots, b"small")
    assert content(snapshots, 7) == b"small"


@pytest.mark.parametrize(
    ("name", "index"),
    [("snapshot_0", 0), ("snapshot_12", 12), ("snapshot_012", None), ("snapshot_", None),
     ("snapshot_1x", None), ("snapshot_²", None), ("tmp", None), ("12", None)],
)  # fmt: skip
def test_names(name: str, index: int | None) -> None:
    assert index_of(name) == index


def test_the_meta_file_is_what_it_was() -> None:
    meta = SnapshotMeta(
        data_bytes=5, data_crc=6, last_included_index=39, last_included_term=1, members=("a",)
    )
    data = encode_meta(meta)
    assert b'"lastIncludedIndex":39,"lastIncludedTerm":1' in data
    found = decode_meta(data)
    assert (found.data_bytes, found.data_crc, found.members) == (5, 6, ("a",))
    for bad in (b"", b"{}", data[:-1], data.replace(b"39", b"38"), data.replace(b'"a"', b'"b"')):
        with pytest.raises(RemoteProtocolError, match="snapshot_meta"):
            decode_meta(bad)
    with pytest.raises(RemoteProtocolError, match="cannot be"):
        decode_meta(encode_meta(SnapshotMeta(
            data_bytes=0, data_crc=6, last_included_index=39, last_included_term=1,
        )))  # fmt: skip
