"""Files from one folder to another, on a disk on which that has its limits."""

from __future__ import annotations

import errno
import random

import pytest
from storage_kit import finish

from actors.sim.disk import SimDisk, SimFile
from actors.storage.commitlog.set_aside import PROBE, copy_into, may_rename, remove


class Fenced(SimDisk):
    """Renames between folders fail as `number` says; nothing can be made in `read_only`."""

    number = 0
    read_only = ""

    def rename(self, source: str, target: str) -> None:
        if self.number:
            raise OSError(self.number, "refused", source)
        super().rename(source, target)

    def open(self, path: str, mode: str) -> SimFile:
        if mode == "x" and self.read_only and path.startswith(self.read_only):
            raise OSError(errno.EROFS, "Read-only file system", path)
        return super().open(path, mode)


@pytest.fixture
def disk() -> Fenced:
    found = Fenced(random.Random(0))
    for folder in ("/a", "/b"):
        found.mkdir(folder)
    return found


def test_a_try_leaves_nothing(disk: Fenced) -> None:
    assert may_rename(disk, "/a", "/b")
    disk.open(f"/a/{PROBE}", "x").close()  # of a try that was killed
    disk.open(f"/b/{PROBE}", "x").close()
    assert may_rename(disk, "/a", "/b")
    disk.number = errno.EXDEV
    assert not may_rename(disk, "/a", "/b")
    assert disk.listdir("/a") == disk.listdir("/b") == []


@pytest.mark.parametrize("folder", ["/a", "/b"])
def test_a_folder_that_takes_nothing_is_reported(disk: Fenced, folder: str) -> None:
    disk.number, disk.read_only = errno.EXDEV, folder
    with pytest.raises(OSError, match="Read-only"):
        may_rename(disk, "/a", "/b")
    assert disk.listdir("/a") == disk.listdir("/b") == []


def test_another_failure_is_reported(disk: Fenced) -> None:
    disk.number = errno.EIO
    with pytest.raises(OSError, match="refused"):
        may_rename(disk, "/a", "/b")
    assert disk.listdir("/a") == []


def test_a_folder_is_copied_with_all_in_it(disk: Fenced) -> None:
    disk.mkdir("/a/t/0")
    file = disk.open("/a/t/0/file", "x")
    file.resize(9 << 20)
    file.pwrite(b"end", (9 << 20) - 3)
    steps = 0
    for _ in copy_into(disk, "/a/t", "/b"):
        steps += 1
    copy = disk.open("/b/t/0/file", "r")
    assert copy.size_bytes == 9 << 20
    assert copy.pread(0, 9 << 20) == bytes((9 << 20) - 3) + b"end"
    assert steps > 1, "it yields"
    disk.sync_dir("/b")
    disk.power_loss(random.Random(1))
    assert disk.exists("/b/t/0/file"), "it is synced"
    remove(disk, "/b/t/0/file")
    remove(disk, "/b/t")
    assert disk.listdir("/b") == []
    with pytest.raises(FileNotFoundError):
        finish(copy_into(disk, "/a/none", "/b"))
