"""Both ends of DLedger's connections in a simulated network, with stand-ins around them."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio
from frame_client import FrameClient

from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import Role
from actors.dledger.leader_status import LeaderStatus
from actors.dledger.rpc.peer import PeerConnection, RPCPeer
from actors.dledger.rpc.refusal_log import RefusalLog
from actors.dledger.rpc.rpc_messages import Answered, Asked, Call, Services
from actors.dledger.rpc.server import rpc_server
from actors.env.protocols import Address, Listener, Network
from actors.remoting.open_calls import IN_FLIGHT_MAX, OpenCalls
from actors.runtime import (
    Actor,
    ActorRef,
    ChildSpec,
    MailboxSpec,
    Overflow,
    Registry,
    SupervisorSpec,
    System,
    open_system,
)
from actors.sim.network import NetworkOptions, SimNetwork
from wire.dledger.codes import RequestCode
from wire.dledger.rpc import (
    AppendEntryRequest,
    GetEntriesRequest,
    HeartBeatRequest,
    InstallSnapshotRequest,
    LeadershipTransferRequest,
    MetadataRequest,
    PushEntryRequest,
    Request,
    Response,
    VoteRequest,
    decode_request,
    decode_response,
    encode_body,
    request_code,
    request_code_of,
    response_class,
)
from wire.remoting.frame import encode_frame
from wire.remoting.header import Header

PORT = 20911
ADDRESSES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
STRANGER = "127.0.0.9"
PARTS = {
    VoteRequest: "state_maintainer",
    HeartBeatRequest: "state_maintainer",
    MetadataRequest: "state_maintainer",
    LeadershipTransferRequest: "state_maintainer",
    PushEntryRequest: "entry_handler",
    InstallSnapshotRequest: "entry_handler",
    AppendEntryRequest: "quorum_ack_checker",
    GetEntriesRequest: "entry_reader",
}
REQUESTS = tuple(PARTS)
E = TypeVar("E")


def request(cls: Callable[..., Request] = MetadataRequest, **fields: Any) -> Request:
    """To member n0 of group g."""
    return cls(**{"group": "g", "remote_id": "n0", "local_id": "n1", **fields})


def success(asked: Asked) -> Response:
    """A plain 200 of the right class, with the request's term."""
    return response_class(request_code_of(asked.request))(term=asked.request.term)


@attrs.define
class StandIn(Actor[Asked]):
    """A part of a member: remembers what it is asked, and answers as the kit says."""

    kit: ServerKit
    name: str

    async def handle(self, message: Asked) -> None:
        self.kit.asked.append((self.name, message))
        await self.kit.behave(message)


@attrs.define
class Narrow(StandIn):
    """The same with room for one request; others wait for room."""

    mailbox = MailboxSpec(capacity=1)


@attrs.define
class Refusing(StandIn):
    """The same with room for one request; others are refused."""

    mailbox = MailboxSpec(capacity=1, overflow=Overflow.REFUSE)


async def answer_at_once(asked: Asked) -> None:
    asked.reply_to.send(success(asked))


async def keep(asked: Asked) -> None:
    """Answer later, or never."""


@attrs.define
class ServerKit:
    """Node n0 with members at one port.

    Attributes:
        asked: what the parts were asked, with their names, in order.
        behave: what a part does with a request.
        role_status: of the first member.
    """

    network: SimNetwork
    role_status: LeaderStatus = attrs.field(factory=LeaderStatus)
    asked: list[tuple[str, Asked]] = attrs.field(factory=list)
    events: list[Any] = attrs.field(factory=list)
    behave: Any = answer_at_once
    system: System = attrs.field(init=False)

    def seen(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    async def connect(self, host: str = "n1") -> Client:
        return Client.of(await self.network.open(host).connect(ADDRESSES["n0"], PORT))

    async def turned_away(self, host: str = "n1") -> bool:
        """Connect, and wait until that is over."""
        try:
            client = await self.connect(host)
        except ConnectionResetError:
            return True
        return await client.ended()

    def ref(self, part: str) -> ActorRef[Any]:
        return self.system.ref(f"/n0/{part}")


@attrs.define
class Client(FrameClient):
    """The other end of a connection, request by request."""

    async def ask(self, *requests: Request) -> None:
        """Send all in one piece, numbered from 1."""
        await self.put(*(frame_of(each, number) for number, each in enumerate(requests, 1)))

    async def next_request(self) -> tuple[int, Request]:
        """Its number, and what it asks."""
        frame = await self.next_frame()
        code = request_code(frame.header.code)
        assert code is not None
        found, loose = decode_request(code, frame.body)
        assert not loose
        return frame.header.opaque, found

    async def answer_of(self, code: RequestCode) -> tuple[int, Response]:
        frame = await self.next_frame()
        assert frame.header.code == 200, frame.header
        assert frame.header.is_reply
        return frame.header.opaque, decode_response(code, frame.body)[0]


def frame_of(asked: Request, opaque: int, *, flag: int = 0) -> bytes:
    header = Header(code=request_code_of(asked), opaque=opaque, flag=flag)
    return encode_frame(header, encode_body(asked))


def answer_frame(opaque: int, answer: Response) -> bytes:
    return encode_frame(Header(code=200, opaque=opaque, flag=1), encode_body(answer))


@asynccontextmanager
async def lan(**options: Any) -> AsyncIterator[SimNetwork]:
    async with trio.open_nursery() as nursery:
        network = SimNetwork(random.Random(1), NetworkOptions(**options))
        await nursery.start(network.run)
        for name, address in ADDRESSES.items():
            network.add_host(name, address)
        network.add_host("stranger", STRANGER)
        yield network
        nursery.cancel_scope.cancel()


def services_of(
    registry: Registry, role_status: LeaderStatus, *, group: str = "g", member: str = "n0"
) -> Services:
    """All parts of one member, served by the same stand-ins."""
    return Services(
        group=group,
        member=member,
        role_status=role_status,
        **{part: registry.ref(f"/n0/{part}") for part in dict.fromkeys(PARTS.values())},
    )


@asynccontextmanager
async def serving(
    *,
    members: Sequence[tuple[str, str]] = (("g", "n0"),),
    stand_in: type[StandIn] = StandIn,
    network: Network | None = None,
    port: int = PORT,
    **options: Any,
) -> AsyncIterator[ServerKit]:
    """Members (group, id) at the port of n0; of several the first has the kit's role status.

    Args:
        network: to listen in; None: the simulated one, made with `options`.
    """
    async with lan(**options) as sim:
        kit = ServerKit(sim)

        def build(registry: Registry) -> SupervisorSpec:
            role_statuses = [kit.role_status, *(LeaderStatus() for _ in members[1:])]
            server = rpc_server(
                network=network or sim.open("n0"),
                host=ADDRESSES["n0"],
                port=port,
                where="groups.g.port",
                addresses=frozenset(ADDRESSES.values()),
                services=tuple(
                    services_of(registry, role_status, group=group, member=member)
                    for role_status, (group, member) in zip(role_statuses, members, strict=True)
                ),
                next_connection=itertools.count(1).__next__,
            )
            parts = tuple(
                ChildSpec(name=part, start=lambda part=part: stand_in(kit, part))
                for part in dict.fromkeys(PARTS.values())
            )
            return SupervisorSpec(children=(*parts, ChildSpec(name="rpc_server", start=server)))

        def sink(path: str, incarnation: int, event: object) -> None:
            kit.events.append(event)

        async with open_system("n0", build, rng=random.Random(2), events=sink) as system:
            kit.system = system
            yield kit


@attrs.define
class Caller(Actor[Answered]):
    """Remembers what it is sent, and when."""

    kit: PeerKit

    async def handle(self, message: Answered) -> None:
        self.kit.received.append((self.ctx.now_s(), message))
        self.kit.heard.set()


@attrs.define
class PeerKit:
    """An RPCPeer of n1 that calls n0, whose part the test plays.

    Attributes:
        received: what the caller received, in order.
    """

    network: SimNetwork
    received: list[tuple[float, Answered]] = attrs.field(factory=list)
    heard: trio.Event = attrs.field(factory=trio.Event)
    events: list[Any] = attrs.field(factory=list)
    system: System = attrs.field(init=False)

    def seen(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    async def listen(self) -> Listener:
        return await self.network.open("n0").listen(ADDRESSES["n0"], PORT)

    async def call(
        self,
        token: object,
        asked: Request | None = None,
        *,
        timeout_s: float = 3.0,
        caller: str = "caller",
    ) -> None:
        await self.system.ref("/n1/peer").tell(
            Call(
                request=request(HeartBeatRequest) if asked is None else asked,
                timeout_s=timeout_s,
                token=token,
                answer_to=self.system.ref(f"/n1/{caller}"),
            )
        )

    async def answers(self, count: int) -> list[Answered]:
        """Wait until so many calls have ended."""
        with trio.fail_after(600):
            while len(self.received) < count:
                self.heard = trio.Event()
                await self.heard.wait()
        return [answered for _, answered in self.received]


@asynccontextmanager
async def calling(
    *,
    network: Network | None = None,
    port: int = PORT,
    open_max: int = IN_FLIGHT_MAX,
    warns: str = "",
    **options: Any,
) -> AsyncIterator[PeerKit]:
    """Args: warns: the group that warnings name; "": this connection warns of nothing."""
    async with lan(**options) as sim:
        kit = PeerKit(sim)

        def peer() -> RPCPeer:
            return RPCPeer(
                PeerConnection(
                    peer="n0",
                    address=Address(ADDRESSES["n0"], port),
                    local_host=ADDRESSES["n1"],
                    network=network or sim.open("n1"),
                    log=RefusalLog(warns) if warns else None,
                    calls=OpenCalls(limit=open_max),
                )
            )

        root = SupervisorSpec(
            children=(
                ChildSpec(name="caller", start=lambda: Caller(kit)),
                ChildSpec(name="peer", start=peer),
            )
        )

        def sink(path: str, incarnation: int, event: object) -> None:
            kit.events.append(event)

        async with open_system("n1", root, rng=random.Random(3), events=sink) as system:
            kit.system = system
            yield kit


def led_by(leader: str) -> RoleChanged:
    """What a follower of that leader publishes."""
    return RoleChanged(session=1, role=Role.FOLLOWER, term=1, leader=leader)
