"""The disk contract on real files, and what only real files show."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import disk_contract
import pytest
from special_files import SPECIAL

from actors.env import LockedByOther
from actors.env.local_disk import (
    LocalDisk,
    LocalFile,
    lock_holder,
)
from actors.owners import Loose, loose_in

pytestmark = pytest.mark.real_io


@pytest.mark.parametrize("case", disk_contract.CASES, ids=lambda case: case.__name__)
def test_real_disk_keeps_the_contract(case: disk_contract.Case, tmp_path: Path) -> None:
    case(disk_contract.Kit(disk=LocalDisk(), folder=str(tmp_path)))


@pytest.mark.parametrize("prepared", [False, True])
def test_what_was_never_written_is_passed_over(tmp_path: Path, prepared: bool) -> None:
    file = LocalDisk().open(str(tmp_path / "a"), "x")
    file.resize(64 << 20)
    if prepared:
        file.prepare(0, 64 << 20)
    assert file.data_from(5) == (64 << 20, 64 << 20)
    file.pwrite(b"x", 40 << 20)
    start, end = file.data_from(5)
    assert start <= 40 << 20 < end < 41 << 20
    assert start > 39 << 20
    assert file.data_from(end) == (64 << 20, 64 << 20)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor") as closed:
        file.data_from(0)
    assert closed.value.filename == file.path


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
        with pytest.raises(LockedByOther, match=f"locked by process {holder.pid}"):
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
    disk.mkdir(f"{tmp_path}/c/d", sync=False)
    assert os.path.isdir(f"{tmp_path}/c/d")
    assert len(synced) == 3


def test_a_folder_that_appears_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def raced(path: str, mode: int) -> None:
        mkdir(path, mode)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    monkeypatch.setattr("os.mkdir", raced)
    LocalDisk().mkdir(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_failure_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/dev/full") as full:
        LocalFile("/dev/full", os.open("/dev/full", os.O_RDWR)).pwrite(b"one byte more", 0)
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


@pytest.mark.parametrize("kind", SPECIAL)
async def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    """To open a named pipe would wait for its other end."""
    disk, path = LocalDisk(), str(tmp_path / "a")
    SPECIAL[kind](path)
    why = re.escape(f"expected a file, found a {kind}: '{path}'")
    for mode in ("r", "w"):
        with pytest.raises(OSError, match=why):
            disk.open(path, mode)
    with pytest.raises(FileExistsError):
        disk.open(path, "x")
    with pytest.raises(OSError, match=why):
        disk.lock(path)
    assert lock_holder(path) is None
    with contextlib.closing(disk.syncer()) as syncer, pytest.raises(OSError, match=why):
        await syncer.sync([path])
    assert disk.stat(path).kind == kind
    assert disk.exists(path)


def test_a_file_opened_waits_as_others_do(tmp_path: Path) -> None:
    """That it was opened without waiting is not left on it."""
    file = LocalDisk().open(str(tmp_path / "a"), "x")
    assert os.get_blocking(file.fileno())
    file.close()


def test_a_folder_that_is_a_link_is_emptied_and_stays(tmp_path: Path) -> None:
    """Who linked it meant its place; what it points to inside is not followed."""
    inside, elsewhere, link = tmp_path / "inside", tmp_path / "elsewhere", tmp_path / "link"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "b" / "file").write_bytes(b"x")
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"x")
    (inside / "a" / "away").symlink_to(elsewhere)
    link.symlink_to(inside)
    LocalDisk().rmtree(str(link))
    assert link.is_symlink()
    assert list(inside.iterdir()) == []
    assert (elsewhere / "kept").exists()
    LocalDisk().rmtree(str(inside))
    assert not inside.exists()


def test_a_folder_with_the_file_systems_own_is_emptied_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "lost+found").mkdir(parents=True)
    (folder / "file").write_bytes(b"x")
    LocalDisk().rmtree(str(folder))
    assert [path.name for path in folder.iterdir()] == ["lost+found"]


def test_a_folder_that_cannot_be_removed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(OSError, match="Input/output"):
        LocalDisk().rmtree(str(tmp_path))


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_what_is_made_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    """Whatever the umask, parents too: who may write to one could put another in its place."""
    disk, before = LocalDisk(), os.umask(mask)
    try:
        disk.mkdir(f"{tmp_path}/data/n0")
        disk.open(f"{tmp_path}/data/n0/identity.json", "x").close()
    finally:
        os.umask(before)
    made = [stat.S_IMODE(path.stat().st_mode) for path in sorted(tmp_path.rglob("*"))]
    assert made == [0o700, 0o700, 0o600]
    assert loose_in(f"{tmp_path}/data") is None
    assert loose_in(f"{tmp_path}/none") is None
    (tmp_path / "data/n0/identity.json").chmod(0o640)
    found = Loose(path=f"{tmp_path}/data/n0/identity.json", mode=0o640, count=1)
    assert loose_in(f"{tmp_path}/data") == found
