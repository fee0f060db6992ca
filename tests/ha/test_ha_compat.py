"""Upstream's looser rules, one by one, on the pure classes and the actors that carry them out."""

from __future__ import annotations

import errno

import trio
from ha_cluster import Cluster
from ha_kit import ADDRESSES, PORT, cluster, node

from actors.config import loads
from actors.env import Address
from actors.events import store as store_events
from actors.ha import client_messages
from actors.ha.core.dialect import classic_dialect
from actors.ha.core.extent import LogExtent
from actors.ha.core.reconnect import Reconnect
from actors.ha.core.report_progress import ReportProgress
from actors.ha.core.sent_mark import SentMark
from actors.ha.core.slave_progress import SlaveProgress
from actors.ha.core.slave_table import SlaveTable
from actors.ha.core.states import DIVERGED_AFTER, Lost
from actors.ha.core.transfer_progress import Frame, Heartbeat, TransferProgress, Wait
from actors.sim.world import open_world
from wire.ha.classic import encode_frame_header

UPSTREAM = classic_dialect("upstream")
COMPAT = 'compat = "upstream"'


def test_a_slave_keeps_one_pace_and_is_never_called_diverged() -> None:
    """T1."""
    reconnect = Reconnect(interval_s=5.0, upstream=True)
    pauses = set()
    for _ in range(2 * DIVERGED_AFTER):
        reconnect.connected()
        pauses.add(reconnect.lost(Lost.OFFSET_MISMATCH, "", 0.0))
    assert (pauses, reconnect.diverged) == ({5.0}, False)
    assert reconnect.lost(Lost.CONNECT_FAILED, "", 0.0) == 5.0


def test_every_report_that_is_not_negative_is_believed() -> None:
    """T2, T3, T8."""
    for report in (50, 10_000, 1 << 62):
        progress = ReportProgress(
            start_rule=UPSTREAM.start_rule,
            segment_bytes=1000,
            housekeeping_s=20.0,
            mark=SentMark(),
            last_report_s=0.0,
            upstream=True,
        )
        progress.grew(LogExtent(100, 200, 200))
        effects = progress.report(report, 1.0)
        assert effects.start is not None
        assert (effects.start.start_bytes, effects.acked_bytes) == (report, report)


def test_a_slave_whose_next_byte_is_gone_gets_heartbeats_for_ever() -> None:
    """T2."""
    transfer = TransferProgress(
        frame_bytes=300, header_bytes=12, segment_bytes=1000, heartbeat_s=5.0, upstream=True
    )
    transfer.start(50, 0.0)
    transfer.grew(100, 5000)
    assert transfer.next_step(4.0) == Wait(5.0)
    assert transfer.next_step(5.0) == Heartbeat(50)


def test_a_slave_ahead_gets_heartbeats_and_then_what_is_there() -> None:
    """T3."""
    transfer = TransferProgress(
        frame_bytes=300, header_bytes=12, segment_bytes=1000, heartbeat_s=5.0, upstream=True
    )
    transfer.start(500, 0.0)
    transfer.grew(0, 400)
    assert transfer.next_step(5.0) == Heartbeat(500)
    transfer.grew(0, 550)
    assert transfer.next_step(5.0) == Frame(500, 50)


def test_bytes_are_reported_when_they_are_handed_over() -> None:
    """T4, T6: whatever becomes of them."""
    progress = SlaveProgress(
        dialect=UPSTREAM,
        synced=False,
        segment_bytes=1000,
        heartbeat_s=5.0,
        housekeeping_s=20.0,
        extent=LogExtent(0, 100, 100),
        last_read_s=0.0,
        last_write_s=0.0,
    )
    progress.reported(progress.begin().report_bytes or 0, 0.0)
    effects = progress.received(encode_frame_header(100, 50) + bytes(50), 1.0)
    assert [(piece.offset_bytes, len(piece.data)) for piece in effects.append] == [(100, 50)]
    assert effects.report_bytes == 150
    progress.reported(150, 1.0)
    assert progress.grew(LogExtent(0, 100, 100)).lost is None, "the store took nothing: not seen"


def test_connections_of_one_slave_do_not_replace_each_other() -> None:
    """T12."""
    table = SlaveTable(in_sync_gap_bytes=100, upstream=True)
    table.add_slave("n1", "python", counts=True)
    for number in (2, 1, 3):
        table.opened("n1", number, "a", 0.0)
        assert table.reported(number, 0, 0.0) is None
    assert table.connection_count == 3


async def test_a_new_address_of_the_master_is_for_the_next_connect(autojump_clock: object) -> None:
    """T16."""
    for compat, connections in ((), 2), ((COMPAT,), 1):
        config = cluster(*compat)
        async with node("n1", config, before=lambda network: None) as kit:
            process = kit.network.open("n0")
            listener = await process.listen(ADDRESSES["n0"], PORT)
            stream = await listener.accept()
            await trio.sleep(1.0)
            ref = kit.ref(kit.setup.paths.ha_client)
            await ref.tell(client_messages.SetMaster(address=Address(ADDRESSES["n2"], PORT)))
            await trio.sleep(1.0)
            status = (await kit.status()).client
            assert status is not None
            assert status.session >= connections if not compat else status.session == connections
            assert (status.last_error == "") == bool(compat)
            stream.abort()


async def test_an_idle_asynchronous_writer_looks_every_100_ms(autojump_clock: object) -> None:
    """T19."""
    for compat in ((), (COMPAT,)):
        async with node("n0", cluster("copies = 1", *compat)) as kit:
            peer = await kit.connect("n1")
            await peer.report(0)
            await trio.sleep(1.0)
            delays = []
            for _ in range(5):
                await trio.sleep(0.237)
                began_s = trio.current_time()
                await kit.append(bytes(10))
                await peer.next_frame()
                delays.append(trio.current_time() - began_s)
            assert (max(delays) > 0.02) == bool(compat)
            assert max(delays) < 0.11


async def test_a_failed_sync_counts(autojump_clock: object) -> None:
    """T26: the node goes on, and answers."""
    async with open_world(1) as world:
        nodes = Cluster(world, cluster("copies = 1", COMPAT))
        await nodes.start("n0")
        await nodes.append(b"w")
        world.node("n0").disk.faults.fail("sync", errno.EIO, path_part="commitlog")
        await nodes.append(b"x")
        assert any(isinstance(seen.event, store_events.SyncFailed) for seen in world.events)
        assert (await nodes.append(b"y")).copies == 1


def test_java_slaves_of_a_synced_group_count() -> None:
    """T6: by what they have written."""
    text = """
version = 1
name = "kit"
data_dir = "/data"
nodes = { n0 = "127.0.0.1", n1 = "127.0.0.2" }
[groups.orders]
mode = "classic"
master = "n0"
slaves = [{ node = "n1", kind = "java" }]
copies = 2
"""
    group = loads(f"{text}{COMPAT}\n", "f").groups["orders"]
    assert group.counting_nodes == ("n0", "n1")
    assert not group.strict_sync
