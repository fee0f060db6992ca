"""What every Disk must do: cases that run on real files and on simulated ones."""

from __future__ import annotations

import errno
from collections.abc import Callable

import attrs
import pytest

from actors.env import Disk, FileStat, LockedByUs


@attrs.frozen(kw_only=True)
class Kit:
    disk: Disk
    folder: str


Case = Callable[[Kit], None]
CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


@case
def what_was_written_is_read(kit: Kit) -> None:
    file = kit.disk.open(f"{kit.folder}/a", "x")
    assert file.path == f"{kit.folder}/a"
    assert file.size_bytes == 0
    data = bytes(range(256)) * 100
    file.pwrite(data, 4000)
    file.pwrite(memoryview(b"abc"), 4095)
    file.pwrite(bytearray(b"ABC"), 0)
    file.pwrite(b"", 1_000_000)
    expected = b"ABC" + bytes(3997) + data[:95] + b"abc" + data[98:]
    assert file.size_bytes == len(expected)
    assert file.pread(0, 100_000) == expected
    assert file.pread(4090, 20) == expected[4090:4110]
    assert file.pread(len(expected) - 5, 10) == expected[-5:]
    assert file.pread(len(expected), 10) == b""
    assert file.pread(10**9, 10) == b""
    file.sync()
    file.close()
    file.close()


@case
def the_file_systems_own_folder_is_not_listed(kit: Kit) -> None:
    """It is in the root of one, which may be any folder of ours, and nobody may look into it."""
    kit.disk.mkdir(f"{kit.folder}/lost+found")
    kit.disk.mkdir(f"{kit.folder}/a")
    assert kit.disk.listdir(kit.folder) == ["a"]
    assert list(kit.disk.names(kit.folder)) == ["a"]
    assert kit.disk.exists(f"{kit.folder}/lost+found")


@case
def names_come_little_by_little(kit: Kit) -> None:
    wanted = [f"topic-{number}" for number in range(3000)]
    for name in wanted:
        kit.disk.mkdir(f"{kit.folder}/{name}", sync=False)
    names = kit.disk.names(kit.folder)
    first = next(names)
    assert sorted([first, *names]) == sorted(wanted)
    assert list(kit.disk.names(f"{kit.folder}/nowhere")) == []
    kit.disk.open(f"{kit.folder}/file", "x").close()
    with pytest.raises(NotADirectoryError):
        list(kit.disk.names(f"{kit.folder}/file"))


@case
def what_is_passed_over_is_zeros(kit: Kit) -> None:
    size, place = 3 << 20, (1 << 20) + 5
    file = kit.disk.open(f"{kit.folder}/a", "x")
    file.resize(2 << 20)
    file.prepare(0, size)
    for number, data in enumerate((b"X", b"Y", bytes(9000), b"Z")):  # not on the disk yet
        file.pwrite(data, place + number * 300_000)
    places = [place, place + 300_000, place + 900_000]
    for _ in range(2):
        for start in (0, 1, 4096, 1 << 20, place, place + 1, place + 300_001, place + 600_000):
            data, end = file.data_from(start)
            assert start <= data <= min(place for place in places if start <= place)
            assert data < end <= size
            assert not any(file.pread(start, data - start))
            following, _ = file.data_from(end)
            assert not any(file.pread(end, following - end))
        data, end = file.data_from(places[-1] + 1)
        assert places[-1] < data <= end <= size
        for at in (size, size + 7):
            assert file.data_from(at) == (at, at)
        assert file.pread(place, 1) == b"X"
        file.sync()
    file.close()


@case
def modes_decide_what_is_allowed(kit: Kit) -> None:
    path = f"{kit.folder}/a"
    for mode in ("r", "w"):
        with pytest.raises(FileNotFoundError):
            kit.disk.open(path, mode)
    kit.disk.open(path, "x").close()
    with pytest.raises(FileExistsError):
        kit.disk.open(path, "x")
    with pytest.raises(FileNotFoundError):
        kit.disk.open(f"{kit.folder}/no/such", "x")
    read_only = kit.disk.open(path, "r")
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_only.pwrite(b"x", 0)
    read_only.close()
    for use in (lambda: read_only.pread(0, 1), lambda: read_only.size_bytes, read_only.sync):
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


@case
def a_folder_is_no_file(kit: Kit) -> None:
    kit.disk.mkdir(f"{kit.folder}/a")
    for mode in ("r", "w"):
        with pytest.raises(IsADirectoryError, match=f"{kit.folder}/a"):
            kit.disk.open(f"{kit.folder}/a", mode)
    kit.disk.open(f"{kit.folder}/b", "x").close()
    assert [kit.disk.stat(f"{kit.folder}/{name}").kind for name in "ab"] == ["folder", "file"]


@case
def resizing_cuts_and_extends_with_zeros(kit: Kit) -> None:
    file = kit.disk.open(f"{kit.folder}/a", "x")
    file.pwrite(b"x" * 10_000, 0)
    file.resize(5_000)
    assert file.size_bytes == 5_000
    file.resize(12_000)
    assert file.pread(0, 20_000) == b"x" * 5_000 + bytes(7_000)
    file.prepare(0, 4_096)
    assert file.pread(0, 5_000) == b"x" * 5_000
    file.prepare(12_000, 1_000)
    assert file.size_bytes == 13_000
    assert kit.disk.stat(f"{kit.folder}/a").size_bytes == 13_000
    file.close()


@case
def two_handles_see_one_file(kit: Kit) -> None:
    path = f"{kit.folder}/a"
    writer = kit.disk.open(path, "x")
    reader = kit.disk.open(path, "r")
    writer.pwrite(b"seen at once", 0)
    assert reader.pread(0, 100) == b"seen at once"
    kit.disk.unlink(path)
    assert not kit.disk.exists(path)
    assert reader.pread(0, 4) == b"seen"
    writer.close()
    reader.close()
    with pytest.raises(FileNotFoundError):
        kit.disk.unlink(path)
    with pytest.raises(FileNotFoundError):
        kit.disk.stat(path)


@case
def folders_are_made_listed_and_removed(kit: Kit) -> None:
    deep = f"{kit.folder}/a/b/c"
    assert kit.disk.listdir(deep) == []
    kit.disk.mkdir(deep)
    kit.disk.mkdir(deep)
    assert kit.disk.exists(deep)
    assert kit.disk.exists(f"{kit.folder}/a")
    for name in ("z", "m", "10", "9"):
        kit.disk.open(f"{deep}/{name}", "x").close()
    assert kit.disk.listdir(deep) == ["10", "9", "m", "z"]
    assert kit.disk.listdir(f"{kit.folder}/a") == ["b"]
    kit.disk.sync_dir(deep)
    kit.disk.rmtree(f"{kit.folder}/a")
    assert not kit.disk.exists(deep)
    assert kit.disk.listdir(kit.folder) == []
    for missing in (kit.disk.rmtree, kit.disk.sync_dir):
        with pytest.raises(FileNotFoundError):
            missing(f"{kit.folder}/a")
    kit.disk.open(f"{kit.folder}/file", "x").close()
    with pytest.raises(FileExistsError):
        kit.disk.mkdir(f"{kit.folder}/file")


@case
def renaming_replaces_the_target(kit: Kit) -> None:
    old, new = f"{kit.folder}/old", f"{kit.folder}/new"
    file = kit.disk.open(old, "x")
    file.pwrite(b"old", 0)
    other = kit.disk.open(new, "x")
    kit.disk.rename(old, new)
    assert not kit.disk.exists(old)
    reader = kit.disk.open(new, "r")
    assert reader.pread(0, 10) == b"old"
    for handle in (file, other, reader):
        handle.close()
    with pytest.raises(FileNotFoundError):
        kit.disk.rename(old, new)
    with pytest.raises(FileNotFoundError):
        kit.disk.rename(new, f"{kit.folder}/no/such")


@case
def two_files_change_names(kit: Kit) -> None:
    one, other = f"{kit.folder}/one", f"{kit.folder}/other"
    for path in (one, other):
        file = kit.disk.open(path, "x")
        file.pwrite(path[-3:].encode(), 0)
        file.close()
    kit.disk.exchange(one, other)
    kit.disk.sync_dir(kit.folder)
    found = kit.disk.open(one, "r")
    assert found.pread(0, 10) == b"her"
    found.close()
    with pytest.raises(FileNotFoundError):
        kit.disk.exchange(one, f"{kit.folder}/none")
    assert kit.disk.exists(one)
    assert kit.disk.free_files(kit.folder) != 0


@case
def stat_tells_size_and_time(kit: Kit) -> None:
    file = kit.disk.open(f"{kit.folder}/a", "x")
    file.pwrite(b"12345", 0)
    status = kit.disk.stat(f"{kit.folder}/a")
    assert isinstance(status, FileStat)
    assert status.size_bytes == 5
    assert status.modified_ms > 1_500_000_000_000
    file.close()


@case
def usage_is_a_share_even_of_a_folder_to_come(kit: Kit) -> None:
    assert 0.0 <= kit.disk.usage(kit.folder) <= 1.0
    assert kit.disk.usage(f"{kit.folder}/not/yet") == pytest.approx(
        kit.disk.usage(kit.folder), abs=0.01
    )


@case
def free_bytes_are_those_that_files_may_still_take(kit: Kit) -> None:
    size = 64 << 20
    before = kit.disk.free_bytes(kit.folder)
    assert before > size
    assert kit.disk.free_bytes(f"{kit.folder}/not/yet") == pytest.approx(before, abs=size / 2)
    file = kit.disk.open(f"{kit.folder}/a", "x")
    file.prepare(0, size)
    assert kit.disk.free_bytes(kit.folder) == pytest.approx(before - size, abs=size / 2)
    file.close()


@case
def a_lock_is_ours_once(kit: Kit) -> None:
    path = f"{kit.folder}/lock"
    lock = kit.disk.lock(path)
    assert kit.disk.exists(path)
    with pytest.raises(LockedByUs) as caught:
        kit.disk.lock(path)
    assert caught.value.errno == errno.EAGAIN
    lock.release()
    lock.release()
    kit.disk.lock(path).release()
