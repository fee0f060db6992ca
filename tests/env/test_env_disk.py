"""The disk contract on real files, and what only real files show."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import disk_contract
import pytest
import trio

from actors.env import LockedByOther
from actors.env.local_disk import (
    SYNCER_FILES_MAX,
    SYNCER_UNUSED_MAX,
    LocalDisk,
    LocalFile,
    LocalSyncer,
    lock_holder,
)
from actors.env.sync_workers import KernelSync, SyncWorker, ThreadSync

pytestmark = pytest.mark.real_io


@pytest.fixture(params=[KernelSync, ThreadSync])
def worker(request: pytest.FixtureRequest) -> SyncWorker:
    """A syncer's worker, to be closed with it."""
    made: SyncWorker = request.param()
    return made


@pytest.mark.parametrize("case", disk_contract.CASES, ids=lambda case: case.__name__)
def test_real_disk_keeps_the_contract(case: disk_contract.Case, tmp_path: Path) -> None:
    case(disk_contract.Kit(disk=LocalDisk(), folder=str(tmp_path)))


TRY_LOCK = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    sys.exit(7)
"""


def locked_for_others(path: str) -> bool:
    code = subprocess.run([sys.executable, "-c", TRY_LOCK, path], check=False).returncode
    assert code in (0, 7)
    return code == 7


def test_closing_another_handle_of_the_file_keeps_the_lock(tmp_path: Path) -> None:
    disk = LocalDisk()
    path = str(tmp_path / "lock")
    lock = disk.lock(path)
    disk.open(path, "r").close()
    assert locked_for_others(path)
    descriptors = len(os.listdir("/proc/self/fd"))
    lock.release()
    assert len(os.listdir("/proc/self/fd")) == descriptors - 2
    assert not locked_for_others(path)


HOLD_LOCK = """
import sys
from actors.env.local_disk import LocalDisk
lock = LocalDisk().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_holds_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockedByOther, match="another process"):
            LocalDisk().lock(path)
        holder.kill()
    LocalDisk().lock(path).release()


def test_who_holds_a_lock_is_found_without_taking_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert lock_holder(path) is None, "no such file"
    lock = LocalDisk().lock(path)
    assert lock_holder(path) is None, "our own"
    assert locked_for_others(path), "looking has not released it"
    lock.release()
    code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX, 1)"
    code += "; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        assert lock_holder(path) == holder.pid
        holder.communicate(b"")
    assert lock_holder(path) is None


def test_a_lock_that_cannot_be_had_at_all_leaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.lockf", no_locks)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No locks available"):
        LocalDisk().lock(str(tmp_path / "lock"))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_short_reads_and_writes_go_on_until_nothing_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LocalDisk().open(str(tmp_path / "a"), "x")
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr("os.pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    monkeypatch.setattr("os.pread", lambda fd, size, at: pread(fd, min(size, 4), at))
    file.pwrite(b"0123456789", 0)
    assert file.pread(0, 100) == b"0123456789"
    monkeypatch.setattr("os.pwrite", lambda fd, data, at: 0)
    with pytest.raises(OSError, match="wrote 0 of 4 bytes"):
        file.pwrite(b"more", 0)
    file.close()


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
    links = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if is_open(fd)
    ]
    assert links.count(path) == 2  # `keep` and the syncer's own
    assert f"{path} (deleted)" not in links
    keep.close()
    syncer.close()


def is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


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
    links = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if is_open(fd)
    ]
    kept = {link for link in links if link.startswith(str(tmp_path))}
    assert kept == {f"{path} (deleted)" for path in paths[1:]}
    syncer.close()


def open_links(folder: Path) -> list[str]:
    links = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if is_open(fd)
    ]
    return sorted(link for link in links if link.startswith(str(folder)))


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


def test_made_folders_are_durable_in_their_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr("os.fsync", noting)
    disk = LocalDisk()
    disk.mkdir(f"{tmp_path}/a/b")
    assert synced == [str(tmp_path), f"{tmp_path}/a"]
    disk.sync_dir(f"{tmp_path}/a/b")
    assert synced[2:] == [f"{tmp_path}/a/b"]


def test_a_folder_that_appears_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def raced(path: str) -> None:
        mkdir(path)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    monkeypatch.setattr("os.mkdir", raced)
    LocalDisk().mkdir(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_failure_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/dev/full") as full:
        LocalDisk().open("/dev/full", "w").pwrite(b"one byte more", 0)
    assert full.value.errno == errno.ENOSPC
    path = str(tmp_path / "file")
    file = LocalDisk().open(path, "x")
    for work in (
        lambda: file.pread(-1, 1),
        lambda: file.resize(-1),
        lambda: file.prepare(-1, 1),
    ):
        with pytest.raises(OSError, match=path) as failed:
            work()
        assert failed.value.errno == errno.EINVAL
    file.close()
    reading, writing = os.pipe()
    pipe = LocalFile(path, writing)
    with pytest.raises(OSError, match=path):  # a pipe cannot be synced
        pipe.sync()
    pipe.close()
    os.close(reading)
