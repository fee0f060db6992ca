"""Tools compare a log with its digests: `check` names what differs, and no backup has it."""

from __future__ import annotations

import random

import pytest
from tools_kit import LAYOUT, NODE_DIR, S, checked, node_disk, write_at

from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.files.stepping import finish
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.storage.log.digests import RANGE_BYTES, Digests, digest_of
from actors.storage.tools.backup import copy_stores, open_backup
from actors.storage.tools.commitlog.backup import stopped_limit
from actors.storage.tools.commitlog.check_digests import DigestCheck
from actors.storage.tools.copying import BackedUp
from actors.storage.tools.findings import Findings
from actors.storage.tools.target import find_target

SEGMENT = segment_path(LAYOUT.commit_log, S)
STORE_TIMESTAMP_END = 63
"""Its last byte in the head of a segment's first record: no CRC covers it."""


def digested(disk: SimDisk) -> Digests:
    """All complete ranges of the node's log, as its scrubber digests them."""
    digests = Digests.open(disk, LAYOUT.digests, S, 0, 1 << 40)
    for base in segment_bases(disk, LAYOUT.commit_log):
        digests.put(base, digest_of(content(disk, base)))
    digests.close()
    return digests


def content(disk: SimDisk, base: int) -> bytes:
    file = disk.open(segment_path(LAYOUT.commit_log, base), "r")
    try:
        return file.pread(0, S)
    finally:
        file.close()


def flip(disk: SimDisk) -> None:
    before = content(disk, S)[STORE_TIMESTAMP_END]
    write_at(disk, SEGMENT, STORE_TIMESTAMP_END, bytes([before ^ 1]))


def back_up(disk: SimDisk, folder: str) -> BackedUp:
    source, done = find_target(disk, NODE_DIR), BackedUp()
    open_backup(disk, source, folder)
    (store,) = source.stores
    limits = {store.name: finish(stopped_limit(disk, store))}
    finish(copy_stores(disk, source, folder, limits, done))
    return done


async def test_a_byte_that_no_crc_covers_is_found_by_its_range_s_digest() -> None:
    disk = await node_disk()
    digested(disk)
    assert checked(disk).is_good
    flip(disk)
    (line,) = checked(disk).findings.damage
    assert line.startswith(f"{SEGMENT}: bytes {S} to {2 * S} of the log are not what was written")
    flip(disk)
    assert checked(disk).is_good


def test_damaged_ranges_beside_each_other_are_one_line() -> None:
    disk, size, found = SimDisk(random.Random(1)), 4 * RANGE_BYTES, Findings()
    disk.mkdir(LAYOUT.commit_log)
    file = disk.open(segment_path(LAYOUT.commit_log, 0), "x")
    file.pwrite(bytes(size), 0)
    file.close()
    digests = Digests.open(disk, LAYOUT.digests, size, 0, size)
    for number, right in enumerate((False, False, True, False)):
        digest = digest_of(bytes(RANGE_BYTES))
        digests.put(number * RANGE_BYTES, digest if right else digest ^ 1)
    digests.close()
    check = DigestCheck(
        disk=disk,
        name="g",
        total_bytes=size,
        log_folder=LAYOUT.commit_log,
        digests_folder=LAYOUT.digests,
        segment_bytes=size,
        limit_bytes=size,
        findings=found,
    )
    assert list(check.run([0]))
    first, second = found.damage
    assert f"bytes 0 to {2 * RANGE_BYTES} of" in first
    assert f"bytes {3 * RANGE_BYTES} to {size} of" in second


async def test_digests_of_what_lies_behind_the_mark_are_not_believed() -> None:
    """They belong to bytes that the next start may cut."""
    disk = await node_disk()
    digests = digested(disk)
    digests.put(max(segment_bases(disk, LAYOUT.commit_log)), 1)
    digests.close()
    assert checked(disk).is_good


async def test_a_check_makes_no_digests() -> None:
    disk = await node_disk()
    digested(disk)
    disk.unlink(segment_path(LAYOUT.digests, S))
    assert checked(disk).is_good
    assert not disk.exists(segment_path(LAYOUT.digests, S))


async def test_no_backup_has_bytes_that_changed() -> None:
    disk = await node_disk()
    digested(disk)
    flip(disk)
    with pytest.raises(CorruptLog, match=f"^{SEGMENT}: bytes {S} to {2 * S} of the log are"):
        back_up(disk, "/copies/one")
    flip(disk)
    assert back_up(disk, "/copies/one").copies[0].first_bytes == 0
