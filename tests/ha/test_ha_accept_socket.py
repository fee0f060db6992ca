"""AcceptSocket alone, where its neighbours do not answer."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from ha_kit import PORT
from ha_peer import Peer

from actors.env import Stream
from actors.events.ha import HAConnectionOpened, HAConnectionRefused
from actors.ha.accept_socket import AcceptSocket
from actors.runtime import Actor, ChildSpec, Registry, SupervisorSpec, System, open_system
from actors.runtime.accepting import START_TIMEOUT_S, UNOWNED_MAX
from actors.sim.network import NetworkOptions, SimNetwork


@attrs.define
class Silent(Actor[Any]):
    """Takes everything and answers nothing."""

    taken: list[Any]

    async def handle(self, message: Any) -> None:
        self.taken.append(message)


def never_started(stream: Stream, slave: str, connection: int) -> ChildSpec:
    return ChildSpec(name=f"{slave}-{connection}", start=SupervisorSpec())


@attrs.define
class Bench:
    """An AcceptSocket among neighbours who answer nothing; `reported` is what they received."""

    system: System
    network: SimNetwork
    seen: list[Any]
    reported: list[Any]

    async def connect(self) -> Peer:
        return Peer.of(await self.network.open("n1").connect("127.0.0.1", PORT))

    def opened(self) -> list[int]:
        return [event.connection for event in self.seen if isinstance(event, HAConnectionOpened)]


@asynccontextmanager
async def accepting() -> AsyncIterator[Bench]:
    seen: list[Any] = []
    reported: list[Any] = []
    async with trio.open_nursery() as nursery:
        network = SimNetwork(random.Random(1), NetworkOptions())
        await nursery.start(network.run)
        network.add_host("n0", "127.0.0.1")
        network.add_host("n1", "127.0.0.2")

        def build(registry: Registry) -> SupervisorSpec:
            def accept_socket() -> AcceptSocket:
                return AcceptSocket(
                    network=network.open("n0"),
                    host="127.0.0.1",
                    port=PORT,
                    where="groups.orders.port",
                    slaves={"127.0.0.2": "n1"},
                    make_child=never_started,
                    next_connection=itertools.count(1).__next__,
                    connections=registry.ref("/n0/silent"),
                    connection_state=registry.ref("/n0/silent"),
                )

            return SupervisorSpec(
                children=(
                    ChildSpec(name="silent", start=lambda: Silent(reported)),
                    ChildSpec(name="accept_socket", start=accept_socket),
                )
            )

        def sink(path: str, incarnation: int, event: object) -> None:
            seen.append(event)

        async with open_system("n0", build, rng=random.Random(2), events=sink) as system:
            yield Bench(system, network, seen, reported)
        nursery.cancel_scope.cancel()


async def test_a_stream_without_an_owner_is_closed(autojump_clock: object) -> None:
    """On time-out of its start, and when the listener stops meanwhile."""
    async with accepting() as bench:
        late = await bench.connect()
        with trio.fail_after(START_TIMEOUT_S + 1):
            assert await late.ended()
        left = await bench.connect()
        await trio.sleep(1.0)
        await bench.system.stop()
        with trio.fail_after(1.0):
            assert await left.ended()
        assert bench.opened() == [1, 2]
        refused = [one for one in bench.seen if isinstance(one, HAConnectionRefused)]
        assert not refused


async def test_a_flood_waits_in_the_backlog(autojump_clock: object) -> None:
    """Each accepted stream costs a descriptor, and the commit log needs some too."""
    async with accepting() as bench:
        for _ in range(2 * UNOWNED_MAX + 1):
            await bench.connect()
        for wave in (1, 2):
            await trio.sleep(START_TIMEOUT_S - 1)
            assert len(bench.opened()) == wave * UNOWNED_MAX
            await trio.sleep(1)
        await trio.sleep(1)
        assert len(bench.opened()) == 2 * UNOWNED_MAX + 1
