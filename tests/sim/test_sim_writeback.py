"""What a simulated kernel writes back unasked."""

from __future__ import annotations

import random

from test_sim_disk import SEEDS, content, disk_with

from actors.sim.disk import DiskOptions, SimDisk
from actors.sim.disk.pages import PAGE_BYTES


def left_by_a_busy_kernel(share: float, seed: int) -> str:
    """Of five letters, each a write to the same page, with a sync behind the second."""
    options = DiskOptions(writeback_share=share)
    disk = SimDisk(random.Random(seed), options, kernel=random.Random(seed))
    disk.mkdir("/d")
    file = disk.open("/d/a", "x")
    file.resize(PAGE_BYTES)
    disk.sync_dir("/d")
    for at, letter in enumerate(b"abcde"):
        file.pwrite(bytes([letter]), at)
        if letter == ord("b"):
            file.sync()
    disk.power_loss()
    kept = content(disk)[:5].rstrip(b"\0").decode()
    assert disk.writeback.kept == (kept in ("abc", "abcd"))
    return kept


def test_a_busy_kernel_writes_back_what_no_sync_asked_for() -> None:
    assert {left_by_a_busy_kernel(0.0, seed) for seed in SEEDS} == {"ab", "abcde"}
    assert {left_by_a_busy_kernel(0.5, seed) for seed in SEEDS} == {"ab", "abc", "abcd", "abcde"}
    assert left_by_a_busy_kernel(0.5, 3) == left_by_a_busy_kernel(0.5, 3)


def test_what_was_written_back_is_repaired_and_cut_like_the_rest() -> None:
    kept = 0
    for seed in SEEDS:
        disk = disk_with(seed=seed, options=DiskOptions(writeback_share=1.0))
        file = disk.open("/d/a", "w")
        for letter in b"12":
            file.pwrite(bytes([letter]), 0)
        disk.inode("/d/a").patch(b"R", 9)
        cut = seed % 2 == 1
        if cut:
            file.resize(0)
            file.resize(8 * PAGE_BYTES)
        disk.power_loss()
        assert content(disk)[9:10] in (b"R", b"\0" if cut else b"R")
        assert not (cut and disk.writeback.kept)
        kept += disk.writeback.kept
    assert kept > 0
