"""An operator's tool beside the nodes of `MetadataCluster`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
from metadata_kit import BROKER_PORT, NODES, MetadataCluster

from actors.env import Env
from actors.env.protocols import Address
from actors.remoting.client import Call, RemotingClient
from actors.runtime import ChildSpec, SupervisorSpec, System, open_system
from actors.sim.world import World, open_world
from wire.broker.codes import RequestCode
from wire.remoting.frame import Frame


class Operator:
    """Asks brokers, with `mqadmin`'s requests."""

    def __init__(self) -> None:
        self.system: System | None = None

    async def run(self, env: Env, task_status: trio.TaskStatus[System]) -> None:
        client = partial(RemotingClient, network=env.network)
        spec = SupervisorSpec(children=(ChildSpec(name="client", start=client),))
        async with open_system("operator", spec, rng=env.rng, events=env.events) as system:
            self.system = system
            task_status.started(system)
            await system.wait_ended()

    async def ask(
        self, code: RequestCode, body: bytes = b"", *, at: str = "n0", **fields: str
    ) -> Frame:
        assert self.system is not None
        ref = self.system.ref("/operator/client", Call)
        return await ref.ask(
            Frame,
            lambda reply_to: Call(
                address=Address(NODES[at], BROKER_PORT),
                code=code,
                ext_fields=fields,
                body=body,
                reply_to=reply_to,
            ),
            timeout_s=10.0,
        )


@asynccontextmanager
async def operated(*names: str) -> AsyncIterator[tuple[World, MetadataCluster, Operator]]:
    async with open_world(1) as world:
        nodes, operator = MetadataCluster(world), Operator()
        world.add_node("operator", "127.0.0.9")
        await nodes.start(*(names or ("n0",)))
        await world.start_node("operator", operator.run)
        yield world, nodes, operator
