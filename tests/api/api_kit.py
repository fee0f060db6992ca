"""A node in memory behind a real API server, on a simulated network; a client of bare frames."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio
from group_states import status_of
from proof_kit import SECRET, credentials

from actors.api import frame_socket
from actors.api.accept_socket import TcpEndpoint, UnixEndpoint
from actors.api.failures import RequestRefused
from actors.api.frame_socket import FrameSocket
from actors.api.handle import AppendOutcome, NodeIdentity
from actors.api.limits import ApiLimits
from actors.api.server import api_spec
from actors.env.protocols import Network
from actors.epochs import Epoch
from actors.errors import NotStored
from actors.events.codec import decode_line
from actors.events.node import NodeStarted
from actors.events.sink import EventSink, EventSubscription
from actors.ha.core.role_effects import Role, RoleState, RoleView
from actors.ha.role_status import RoleStatus
from actors.log_types import (
    BEHIND_FAILED,
    Batch,
    Chain,
    Claim,
    GoodRange,
    GroupState,
    Message,
    NewRecord,
    Offsets,
    Receipt,
    Record,
)
from actors.runtime import ChildSpec, System, open_system
from actors.runtime.spec import SupervisorSpec
from actors.sim.network import NetworkOptions, SimNetwork
from wire.api import frames as api

SOCKET = "/data/n0/api.sock"
NODE = "10.0.0.1"
MEMBER = "10.0.0.2"
STRANGER = "10.0.0.9"
PORT = 10911


def sink_of(node: str) -> EventSink:
    return EventSink(node, 1, lambda: 0, NodeStarted(cluster="demo", version="0", groups=()))


STATE = GroupState(
    cluster="demo",
    node="n0",
    boot=7,
    group="orders",
    role="master",
    state="open",
    reason="",
    opened=True,
    number=2,
    master="n0",
    history=(Epoch(0, 2**63 - 1, "n1", 0), Epoch(2, 5, "n0", 300)),
    min=0,
    written=500,
    synced=400,
    acknowledged=400,
    high_water=400,
    unanswered=1,
)


STATUS: dict[str, Any] = {
    "node": "n0",
    "groups": {"orders": status_of(epoch=2)},
}


FOLLOWS = RoleView(
    role=Role.SLAVE,
    state=RoleState.FOLLOWING,
    fence=None,
    reason="",
    opened=False,
    number=2,
    master="n0",
    history=STATE.history,
    high_water=400,
)


@attrs.define(eq=False)
class MemoryNode:
    """A `NodeHandle` whose log is a list; positions are record numbers times 100.

    Attributes:
        hold: keep answers to appends back until `answer`.
        full: submits wait, as for a store without room.
        refuse: what an append raises.
        fail: what every other request raises.
        stored: the log.
        held_end: how much of it this node holds; None: all.
        state: its part in the group.
        calls: fence, record, resync and so on, with their arguments.
    """

    sink: EventSink = attrs.field(factory=lambda: sink_of("n0"))
    hold: bool = False
    refuse: Exception | None = None
    fail: Exception | None = None
    stopped: bool = False
    stored: list[NewRecord] = attrs.Factory(list)
    batches: list[tuple[NewRecord, ...]] = attrs.Factory(list)
    waiting: list[tuple[Receipt, Callable[[AppendOutcome], None]]] = attrs.Factory(list)
    acknowledged: int = 0
    held_end: int | None = None
    state: GroupState = STATE
    calls: list[tuple[object, ...]] = attrs.Factory(list)
    role_status: RoleStatus = attrs.field(factory=lambda: RoleStatus(FOLLOWS))
    reads: int = 0
    may_read: trio.Event = attrs.Factory(trio.Event)
    may_submit: trio.Event = attrs.Factory(trio.Event)
    changed: trio.Event = attrs.Factory(trio.Event)
    identity: NodeIdentity = attrs.field(
        factory=lambda: NodeIdentity(cluster="demo", node="n0", boot=7, groups=("orders",))
    )

    def __attrs_post_init__(self) -> None:
        self.may_read.set()
        self.may_submit.set()

    async def submit(
        self,
        group: str,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None:
        self.check(group)
        await self.may_submit.wait()
        if self.refuse is not None:
            raise self.refuse
        if chain is not None and chain.broken:
            raise NotStored(BEHIND_FAILED)
        first = 100 * len(self.stored)
        self.stored += records
        self.batches.append(records)
        following = 100 * len(self.stored)
        receipt = Receipt(
            first=first,
            last=following - 100,
            next=following,
            count=len(records),
            copies=2,
            durability="synced",
        )
        self.waiting.append((receipt, on_done))
        if not self.hold:
            self.answer()

    def answer(self, outcome: Exception | None = None) -> None:
        """Answer everything that waits."""
        waiting, self.waiting = self.waiting, []
        for receipt, on_done in waiting:
            if outcome is None:
                self.acknowledged = receipt.next
            on_done(outcome or receipt)
        self.stir()

    def stir(self) -> None:
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    async def append(self, group: str, records: tuple[NewRecord, ...]) -> Receipt:
        raise AssertionError("the server uses submit")

    async def read(self, group: str, start: int, max_bytes: int, fresh: bool) -> Batch:
        self.check(group)
        self.reads += 1
        await self.may_read.wait()
        if start % 100:
            raise RequestRefused(api.ERROR_BAD_REQUEST, f"no record begins at {start}")
        end = self.acknowledged if self.held_end is None else self.held_end
        numbers: list[int] = []
        size_bytes = 0
        for number in range(start // 100, end // 100):
            size_bytes += len(body_of(self.stored[number]))
            if numbers and size_bytes > max_bytes:
                break
            numbers.append(number)
        records = tuple(record_of(number, self.stored[number]) for number in numbers)
        return Batch(
            records=records,
            next=records[-1].next_position if records else start,
            acknowledged=self.acknowledged,
            end=100 * len(self.stored),
            lag_bytes=self.acknowledged - end,
        )

    def offsets(self) -> Offsets:
        end = 100 * len(self.stored) if self.held_end is None else self.held_end
        return Offsets(min=0, written=end, synced=end, acknowledged=self.acknowledged, master="n0")

    async def wait_acknowledged(self, group: str, above: int) -> Offsets:
        self.check(group)
        while self.acknowledged <= above:
            await self.changed.wait()
        return self.offsets()

    async def wait_offsets(self, group: str, known: Offsets | None) -> Offsets:
        self.check(group)
        while self.offsets() == known:
            await self.changed.wait()
        return self.offsets()

    async def status(self) -> dict[str, Any]:
        self.check("orders")
        await trio.lowlevel.checkpoint()
        return STATUS

    async def tree(self) -> dict[str, Any]:
        self.check("orders")
        await trio.lowlevel.checkpoint()
        return {"path": "/n0", "children": []}

    async def promote(self, group: str, node: str | None, force: bool) -> dict[str, Any]:
        self.check(group)
        await trio.lowlevel.checkpoint()
        return {"group": group, "node": node, "force": force}

    async def group_state(self, group: str) -> GroupState:
        return await self.wait_group_state(group, None)

    async def wait_group_state(self, group: str, known: GroupState | None) -> GroupState:
        self.check(group)
        while self.state == known:
            await self.changed.wait()
        return self.state

    async def fence(self, group: str, claim: Claim, on: bool) -> GroupState:
        await self._called(group, "fence", claim, on)
        return await self.group_state(group)

    async def record(self, group: str, *words: Any) -> GroupState:
        await self._called(group, "record", *words)
        return await self.group_state(group)

    async def resync(self, group: str) -> dict[str, Any]:
        return await self._called(group, "resync")

    async def repair(self, group: str, source: str | None) -> dict[str, Any]:
        return await self._called(group, "repair", source)

    async def log_range(self, group: str, start: int) -> GoodRange:
        await self._called(group, "log_range", start)
        return GoodRange(start=64, data=b"range", digest=5)

    async def transfer_leader(self, group: str, node: str | None) -> dict[str, Any]:
        return await self._called(group, "transfer", node)

    async def _called(self, group: str, *call: Any) -> dict[str, Any]:
        self.check(group)
        self.calls.append(call)
        await trio.lowlevel.checkpoint()
        return {"group": group}

    def request_stop(self) -> None:
        self.stopped = True

    def subscribe_events(self) -> EventSubscription:
        self.check("orders")
        return self.sink.subscribe()

    def check(self, group: str) -> None:
        unknown = RequestRefused(api.ERROR_UNKNOWN_GROUP, f"no group {group!r}")
        if self.fail is not None or group not in self.identity.groups:
            raise self.fail or unknown


def body_of(record: NewRecord) -> bytes:
    return record.body if isinstance(record, Message) else record


def record_of(number: int, record: NewRecord) -> Record:
    message = record if isinstance(record, Message) else Message("orders", record)
    return Record(
        position=100 * number,
        next_position=100 * number + 100,
        topic=message.topic or "orders",
        queue_id=message.queue_id,
        queue_offset=number,
        body=message.body,
        tags=message.tags,
        keys=message.keys,
        properties=message.properties,
        store_timestamp_ms=1,
        born_timestamp_ms=2,
    )


@attrs.define(eq=False)
class Served:
    """A node that serves its API.

    Attributes:
        host: the network of the node's own machine; `member` and `stranger` are other machines.
    """

    node: MemoryNode
    system: System
    network: SimNetwork
    host: Network
    member: Network
    stranger: Network

    def kinds(self) -> list[str]:
        """The kinds of all events so far."""
        return [decode_line(line).kind for line in self.node.sink.peek(100_000)]

    def events(self, kind: str) -> list[Any]:
        logged = [decode_line(line) for line in self.node.sink.peek(100_000)]
        return [each.event for each in logged if each.kind == kind]


@asynccontextmanager
async def serving(
    node: MemoryNode | None = None,
    *,
    limits: ApiLimits | None = None,
    links: tuple[ChildSpec, ...] = (),
    options: NetworkOptions | None = None,
    seed: int = 1,
    members: Mapping[str, str] | None = None,
    secret: bytes | None = SECRET,
    hosts: frozenset[str] = frozenset((NODE, MEMBER)),
) -> AsyncIterator[Served]:
    """A node's API on its Unix socket and its port, in simulation."""
    node = node or MemoryNode()
    network = SimNetwork(random.Random(seed), options or NetworkOptions(fragment_share=0.0))
    network.add_host("n0", NODE)
    network.add_host("n1", MEMBER)
    network.add_host("elsewhere", STRANGER)
    async with trio.open_nursery() as nursery:
        await nursery.start(network.run)
        host = network.open("n0")
        gate = partial(credentials(secret).gate, "n0", hosts)
        tcp = TcpEndpoint(host=NODE, port=PORT, allowed=(NODE, MEMBER), gate=gate)
        unix = UnixEndpoint(path=SOCKET)
        spec = api_spec(host, node, unix=unix, tcp=tcp, links=links, limits=limits, members=members)
        root = SupervisorSpec(children=(ChildSpec(name="api", start=spec),))
        async with open_system("n0", root, events=node.sink) as system:
            member, stranger = network.open("n1"), network.open("elsewhere")
            yield Served(node, system, network, host, member, stranger)
        nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class BareClient:
    """Sends and receives frames, one by one."""

    socket: FrameSocket
    text: bool = False

    async def send(self, *frames: api.Request) -> None:
        for frame in frames:
            await self.socket.send(api.encode(frame, text=self.text))

    async def receive(self) -> api.Answer:
        with trio.fail_after(60):
            data = await self.socket.receive()
        assert isinstance(data, str) == self.text
        return api.decode_answer(data)

    async def ask(self, frame: api.Request) -> api.Answer:
        await self.send(frame)
        return await self.receive()


@asynccontextmanager
async def bare_client(
    served: Served, *, text: bool = False, hello: bool = True, version: int = api.VERSION_MIN
) -> AsyncIterator[BareClient]:
    stream = await served.host.connect_unix(SOCKET)
    async with frame_socket.connect(stream) as socket:
        client = BareClient(socket, text)
        if hello:
            welcome = await client.ask(api.Hello(id=0, version=version, name="test"))
            assert isinstance(welcome, api.Welcome)
        yield client
        await socket.close()
