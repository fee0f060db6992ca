"""A port of a name server or broker, and a client's actor, in a simulated network."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio
from frame_client import FrameClient

from actors.env.protocols import Address, Listener, Network
from actors.remoting.client import Call, RemotingClient
from actors.remoting.requests import Answer, Channel, Processors, Request, plain, posted_to
from actors.remoting.server import ServerSettings, anybody, rpc_server
from actors.runtime import (
    Actor,
    ActorRef,
    ChildSpec,
    Registry,
    ReplyTo,
    SupervisorSpec,
    System,
    open_system,
)
from actors.sim.network import NetworkOptions, SimNetwork
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import FLAG_ONEWAY, Header, SerializeType

PORT = 9876
HOSTS = {"ns": "127.0.0.1", "a": "127.0.0.2", "b": "127.0.0.3"}
ECHO, FAIL, LATER = 105, 106, 107
E = TypeVar("E")


def echo(request: Request) -> Answer:
    """The request's own body and fields."""
    fields = request.header.ext_fields
    return Answer(ext_fields=fields, remark="seen", body=request.body)


def fail(request: Request) -> Answer:
    raise KeyError("no such broker")


def frame(
    code: int = ECHO,
    opaque: int = 1,
    body: bytes = b"",
    *,
    encoding: SerializeType = SerializeType.JSON,
    oneway: bool = False,
    **fields: str,
) -> bytes:
    header = Header(
        code=code,
        ext_fields=fields or None,
        flag=FLAG_ONEWAY if oneway else 0,
        opaque=opaque,
        serialize_type=encoding,
    )
    return encode_frame(header, body)


def answer_frame(opaque: int, body: bytes = b"", code: int = 0) -> bytes:
    return encode_frame(Header(code=code, flag=1, opaque=opaque), body)


# --- what no client and no server sends ---

JSON = b'{"code":105,"flag":0,"language":"JAVA","opaque":1,"version":0}'


def head(length: int, header_bytes: int, kind: int = 0) -> bytes:
    return struct.pack(">iI", length, kind << 24 | header_bytes)


def binary(*, fields: bytes = b"", language: int = 0, fields_bytes: int | None = None) -> bytes:
    """A binary request, whose extFields may be anything."""
    size = len(fields) if fields_bytes is None else fields_bytes
    header = struct.pack(">hbhiiii", ECHO, language, 0, 1, 0, 0, size) + fields
    return head(4 + len(header), len(header), 1) + header


NO_FRAMES = {
    "a length of -1": head(-1, 0) + bytes(64),
    "a length of 2**31 - 1": head(2**31 - 1, 0) + bytes(64),
    "a length of 0": bytes(64),
    "above the largest": head(16 * (1 << 20), 10) + bytes(64),
    "a header longer than its frame": head(len(JSON) + 4, len(JSON) + 1) + JSON,
    "a header of 2**24 - 1": head(len(JSON) + 4, 2**24 - 1) + JSON,
    "encoding 2": head(len(JSON) + 4, len(JSON), 2) + JSON,
    "encoding 255": head(len(JSON) + 4, len(JSON), 255) + JSON,
    "no header": head(4, 0),
    "a list": head(6, 2) + b"[]",
    "half a text": head(8, 4) + b'{"c\xff',
    "extFields of a number": head(20, 16) + b'{"extFields": 1}',
    "binary, too short": head(10, 6, 1) + bytes(6),
    "binary, a negative length": binary(fields_bytes=-1),
    "binary, a length beyond": binary(fields_bytes=2**31 - 1),
    "binary, a negative key": binary(fields=struct.pack(">h", -1) + bytes(8)),
    "binary, a value beyond": binary(fields=b"\0\1k" + struct.pack(">i", 99) + b"v"),
    "binary, no text": binary(fields=b"\0\1\xff" + struct.pack(">i", 0)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: ns\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c4") + bytes(200),
}


@attrs.define
class Owner(Actor[Request]):
    """The one that owns what requests are about."""

    kit: Port

    async def handle(self, message: Request) -> None:
        if message.header.code == LATER and message.body == b"crash":
            raise RuntimeError("crash")
        self.kit.processors.serve(message)


@attrs.define
class Port:
    """One port, with processors that the test may change.

    Attributes:
        kept: the requests with code LATER, unanswered.
        channels: all connections, in their order.
    """

    network: SimNetwork
    kept: list[Request] = attrs.field(factory=list)
    channels: list[Channel] = attrs.field(factory=list)
    events: list[Any] = attrs.field(factory=list)
    table: dict[int, Callable[[Request], Answer | None]] = attrs.field(factory=dict)
    system: System = attrs.field(init=False)

    @property
    def processors(self) -> Processors:
        return Processors({ECHO: echo, FAIL: fail, LATER: self.kept.append, **self.table})

    def seen(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    async def connect(self, host: str = "a") -> FrameClient:
        return FrameClient.of(await self.network.open(host).connect(HOSTS["ns"], PORT))

    async def ask(self, client: FrameClient, *frames: bytes) -> Frame:
        """Send frames, and wait for the next that comes."""
        await client.put(*frames)
        return await client.next_frame()


@asynccontextmanager
async def lan(**options: Any) -> AsyncIterator[SimNetwork]:
    async with trio.open_nursery() as nursery:
        network = SimNetwork(random.Random(1), NetworkOptions(**options))
        await nursery.start(network.run)
        for name, address in HOSTS.items():
            network.add_host(name, address)
        yield network
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving(
    *,
    posted: bool = False,
    may_connect: Callable[[str], bool] = anybody,
    connections_max: int = 64,
    unanswered_max: int = 4096,
    network: Network | None = None,
    port: int = PORT,
    **options: Any,
) -> AsyncIterator[Port]:
    """A port of host ns.

    Args:
        posted: an actor owns the processors; else they run in the connections' tasks.
        network: to listen in; None: the simulated one, made with `options`.
    """
    async with lan(**options) as sim:
        kit = Port(sim)

        def build(registry: Registry) -> SupervisorSpec:
            owner: ActorRef[Request] = registry.ref("/ns/owner")

            def here(request: Request) -> None:
                kit.processors.serve(request)

            session = plain(posted_to(owner) if posted else here, unanswered_max=unanswered_max)

            def remembered(channel: Channel) -> Any:
                kit.channels.append(channel)
                return session(channel)

            settings = ServerSettings(
                network=network or sim.open("ns"),
                host=HOSTS["ns"],
                port=port,
                where="name_servers",
                may_connect=may_connect,
                session=remembered,
                next_connection=itertools.count(1).__next__,
                connections_max=connections_max,
            )
            return SupervisorSpec(
                children=(
                    ChildSpec(name="owner", start=lambda: Owner(kit)),
                    ChildSpec(name="server", start=rpc_server(settings)),
                )
            )

        def sink(path: str, incarnation: int, event: object) -> None:
            kit.events.append(event)

        async with open_system("ns", build, rng=random.Random(2), events=sink) as system:
            kit.system = system
            yield kit


@attrs.define
class Caller:
    """A RemotingClient of host a."""

    network: SimNetwork | Network
    events: list[Any] = attrs.field(factory=list)
    outcomes: dict[object, Frame | Exception] = attrs.field(factory=dict)
    news: trio.Event = attrs.field(factory=trio.Event)
    system: System = attrs.field(init=False)

    def seen(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    async def ended(self, count: int) -> None:
        """Wait until so many calls have ended."""
        while len(self.outcomes) < count:
            self.news = trio.Event()
            await self.news.wait()

    async def listen(self, host: str = "ns") -> Listener:
        assert isinstance(self.network, SimNetwork)
        return await self.network.open(host).listen(HOSTS[host], PORT)

    async def call(self, name: object, *, host: str = "ns", **fields: Any) -> None:
        """Send a call; its outcome comes under that name."""

        def ended(outcome: Frame | Exception) -> None:
            self.outcomes[name] = outcome
            self.news.set()

        client: ActorRef[Any] = self.system.ref("/a/client")
        reply_to: ReplyTo[Frame] = ReplyTo.local(ended, asked=client)
        address = Address(HOSTS[host], PORT)
        await client.tell(
            Call(**{"address": address, "code": ECHO, "reply_to": reply_to, **fields})
        )


@asynccontextmanager
async def calling(network: SimNetwork | Network) -> AsyncIterator[Caller]:
    caller = Caller(network)
    own = network.open("a") if isinstance(network, SimNetwork) else network
    client = ChildSpec(name="client", start=lambda: RemotingClient(network=own))

    def sink(path: str, incarnation: int, event: object) -> None:
        caller.events.append(event)

    root = SupervisorSpec(children=(client,))
    async with open_system("a", root, rng=random.Random(3), events=sink) as system:
        caller.system = system
        yield caller
