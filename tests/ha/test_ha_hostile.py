"""A whole master, with its real store, under slaves that stall, lie, trickle and come back.

n1 is a real slave; n2 is whatever a test makes of its address. After each the master is what it
was: tasks, actors, mailboxes, connections, and what it acknowledges.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from ha_cluster import Cluster
from ha_kit import PORT, cluster, until
from ha_peer import Peer

from actors.errors import ReplicationTimeout
from actors.events import ha as events
from actors.ha.core.states import Lost
from actors.runtime import TreeNode
from actors.sim.network import NetworkOptions
from actors.sim.world import open_world

LONG_MAX = 2**63 - 1
ROUNDS = 300


def below(tree: TreeNode) -> Iterator[TreeNode]:
    yield tree
    for child in tree.children:
        yield from below(child)


@attrs.frozen
class Picture:
    """What a peer could leave behind in a master."""

    actors: tuple[str, ...]
    waiting: int  # messages in all mailboxes
    connections: int
    tasks: int
    ends: int  # of connections, in the whole network


@attrs.define
class Besieged:
    """The master n0, its slave n1 unless it is stopped, and n2 in the hands of the test."""

    nodes: Cluster

    async def picture(self) -> Picture:
        world = self.nodes.world
        status = await self.nodes.status("n0")
        found = list(below(self.nodes.systems["n0"].tree()))
        return Picture(
            actors=tuple(each.path for each in found),
            waiting=sum(each.mailbox.depth for each in found if each.mailbox is not None),
            connections=status.connections_count,
            tasks=trio.lowlevel.current_statistics().tasks_living,
            ends=world.network.ends_count,
        )

    async def connect(self) -> Peer:
        process = self.nodes.world.network.open("n2")
        return Peer.of(await process.connect("127.0.0.1", PORT, local_host="127.0.0.3"))

    async def appends(self, count: int) -> None:
        """Each is acknowledged as fast as if nobody else were there."""
        for number in range(count):
            with trio.fail_after(0.5):
                await self.nodes.append(b"%d" % number * 200)

    def reasons(self) -> list[str]:
        """Why connections of n2 ended."""
        seen = [event.event for event in self.nodes.world.events]
        closed = [event for event in seen if isinstance(event, events.HAConnectionClosed)]
        return [event.reason.partition(":")[0] for event in closed if event.slave == "n2"]


@asynccontextmanager
async def besieged(
    *lines: str, slave: bool = True, options: NetworkOptions | None = None
) -> AsyncIterator[Besieged]:
    async with open_world(3, network=options or NetworkOptions()) as world:
        nodes = Cluster(world, cluster(*lines))
        await nodes.start(*(("n0", "n1") if slave else ("n0",)))
        found = Besieged(nodes)
        if slave:
            await nodes.until_in_sync(1)
            await found.appends(20)
        await trio.sleep(1.0)
        yield found


async def assert_as_before(siege: Besieged, before: Picture) -> None:
    """Within 10 s, for closing takes a round trip or two."""
    for _ in range(10):
        await trio.sleep(1.0)
        if await siege.picture() == before:
            return
    assert await siege.picture() == before


@pytest.mark.checklist(12)
async def test_a_slave_that_reads_a_byte_a_second(autojump_clock: object) -> None:
    """It reports in time, so it is never closed; the master keeps nothing for it."""
    options = NetworkOptions(window_bytes=4096)
    async with besieged("copies = 2", options=options) as siege:
        before = await siege.picture()
        peer = await siege.connect()
        await peer.report(0)
        for second in range(120):
            assert len(await peer.receive.receive_some(1)) == 1
            if second % 5 == 0:
                await peer.report(0)
            await siege.appends(2)
            await trio.sleep(1.0)
        during = await siege.picture()
        assert during.connections == before.connections + 1
        # Growth is conflated, one check is answered ahead, bytes stay in the log.
        assert during.waiting <= before.waiting + 3
        assert len(during.actors) == len(before.actors) + 3
        peer.stream.abort()
        await assert_as_before(siege, before)


async def test_a_slave_that_reports_a_byte_a_second(autojump_clock: object) -> None:
    """A report takes it 8 s, which is in time; a byte every 5 s is not."""
    async with besieged("copies = 2") as siege:
        before = await siege.picture()
        for pause_s, ends in ((1.0, False), (5.0, True)):
            peer = await siege.connect()
            for _ in range(60):
                try:
                    await peer.send.send_all(b"\0")
                except trio.BrokenResourceError:
                    break
                await trio.sleep(pause_s)
            assert (siege.reasons()[-1:] == [Lost.SILENT.value]) == ends
            await siege.appends(5)
            peer.stream.abort()
            await assert_as_before(siege, before)


@pytest.mark.checklist(8)
@pytest.mark.parametrize("first", [None, 0])
@pytest.mark.parametrize("report", ["end + 1", "max", "-1", "min"])
async def test_impossible_offsets_acknowledge_nothing(
    autojump_clock: object, first: int | None, report: str
) -> None:
    """Without a real slave: whatever n2 says, an append that needs two copies has one."""
    async with besieged("copies = 2", slave=False) as siege:
        with pytest.raises(ReplicationTimeout):
            await siege.nodes.append(b"x" * 500)
        end = await siege.nodes.written("n0")
        before = await siege.picture()
        value = {"end + 1": end + 1, "max": LONG_MAX, "-1": -1, "min": -LONG_MAX - 1}[report]
        for _ in range(20):
            peer = await siege.connect()
            await peer.report(*(value,) if first is None else (first,))
            if first is not None:
                await peer.next_frame()
                await peer.report(value)
            assert await peer.ended()
            peer.stream.abort()
        assert await siege.nodes.acknowledged("n0") == 0
        expected = Lost.REPORT_NEGATIVE if value < 0 else Lost.REPORT_AHEAD
        assert siege.reasons() == [expected.value] * 20
        await assert_as_before(siege, before)


@pytest.mark.checklist(8, 34)
async def test_a_slave_that_claims_what_it_was_not_sent_is_no_copy(autojump_clock: object) -> None:
    """It stops reading, so most of the log was never sent; then it says that it has all."""
    options = NetworkOptions(window_bytes=4096)
    async with besieged("copies = 2", slave=False, options=options) as siege:
        peer = await siege.connect()
        await peer.report(0)
        await peer.next_frame()
        for _ in range(10):
            with pytest.raises(ReplicationTimeout):
                await siege.nodes.append(b"x" * 2000)
            await peer.report(0)
        await peer.report(await siege.nodes.written("n0"))
        assert await peer.ended()
        assert siege.reasons() == [Lost.REPORT_UNSENT.value]
        assert await siege.nodes.acknowledged("n0") == 0


@pytest.mark.checklist(8, 34)
async def test_a_slave_that_goes_back_takes_nothing_back(autojump_clock: object) -> None:
    """Reports that fall are no growth: what was acknowledged stays so, and nothing more is."""
    async with besieged("copies = 2", slave=False) as siege:
        peer = await siege.connect()
        await peer.report(0)
        with pytest.raises(ReplicationTimeout):
            await siege.nodes.append(b"x" * 500)
        end = await siege.nodes.written("n0")
        await peer.body(end)
        await peer.report(end)

        async def acknowledged() -> bool:
            return await siege.nodes.acknowledged("n0") == end

        await until(acknowledged)
        for offset in (end - 1, 0, end, 7):
            await peer.report(offset)
        await trio.sleep(1.0)
        assert await siege.nodes.acknowledged("n0") == end


@pytest.mark.checklist(34)
@pytest.mark.parametrize("goodbye", ["at once", "after a report", "in a frame"])
async def test_a_slave_that_reconnects_in_a_loop(autojump_clock: object, goodbye: str) -> None:
    async with besieged("copies = 2") as siege:
        before = await siege.picture()
        for number in range(ROUNDS):
            peer = await siege.connect()
            if goodbye != "at once":
                await peer.report(0)
            if goodbye == "in a frame":
                await peer.exactly(20)
            peer.stream.abort()
            if number % 10 == 0:
                await siege.appends(1)
        await assert_as_before(siege, before)
        assert len(siege.reasons()) == ROUNDS
        await siege.appends(5)


@pytest.mark.checklist(34)
async def test_a_loop_of_connections_never_counts_twice(autojump_clock: object) -> None:
    """Each connection says that it holds all; they are still one node, and three are needed."""
    async with besieged("copies = 3", slave=False) as siege:
        with pytest.raises(ReplicationTimeout):
            await siege.nodes.append(b"x" * 500)
        end = await siege.nodes.written("n0")
        before = await siege.picture()
        peers = []
        for _ in range(15):
            peer = await siege.connect()
            await peer.report(end)
            peers.append(peer)
        await trio.sleep(2.0)
        assert await siege.nodes.acknowledged("n0") == 0
        for peer in peers:
            peer.stream.abort()
        await assert_as_before(siege, before)


@pytest.mark.checklist(12)
async def test_a_slave_that_is_stopped_for_an_hour(autojump_clock: object) -> None:
    """As SIGSTOP does it: its connections stay open and nobody reads."""
    options = NetworkOptions(window_bytes=4096)
    async with besieged("copies = 2", options=options) as siege:
        await siege.nodes.start("n2")
        await siege.nodes.until_in_sync(2)
        before = await siege.picture()
        siege.nodes.world.pause_node("n2")
        for _ in range(60):
            await siege.appends(5)
            await trio.sleep(60.0)
        during = await siege.picture()
        assert during.connections == before.connections - 1  # 20 s without a report
        assert during.waiting <= before.waiting
        siege.nodes.world.resume_node("n2")
        await siege.nodes.assert_logs_equal()


@pytest.mark.checklist(11)
async def test_probes_with_junk_leave_a_whole_master_as_it_was(autojump_clock: object) -> None:
    """From a slave's own address, so that each becomes a connection with its actors."""
    junk = (
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\0\xff",
        b"\xff" * 64,
        b"\0" * 5000,
    )
    async with besieged("copies = 2") as siege:
        before = await siege.picture()
        for number in range(1000):
            try:
                peer = await siege.connect()
                await peer.send.send_all(junk[number % len(junk)])
                peer.stream.abort()
            except (OSError, trio.BrokenResourceError):
                pass  # too many at once: turned away
        await assert_as_before(siege, before)
        await siege.appends(5)
