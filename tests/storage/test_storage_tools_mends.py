"""`check` of classic stores: what the next start mends is distinguished from damage that it
refuses.
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from tools_kit import (
    GROUP,
    LAYOUT,
    S,
    checked,
    forget_derived,
    node_disk,
    starts,
    store_of,
    twin,
    write_at,
)

from actors.errors import ConfigError, CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.commitlog.opening import close_store, open_store
from actors.storage.derived.small_files import create_abort
from actors.storage.files.stepping import finish
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.findings import StoreReport

STEP = 193
"""Bytes from one flip to the next; prime, so that every field of a record is met."""


async def unmarked(*, clean: bool) -> SimDisk:
    """A stopped node's disk without `synced`."""
    disk = await node_disk()
    disk.unlink(LAYOUT.synced)
    if not clean:
        create_abort(disk, LAYOUT.abort, "n0")
    return disk


def flip(disk: SimDisk, at: int) -> None:
    path = f"{LAYOUT.commit_log}/{at - at % S:020d}"
    file = disk.open(path, "r")
    (was,) = file.pread(at % S, 1)
    file.close()
    write_at(disk, path, at % S, bytes([was ^ 0x41]))


async def test_what_follows_a_torn_record_is_cut_as_it_says(autojump_clock: Any) -> None:
    """After a loss of power: a page is gone, and records of later files are there."""
    disk = await unmarked(clean=False)
    forget_derived(disk)
    disk.unlink(LAYOUT.checkpoint)
    flip(disk, 2 * S + 5)
    found = checked(disk)
    assert (found.result, found.findings.damage) == ("mends", [])
    pattern = (
        rf"offset {2 * S}: .*magic.*: the next start cuts ([\d,]+) bytes with (\d+) whole record"
    )
    reported = re.match(pattern, found.findings.mends[0])
    assert reported is not None, found.findings.mends
    assert "it is unknown whether it was acknowledged as synced" in found.findings.mends[0]
    before = found.records
    again = twin(disk)
    opened = finish(open_store(again, LAYOUT, GROUP, is_master=False, owner="n0"))
    assert (opened.log.written_bytes, opened.kept_bytes) == (
        2 * S,
        int(reported[1].replace(",", "")),
    )
    assert 0 < int(reported[2]) < before
    close_store(again, LAYOUT, opened.log, opened.mark, (), synced_bytes=0)


async def test_a_written_group_has_lost_nothing_synced(autojump_clock: Any) -> None:
    disk = await unmarked(clean=False)
    disk.unlink(LAYOUT.checkpoint)
    flip(disk, 2 * S + 5)
    store = store_of(disk)
    store = attrs.evolve(store, settings={**store.settings, "durability": '"written"'})
    found = finish(check_store(disk, store, CheckOptions()))
    assert "nothing acknowledged as synced is touched" in found.findings.mends[0]


@pytest.mark.parametrize("clean", [True, False])
async def test_a_check_and_a_start_agree(clean: bool, autojump_clock: Any) -> None:
    """Whatever byte is another: what it mends a start cuts, and damage it refuses or passes."""
    template = await unmarked(clean=clean)
    end = checked(template).end_bytes
    results = set()
    for at in range(0, end, STEP):
        disk = twin(template)
        flip(disk, at)
        found = checked(disk)
        results.add(found.result)
        # A changed topic or place in its queue is damage of what derives from the log.
        is_of_log = any(LAYOUT.commit_log in line for line in found.findings.damage)
        try:
            began_at = starts(disk)
        except CorruptLog:
            assert is_of_log, (at, found.findings)
            continue
        if is_of_log:
            assert began_at > found.end_bytes, (at, found.findings)
        else:
            assert began_at == found.end_bytes, (at, found.findings)
    assert ({"mends", "DAMAGE"} if clean else {"mends"}) <= results


async def test_of_a_copy_nothing_is_mended(autojump_clock: Any) -> None:
    disk = await unmarked(clean=True)
    flip(disk, checked(disk).end_bytes - 60)
    assert checked(disk).result == "mends"
    found: StoreReport = checked(disk, is_backup=True)
    assert (found.result, found.findings.mends) == ("DAMAGE", [])


async def test_an_only_file_that_is_too_short_may_have_been_cut(autojump_clock: Any) -> None:
    """The size of one file says nothing: both that it was cut, and that the key is another."""
    disk = await node_disk(5)
    (name,) = disk.listdir(LAYOUT.commit_log)
    path = f"{LAYOUT.commit_log}/{name}"
    file = disk.open(path, "w")
    file.resize(S - 1000)
    file.close()
    line = (
        f"{path}: expected {S} bytes, found {S - 1000}: it was cut short, or segment_bytes was"
        f" changed from {S - 1000} to {S}"
    )
    with pytest.raises(ConfigError) as refused:
        starts(disk)
    assert str(refused.value) == line
    assert f"{line}, with which a start is refused" in checked(disk).findings.notes
