"""Looking for what lies behind a log's end, in files that have mostly been given room only."""

import pathlib

import pytest
from storage_kit import finish

from actors.env.local_disk import LocalDisk, LocalFile
from actors.storage.layout import StoreLayout
from actors.storage.log import truncation
from actors.storage.log.commit_log import CommitLog
from actors.storage.tools.commitlog.walk import used_bytes

pytestmark = pytest.mark.real_io


def test_room_that_was_never_written_is_not_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = truncation.CHUNK_BYTES
    disk, layout = LocalDisk(), StoreLayout(str(tmp_path))
    log = CommitLog.load(disk, layout.commit_log, 16 * chunk)
    log.append(b"x" * 5000)
    read = list[tuple[int, int]]()

    def pread(self: LocalFile, offset: int, size: int) -> bytes:
        read.append((offset, size))
        return real(self, offset, size)

    real = LocalFile.pread
    monkeypatch.setattr(LocalFile, "pread", pread)
    assert not finish(truncation.has_bytes_behind(disk, log, 5000))
    assert sum(size for _, size in read) <= 65536, "more than the rest of what was written"
    left_over = disk.open(log.path_of(0), "w")
    left_over.pwrite(b"z", 9 * chunk)
    left_over.pwrite(bytes(chunk), 11 * chunk)
    left_over.sync()
    left_over.close()
    assert finish(truncation.has_bytes_behind(disk, log, 5000))
    log.set_end(16 * chunk)
    assert finish(truncation.keep_aside(disk, layout, log, 5000)) == 9 * chunk + 1 - 5000
    log.close(remove_spare=True)


def test_a_check_does_not_read_it_either(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file as large as they get, and then some."""
    path, size = str(tmp_path / "file"), 8 << 30
    disk = LocalDisk()
    file = disk.open(path, "x")
    file.resize(size)
    file.pwrite(b"x" * 5000, 0)
    file.pwrite(b"end", 5 << 30)
    file.pwrite(bytes(9000), 6 << 30)
    file.sync()
    file.close()
    read = list[int]()

    def pread(self: LocalFile, offset: int, size: int) -> bytes:
        read.append(size)
        return real(self, offset, size)

    real = LocalFile.pread
    monkeypatch.setattr(LocalFile, "pread", pread)
    assert finish(used_bytes(disk, path, 5000, size)) == (5 << 30) + 3
    assert finish(used_bytes(disk, path, 5000, 1 << 30)) == 5000
    assert finish(used_bytes(disk, path, 6 << 30, (6 << 30) + 10)) == 6 << 30
    assert sum(read) <= 1 << 20
