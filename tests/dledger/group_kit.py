"""Whole DLedger groups of real actors in a simulated world, without the node layer above them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import attrs
import trio

from actors.config import ClusterConfig, DLedgerGroup, validate
from actors.dledger.replication import append_messages
from actors.dledger.replication.append_messages import Committed
from actors.env import Address, Env
from actors.events import runtime
from actors.events.dledger import RoleChanged
from actors.log_types import Offsets
from actors.runtime import ActorRef, ChildSpec, Registry, SupervisorSpec, System, open_system
from actors.sim.network import NetworkOptions
from actors.sim.world import SimEvent, World, open_world
from actors.state_machine import StateMachine
from actors.storage.commitlog import pull_service
from actors.trees.dledger import group_tree
from actors.trees.ledger_setup import LedgerPaths, LedgerSetup
from wire.buffer import NEED_DATA
from wire.dledger.codes import RequestCode
from wire.dledger.entry import Entry, decode_entries
from wire.dledger.rpc import (
    Request,
    Response,
    decode_response,
    encode_body,
    request_code_of,
)
from wire.remoting.frame import Decoder, encode_frame
from wire.remoting.header import Header

GROUP = "ledger"
SMALL: dict[str, Any] = {"data_file_bytes": 64 << 10, "index_file_bytes": 64 << 10}
WITHIN_S = 60.0
"""Virtual: an election takes some ten seconds at most."""
E = TypeVar("E")


def group_config(members: int = 3, **settings: Any) -> ClusterConfig:
    """A cluster of one group."""
    names = [f"n{number}" for number in range(members)]
    group = DLedgerGroup(name=GROUP, members=tuple(names), **{**SMALL, **settings})
    config = ClusterConfig(
        name="sim",
        data_dir="/data",
        nodes={name: f"10.0.0.{number + 1}" for number, name in enumerate(names)},
        groups={GROUP: group},
        api_port=None,
    )
    validate(config)
    return config


async def run_member(
    config: ClusterConfig,
    name: str,
    env: Env,
    task_status: trio.TaskStatus[System],
    *,
    machine: Callable[[], StateMachine] | None = None,
) -> None:
    """One node that is nothing but its member."""
    group = config.ledger_groups_of(name)[0]

    def build(registry: Registry) -> SupervisorSpec:
        setup = LedgerSetup(
            config=config, node=name, group=group, env=env, registry=registry, machine=machine
        )
        return SupervisorSpec(
            intensity=0, children=(ChildSpec(name=group.name, start=group_tree(setup)),)
        )

    async with open_system(name, build, rng=env.rng, events=env.events) as system:
        task_status.started(system)
        await system.wait_ended()


@attrs.define(eq=False)
class Group:
    """The members of one group, and what a test does with them.

    Attributes:
        machine: makes the state machine of the member of that name.
        seen: every event of every member, in order.
    """

    world: World
    config: ClusterConfig
    machine: Callable[[str], StateMachine] | None = None
    systems: dict[str, System] = attrs.field(factory=dict)
    seen: list[SimEvent] = attrs.field(factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.config.nodes)

    def paths(self, name: str) -> LedgerPaths:
        return LedgerPaths(f"/{name}/{GROUP}")

    def ref(self, name: str, part: str) -> ActorRef[Any]:
        """Args: part: as in `LedgerPaths`."""
        return self.systems[name].ref(getattr(self.paths(name), part))

    def events(self, kind: type[E], *names: str) -> list[E]:
        return [
            one.event
            for one in self.seen
            if isinstance(one.event, kind) and (not names or one.node in names)
        ]

    # ---- members ----

    async def start(self, *names: str) -> None:
        for name in names or self.names:
            make = None if self.machine is None else partial(self.machine, name)
            self.systems[name] = await self.world.start_node(
                name, partial(run_member, self.config, name, machine=make)
            )

    async def kill(self, name: str) -> None:
        del self.systems[name]
        await self.world.kill_node(name)

    async def power_loss(self, name: str) -> None:
        del self.systems[name]
        await self.world.power_loss(name)

    def role(self, name: str) -> RoleChanged | None:
        """The last that the member's present incarnation has reported."""
        boot = max((one.boot for one in self.seen if one.node == name), default=0)
        for one in reversed(self.seen):
            if one.node == name and one.boot == boot and isinstance(one.event, RoleChanged):
                return one.event
        return None

    @property
    def leaders(self) -> list[str]:
        """Running members that lead the largest term of any."""
        roles = {name: self.role(name) for name in self.systems}
        terms = [role.term for role in roles.values() if role is not None]
        return [
            name
            for name, role in roles.items()
            if role is not None and role.role == "LEADER" and role.term == max(terms)
        ]

    async def leader(self, within_s: float = WITHIN_S) -> str:
        """The leader of the largest term, once it takes appends."""
        with trio.fail_after(within_s):
            while True:
                for name in self.leaders:
                    if await self.watermarks_session(name):
                        return name
                await trio.sleep(0.05)

    async def watermarks_session(self, name: str) -> int:
        """The session in which the member's checker leads; 0: it does not."""
        found: append_messages.Watermarks = await self.ref(name, "quorum_ack_checker").ask(
            append_messages.Watermarks,
            lambda reply_to: append_messages.GetWatermarks(reply_to=reply_to),
            timeout_s=5.0,
        )
        return found.session

    # ---- the log ----

    async def append(
        self, name: str, *bodies: bytes, timeout_s: float = 2.5, term: int | None = None
    ) -> Committed:
        deadline_s = trio.current_time() + timeout_s
        found: Committed = await self.ref(name, "quorum_ack_checker").ask(
            Committed,
            lambda reply_to: append_messages.Append(
                bodies=bodies, deadline_s=deadline_s, reply_to=reply_to, term=term
            ),
            timeout_s=timeout_s + 5.0,
        )
        return found

    async def entries(self, name: str, start: int = 0) -> list[Entry]:
        """What the member shows its readers."""
        found: list[Entry] = []
        while True:
            pulled = await self.read(name, start)
            if not pulled.data:
                return found
            found += decode_entries(pulled.data)
            start = pulled.next

    async def read(self, name: str, start: int) -> pull_service.Pulled:
        found: pull_service.Pulled = await self.ref(name, "entry_reader").ask(
            pull_service.Pulled,
            lambda reply_to: pull_service.Read(start=start, max_bytes=1 << 20, reply_to=reply_to),
            timeout_s=5.0,
        )
        return found

    async def bodies(self, name: str) -> list[bytes]:
        """Those of entries that have one."""
        return [entry.body for entry in await self.entries(name) if entry.body]

    async def offsets(self, name: str) -> Offsets:
        found: Offsets = await self.ref(name, "entry_reader").ask(
            Offsets,
            lambda reply_to: pull_service.WatchOffsets(reply_to=reply_to),
            timeout_s=5.0,
        )
        return found

    async def until_shown(self, index: int, *names: str, within_s: float = WITHIN_S) -> None:
        """Wait until readers of these members, or all, see that entry."""
        with trio.fail_after(within_s):
            for name in names or tuple(self.systems):
                while (await self.offsets(name)).acknowledged <= index:  # noqa: ASYNC110
                    await trio.sleep(0.05)

    async def until(self, condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110 - events are seen, not waited for
                await trio.sleep(0.01)

    def lives(self, since: int = 0) -> list[tuple[str, str]]:
        """Starts, crashes and stops from the event of that number on: (what, path)."""
        kinds = (runtime.ActorStarted, runtime.ActorCrashed, runtime.ActorStopped)
        return [
            (type(one.event).__name__.removeprefix("Actor").lower(), one.path)
            for one in self.seen[since:]
            if isinstance(one.event, kinds)
        ]

    async def crash(self, name: str, path: str) -> None:
        """Have the actor there fail: no part takes such a message."""
        await self.systems[name].ref(path).tell(object())

    # ---- the wire ----

    async def call(self, name: str, request: Request, *, host: str | None = None) -> Response:
        """Ask a member over a connection of one's own, from another member's machine."""
        return (await self.calls(name, request, host=host))[0]

    async def calls(self, name: str, *requests: Request, host: str | None = None) -> list[Response]:
        """Ask all of one kind, in one piece. The answers in the order of the requests."""
        source = host or next(other for other in self.names if other != name)
        network = self.world.network.open(source)
        address = Address(self.config.nodes[name], self.config.ledger_groups_of(name)[0].port)
        stream = await network.connect(address.host, address.port)
        receive, send = stream.halves()
        code: RequestCode = request_code_of(requests[0])
        frames = [
            encode_frame(Header(code=code, opaque=number), encode_body(request))
            for number, request in enumerate(requests)
        ]
        await send.send_all(b"".join(frames))
        decoder = Decoder()
        found: dict[int, Response] = {}
        with trio.fail_after(WITHIN_S):
            while len(found) < len(requests):
                while (frame := decoder.next_frame()) is NEED_DATA:
                    decoder.receive_data(await receive.receive_some(1 << 16))
                found[frame.header.opaque] = decode_response(code, frame.body)[0]
        stream.abort()
        return [found[number] for number in range(len(requests))]


@asynccontextmanager
async def opened(
    members: int = 3,
    *,
    seed: str = "dledger",
    started: bool = True,
    machine: Callable[[str], StateMachine] | None = None,
    network: NetworkOptions | None = None,
    **settings: Any,
) -> AsyncIterator[Group]:
    """A running group."""
    async with open_world(seed, network=network) as world:
        group = Group(world, group_config(members, **settings), machine)
        world.on_event.append(group.seen.append)
        for name, address in group.config.nodes.items():
            world.add_node(name, address)
        if started:
            await group.start()
        yield group
