"""Replicas on simulated machines: a ReplicasManager each, with a stub for all else of a broker."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio
from controllers_world import NODES, PORT, Controllers, controllers
from frame_client import FrameClient

from actors.broker.core.replica import LogState, ReplicaSettings
from actors.broker.replicas_manager import Message, ReplicasManager, ReplicaView, RoleTold
from actors.env import Env
from actors.env.protocols import Stream
from actors.errors import StorageError
from actors.ha.autoswitch.messages import ChangeRole, RoleTaken
from actors.remoting.client import RemotingClient
from actors.runtime import (
    Actor,
    ActorRef,
    ChildSpec,
    Registry,
    Strategy,
    SupervisorSpec,
    open_system,
)
from wire.broker import controller as said
from wire.remoting.header import read_fields

STORE = "/store"
BROKER_PORT = 10911


@attrs.define
class Owner(Actor[Any]):
    """Takes every role, or fails as often as it is told to."""

    node: ReplicaNode

    async def handle(self, message: Any) -> None:
        self.node.roles.append(message)
        if not isinstance(message, ChangeRole):
            return
        await self.node.hold.wait()
        if self.node.failures:
            message.reply_to.fail(self.node.failures.pop())
        elif self.node.fails():
            message.reply_to.fail(StorageError("by chance"))
        else:
            message.reply_to.send(RoleTaken(message.role.epoch))


@attrs.define
class ReplicaNode:
    """A machine that runs a replica's manager, and nothing else of a broker."""

    group: Controllers
    name: str
    host: str
    view: ReplicaView = attrs.field(factory=ReplicaView)
    roles: list[Any] = attrs.field(factory=list)
    failures: list[Exception] = attrs.field(factory=list)
    hold: trio.Event = attrs.field(factory=trio.Event)
    events: list[Any] = attrs.field(factory=list)
    broker: str = "set1"
    fails: Callable[[], bool] = lambda: False
    since_start: int = 0
    manager: ActorRef[Message] = attrs.field(init=False)

    async def start(self) -> None:
        self.view = ReplicaView()
        self.since_start = len(self.events)
        self.hold.set()
        await self.group.world.start_node(self.name, self._main)

    async def _main(self, env: Env, task_status: trio.TaskStatus[None]) -> None:
        path = f"/{self.name}"

        def build(registry: Registry) -> SupervisorSpec:
            manager = partial(
                ReplicasManager,
                settings=ReplicaSettings(
                    cluster="C",
                    broker=self.broker,
                    address=f"{self.host}:{BROKER_PORT}",
                    controllers=tuple(f"{host}:{PORT}" for host in self._controllers()),
                ),
                disk=env.disk,
                folder=STORE,
                source=self.name,
                wall_clock_ms=env.wall_clock_ms,
                log=lambda: LogState(epoch=-1, max_offset=0, confirm_offset=0),
                doubts=lambda: None,
                view=self.view,
                client=registry.ref(f"{path}/client"),
                owner=registry.ref(f"{path}/owner"),
            )
            return SupervisorSpec(
                strategy=Strategy.REST_FOR_ONE,
                children=(
                    ChildSpec(
                        name="client",
                        start=partial(RemotingClient, network=env.network, local_host=self.host),
                    ),
                    ChildSpec(name="owner", start=partial(Owner, self)),
                    ChildSpec(name="manager", start=manager),
                ),
            )

        def sink(path: str, incarnation: int, event: object) -> None:
            self.events.append(event)

        env.disk.mkdir(STORE)
        listener = await env.network.listen(self.host, BROKER_PORT)
        async with (
            open_system(self.name, build, rng=random.Random(5), events=sink) as system,
            trio.open_nursery() as nursery,
        ):
            manager = self.manager = system.ref(f"{path}/manager")
            task_status.started()
            while True:
                nursery.start_soon(_pass_on, await listener.accept(), manager.post)

    def _controllers(self) -> list[str]:
        return [NODES[name] for name in self.group.config.nodes]

    def seen(self, kind: type) -> list[Any]:
        return [each for each in self.events if isinstance(each, kind)]

    async def until(self, is_so: Callable[[ReplicaView], bool]) -> None:
        while not is_so(self.view):  # noqa: ASYNC110
            await trio.sleep(0.01)

    async def until_master(self, master: int) -> None:
        await self.until(lambda view: view.role is not None and view.role.master == master)

    def read(self, name: str) -> bytes | None:
        disk = self.group.world.node(self.name).disk
        path = f"{STORE}/{name}"
        if not disk.exists(path):
            return None
        file = disk.open(path, "r")
        try:
            return bytes(file.pread(0, 4096))
        finally:
            file.close()


async def _pass_on(stream: Stream, post: Callable[[RoleTold], bool]) -> None:
    """The broker's port, as far as a controller uses it."""
    client = FrameClient.of(stream)
    while (frame := await client.frame_or_end()) is not None:
        told = read_fields(frame.header, said.RoleChange)
        post(RoleTold(told, said.decode_sync_state_set(frame.body)))


@asynccontextmanager
async def replicas(
    *, count: int = 1, of: int = 2, seed: int = 0
) -> AsyncIterator[tuple[Controllers, Any]]:
    """So many controllers that run, and replicas that do not yet."""
    async with controllers(count=count, seed=seed) as group:
        await group.leader()
        nodes = []
        for number in range(1, of + 1):
            host = f"10.0.2.{number}"
            group.world.add_node(f"b{number}", host)
            nodes.append(ReplicaNode(group, f"b{number}", host))
        yield group, nodes
