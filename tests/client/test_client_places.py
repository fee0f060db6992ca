"""More clients than places at a node. The real API server, a simulated network, virtual time."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from api_kit import NODE, PORT, SOCKET, serving

from actors.api.frame_socket import NODE_GONE
from actors.api.limits import ApiLimits
from actors.api.places import CROWD
from actors.client import connect
from actors.client.connection import NoPlace
from actors.runtime.accepting import UNOWNED_MAX


async def test_a_full_node_says_so(autojump_clock: trio.testing.MockClock) -> None:
    """It was "not a node's API socket"."""
    async with serving(limits=ApiLimits(clients=2)) as served:
        async with (
            connect(SOCKET, network=served.host),
            connect(SOCKET, network=served.host),
        ):
            with pytest.raises(NoPlace) as caught:
                async with connect((NODE, PORT), network=served.host):
                    raise AssertionError("not reached")
    assert str(caught.value) == f"{NODE}:{PORT}: all 2 places for clients are taken"


async def test_a_crowd_is_told_to_come_again(autojump_clock: trio.testing.MockClock) -> None:
    words: list[str] = []
    async with serving() as served, trio.open_nursery() as nursery:

        async def come() -> None:
            try:
                async with connect(SOCKET, network=served.host):
                    await trio.sleep(1)
            except NoPlace as error:
                words.append(str(error))

        for _ in range(4 * UNOWNED_MAX):
            nursery.start_soon(come)
    assert words
    assert set(words) <= {f"{SOCKET}: {CROWD}", f"{SOCKET}: {NODE_GONE}"}
