"""What syncs files beside the loop, on real files: the descriptors it keeps, and its failures."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio

from actors.env.local_disk import SYNCER_FILES_MAX, SYNCER_UNUSED_MAX, LocalDisk, LocalSyncer
from actors.env.sync_workers import KernelSync, SyncWorker, ThreadSync

pytestmark = pytest.mark.real_io


@pytest.fixture(params=[KernelSync, ThreadSync])
def worker(request: pytest.FixtureRequest) -> SyncWorker:
    """A syncer's worker, to be closed with it."""
    made: SyncWorker = request.param()
    return made


def is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def open_links(folder: Path) -> list[str]:
    """The files below it that this process has open, each as often as it has."""
    links = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if is_open(fd)
    ]
    return sorted(link for link in links if link.startswith(str(folder)))


async def test_syncer_syncs_files_and_ends_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk()
    synced: list[int] = []
    fdatasync = os.fdatasync
    monkeypatch.setattr("os.fdatasync", lambda fd: (synced.append(fd), fdatasync(fd)))
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        disk.open(path, "x").close()
    syncer = LocalSyncer(ThreadSync())
    await syncer.sync([*paths, paths[0]])
    assert len(synced) == 3
    await syncer.sync(paths[:1])
    assert synced[3:] == synced[:1]  # the descriptor was kept
    await syncer.sync([])
    with pytest.raises(FileNotFoundError):
        await syncer.sync([str(tmp_path / "missing")])
    await syncer.sync(paths)
    syncer.close()
    syncer.close()
    with pytest.raises(trio.ClosedResourceError):
        await syncer.sync(paths)


async def test_syncer_syncs_the_names_of_folders(tmp_path: Path, worker: SyncWorker) -> None:
    """By fsync: fdatasync may leave out what does not change a folder's size."""
    disk = LocalDisk()
    folders = [str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/a/b"]
    disk.mkdir(folders[-1], sync=False)
    disk.open(f"{folders[-1]}/file", "x").close()
    syncer = LocalSyncer(worker)
    await syncer.sync([f"{folders[-1]}/file", *folders])
    assert open_links(tmp_path) == sorted([f"{folders[-1]}/file", *folders])
    disk.rmtree(folders[1])
    disk.mkdir(folders[1])
    await syncer.sync(folders[:2])
    assert open_links(tmp_path).count(folders[1]) == 1, "of the new one"
    syncer.close()
    assert open_links(tmp_path) == []


async def test_the_thread_syncs_folders_by_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr("os.fsync", lambda fd: calls.append(os.readlink(f"/proc/self/fd/{fd}")))
    LocalDisk().open(f"{tmp_path}/a", "x").close()
    syncer = LocalSyncer(ThreadSync())
    await syncer.sync([f"{tmp_path}/a", str(tmp_path)])
    syncer.close()
    assert calls == [str(tmp_path)]


async def test_syncer_notices_a_new_file_under_an_old_name(
    tmp_path: Path, worker: SyncWorker
) -> None:
    disk = LocalDisk()
    path = str(tmp_path / "a")
    disk.open(path, "x").close()
    syncer = LocalSyncer(worker)
    await syncer.sync([path])
    disk.unlink(path)
    disk.open(path, "x").close()
    keep = disk.open(path, "r")
    await syncer.sync([path])
    assert open_links(tmp_path) == [path, path], "`keep` and the syncer's own; no deleted one"
    keep.close()
    syncer.close()


async def test_syncer_lets_go_of_what_it_syncs_no_more(tmp_path: Path, worker: SyncWorker) -> None:
    """A deleted file's room comes back when its last descriptor is closed."""
    disk = LocalDisk()
    paths = [str(tmp_path / str(number)) for number in range(SYNCER_UNUSED_MAX + 2)]
    for path in paths:
        disk.open(path, "x").close()
    syncer = LocalSyncer(worker)
    for path in paths:
        await syncer.sync([path, paths[1]])
    for path in paths:
        disk.unlink(path)
    assert open_links(tmp_path) == sorted(f"{path} (deleted)" for path in paths[1:])
    syncer.close()


async def test_syncer_forgets_what_was_deleted_or_renamed(
    tmp_path: Path, worker: SyncWorker
) -> None:
    """At once, and not only after many more syncs, which an idle node never makes."""
    disk = LocalDisk()
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        disk.open(path, "x").close()
    syncer = LocalSyncer(worker)
    await syncer.sync(paths)
    disk.unlink(paths[0])
    disk.rename(paths[1], f"{tmp_path}/d")
    syncer.forget([*paths[:2], f"{tmp_path}/never synced"])
    assert open_links(tmp_path) == [paths[2]]
    await syncer.sync([paths[2], f"{tmp_path}/d"])
    syncer.close()
    syncer.forget(paths)
    assert open_links(tmp_path) == []


async def test_a_running_sync_keeps_what_is_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate_read, gate_write = os.pipe()
    fdatasync = os.fdatasync
    monkeypatch.setattr("os.fdatasync", lambda fd: (os.read(gate_read, 1), fdatasync(fd)))
    disk, path = LocalDisk(), str(tmp_path / "a")
    disk.open(path, "x").close()
    syncer = LocalSyncer(ThreadSync())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(syncer.sync, [path])
        await trio.testing.wait_all_tasks_blocked()
        disk.unlink(path)
        try:
            syncer.forget([path])
            assert open_links(tmp_path) == [f"{path} (deleted)"]
        finally:
            os.write(gate_write, b"x")
    assert open_links(tmp_path) == []
    syncer.close()
    os.close(gate_read)
    os.close(gate_write)


async def test_syncer_keeps_a_bounded_number_of_files(tmp_path: Path, worker: SyncWorker) -> None:
    disk = LocalDisk()
    paths = [str(tmp_path / str(number)) for number in range(SYNCER_FILES_MAX + 10)]
    for path in paths:
        disk.open(path, "x").close()
    syncer = LocalSyncer(worker)
    own = 1 if isinstance(worker, KernelSync) else 2  # eventfds
    before = len(os.listdir("/proc/self/fd"))
    await syncer.sync(paths)
    assert len(os.listdir("/proc/self/fd")) == before + SYNCER_FILES_MAX
    await syncer.sync(paths)
    syncer.close()
    assert len(os.listdir("/proc/self/fd")) == before - own


async def test_a_failed_sync_raises_and_a_running_one_cannot_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk()
    path = str(tmp_path / "a")
    disk.open(path, "x").close()
    syncer = LocalSyncer(ThreadSync())
    gate_read, gate_write = os.pipe()

    def slow_then_fail(_fd: int) -> None:
        os.read(gate_read, 1)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("os.fdatasync", slow_then_fail)

    async def sync() -> None:
        with pytest.raises(OSError, match="Input/output error"):
            await syncer.sync([path])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await syncer.sync([path])
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        os.write(gate_write, b"x")
    syncer.close()
    os.close(gate_read)
    os.close(gate_write)


async def test_closing_waits_for_a_sync_whose_caller_was_torn_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TornOut(BaseException):
        """As KeyboardInterrupt, which pytest would take for its own."""

    async def torn_out(_fd: int) -> None:
        await trio.lowlevel.checkpoint()
        raise TornOut

    synced: list[int] = []
    fdatasync = os.fdatasync
    monkeypatch.setattr("os.fdatasync", lambda fd: (fdatasync(fd), synced.append(fd)))
    monkeypatch.setattr("trio.lowlevel.wait_readable", torn_out)
    disk = LocalDisk()
    path = str(tmp_path / "a")
    disk.open(path, "x").close()
    syncer = LocalSyncer(ThreadSync())
    with pytest.raises(TornOut):
        await syncer.sync([path])
    syncer.close()
    assert len(synced) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_dying_sync_thread_is_an_error_not_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_fd: int) -> None:
        raise SystemExit  # ends a thread silently

    path = str(tmp_path / "a")
    disk = LocalDisk()
    disk.open(path, "x").close()
    monkeypatch.setattr("os.fdatasync", broken)
    syncer = LocalSyncer(ThreadSync())
    with pytest.raises(RuntimeError, match="thread ended"):
        await syncer.sync([path])
    syncer.close()
