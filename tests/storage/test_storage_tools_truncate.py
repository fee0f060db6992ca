"""`truncate`: only where a record ends, nothing is lost, and it may be killed at every step."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import pytest
from storage_kit import GOLDEN_SEGMENT, golden_copy
from tools_kit import (
    LAYOUT,
    NODE_DIR,
    S,
    checked,
    deaths,
    env_of,
    forget_derived,
    log_of,
    node_disk,
    read_all,
    starts,
    store_of,
    twin,
    write_at,
)

from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError
from actors.sim.disk import SimDisk
from actors.storage.derived.small_files import create_abort
from actors.storage.files.stepping import finish
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.commitlog.truncate import (
    TruncationPlan,
    derived_group,
    high_water,
    marks_of,
    plan_truncation,
    truncate_store,
)
from actors.storage.tools.target import find_target
from wire.files.commit_log import scan

KEPT = f"{LAYOUT.root}/truncated"


def planned(disk: Any, offset: int, marks: dict[str, int] | None = None) -> TruncationPlan:
    store = store_of(disk)
    found = marks_of(disk, store) if marks is None else marks
    return finish(plan_truncation(disk, store, offset, found))


def cut(disk: Any, offset: int) -> str | None:
    store = store_of(disk)
    plan = planned(disk, offset)
    return finish(truncate_store(env_of(disk), store, plan, derived_group(disk, store, None)))


def record_ends(disk: SimDisk) -> list[int]:
    """Where records end in the files, and the ends of the files."""
    ends = []
    for name in disk.listdir(LAYOUT.commit_log):
        data, base = read_all(disk, f"{LAYOUT.commit_log}/{name}"), int(name)
        found, _ = scan(data, physical_offset=base)
        ends += [base, *(base + at + size for at, size in found)]
    return sorted(set(ends))


def kept_bytes(disk: SimDisk, folder: str) -> bytes:
    names = [name for name in disk.listdir(folder) if name != "about.json"]
    return b"".join(read_all(disk, f"{folder}/{name}") for name in names)


async def test_the_end_goes_and_is_kept(autojump_clock: Any) -> None:
    disk = await node_disk()
    before, end = log_of(disk), checked(disk).end_bytes
    offset = next(at for at in record_ends(disk) if at > S + 900)
    kept = cut(disk, offset)
    assert kept is not None
    assert kept.startswith(f"{KEPT}/{offset:020d}-2023")
    assert log_of(disk) == before[:offset].rstrip(b"\0")
    assert kept_bytes(disk, kept) == before.ljust(end, b"\0")[offset:end]
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.end_bytes == found.mark_bytes == found.dispatched_bytes == offset
    assert 0 < found.records == found.units < 150
    assert starts(disk) == offset


async def test_every_boundary_works_and_no_other_offset(autojump_clock: Any) -> None:
    template = await node_disk(60)
    ends, end = record_ends(template), checked(template).end_bytes
    for offset in [at for at in ends if at <= end][::5]:
        disk = twin(template)
        cut(disk, offset)
        found = checked(disk)
        assert found.is_good, found.findings
        assert found.end_bytes == offset
        assert starts(disk) == offset
    inside = [at for at in range(1, end) if at not in ends][::97]
    for offset in inside:
        lower = max(at for at in ends if at < offset)
        upper = min(at for at in ends if at > offset)
        with pytest.raises(ConfigError, match=f"the nearest is {lower} or {upper}, found {offset}"):
            planned(template, offset)


async def test_an_offset_outside_of_the_log_is_refused(autojump_clock: Any) -> None:
    disk = await node_disk(30)
    end = checked(disk).end_bytes
    with pytest.raises(ConfigError, match=f"the nearest is {end}, found {end + 1}"):
        planned(disk, end + 1)
    with pytest.raises(ConfigError, match="expected one from 0 to"):
        planned(disk, 1 << 40)


async def test_damage_can_be_cut_away(autojump_clock: Any) -> None:
    disk = await node_disk()
    offset = next(at for at in record_ends(disk) if at > S + 900)
    write_at(disk, f"{LAYOUT.commit_log}/{S:020d}", offset % S + 5, b"\xff")
    assert not checked(disk).is_good
    cut(disk, offset)
    assert checked(disk).is_good
    assert starts(disk) == offset


async def test_what_may_be_acknowledged_is_said(autojump_clock: Any) -> None:
    disk = await node_disk(30)
    end = checked(disk).end_bytes
    before = record_ends(disk)[-2]
    assert planned(disk, end).lost is None
    lost = planned(disk, before).lost
    assert lost is not None
    assert f"the synced mark says that all below {end} was safe: {end - before} bytes" in lost
    marks = {"the synced mark": before, **high_water(HIGH_WATER, "orders")}
    lost = planned(disk, before, marks).lost
    assert lost is not None
    assert "the node's identity says that all below 99999 was safe" in lost
    assert high_water({}, "orders") == {}
    assert planned(disk, before, {}).known_bytes is None


HIGH_WATER = {"records": {"orders": {"high_water_bytes": 99999}}}


async def test_nothing_to_cut_changes_nothing(autojump_clock: Any) -> None:
    disk = await node_disk(30)
    before, end = log_of(disk), checked(disk).end_bytes
    assert planned(disk, end).cut_bytes == 0
    assert cut(disk, end) is None
    assert log_of(disk) == before
    assert not disk.exists(KEPT)


@pytest.mark.parametrize("power_loss", [False, True])
async def test_it_may_be_killed_at_every_step(power_loss: bool, autojump_clock: Any) -> None:
    """The log ends where it did, or at the new end with the rest kept; once more ends it."""
    template = await node_disk(60)
    before, end = log_of(template), checked(template).end_bytes
    offset = next(at for at in record_ends(template) if at > S + 900)
    count = 0
    for number, disk in deaths(template, lambda disk: cut(disk, offset), power_loss=power_loss):
        count += 1
        started = twin(disk)
        begun = starts(started)
        assert begun in (offset, end), number
        assert log_of(started) == before[:begun].rstrip(b"\0"), number
        forget_derived(started)  # a node derives again what was cut half, after its start
        assert checked(started).is_good, (number, checked(started).findings)
        if begun == offset:
            kept = [name for name in disk.listdir(KEPT) if not name.endswith(".part")]
            whole = before.ljust(end, b"\0")[offset:end]
            assert [kept_bytes(disk, f"{KEPT}/{name}") for name in kept] == [whole], number
        cut(disk, offset)
        again = checked(disk)
        assert again.is_good, (number, again.findings)
        assert again.end_bytes == offset == starts(disk), number
        assert not [name for name in disk.listdir(KEPT) if name.endswith(".part")], number
    assert count > 30
    assert begun == offset, "what had ended was lost"


@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "read"])
async def test_a_disk_that_fails_loses_nothing(operation: Any, autojump_clock: Any) -> None:
    """The log is as before, or what is gone is kept; once the disk works again it can be ended."""
    template = await node_disk(60)
    before, end = log_of(template), checked(template).end_bytes
    offset = next(at for at in record_ends(template) if at > S + 900)
    failed = 0
    for skip in range(40):
        disk = twin(template)
        disk.faults.fail(operation, errno.ENOSPC, skip=skip)
        try:
            cut(disk, offset)
        except OSError:
            failed += 1
        disk.faults.clear()
        kept = [name for name in disk.listdir(KEPT) if not name.endswith(".part")]
        whole = before.ljust(end, b"\0")[offset:end]
        assert kept or log_of(disk) == before, skip
        assert all(kept_bytes(disk, f"{KEPT}/{name}") == whole for name in kept), skip
        cut(disk, offset)
        assert log_of(disk) == before[:offset].rstrip(b"\0")
        assert checked(disk).is_good, (skip, checked(disk).findings)
    assert failed


async def test_a_truncation_that_was_interrupted_is_not_raised(autojump_clock: Any) -> None:
    template = await node_disk(60)
    offset = next(at for at in record_ends(template) if at > S + 900)
    for _, disk in deaths(template, lambda disk: cut(disk, offset), power_loss=False):
        plan = planned(disk, offset)
        if plan.unfinished is not None:
            assert plan.unfinished == offset
            with pytest.raises(ConfigError, match=f"expected {offset} or less"):
                planned(disk, offset + 4096)
            return
    raise AssertionError("no kill came between intent and end")


async def test_a_store_without_derived_files(autojump_clock: Any) -> None:
    disk = await node_disk(60)
    forget_derived(disk)
    assert derived_group(disk, store_of(disk), None) is None
    cut(disk, S)
    assert starts(disk) == S


async def test_a_log_without_files_is_refused(autojump_clock: Any) -> None:
    disk = await node_disk(0)
    with pytest.raises(ConfigError, match="expected a log, found no files"):
        planned(disk, 0)


@pytest.mark.real_io
@pytest.mark.parametrize("was_clean", [True, False])
def test_a_store_of_a_real_broker(was_clean: bool, tmp_path: pathlib.Path) -> None:
    root = golden_copy("5.3.3", "master", tmp_path)
    disk = LocalDisk()
    if not was_clean:
        create_abort(disk, f"{root}/abort", "1234")
    store = find_target(disk, str(root)).stores[0]
    with pytest.raises(ConfigError, match="--index-slots: expected the number of hash slots"):
        derived_group(disk, store, None)
    derived = derived_group(disk, store, 50)
    offset = 2 * GOLDEN_SEGMENT
    plan = finish(plan_truncation(disk, store, offset, {}))
    assert (plan.records, plan.files) == (20, 2)
    finish(truncate_store(env_of(disk), store, plan, derived))
    found = finish(check_store(disk, store, CheckOptions(index_slots=50)))
    assert found.is_good, found.findings
    assert (found.end_bytes, found.records) == (offset, 15)
    assert found.queues == (4 if was_clean else 0)


def test_the_node_is_where_the_tests_think() -> None:
    assert LAYOUT.root == f"{NODE_DIR}/groups/orders"
