"""A master that speaks auto-switch HA, as its slaves see it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from autoswitch_kit import EpochSlave, Known, history
from ha_kit import SEGMENT, Kit, cluster, node, until, waiting

from actors.events import ha as events
from actors.ha.core.states import HAConnectionState, Lost
from wire.ha import autoswitch
from wire.ha.autoswitch import EpochFrameStarted

LOG = bytes(n % 253 for n in range(2 * SEGMENT))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """What the master is asked; all classic trees speak this dialect."""
    known = Known(history((1, 0), (2, 3000)), confirm_bytes=5000)
    known.speak(monkeypatch)
    return known


async def slave_of(kit: Kit, node: str = "n1") -> EpochSlave:
    return EpochSlave(await kit.connect(node))


@pytest.mark.checklist(1, 2, 3, 6, of="autoswitch")
async def test_a_slave_shakes_hands_and_gets_its_epochs(
    autojump_clock: object, known: Known
) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG[:5000])
        slave = await slave_of(kit, "stranger")  # its id counts, not its address
        for byte in autoswitch.encode_request(autoswitch.HandshakeRequest(broker_id=2)):
            await slave.peer.send.send_all(bytes((byte,)))
        answer = await slave.answer()
        assert (answer.end, answer.last_epoch) == (5000, 2)
        assert [(each.epoch, each.offset) for each in answer.epochs] == [(1, 0), (2, 3000)]
        await slave.report(0)
        for offset, size, epoch, start in [(0, 3000, 1, 0), (3000, 1096, 2, 3000)]:
            head, body = await slave.frame()
            assert head == EpochFrameStarted(offset, size, epoch, start, 5000)
            assert body == LOG[offset : offset + size]
        assert (await slave.frame())[0].offset == SEGMENT
        (row,) = [row for row in (await kit.status()).slaves if row.node == "n1"]
        assert row.state == HAConnectionState.TRANSFER
        (opened,) = kit.of(events.HAConnectionOpened)
        assert opened.slave == "n1"
        assert kit.of(events.HATransferStarted)[0].slave == "n1"


@pytest.mark.checklist(8, of="autoswitch")
async def test_heartbeats_only_after_the_first_report_and_silence_ends_it(
    autojump_clock: object, known: Known
) -> None:
    async with node("n0", cluster()) as kit:
        slave = await slave_of(kit)
        await slave.shake(2)
        await slave.answer()
        with trio.move_on_after(7.0) as scope:
            await slave.frame()
        assert scope.cancelled_caught
        await slave.report(0)
        began_s = trio.current_time()
        for number in (1, 2, 3):
            assert (await slave.frame())[0].size == 0
            assert trio.current_time() - began_s == pytest.approx(5.0 * number, abs=0.1)
        assert await slave.peer.ended()
        assert trio.current_time() - began_s == pytest.approx(20.0, abs=0.1)
        assert kit.of(events.HAConnectionClosed)[0].reason.startswith(Lost.SILENT.value)


@pytest.mark.parametrize("first", [77, None])
async def test_who_is_no_replica_gets_nothing_and_leaves_nothing(
    autojump_clock: object, known: Known, first: int | None
) -> None:
    """autoswitch-ha.md T49: the original sends its log to anybody, and has him in its set."""
    async with node("n0", cluster()) as kit:
        await kit.append(LOG[:5000])
        slave = await slave_of(kit)
        if first is None:
            await slave.report(5000)
        else:
            await slave.shake(first)
        assert await slave.peer.ended()
        assert slave.peer.got == b""
        await until(lambda: bool(kit.of(events.HAConnectionRefused)))
        (refused,) = kit.of(events.HAConnectionRefused)
        reason = Lost.NO_HANDSHAKE.value if first is None else f"{Lost.NO_REPLICA.value}: broker"
        assert refused.reason.startswith(reason)
        assert refused.address.startswith("127.0.0.2:")
        status = await kit.status()
        assert (status.connections_count, status.refused_count) == (0, 1)
        assert (status.refused_host, status.refused_reason) == (refused.address, refused.reason)
        assert kit.of(events.HATransferStarted) == []
        again = await slave_of(kit)
        await again.shake(2)
        assert (await again.answer()).end == 5000


async def test_a_probe_of_the_port_is_nobody(autojump_clock: object, known: Known) -> None:
    async with node("n0", cluster()) as kit:
        for _ in range(3):
            slave = await slave_of(kit)
            slave.peer.stream.abort()
        await trio.sleep(1.0)
        status = await kit.status()
        assert (status.connections_count, status.refused_count) == (0, 0)
        assert kit.of(events.HAConnectionRefused) == []
        assert kit.of(events.HAConnectionOpened) == []


async def test_bytes_that_are_no_request_end_the_connection(
    autojump_clock: object, known: Known
) -> None:
    async with node("n0", cluster()) as kit:
        slave = await slave_of(kit)
        await slave.shake(2)
        await slave.answer()
        await slave.peer.send.send_all(b"\0\0\0\3" + bytes(8))
        assert await slave.peer.ended()
        await until(lambda: bool(kit.of(events.HAConnectionClosed)))
        assert kit.of(events.HAConnectionClosed)[0].reason.startswith(Lost.BAD_REQUEST.value)


@pytest.mark.checklist(33, of="autoswitch")
async def test_a_learner_gets_the_log_and_acknowledges_nothing(
    autojump_clock: object, known: Known
) -> None:
    """autoswitch-ha.md T19: upstream counts it."""
    async with node("n0", cluster("copies = 2")) as kit:
        learner, other = await slave_of(kit), await slave_of(kit)
        answers: list[Any] = []
        wait = waiting(0, 100, trio.current_time() + 100.0, answers)
        await learner.shake(2, async_learner=True)
        await learner.answer()
        await learner.report(0)
        await kit.append(LOG[:100], waits=(wait,))
        assert (await learner.frame())[1] == LOG[:100]
        await learner.report(100)
        await trio.sleep(1.0)
        assert answers == []
        await other.shake(3)
        await other.answer()
        await other.report(100)
        await until(lambda: bool(answers))
        assert answers[0].copies == 2


async def test_a_newer_connection_of_a_slave_replaces_the_older_one(
    autojump_clock: object, known: Known
) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG[:5000])
        older, newer = await slave_of(kit, "n1"), await slave_of(kit, "n2")
        for slave in (older, newer):
            await slave.shake(2)
            await slave.answer()
            await slave.report(5000)
        assert await older.peer.ended()
        assert (await newer.frame())[0].offset == 5000
        assert (await kit.status()).connections_count == 1


@pytest.mark.checklist(28, of="autoswitch")
async def test_the_same_master_again_keeps_its_connections(
    autojump_clock: object, known: Known
) -> None:
    async with node("n0", cluster()) as kit:
        await kit.append(LOG[:5000])
        slave = await slave_of(kit)
        await slave.shake(2)
        await slave.answer()
        await slave.report(5000)
        assert (await slave.frame())[0].epoch == 2
        known.history = history((1, 0), (2, 3000), (4, 5000))
        await kit.append(LOG[5000:5500])
        head, body = await slave.frame()
        assert head == EpochFrameStarted(5000, 500, 4, 5000, 5000)
        assert body == LOG[5000:5500]
