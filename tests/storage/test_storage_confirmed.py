"""The confirm offset of an auto-switch group: kept in the checkpoint, told as a store opens."""

import random
from typing import Any

import golden_autoswitch as golden
import pytest
import trio
from storage_kit import finish, record
from store_kit import ROOT, running, sim_disk, small_group
from store_tree import Died, die_after, dying

from actors.log_types import Message
from actors.sim.disk import SimDisk
from actors.storage.commitlog.opening import OpenedStore, open_store
from actors.storage.commitlog.store_messages import Guard
from actors.storage.derived.small_files import (
    lower_offsets,
    read_checkpoint,
    write_checkpoint,
)
from actors.storage.layout import StoreLayout
from wire.files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from wire.files.commit_log import segment_name

LAYOUT = StoreLayout(ROOT)
PATH = LAYOUT.checkpoint
S = 4096
CONFIRMED_AT = slice(32, 40)


def put(disk: SimDisk, path: str, data: bytes) -> None:
    disk.mkdir(path.rpartition("/")[0])
    file = disk.open(path, "w" if disk.exists(path) else "x")
    file.pwrite(data, 0)
    file.sync()
    disk.sync_dir(path.rpartition("/")[0])


def with_log(*, first: int = 0, size: int = 1000) -> SimDisk:
    """A disk with a log of one record, from `first` on."""
    disk = sim_disk()
    whole = record(first, b"")
    put(disk, f"{LAYOUT.commit_log}/{segment_name(first)}", b"")
    file = disk.open(f"{LAYOUT.commit_log}/{segment_name(first)}", "w")
    file.resize(S)
    file.pwrite(record(first, b"x" * (size - len(whole))), 0)
    file.sync()
    return disk


def opened(disk: SimDisk, cut: int | None = None) -> OpenedStore:
    guard = Guard(keeper=None, promotion=None, cut_bytes=cut)  # type: ignore[arg-type]
    steps = open_store(disk, LAYOUT, small_group(), is_master=False, owner="n0", guard=guard)
    return finish(steps)


@pytest.mark.parametrize("broker", ["broker-a", "broker-b", "broker-c"])
def test_java_s_checkpoint_says_it(broker: str) -> None:
    data = golden.file(f"{broker}/checkpoint")
    found = decode_checkpoint(data)
    assert found.confirm_offset == int.from_bytes(data[CONFIRMED_AT]) == 3571
    assert encode_checkpoint(found)[: len(data)] == data


def test_a_java_broker_s_store_opens_with_what_its_consumers_saw() -> None:
    disk = sim_disk()
    log = golden.file("broker-a/commitlog")
    put(disk, f"{LAYOUT.commit_log}/{segment_name(0)}", log.ljust(S, b"\0"))
    put(disk, PATH, golden.file("broker-a/checkpoint").ljust(4096, b"\0"))
    store = opened(disk)
    assert store.log.written_bytes == store.confirmed_bytes == len(log) == 3571


@pytest.mark.checklist(34, of="autoswitch")
@pytest.mark.parametrize(
    ("said", "told"), [(-1, S), (0, S), (S + 10, S + 10), (S + 1000, S + 1000), (9 * S, S + 1000)]
)
def test_it_is_told_within_the_log(said: int, told: int) -> None:
    disk = with_log(first=S)
    write_checkpoint(disk, PATH, Checkpoint(confirm_offset=said))
    assert opened(disk).confirmed_bytes == told
    # What another master writes where the log ended must not be taken for confirmed.
    disk.power_loss()
    assert read_checkpoint(disk, PATH).confirm_offset <= S + 1000


@pytest.mark.checklist(34, of="autoswitch")
async def test_each_checkpoint_has_it_and_the_next_start_tells_it(autojump_clock: Any) -> None:
    disk, shown = sim_disk(), [0]
    with dying():
        async with running(disk, confirmed=lambda: shown[0]) as kit:
            assert (await kit.range()).confirmed_bytes == 0
            first = await kit.append(Message("t", b"x" * 100))
            shown[0] = first.next_bytes
            await trio.sleep(3)
            checkpoint = read_checkpoint(disk, PATH)
            assert checkpoint.confirm_offset == first.next_bytes
            assert checkpoint.queue_ts > 0
            second = await kit.append(Message("t", b"x" * 100))
            await trio.sleep(3)
            kit.kill()
    async with running(disk, confirmed=lambda: shown[0]) as kit:
        held = await kit.range()
        assert (held.written_bytes, held.confirmed_bytes) == (second.next_bytes, first.next_bytes)


async def test_it_is_kept_where_nothing_new_is_derived(autojump_clock: Any) -> None:
    """A slave that has all hears later how much of it is confirmed."""
    disk, shown = sim_disk(), [0]
    async with running(disk, confirmed=lambda: shown[0]) as kit:
        end = (await kit.append(Message("t", b"x" * 100))).next_bytes
    before = read_checkpoint(disk, PATH)
    async with running(disk, is_master=False, confirmed=lambda: shown[0]) as kit:
        await trio.sleep(3)
        shown[0] = end + 5000  # of its master, which has more
        await trio.sleep(3)
        assert read_checkpoint(disk, PATH) == Checkpoint(
            log_ts=before.log_ts,
            queue_ts=before.queue_ts,
            index_ts=before.index_ts,
            confirm_offset=end,
            logics_offset=before.logics_offset,
        )


async def test_a_classic_group_s_checkpoint_says_none(autojump_clock: Any) -> None:
    disk = sim_disk()
    async with running(disk) as kit:
        await kit.append(Message("t", b"x" * 100))
        await trio.sleep(3)
    assert read_checkpoint(disk, PATH).queue_ts > 0
    assert read_checkpoint(disk, PATH).confirm_offset == 0


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_cut_takes_it_along_whatever_dies(
    monkeypatch: pytest.MonkeyPatch, loses_power: bool
) -> None:
    """autoswitch-ha.md 4.4: lowered to the cut, and ahead of it: what comes there is another's."""
    steps, died = 0, True
    while died:
        disk = with_log()
        file = disk.open(f"{LAYOUT.commit_log}/{segment_name(0)}", "w")
        file.pwrite(record(1000, b"y" * 500), 1000)
        file.sync()
        end = opened(disk).log.written_bytes
        write_checkpoint(disk, PATH, Checkpoint(log_ts=7, confirm_offset=1200, logics_offset=1000))
        disk.sync_now(disk.inode(PATH), PATH)
        disk.sync_dir(ROOT)
        disk.kill()
        die_after(monkeypatch, steps)
        try:
            assert opened(disk, cut=1000).confirmed_bytes == 1000
            died = False
        except Died:
            died = True
        monkeypatch.undo()
        if loses_power:
            disk.power_loss(random.Random(steps))
        else:
            disk.kill()
        store, said = opened(disk), read_checkpoint(disk, PATH)
        if store.log.written_bytes < end:
            assert said == Checkpoint(log_ts=7, confirm_offset=1000, logics_offset=1000)
        else:
            assert died
        assert store.confirmed_bytes <= store.log.written_bytes
        steps += 1
    assert steps > 20


def test_a_lower_one_stays_when_the_log_is_cut() -> None:
    disk = sim_disk()
    disk.mkdir(ROOT)
    lower_offsets(disk, PATH, 0)
    assert not disk.exists(PATH), "there is nothing to be lowered"
    write_checkpoint(disk, PATH, Checkpoint(confirm_offset=40, logics_offset=93))
    lower_offsets(disk, PATH, 50)
    assert read_checkpoint(disk, PATH) == Checkpoint(confirm_offset=40, logics_offset=50)
    disk.sync_dir(ROOT)
    disk.power_loss()
    assert read_checkpoint(disk, PATH) == Checkpoint(confirm_offset=40, logics_offset=50)
