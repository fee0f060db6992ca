"""Small files that are replaced as a whole: on a disk that somebody else has filled, too."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio
from mount_space import need_mounts

from actors.sim.disk import SimDisk
from actors.storage.files.replacing import BLOCK_BYTES, replace_file, settle_spares, spare_path
from actors.storage.files.room import NoRoom, Room, lacks
from actors.storage.files.side_file import SideFile, read_side_file

PATH = "/data/identity.json"
LONG_S = 3600.0
SEEDS = range(60)


def full_disk(how: str = "bytes") -> SimDisk:
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data")
    replace_file(disk, PATH, b"old")
    if how == "bytes":
        disk.faults.fill(LONG_S)
    else:
        disk.faults.use_up_inodes(LONG_S)
    return disk


def content(disk: Any, path: str = PATH) -> bytes:
    file = disk.open(path, "r")
    try:
        data: bytes = file.pread(0, 1 << 20)
        return data
    finally:
        file.close()


@pytest.mark.parametrize("how", ["bytes", "inodes"])
async def test_a_full_disk_takes_new_content_again_and_again(
    autojump_clock: object, how: str
) -> None:
    disk = full_disk(how)
    for number in range(5):
        data = f"number {number}".encode()
        replace_file(disk, PATH, data)
        disk.power_loss(random.Random(number))
        assert content(disk) == data


async def test_what_outgrows_the_reserve_leaves_the_old_content_and_goes_on_with_room(
    autojump_clock: object,
) -> None:
    disk = full_disk()
    long = bytes(range(1, 256)) * 100
    for _ in range(2):
        with pytest.raises(NoRoom):
            replace_file(disk, PATH, long)
        assert content(disk) == b"old"
    replace_file(disk, PATH, b"short")
    assert content(disk) == b"short"
    await trio.sleep(LONG_S)
    replace_file(disk, PATH, long)
    disk.power_loss(random.Random(1))
    assert content(disk) == long


async def test_another_error_is_not_taken_for_a_full_disk(autojump_clock: object) -> None:
    disk = full_disk()
    disk.faults.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error") as caught:
        replace_file(disk, PATH, b"new")
    assert not isinstance(caught.value, NoRoom)
    assert content(disk) == b"old"


async def test_a_first_file_needs_room(autojump_clock: object) -> None:
    disk = full_disk("inodes")
    with pytest.raises(NoRoom):
        replace_file(disk, "/data/another", b"new")
    assert not disk.exists("/data/another")
    assert lacks(disk, "/data") == (
        "the disk has no inode left for another file, however empty it is"
    )


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_exchanges_no_names(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data")

    def refused(one: str, other: str) -> None:
        raise OSError(code, os.strerror(code), one)

    monkeypatch.setattr(disk, "exchange", refused)
    for data in (b"one", b"two", b"three"):
        replace_file(disk, PATH, data)
        disk.power_loss(random.Random(2))
        assert content(disk) == data
        assert disk.exists(spare_path(PATH)) in (True, False)  # it may, or may not, have survived


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_loss_leaves_one_content_or_the_other(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """At every step, also of the replacement behind one whose folder could not be synced."""
    rng = random.Random(seed)
    disk = SimDisk(rng)
    disk.mkdir("/data")
    settle_spares(disk, "/data")
    known = [b"first " * 900]
    replace_file(disk, PATH, known[0])
    for number in range(4):
        data = f"{number} ".encode() * rng.choice([1, 3000])
        step = rng.choice(["open", "exchange", "sync_dir"])
        real, skip = getattr(disk, step), rng.randrange(2)

        def die(*words: Any, real: Any = real, left: list[int] = [skip]) -> Any:  # noqa: B006
            if not left[0]:
                raise OSError(errno.EIO, "gone")
            left[0] -= 1
            return real(*words)

        with monkeypatch.context() as patch:
            patch.setattr(disk, step, die)
            try:
                replace_file(disk, PATH, data)
                known = [data]
            except OSError:
                known.append(data)
        if rng.random() < 0.5:
            disk.power_loss(rng)
        found = content(disk)
        assert found in known
        known = [found]
        settle_spares(disk, "/data")  # as every start does


async def test_what_is_opened_waits_for_room_and_says_so_once(autojump_clock: object) -> None:
    disk, reported, tries = full_disk(), list[Any](), list[float]()
    disk.faults.fill(3.5)

    def attempt() -> Generator[None, None, str]:
        yield
        tries.append(trio.current_time())
        replace_file(disk, "/data/another", bytes(BLOCK_BYTES))
        return "opened"

    room = Room(disk=disk, path="/data", owner="n0: orders")
    assert await room.wait(attempt, reported.append) == "opened"
    assert len(tries) == 5
    assert [(event.is_full, event.reason[:9]) for event in reported] == [
        (True, "no room: "),
        (False, ""),
    ]


def test_a_side_file_without_room_keeps_its_newer_slot() -> None:
    """As on a file system that never writes in place."""
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data")
    side, _ = SideFile.open(disk, "/data/synced", 1)
    side.write((1,))
    side.write((2,))
    disk.faults.fail("write", errno.ENOSPC, path_part="/synced")
    with pytest.raises(NoRoom):
        side.write((3,))
    assert read_side_file(disk, "/data/synced", 1) == (2,)
    disk.faults.shorten_write(path_part="/synced")
    with pytest.raises(OSError, match="wrote"):
        side.write((4,))  # torn: it has gone to the older slot again
    assert read_side_file(disk, "/data/synced", 1) == (2,)


FILL = """
import errno, os, sys
from actors.env.local_disk import LocalDisk
from actors.storage.files.replacing import replace_file
from actors.storage.files.room import NoRoom, lacks
folder, how = sys.argv[1:]
disk, path = LocalDisk(), f"{folder}/n0/identity.json"
disk.mkdir(f"{folder}/n0")
replace_file(disk, path, b"old")
try:
    if how == "bytes":
        with open(f"{folder}/fill", "wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
    for number in range(10_000):
        open(f"{folder}/{number}", "x").close()
except OSError as error:
    assert error.errno == errno.ENOSPC, error
for number in range(20):
    replace_file(disk, path, f"number {number}".encode())
print(open(path).read(), lacks(disk, path))
try:
    replace_file(disk, f"{folder}/n0/another", b"new")
except NoRoom as error:
    print(type(error).__name__, os.path.exists(f"{folder}/n0/another"))
"""


@pytest.mark.real_io
@pytest.mark.parametrize(
    ("how", "options", "why"),
    [
        ("bytes", "size=256k", "the disk is 100% full, 0 bytes free"),
        ("inodes", "nr_inodes=30", "the disk has no inode left for another file, however empty"),
    ],
)
def test_a_real_file_system_that_somebody_else_has_filled(
    tmp_path: Path, how: str, options: str, why: str
) -> None:
    need_mounts()
    script = f'mount -t tmpfs -o {options} tmpfs {tmp_path} && exec {sys.executable} -c "$0" "$@"'
    command = ["unshare", "-rm", "sh", "-c", script, FILL, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith(f"number 19 {why}")
    assert done.stdout.endswith("NoRoom False\n")
