"""A node that answers by script: for what a real server would not do, and what it does rarely."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import attrs
import msgspec
import trio
from proof_kit import N0, credentials

from actors.api import frame_socket
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.client import Client, connect
from actors.env.protocols import Network, Stream
from actors.log_types import Receipt
from actors.sim.network import NetworkOptions, SimNetwork
from wire.api import frames as api

NODE = "10.0.0.1"
PORT = 10_911


def welcome(number: int = 0, **changed: int) -> api.Welcome:
    fields = {
        "version": 1,
        "boot": 3,
        "frame_bytes_max": api.FRAME_BYTES_MAX,
        "records_per_append_max": 1000,
        "in_flight_requests_max": 4,
        "in_flight_bytes_max": 10_000,
    }
    return api.Welcome(
        id=number, cluster="demo", node="n0", groups=("orders", "bills"), **(fields | changed)
    )


def appended(number: int, first: int = 0, count: int = 1) -> api.Appended:
    last = first + 100 * (count - 1)
    return api.Appended(
        id=number,
        first=first,
        last=last,
        next=last + 100,
        count=count,
        copies=2,
        durability="synced",
    )


def offsets(number: int, acknowledged: int) -> api.Offsets:
    return api.Offsets(
        id=number,
        min=0,
        written=acknowledged,
        synced=acknowledged,
        acknowledged=acknowledged,
        master="n0",
    )


def batch(number: int, start: int, *, cost_bytes: int = 0, body: bytes = b"") -> api.Batch:
    record = api.StoredRecord(start, start + 100, "orders", 0, 0, body, "", (), (), 1, 2)
    return api.Batch(
        id=number,
        records=(record,),
        next=start + 100,
        acknowledged=start + 100,
        end=start + 100,
        lag_bytes=0,
        cost_bytes=cost_bytes,
    )


@attrs.define(eq=False)
class ScriptedNode:
    """One accepted connection, after its hello; `received` has every request since."""

    frames: FrameSocket
    stream: Stream
    received: list[api.Request] = attrs.field(factory=list)

    async def next(self) -> api.Request:
        with trio.fail_after(1000):
            request = api.decode_request(await self.frames.receive())
        self.received.append(request)
        return request

    async def send(self, *answers: api.Answer) -> None:
        for answer in answers:
            await self.frames.send(api.encode(answer))

    def abort(self) -> None:
        """The process dies."""
        self.stream.abort()


Script: TypeAlias = Callable[[ScriptedNode], Awaitable[None]]


@attrs.define(eq=False)
class Machines:
    """The simulated network: `home` is the client's machine."""

    sim: SimNetwork
    home: Network
    node: Network


@asynccontextmanager
async def machines(options: NetworkOptions | None = None) -> AsyncIterator[Machines]:
    sim = SimNetwork(random.Random(1), options or NetworkOptions(fragment_share=0.0))
    sim.add_host("n0", NODE)
    sim.add_host("home", "10.0.0.2")
    async with trio.open_nursery() as nursery:
        await nursery.start(sim.run)
        failure: Exception | None = None
        try:
            yield Machines(sim, sim.open("home"), sim.open("n0"))
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def scripted(
    script: Script,
    *,
    hello: api.Answer | None = None,
    options: NetworkOptions | None = None,
) -> AsyncIterator[tuple[Machines, trio.Event]]:
    """A node that runs `script` for its one connection; the event is set when it has ended.

    Args:
        hello: what it answers to the hello.
    """
    ended = trio.Event()

    async def serve(network: Network, *, task_status: trio.TaskStatus[None]) -> None:
        listener = await network.listen(NODE, PORT)
        task_status.started()
        stream = await listener.accept()
        try:
            gate = credentials().gate("n0", frozenset((NODE,)))
            async with frame_socket.accept(stream, gate=gate) as frames:
                node = ScriptedNode(frames, stream)
                greeting = await node.next()
                assert isinstance(greeting, api.Hello)
                node.received.clear()
                answer = hello or welcome()
                if isinstance(answer, api.Welcome):
                    proof = gate.admit(greeting).proof
                    answer = msgspec.structs.replace(answer, proof=proof)
                await node.send(answer)
                await script(node)
        except SocketClosed:
            pass  # the client left, or the script aborted
        ended.set()

    async with machines(options) as found, trio.open_nursery() as nursery:
        await nursery.start(serve, found.node)
        failure: Exception | None = None
        try:
            yield found, ended
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def client_of(
    script: Script,
    *,
    hello: api.Answer | None = None,
    options: NetworkOptions | None = None,
) -> AsyncIterator[Client]:
    async with scripted(script, hello=hello, options=options) as (found, _):
        async with connect((NODE, PORT), identity=N0, network=found.home) as client:
            yield client


Outcome: TypeAlias = Receipt | Exception


async def sleep_for_ever(node: ScriptedNode) -> None:
    await trio.sleep_forever()


async def take_all(node: ScriptedNode) -> None:
    """Read requests and answer none."""
    while True:
        await node.next()


def kinds(outcomes: list[Outcome]) -> list[str]:
    return [type(outcome).__name__ for outcome in outcomes]
