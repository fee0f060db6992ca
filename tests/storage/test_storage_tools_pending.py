"""`pending`: what a broker on a store has yet to deliver, and to ask about."""

from __future__ import annotations

import json
import pathlib
import random
import tracemalloc
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from pending_kit import (
    HALF,
    SCHEDULE,
    delayed,
    half,
    op,
    pending_in,
    records_of,
    said,
    summed_up,
)
from storage_kit import GOLDEN, finish, golden_copy, log_bytes
from store_kit import running, small_group
from tools_command_kit import run
from tools_kit import LAYOUT, NODE_DIR, log_of, node_disk, read_all, write_at

from actors.env.local_disk import LocalDisk
from actors.env.protocols import Disk
from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.tools.commitlog import pending
from actors.storage.tools.commitlog.pending import (
    Cursors,
    Decided,
    Pending,
    decided_by,
    find_pending,
)
from actors.storage.tools.target import find_target
from wire.broker.metadata import CONSUMER_OFFSETS, DELAY_OFFSETS
from wire.files.consume_queue import FILLER_UNIT, encode_unit

STORE = "5.3.3-delayed"
LEVELS_MS = (2000, 6000, 60_000, 259_200_000)
GROUP = small_group(segment_bytes=1 << 20, consume_queue_bytes=20 * 7)


def found_in(disk: Disk, cursors: Cursors, path: str = NODE_DIR, **more: Any) -> Pending:
    (store,) = find_target(disk, path).stores
    return finish(find_pending(disk, store, cursors, **more))  # type: ignore[arg-type]


def cursors(delay: Mapping[int, int] = {}, half: int | None = None, op: int = 0) -> Cursors:
    return Cursors(delay=delay, half={} if half is None else {0: half}, op={0: op})


def of_files(folder: pathlib.Path) -> Cursors:
    return Cursors.of(
        DELAY_OFFSETS.decode((folder / "delayOffset.json").read_bytes()),
        CONSUMER_OFFSETS.decode((folder / "consumerOffset.json").read_bytes()),
    )


async def disk_with(*messages: Message) -> SimDisk:
    disk = await node_disk(0, group=GROUP)
    async with running(disk, GROUP) as kit:
        for message in messages:
            await kit.append(message)
        await kit.dispatched((await kit.range()).written_bytes)
    return disk


@pytest.mark.real_io
@pytest.mark.parametrize("node", ["master", "slave"])
def test_what_a_real_broker_would_go_on_with(node: str) -> None:
    """By the master's cursors, and by those of its slave, a minute old."""
    mine = of_files(GOLDEN / STORE / node / "config")
    found = found_in(LocalDisk(), mine, str(GOLDEN / STORE / "master"))
    records = records_of(log_bytes(GOLDEN / STORE / "master" / "commitlog"))
    wanted = pending_in(records, LEVELS_MS, mine.delay, mine.half[0], mine.op[0])
    assert said(found) == summed_up(wanted)
    assert found.problems == ()
    assert found.derived_bytes is None
    (queue,) = found.half
    by_number = {each.queue_offset: each for each in records if each.topic == HALF}
    for each in queue.messages:
        record = by_number[each.queue_offset]
        properties = record.properties_map
        assert each.offset == record.physical_offset
        assert (each.topic, each.producer_group) == ("Orders", "P_tx")
        assert each.transaction_id == properties["UNIQ_KEY"]
        assert (each.born_ms, each.store_ms) == (record.born_ts, record.store_ts)
        assert each.checks == int(properties.get("TRANSACTION_CHECK_TIMES", "0"))


def test_what_the_golden_brokers_had_left() -> None:
    """The numbers themselves, so that both sides of the other test cannot be wrong alike."""
    found = found_in(
        LocalDisk(), of_files(GOLDEN / STORE / "master/config"), str(GOLDEN / STORE / "master")
    )
    assert {one.level: (one.next_offset, one.end_offset) for one in found.delayed} == {
        1: (8, 8), 2: (4, 4), 3: (4, 8), 4: (0, 8),
    }  # fmt: skip
    assert [each.queue_offset for each in found.half[0].messages] == [23, 24, 25, 26]
    assert [each.checks for each in found.half[0].messages] == [2, 3, 1, 1]


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_before_a_cursor_and_all_from_there_on(
    autojump_clock: Any, seed: int
) -> None:
    rng = random.Random(seed)
    messages, halves = list[Message](), 0
    for _ in range(rng.randrange(60, 140)):
        match rng.randrange(4):
            case 0:
                messages.append(delayed(rng.randrange(1, 19)))
            case 1:
                messages.append(half(f"h{halves}", rng.randrange(3)))
                halves += 1
            case 2 if halves:
                messages.append(op(*rng.sample(range(halves), rng.randrange(1, 1 + halves) // 2)))
            case _:
                messages.append(Message("t", b"x"))
    disk = await disk_with(*messages)
    records = records_of(log_of(disk))
    for _ in range(20):
        delay = {level: rng.randrange(-1, 8) for level in range(1, 19) if rng.random() < 0.8}
        at = rng.choice([None, rng.randrange(halves + 3)])
        begin = rng.randrange(5)
        found = found_in(disk, cursors(delay, at, begin))
        wanted = pending_in(records, GROUP.delay_levels_ms, delay, at or 0, begin)
        assert said(found) == summed_up(wanted)
        assert found.problems == ()
        for one in found.delayed:
            assert one.cursor == delay.get(one.level)
            assert 0 <= one.next_offset <= one.end_offset


async def test_a_cursor_outside_of_its_queue_is_put_to_the_nearer_end(autojump_clock: Any) -> None:
    disk = await disk_with(*(delayed(2) for _ in range(3)), half("a"), half("b"))
    found = found_in(disk, cursors({2: 9}, 7))
    (level,), (queue,) = found.delayed, found.half
    assert (level.cursor, level.next_offset, level.end_offset, level.messages) == (9, 3, 3, 0)
    assert (level.due_ms, level.last_due_ms) == (None, None)
    assert (queue.cursor, queue.next_offset, queue.undecided) == (7, 2, 0)
    assert found_in(disk, cursors({2: -5}, -5)).delayed[0].next_offset == 0


async def test_messages_that_have_left_the_log_do_not_wait(autojump_clock: Any) -> None:
    group = small_group()
    disk = await node_disk(0, group=group)
    async with running(disk, group) as kit:
        for _ in range(30):
            await kit.append(delayed(1, b"x" * 900), half("h"))
    disk.unlink(f"{LAYOUT.commit_log}/{0:020d}")
    found = found_in(disk, cursors())
    kept = records_of_log(disk)
    (level,), (queue,) = found.delayed, found.half
    later = [record.queue_offset for record in kept if record.topic == SCHEDULE]
    assert 0 < level.next_offset == later[0]
    assert level.messages == len(later)
    assert queue.undecided == sum(record.topic == HALF for record in kept)


def records_of_log(disk: SimDisk) -> list[Any]:
    return [
        record
        for name in disk.listdir(LAYOUT.commit_log)
        for record in records_of(read_all(disk, f"{LAYOUT.commit_log}/{name}"))
    ]


async def test_a_unit_that_leads_elsewhere_is_a_problem(autojump_clock: Any) -> None:
    disk = await disk_with(*(delayed(1) for _ in range(5)))
    path = f"{LAYOUT.consume_queue}/{SCHEDULE}/0/{0:020d}"
    write_at(disk, path, 3 * 20, read_all(disk, path)[:20])
    found = found_in(disk, cursors())
    assert found.delayed[0].messages == 3
    (problem,) = found.problems
    assert f"{SCHEDULE}/0: unit 3: leads to no record of this queue" in problem
    whole = read_all(disk, path)
    write_at(disk, path, 3 * 20, FILLER_UNIT)
    found = found_in(disk, cursors())
    assert (found.delayed[0].messages, found.problems) == (4, ()), "the log lacks that record"
    disk.open(path, "w").resize(len(whole) - 1)
    assert "another size" in found_in(disk, cursors()).problems[0]


async def test_log_files_that_are_missing_are_named(autojump_clock: Any) -> None:
    small = small_group(segment_bytes=4096, consume_queue_bytes=20 * 7)
    disk = await node_disk(0, group=small)
    async with running(disk, small) as kit:
        for _ in range(60):
            await kit.append(delayed(1, b"x" * 200))
        await kit.dispatched((await kit.range()).written_bytes)
    first, second, third, *_ = names = disk.listdir(LAYOUT.commit_log)
    disk.unlink(f"{LAYOUT.commit_log}/{second}")
    found = found_in(disk, cursors())
    missing, leads = found.problems
    path = f"{LAYOUT.commit_log}/{second}: the file is missing"
    assert missing == f"{path}, {LAYOUT.commit_log}/{third} follows"
    assert "leads to no record" in leads
    whole = records_of(read_all(disk, f"{LAYOUT.commit_log}/{first}"))
    assert found.delayed[0].messages == len(whole)
    for name in names:
        if name != second:
            disk.unlink(f"{LAYOUT.commit_log}/{name}")
    found = found_in(disk, cursors())
    assert found.delayed[0].messages == 0
    assert found.problems == (
        f"{LAYOUT.commit_log}: there are no log files, so nothing of queues is shown",
    )


def test_many_decided_messages_take_a_bit_each() -> None:
    tracemalloc.start()
    try:
        decided = Decided(5, 5 + 8_000_000)
        for first in range(0, 8_000_000, 100_000):
            decided.add(range(first, first + 100_000, 2))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert [number for number in range(12) if number in decided] == [6, 8, 10]
    for number in (-1, 4, 8_000_005, 8_000_006, 1 << 62):
        assert number not in decided


async def test_what_lies_behind_the_limit_does_not_count(autojump_clock: Any) -> None:
    disk = await disk_with(*(delayed(1) for _ in range(5)))
    third = records_of(log_of(disk))[2].physical_offset
    found = found_in(disk, cursors(), limit=third)
    assert (found.delayed[0].messages, found.derived_bytes) == (2, third)


async def test_many_half_messages_are_counted(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "MESSAGES_MAX", 2)
    disk = await disk_with(*(half(f"h{number}") for number in range(5)), op(1))
    (queue,) = found_in(disk, cursors()).half
    assert queue.undecided == 4
    assert [each.transaction_id for each in queue.messages] == ["h0", "h2"]


async def test_an_address_in_the_extended_queue_is_no_time(autojump_clock: Any) -> None:
    disk = await disk_with(delayed(2))
    (record,) = records_of(log_of(disk))
    path = f"{LAYOUT.consume_queue}/{SCHEDULE}/1/{0:020d}"
    write_at(disk, path, 0, encode_unit(record.physical_offset, record.size, -(1 << 63)))
    assert found_in(disk, cursors()).delayed[0].due_ms == record.store_ts + 5000


async def test_a_tag_that_decides_nothing(autojump_clock: Any) -> None:
    disk = await disk_with(half("a"), attrs.evolve(op(0), tags="x"))
    assert found_in(disk, cursors()).half[0].undecided == 1


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        (b"0,1,30,", {0, 1, 30}),
        (b"7", {7}),
        (b"", set()),
        (b"-1,x,\xff,+3, 4,5", {5}),
        (b"9" * 20, set()),
    ],
)
def test_what_an_op_message_decides(body: bytes, numbers: set[int]) -> None:
    assert decided_by(body) == numbers


@pytest.mark.real_io
def test_the_command(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = golden_copy(STORE, "master", tmp_path)
    code, output, errors = run(capfd, "pending", root)
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[0] == (
        f"{root.name}: 12 delayed messages, 4 undecided half messages, as far as its queues reach"
    )
    assert [line.split()[:6] for line in lines[2:7]] == [
        ["level", "1", "8", "8", "8", "0"],
        ["level", "2", "4", "4", "4", "0"],
        ["level", "3", "4", "4", "8", "4"],
        ["level", "4", "0", "0", "8", "8"],
        ["half", "messages", "0", "23", "23", "27"],
    ]
    assert lines[7].startswith("0/23 at 28367: for Orders, ")
    assert "asked 2 times" in lines[7]
    code, output, _ = run(capfd, "pending", root, "--json")
    (group,) = json.loads(output)["groups"]
    assert (code, group["derived_bytes"], len(group["half"][0]["messages"])) == (0, None, 4)
    (root / "config/delayOffset.json").unlink()
    assert " none  " in run(capfd, "pending", root)[1].splitlines()[2]
    queue = root / "consumequeue" / HALF / "0" / f"{0:020d}"
    units = queue.read_bytes()
    queue.write_bytes(units[: 24 * 20] + units[:20] + units[25 * 20 :])
    code, output, _ = run(capfd, "pending", root)
    assert code == 1
    assert "unit 24: leads to no record" in output.splitlines()[-1]


@pytest.mark.real_io
def test_a_backup_has_nothing_pending(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = golden_copy(STORE, "master", tmp_path)
    assert run(capfd, "backup", root, tmp_path / "copy")[0] == 0
    code, _, errors = run(capfd, "pending", tmp_path / "copy")
    assert code == 2
    assert "found a backup" in errors
