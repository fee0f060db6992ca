"""What a guarded group's actors tell their role keeper, and do at its word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from ha_kit import ADDRESSES, PORT, SEGMENT, Kit, cluster, node, until, waiting
from ha_peer import Peer

from actors.env import Listener
from actors.errors import LeadershipLost
from actors.ha import group_transfer
from actors.ha.core.states import HAConnectionState
from actors.ha.role_messages import (
    HIGH_WATER_S,
    HighWater,
    MasterLeft,
    ReportedAhead,
    Verified,
    Verify,
)
from wire.ha.classic import encode_frame_header

LOG = bytes(n % 251 for n in range(SEGMENT))
FITS = Verified(fits=True)


def of(kit: Kit, kind: type[Any]) -> list[Any]:
    return [each for each in kit.received if isinstance(each, kind)]


# A master's acknowledgements.


async def acknowledge(kit: Kit, peer: Peer, end: int) -> None:
    answers: list[Any] = []
    first = kit.written_bytes
    wait = waiting(first, end, trio.current_time() + 3.0, answers)
    await kit.append(LOG[: end - first], waits=(wait,))
    await peer.report(end)
    await until(lambda: bool(answers))


async def test_the_keeper_hears_once_a_second_how_far_was_acknowledged(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster(), guarded=True) as kit:
        peer = await kit.connect("n1")
        await peer.report(0)
        for end in (10, 20, 30):
            await acknowledge(kit, peer, end)
        assert of(kit, HighWater) == []
        await trio.sleep(1.5 * HIGH_WATER_S)
        assert of(kit, HighWater) == [HighWater(offset_bytes=30)]
        await trio.sleep(10.0)
        assert len(of(kit, HighWater)) == 1, "nothing new, nothing said"
        await acknowledge(kit, peer, 40)
        received = kit.received
    assert received[-1] == HighWater(offset_bytes=40), "at the stop, at the latest"


async def test_a_change_of_master_makes_waiting_appends_unknown_at_once(
    autojump_clock: object,
) -> None:
    async with node("n0", cluster(), guarded=True) as kit:
        answers: list[Any] = []
        await kit.append(LOG[:10], waits=(waiting(0, 10, trio.current_time() + 99.0, answers),))
        await trio.sleep(0.1)
        transfer = kit.ref(kit.setup.paths.group_transfer)
        await transfer.tell(group_transfer.GiveUp(reason="n1 is master now"))
        await until(lambda: bool(answers))
        (error,) = answers
        assert isinstance(error, LeadershipLost)
        assert str(error) == "n1 is master now"
        assert (error.first, error.last, error.next) == (0, 0, 10)
        await kit.append(LOG[:10], waits=(waiting(10, 20, trio.current_time() + 99.0, answers),))
        await until(lambda: len(answers) == 2)
        assert isinstance(answers[1], LeadershipLost), "so do those that were still on their way"


async def test_a_java_slave_above_the_end_is_reported_and_one_of_ours_is_not(
    autojump_clock: object,
) -> None:
    config = cluster(slaves='["n1", { node = "n2", kind = "java" }]')
    async with node("n0", config, holding=LOG[:100], guarded=True) as kit:
        for name in ("n1", "n2", "n2"):
            peer = await kit.connect(name)
            await peer.report(101)
            assert await peer.ended()
        await trio.sleep(1.0)
        assert of(kit, ReportedAhead) == [ReportedAhead(slave="n2", offset_bytes=101)] * 2


# A slave's client.


@asynccontextmanager
async def slave(*verdicts: Verified, holding: bytes = b"") -> AsyncIterator[tuple[Kit, Listener]]:
    """n1 with its client; the test is its master and its role keeper."""
    async with node("n1", cluster(), holding=holding, guarded=True) as kit:
        kit.verdicts += verdicts
        listener = await kit.network.open("n0").listen(ADDRESSES["n0"], PORT)
        yield kit, listener
        await listener.aclose()


async def test_no_report_before_the_verdict(autojump_clock: object) -> None:
    async with slave(holding=LOG[:100]) as (kit, listener):
        peer = Peer.of(await listener.accept())
        with trio.move_on_after(5.0) as waited:
            raise AssertionError(await peer.receive.receive_some(1))
        assert waited.cancelled_caught
        (asked,) = of(kit, Verify)
        assert asked.end_bytes == 100
        assert await peer.ended(), "a keeper that says nothing is not waited for for ever"


async def test_a_log_that_fits_is_reported_and_followed(autojump_clock: object) -> None:
    async with slave(FITS, holding=LOG[:100]) as (kit, listener):
        peer = Peer.of(await listener.accept())
        assert await peer.next_report() == 100
        await peer.send.send_all(encode_frame_header(100, 50) + LOG[100:150])
        assert await peer.next_report() == 150
        await trio.sleep(2 * HIGH_WATER_S)
        assert of(kit, HighWater)[-1] == HighWater(offset_bytes=150)
        session = of(kit, Verify)[0].session
        peer.stream.abort()
        await until(lambda: bool(of(kit, MasterLeft)))
        assert of(kit, MasterLeft) == [MasterLeft(session=session)]


async def test_what_was_synced_during_the_verdict_is_in_the_first_report(
    autojump_clock: object,
) -> None:
    async with slave(holding=LOG[:100]) as (kit, listener):
        kit.synced_bytes = 60
        peer = Peer.of(await listener.accept())
        await until(lambda: bool(of(kit, Verify)))
        await kit.became(synced_bytes=100)
        await trio.sleep(0.5)
        of(kit, Verify)[0].reply_to.send(FITS)
        assert await peer.next_report() == 100


async def test_a_foreign_log_is_called_diverged_at_once_and_asks_ever_more_rarely(
    autojump_clock: object,
) -> None:
    no = Verified(fits=False, detail="they part at 40")
    async with slave(no, no, FITS, holding=LOG[:100]) as (kit, listener):
        peer = Peer.of(await listener.accept())
        assert await peer.ended()
        status = await kit.status()
        assert status.client is not None
        assert status.client.diverged
        assert status.client.state is HAConnectionState.READY
        assert status.client.last_error.endswith("the master's: they part at 40")
        began_s = trio.current_time()
        assert await Peer.of(await listener.accept()).ended()
        assert trio.current_time() - began_s > 5.0
        again = Peer.of(await listener.accept())
        assert await again.next_report() == 100


async def test_a_verdict_for_an_older_connection_is_not_heard(autojump_clock: object) -> None:
    async with slave(holding=LOG[:100]) as (kit, listener):
        first = Peer.of(await listener.accept())
        await until(lambda: len(of(kit, Verify)) == 1)
        first.stream.abort()
        second = Peer.of(await listener.accept())
        await until(lambda: len(of(kit, Verify)) == 2)
        of(kit, Verify)[0].reply_to.send(FITS)
        with trio.move_on_after(3.0) as waited:
            raise AssertionError(await second.receive.receive_some(1))
        assert waited.cancelled_caught
        of(kit, Verify)[1].reply_to.send(FITS)
        assert await second.next_report() == 100
