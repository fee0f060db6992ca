"""More clients than slots at a node. The real API server, a simulated network, virtual time."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from api_kit import NODE, PORT, SOCKET, Served, serving
from client_kit import machines
from proof_kit import N0

from actors.api.limits import ApiLimits
from actors.api.slots import MADE_WAY
from actors.client import connect
from actors.client.connection import CONNECT_TIMEOUT_S
from actors.client.slot_retries import UNCONFIRMED_S, NoSlot, pauses_of
from actors.client.targets import connect_target, parse_target
from actors.runtime.accepting import FULL, UNOWNED_MAX

TAKEN = f"{NODE}:{PORT}: all 2 client slots are taken"


def turned_away(served: Served) -> int:
    return sum(each.reason == FULL for each in served.events("APIConnectionClosed"))


async def test_a_full_node_is_tried_until_the_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It was "not a node's API socket", and later the end at once."""
    async with serving(limits=ApiLimits(clients=2)) as served:
        async with (
            connect(SOCKET, network=served.host),
            connect(SOCKET, network=served.host),
        ):
            begun_s = trio.current_time()
            with pytest.raises(NoSlot) as caught:
                async with connect((NODE, PORT), identity=N0, network=served.host, timeout_s=3.0):
                    raise AssertionError("not reached")
            assert str(caught.value) == f"{TAKEN}; tried again for 3 s"
            assert trio.current_time() - begun_s >= 3.0
            tries = turned_away(served)
            with pytest.raises(NoSlot) as caught:
                async with connect((NODE, PORT), identity=N0, network=served.host, wait_s=0.0):
                    raise AssertionError("not reached")
            assert str(caught.value) == TAKEN
            assert turned_away(served) == tries + 1


async def test_a_place_that_becomes_free_is_taken(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(limits=ApiLimits(clients=1)) as served:
        left = trio.Event()

        async def hold(*, task_status: trio.TaskStatus[None]) -> None:
            async with connect(SOCKET, network=served.host):
                task_status.started()
                await trio.sleep(CONNECT_TIMEOUT_S / 2)
            left.set()

        async with trio.open_nursery() as nursery:
            await nursery.start(hold)
            async with connect((NODE, PORT), identity=N0, network=served.host) as client:
                assert left.is_set()
                await client.status()
            await nursery.start(hold)
            target = parse_target(f"{NODE}:{PORT}")
            async with connect_target(target, name="client", network=served.host) as client:
                await client.status()


async def test_what_fails_in_the_block_is_not_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun = 0
    async with serving() as served:
        with pytest.raises(NoSlot, match=r"^mine$"):
            async with connect(SOCKET, network=served.host):
                begun += 1
                raise NoSlot("mine")
    assert begun == 1


def test_no_two_wait_alike() -> None:
    async def main() -> None:
        first, second = pauses_of("client", NODE), pauses_of("client", NODE)
        drawn = [first.next_s() for _ in range(8)]
        assert drawn != [second.next_s() for _ in range(8)]
        assert 0.05 <= drawn[0] <= 0.1
        assert all(0.5 <= pause_s <= 1.0 for pause_s in drawn[4:])

    trio.run(main)


async def test_a_crowd_gets_in(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever of it is turned away comes again; at once it learned so, and left."""
    crowd, greeted = 4 * UNOWNED_MAX, 0
    async with serving(limits=ApiLimits(clients=crowd)) as served, trio.open_nursery() as nursery:

        async def come() -> None:
            nonlocal greeted
            async with connect(SOCKET, network=served.host):
                greeted += 1
                await trio.sleep(1)

        for _ in range(crowd):
            nursery.start_soon(come)
    assert greeted == crowd
    assert MADE_WAY in {each.reason for each in served.events("APIConnectionClosed")}


async def test_who_goes_away_without_a_word_is_soon_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It is no node, most likely."""
    async with machines() as found, trio.open_nursery() as nursery:
        listener = await found.node.listen(NODE, PORT)

        @nursery.start_soon
        async def serve() -> None:
            while True:
                stream = await listener.accept()
                await stream.trio_stream().aclose()

        with pytest.raises(NoSlot, match="its port is the file's api_port"):
            async with connect((NODE, PORT), identity=N0, network=found.home):
                raise AssertionError("not reached")
        assert UNCONFIRMED_S <= trio.current_time() < CONNECT_TIMEOUT_S
        nursery.cancel_scope.cancel()
