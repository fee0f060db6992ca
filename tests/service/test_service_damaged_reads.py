"""A reader goes on with another node where one has a record damaged and does not know it yet."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
from test_service_group_backend import HOME, members, opened

from actors.api.failures import RequestRefused
from actors.client import reading
from actors.client.group_backend import open_backend
from actors.client.members import MemberFinder
from actors.config import ClusterConfig
from actors.events.store import RotFound
from actors.log import Log
from actors.sim.classic.log_bytes import DiskLogBytes
from actors.sim.cluster import SimCluster, classic_config
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import segment_path
from actors.storage.log.digests import RANGE_BYTES
from actors.storage.scrub.log_check import LogCheck, Steps

pytest_plugins = ["actors.sim.plugin"]
GROUP = "orders"
SEGMENT = 16 * RANGE_BYTES
LONG = b"long" * 1250
LINES = [b"line %d" % number * 20 for number in range(9)]


@pytest.fixture
def cluster_config() -> ClusterConfig:
    config = classic_config(nodes=3, group=GROUP, copies=3, segment_bytes=SEGMENT)
    return attrs.evolve(config, nodes={**config.nodes, HOME: "10.0.0.9"})


async def written(cluster: SimCluster, *, damaged: tuple[str, ...]) -> None:
    """The lines, of which the sixth is damaged in the log's last range on these nodes."""
    async with opened(cluster, GROUP) as (_, log):
        positions = [(await log.append([line])).first for line in LINES]
    await cluster.converged(GROUP)
    for name in damaged:
        flip(cluster, name, positions[5] + 100)


def flip(cluster: SimCluster, name: str, place: int) -> None:
    layout = StoreLayout(cluster.config.group_dir(name, GROUP))
    base = place - place % SEGMENT
    path = segment_path(layout.commit_log, base)
    cluster.world.node(name).disk.inode(path).flip_bit(place - base, 1)


def first(cluster: SimCluster, name: str, wait_s: float | None = None) -> MemberFinder:
    one = members(cluster, GROUP, wait_s=wait_s)
    one._order.sort(key=lambda other: other != name)
    return one


async def test_read(cluster: SimCluster) -> None:
    await written(cluster, damaged=("n1",))
    one = partial(first, cluster, "n1")
    async with open_backend(one(), one()) as backend:
        found, at = [], 0
        while len(found) < len(LINES):
            batch = await Log(backend, GROUP).read(at)
            found += [each.body for each in batch.records]
            at = batch.next
        assert found == LINES
        assert backend.reading.node != "n1"


async def test_tail(cluster: SimCluster) -> None:
    await written(cluster, damaged=("n1",))
    one = partial(first, cluster, "n1")
    shown, by = bytearray(), list[tuple[str, bytes]]()

    async def write(data: bytes) -> None:
        shown.extend(data)
        by.append((backend.reading.node, data))

    async with open_backend(one(), one()) as backend, trio.open_nursery() as nursery:
        nursery.start_soon(partial(reading.tail, backend, GROUP, write, start=0, json=False))
        with trio.fail_after(30.0):
            while shown.count(b"\n") < len(LINES):  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert bytes(shown) == b"".join(line + b"\n" for line in LINES)
    own = b"".join(data for node, data in by if node == "n1")
    assert own == b"".join(line + b"\n" for line in LINES[:5]), "all that is good there"


async def test_what_all_have_damaged_is_said(cluster: SimCluster) -> None:
    await written(cluster, damaged=("n0", "n1", "n2"))
    one = partial(first, cluster, "n1", wait_s=3.0)
    async with open_backend(one(), one()) as backend:
        batch = await Log(backend, GROUP).read(0)
        assert [each.body for each in batch.records] == LINES[:5]
        with pytest.raises(RequestRefused, match="damaged"):
            await Log(backend, GROUP).read(batch.next)


async def damage_of(cluster: SimCluster, name: str) -> str:
    """What the node's status says of its copy."""
    node = cluster.running(name)
    assert node is not None
    return str((await node.status())["groups"][GROUP]["findings"].get("damaged", ""))


@pytest.mark.parametrize("by", ["read", "tail"])
@pytest.mark.parametrize("name", ["n0", "n1"])
async def test_what_a_reader_has_found_is_known_and_mended(
    cluster: SimCluster, name: str, by: str
) -> None:
    """In the range that is not full yet, of a master and of a slave; then it starts again."""
    await written(cluster, damaged=(name,))
    assert await damage_of(cluster, name) == ""
    one = partial(first, cluster, name)
    async with open_backend(one(), one()) as backend, trio.open_nursery() as nursery:
        if by == "read":
            batch = await Log(backend, GROUP).read(0)
            await Log(backend, GROUP).read(batch.next)
        else:
            nursery.start_soon(partial(reading.tail, backend, GROUP, nothing, start=0, json=False))
            await trio.sleep(3.0)
        nursery.cancel_scope.cancel()
    assert "are damaged (offset " in await damage_of(cluster, name)
    (found,) = [each.event for each in cluster.world.events if isinstance(each.event, RotFound)]
    await mended(cluster, name, found.first_bytes)


@pytest.mark.parametrize("name", ["n0", "n1"])
async def test_what_nobody_has_read_repair_finds(cluster: SimCluster, name: str) -> None:
    await written(cluster, damaged=(name,))
    await mended(cluster, name, 0)


@pytest.mark.parametrize("name", ["n0", "n1"])
async def test_after_a_start_the_last_range_alone_is_parsed(cluster: SimCluster, name: str) -> None:
    """Most of the file has digests; recovery has said where a record begins behind them."""
    positions = await long_log(cluster)
    await cluster.kill(name)
    await cluster.start(name)
    await cluster.converged(GROUP)
    flip(cluster, name, positions[-1] + 100)
    await mended(cluster, name, positions[-1] - positions[-1] % RANGE_BYTES)


async def test_what_is_damaged_before_its_range_is_full_is_known_once_it_is(
    cluster: SimCluster,
) -> None:
    """It was digested as it came."""
    positions = await long_log(cluster)
    flip(cluster, "n0", positions[-1] + 100)
    await long_log(cluster)
    await trio.sleep(1.0)
    assert "its bytes are not those that were written" in await damage_of(cluster, "n0")
    await mended(cluster, "n0", positions[-1] - positions[-1] % RANGE_BYTES)


async def test_damage_that_a_masters_digest_was_made_of_is_known_once_it_is_read(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by earlier versions, which digested a range of what they wrote when it was full."""
    monkeypatch.setattr(LogCheck, "begin", lambda check, walk: (read for read in ()))
    positions = await long_log(cluster)
    flip(cluster, "n0", positions[-1] + 100)
    await long_log(cluster)
    one = partial(first, cluster, "n0")
    async with open_backend(one(), one()) as backend:
        batch = await Log(backend, GROUP).read(positions[-1])
        assert batch.records[0].body == LONG
    await trio.sleep(1.0)
    assert f"(offset {positions[-1]}: " in await damage_of(cluster, "n0")
    await mended(cluster, "n0", positions[-1] - positions[-1] % RANGE_BYTES)


async def test_who_reads_where_no_record_begins_has_the_log_parsed_once_a_second(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a record that is damaged is found all the same, though another reader was there first."""
    await written(cluster, damaged=())
    parsed: list[int] = []
    real = LogCheck.check_undigested

    def counted(check: LogCheck, at: int) -> Steps[int]:
        parsed.append(at)
        return (yield from real(check, at))

    monkeypatch.setattr(LogCheck, "check_undigested", counted)
    async with opened(cluster, GROUP) as (_, log):
        more = [(await log.append([line])).first for line in LINES]
    await cluster.converged(GROUP)
    node = cluster.running("n1")
    assert node is not None
    for place in sorted({*range(more[0], more[-1], 7)} - {*more}):
        with pytest.raises(RequestRefused, match="no record begins"):
            await node.read(GROUP, place, 1 << 20, fresh=False)
    assert len(parsed) == 1
    flip(cluster, "n1", more[-1] + 100)
    with pytest.raises(RequestRefused, match="is damaged"):
        await node.read(GROUP, more[-1], 1 << 20, fresh=False)
    await trio.sleep(1.5)
    assert len(parsed) == 2
    assert "are damaged (offset " in await damage_of(cluster, "n1")
    flip(cluster, "n1", more[-1] + 100)


async def long_log(cluster: SimCluster) -> list[int]:
    """Some more than three ranges. Gives the records' positions."""
    async with opened(cluster, GROUP) as (_, log):
        positions = [(await log.append([LONG])).first for _ in range(40)]
    await cluster.converged(GROUP)
    await trio.sleep(1.0)
    return positions


async def mended(cluster: SimCluster, name: str, start: int) -> None:
    """`repair` puts back what the others have, so that the node counts, and starts again."""
    node = cluster.running(name)
    assert node is not None
    answer = await node.repair(GROUP, None)
    assert answer["left"] == []
    (done,) = answer["mended"]
    assert done["first"] == start
    assert await damage_of(cluster, name) == ""
    logs = DiskLogBytes(cluster, cluster.config.classic_groups[GROUP])
    end = (await cluster.offsets(name, GROUP)).written
    assert logs.durable(name, 0, end) == logs.durable("n2", 0, end)
    await cluster.kill(name)
    await cluster.start(name)
    await cluster.converged(GROUP)


async def nothing(data: bytes) -> None:
    """Takes what is read."""
