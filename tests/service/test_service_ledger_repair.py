"""`repair` of a DLedger member: damaged entries are fetched from other members, and only these."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio

from actors.api.failures import RequestRefused
from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.control.members import MemberLinks
from actors.events.store import RangeRepaired
from actors.log_types import GoodRange
from actors.node.node import Node
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.disk import SimDisk
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.mending import FIELDS, NO_SUM
from wire.dledger.entry import ENTRY_HEAD_BYTES

pytest_plugins = ["actors.sim.plugin"]
GROUP = "ledger"
FILE_BYTES = 64 << 10
ENTRIES = 80
BODY_BYTES = 2000
"""Three data files."""
ENTRY_BYTES = ENTRY_HEAD_BYTES + BODY_BYTES
BAD = 7
"""Behind the entry that opens the term: the eighth, in the first file."""


@pytest.fixture
def cluster_config() -> ClusterConfig:
    classic = classic_config()
    ledger = DLedgerGroup(
        name=GROUP,
        members=("n0", "n1", "n2"),
        data_file_bytes=FILE_BYTES,
        index_file_bytes=FILE_BYTES,
    )
    config = ClusterConfig(
        name=classic.name,
        data_dir=classic.data_dir,
        nodes=classic.nodes,
        groups={GROUP: ledger},
        api_port=classic.api_port,
    )
    validate(config)
    return config


async def filled(cluster: SimCluster) -> tuple[str, str]:
    """All have all, on their disks. Gives the leader, and another member."""
    log = cluster.log(GROUP)
    for number in range(ENTRIES):
        await log.append([b"%02d" % number * (BODY_BYTES // 2)])
    await cluster.converged(GROUP)
    await trio.sleep(5.0)
    leader = cluster.master_of(GROUP)
    return leader, next(name for name in cluster.names if name != leader)


def files_of(cluster: SimCluster, name: str) -> tuple[SimDisk, LedgerLayout]:
    layout = LedgerLayout(cluster.config.group_dir(name, GROUP))
    return cluster.world.node(name).disk, layout


def flip(cluster: SimCluster, name: str, at: int = 100, index: int = BAD) -> None:
    disk, layout = files_of(cluster, name)
    offset = ENTRY_HEAD_BYTES + (index - 1) * ENTRY_BYTES + at
    disk.inode(f"{layout.commit_log}/{0:020d}").flip_bit(offset, 3)


def data_of(cluster: SimCluster, name: str) -> bytes:
    disk, layout = files_of(cluster, name)
    return b"".join(
        disk.inode(f"{layout.commit_log}/{each}").read(0, FILE_BYTES)
        for each in disk.listdir(layout.commit_log)
    )


def node_of(cluster: SimCluster, name: str) -> Node:
    node = cluster.running(name)
    assert node is not None
    return node


async def repaired(
    cluster: SimCluster, name: str, source: str | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found = await node_of(cluster, name).repair(GROUP, source)
    assert found["unit"] == "entries"
    return found["mended"], found["left"]


@pytest.mark.parametrize("at", [10, 20, 100], ids=["index", "term", "body"])
async def test_an_entry_is_mended_from_the_leader(cluster: SimCluster, at: int) -> None:
    leader, name = await filled(cluster)
    good = data_of(cluster, name)
    flip(cluster, name, at)
    flip(cluster, name, at, BAD + 3)
    mended, left = await repaired(cluster, name)
    assert [(each["first"], each["source"]) for each in mended] == [
        (BAD, leader),
        (BAD + 3, leader),
    ]
    assert left == []
    assert data_of(cluster, name) == good
    disk, layout = files_of(cluster, name)
    assert len(disk.listdir(layout.aside)) == 2
    reported = [
        each.event for each in cluster.world.events if isinstance(each.event, RangeRepaired)
    ]
    assert [(each.next_bytes - each.first_bytes, each.source) for each in reported] == [
        (ENTRY_BYTES, leader)
    ] * 2
    assert await repaired(cluster, name) == ([], [])
    await node_of(cluster, name).read(GROUP, BAD, 10_000, False)  # which would end it


async def test_a_leader_is_mended_from_a_follower(cluster: SimCluster) -> None:
    leader, name = await filled(cluster)
    good = data_of(cluster, leader)
    flip(cluster, leader)
    mended, left = await repaired(cluster, leader, name)
    assert ([each["source"] for each in mended], left) == ([name], [])
    assert data_of(cluster, leader) == good
    assert cluster.master_of(GROUP) == leader


async def test_what_all_have_damaged_stays(cluster: SimCluster) -> None:
    _, name = await filled(cluster)
    for number, each in enumerate(cluster.names):
        flip(cluster, each, 100 + number)
    before = data_of(cluster, name)
    mended, (left,) = await repaired(cluster, name)
    assert mended == []
    assert left["first"] == BAD
    for each in cluster.names:
        assert each == name or f"{each}: its own entry is damaged" in left["reason"]
    assert data_of(cluster, name) == before
    for number, each in enumerate(cluster.names):
        flip(cluster, each, 100 + number)


async def test_a_silent_member_is_named(cluster: SimCluster) -> None:
    leader, name = await filled(cluster)
    third = next(each for each in cluster.names if each not in (leader, name))
    flip(cluster, name)
    await cluster.kill(third)
    mended, (left,) = await repaired(cluster, name, third)
    assert mended == []
    assert f"; {third}: " in left["reason"]
    mended, left_now = await repaired(cluster, name)
    assert (len(mended), left_now) == (1, [])
    await cluster.start(third)


async def test_one_repair_at_a_time(cluster: SimCluster) -> None:
    _, name = await filled(cluster)
    flip(cluster, name)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(repaired, cluster, name)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RequestRefused, match="is being repaired already"):
            await repaired(cluster, name)


async def test_an_entry_without_a_checksum_is_neither_taken_nor_given(cluster: SimCluster) -> None:
    leader, name = await filled(cluster)
    disk, layout = files_of(cluster, name)
    disk.inode(f"{layout.sums}/{0:020d}").patch(bytes(8), BAD * 8)
    with pytest.raises(RequestRefused, match=NO_SUM):
        await node_of(cluster, name).log_range(GROUP, BAD)
    flip(cluster, name, 10)  # its index: a head is seen to be wrong without one
    before = data_of(cluster, name)
    _, (left,) = await repaired(cluster, name)
    assert f"{leader}: {NO_SUM}" in left["reason"]
    assert data_of(cluster, name) == before
    flip(cluster, name, 10)


async def test_what_is_not_committed_is_not_given(cluster: SimCluster) -> None:
    _, name = await filled(cluster)
    with pytest.raises(RequestRefused, match="it is not committed and synced there"):
        await node_of(cluster, name).log_range(GROUP, 10 * ENTRIES)
    given = await node_of(cluster, name).log_range(GROUP, BAD)
    assert given.data[ENTRY_HEAD_BYTES:] == b"%02d" % (BAD - 1) * (BODY_BYTES // 2)


def bad_checksum(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def another_term(data: bytes) -> bytes:
    return data[:23] + bytes([data[23] + 1]) + data[24:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (bad_checksum, "the checksums differ"),
        (another_term, f"another entry, with {FIELDS}"),
        (lambda data: data[:40], "the bytes received are no entry: "),
        (lambda data: data + b"more", f"another entry, with {FIELDS}"),
    ],
)
async def test_what_a_member_gives_is_not_believed(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch, change: Any, reason: str
) -> None:
    leader, name = await filled(cluster)
    data = change((await node_of(cluster, leader).log_range(GROUP, BAD)).data)
    flip(cluster, name)
    before = data_of(cluster, name)

    async def log_range(links: object, member: str, group: str, start: int) -> GoodRange:
        await trio.lowlevel.checkpoint()
        return GoodRange(start=start, data=data)

    monkeypatch.setattr(MemberLinks, "log_range", log_range)
    _, (left,) = await repaired(cluster, name)
    assert reason in left["reason"]
    assert data_of(cluster, name) == before
    flip(cluster, name)


async def test_a_full_disk_refuses_it(cluster: SimCluster) -> None:
    _, name = await filled(cluster)
    flip(cluster, name)
    before = data_of(cluster, name)
    disk, layout = files_of(cluster, name)
    disk.faults.fail("create", errno.ENOSPC, path_part=layout.aside, times=2)
    _, (left,) = await repaired(cluster, name)
    assert "no room: " in left["reason"]
    assert data_of(cluster, name) == before
    disk.faults.clear()
    assert len((await repaired(cluster, name))[0]) == 1


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_write_that_fails_ends_the_member(cluster: SimCluster, operation: Any) -> None:
    """What its disk holds is unknown; the next start, or the next repair, finds it."""
    leader, name = await filled(cluster)
    good = data_of(cluster, name)
    flip(cluster, name)
    disk, layout = files_of(cluster, name)
    disk.faults.fail(operation, errno.EIO, path_part=layout.commit_log)
    with pytest.raises(Exception, match=r"ended before it answered|is not running"):
        await repaired(cluster, name)
    await cluster.world.node(name).wait_ended()
    assert cluster.world.node(name).take_failure() is not None
    disk.power_loss()
    await cluster.start(name)
    await cluster.converged(GROUP)
    await repaired(cluster, name, leader)
    assert data_of(cluster, name)[:FILE_BYTES] == good[:FILE_BYTES]
