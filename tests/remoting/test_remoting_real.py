"""A port and a client on this machine's sockets."""

from __future__ import annotations

import pytest
import trio
from frame_client import FrameClient
from remoting_kit import HOSTS, calling, frame, serving

from actors.env.protocols import Address
from actors.env.tcp import TcpNetwork
from actors.events.remoting import RPCConnectionClosed, RPCListening
from actors.remoting.requests import CallFailed
from wire.remoting.frame import Frame

pytestmark = pytest.mark.real_io

CALLS = 500
LARGE_BYTES = 4 << 20


async def test_a_client_calls_a_port_over_tcp() -> None:
    """Many small calls at once, then large ones; a bad frame beside them; then the port closes."""
    network = TcpNetwork()
    with trio.fail_after(60):
        async with (
            serving(posted=True, network=network, port=0) as port,
            calling(network) as caller,
        ):
            (listening,) = port.seen(RPCListening)
            address = Address(listening.address, listening.port)
            sizes = [1 + number for number in range(CALLS)] + [LARGE_BYTES] * 2
            for number, size in enumerate(sizes):
                body = bytes([number % 256]) * size
                await caller.call(number, address=address, body=body, timeout_s=30)
            bad = FrameClient.of(await network.connect(HOSTS["ns"], listening.port))
            await bad.put(frame(), b"\xff" * 20)
            assert await bad.ended()
            await caller.ended(len(sizes))
            for number, size in enumerate(sizes):
                outcome = caller.outcomes[number]
                assert isinstance(outcome, Frame)
                assert outcome.header.code == 0
                assert outcome.body == bytes([number % 256]) * size
            await port.system.stop()
            assert len(port.seen(RPCConnectionClosed)) == 2
            await caller.call("late", address=address)
            await caller.ended(len(sizes) + 1)
            assert isinstance(caller.outcomes["late"], CallFailed)
