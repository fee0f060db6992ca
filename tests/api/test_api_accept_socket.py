"""AcceptSocket alone, where the supervisor of the connections does not answer."""

from __future__ import annotations

import itertools
import random
from typing import Any

import attrs
import trio

from actors.api.accept_socket import AcceptSocket, UnixEndpoint
from actors.api.credentials import ConnectionGate
from actors.api.limits import ApiLimits
from actors.api.slots import Slots
from actors.env import Stream
from actors.runtime import Actor, ChildSpec, SupervisorSpec, open_system
from actors.runtime.accepting import START_TIMEOUT_S, UNOWNED_MAX
from actors.sim.network import NetworkOptions, SimNetwork

SOCKET = "/data/n0/api.sock"


@attrs.define
class Silent(Actor[Any]):
    """Takes everything and answers nothing."""

    async def handle(self, message: Any) -> None:
        pass


async def test_a_flood_waits_in_the_backlog(autojump_clock: object) -> None:
    """Each accepted stream costs a descriptor, and the stores need some too."""
    names: list[str] = []

    def never_started(stream: Stream, name: str, gate: ConnectionGate | None) -> ChildSpec:
        names.append(name)
        return ChildSpec(name=name, start=SupervisorSpec())

    async with trio.open_nursery() as nursery:
        network = SimNetwork(random.Random(1), NetworkOptions())
        await nursery.start(network.run)
        network.add_host("n0", "127.0.0.1")
        host = network.open("n0")
        numbers = itertools.count(1)

        def accept_socket() -> AcceptSocket:
            return AcceptSocket(
                network=host,
                endpoint=UnixEndpoint(path=SOCKET),
                make_child=never_started,
                next_connection=numbers.__next__,
                slots=Slots(ApiLimits()),
            )

        spec = SupervisorSpec(
            children=(
                ChildSpec(name="connections", start=Silent),
                ChildSpec(name="unix_socket", start=accept_socket),
            )
        )
        async with open_system("n0", spec, rng=random.Random(2)):
            for _ in range(2 * UNOWNED_MAX + 1):
                await host.connect_unix(SOCKET)
            for wave in (1, 2):
                await trio.sleep(START_TIMEOUT_S - 1)
                assert len(names) == wave * UNOWNED_MAX
                await trio.sleep(1)
            await trio.sleep(1)
            assert len(names) == 2 * UNOWNED_MAX + 1
        nursery.cancel_scope.cancel()
