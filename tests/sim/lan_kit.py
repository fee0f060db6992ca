"""Two machines on a simulated network."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors.env import Listener, ReceiveHalf, SendHalf, Stream
from actors.sim.network import NetworkOptions, SimNetwork
from actors.sim.network.network import HostNetwork

PORT = 100

SERVER = "10.0.0.1"


@attrs.frozen(kw_only=True)
class Lan:
    """Hosts "server" and "client" with one connection; the client sends, the server receives."""

    net: SimNetwork
    server: HostNetwork
    client: HostNetwork
    listener: Listener
    ends: tuple[Stream, Stream]  # client, server
    send: SendHalf
    receive: ReceiveHalf


@asynccontextmanager
async def lan(options: NetworkOptions | None = None) -> AsyncIterator[Lan]:
    net = SimNetwork(random.Random(1), options or NetworkOptions(fragment_share=0.0))
    net.add_host("server", SERVER)
    net.add_host("client", "10.0.0.2")
    async with trio.open_nursery() as nursery:
        await nursery.start(net.run)
        server, client = net.open("server"), net.open("client")
        listener = await server.listen(SERVER, PORT)
        near = await client.connect(SERVER, PORT)
        far = await listener.accept()
        yield Lan(
            net=net,
            server=server,
            client=client,
            listener=listener,
            ends=(near, far),
            send=near.halves()[1],
            receive=far.halves()[0],
        )
        nursery.cancel_scope.cancel()
