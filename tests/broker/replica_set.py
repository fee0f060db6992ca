"""Whole nodes of an auto-switch group, its controller and an operator, on simulated machines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

import actors
from actors.config import ClusterConfig, loads
from actors.env import Env
from actors.env.protocols import Address
from actors.group_status import GroupStatus, group_statuses
from actors.remoting.client import Call, RemotingClient
from actors.runtime import ChildSpec, SupervisorSpec, System, open_system
from actors.sim.network import NetworkOptions
from actors.sim.world import World, open_world
from wire.broker.codes import RequestCode
from wire.remoting.frame import Frame

NODES = {"c0": "10.0.0.1", "n0": "10.0.0.2", "n1": "10.0.0.3"}
OPERATOR = "10.0.0.9"
TEXT = f"""
version = 1
name = "C"
data_dir = "/data"
api_port = 8090
[nodes]
{"".join(f'{name} = "{host}"{chr(10)}' for name, host in NODES.items())}
[controllers]
nodes = ["c0"]
port = 9878
data_file_bytes = 65536
index_file_bytes = 65536
[name_servers]
c0 = 9876
[groups.orders]
mode = "autoswitch"
members = ["n0", "n1"]
min_in_sync_replicas = 1
segment_bytes = 65536
broker_peers = ["{OPERATOR}"]
"""


@attrs.define
class ReplicaSet:
    """See the module's text."""

    world: World
    config: ClusterConfig
    nodes: dict[str, actors.Node] = attrs.field(factory=dict)
    events: list[Any] = attrs.field(factory=list)
    operator: System | None = None

    async def start(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = await self.world.start_node(name, partial(self._node, name))

    async def _node(self, name: str, env: Env, task_status: trio.TaskStatus[actors.Node]) -> None:
        def emit(path: str, incarnation: int, event: object) -> None:
            self.events.append((path, event))
            env.events(path, incarnation, event)

        async with actors.open_node(self.config, name, env=attrs.evolve(env, events=emit)) as node:
            task_status.started(node)
            await trio.sleep_forever()

    async def operate(self, env: Env, task_status: trio.TaskStatus[None]) -> None:
        client = partial(RemotingClient, network=env.network)
        spec = SupervisorSpec(children=(ChildSpec(name="client", start=client),))
        async with open_system("operator", spec, rng=env.rng, events=env.events) as system:
            self.operator = system
            task_status.started()
            await system.wait_ended()

    async def ask(
        self, code: RequestCode, *, at: str, body: bytes = b"", port: int = 10911, **fields: str
    ) -> Frame:
        assert self.operator is not None
        return await self.operator.ref("/operator/client", Call).ask(
            Frame,
            lambda reply_to: Call(
                address=Address(NODES[at], port),
                code=code,
                ext_fields=fields,
                body=body,
                reply_to=reply_to,
            ),
            timeout_s=10,
        )

    def tell(self, code: RequestCode, *, at: str, body: bytes, **fields: str) -> None:
        assert self.operator is not None
        self.operator.ref("/operator/client", Call).post(
            Call(address=Address(NODES[at], 10911), code=code, ext_fields=fields, body=body)
        )

    async def elect(self, broker_id: int) -> None:
        """As `mqadmin electMaster`."""
        frame = await self.ask(
            RequestCode.CONTROLLER_ELECT_MASTER,
            at="c0",
            port=9878,
            brokerId=str(broker_id),
            brokerName="orders",
            clusterName="C",
            designateElect="true",
        )
        assert frame.header.code == 0, frame.header.remark

    async def routes(self) -> dict[str, str]:
        """The brokers of the group, as the name server knows them."""
        frame = await self.ask(RequestCode.GET_BROKER_CLUSTER_INFO, at="c0", port=9876)
        table = json.loads(frame.body)["brokerAddrTable"]
        return table["orders"]["brokerAddrs"] if "orders" in table else {}

    async def said(self, code: RequestCode, *, at: str) -> Any:
        frame = await self.ask(code, at=at)
        assert frame.header.code == 0, frame.header.remark
        return json.loads(frame.body)

    async def settings(self, at: str) -> dict[str, str]:
        frame = await self.ask(RequestCode.GET_BROKER_CONFIG, at=at)
        return dict(line.split("=", 1) for line in frame.body.decode().splitlines())

    async def status(self, name: str) -> GroupStatus:
        return group_statuses(await self.nodes[name].status())["orders"]

    async def until(self, name: str, is_so: Callable[[GroupStatus], bool]) -> GroupStatus:
        found: Any = None
        with trio.move_on_after(60):
            while True:
                found = await self.status(name)
                if is_so(found):
                    return found
                await trio.sleep(0.05)
        raise AssertionError(found)


@asynccontextmanager
async def replica_set(
    *, more: str = "", network: NetworkOptions | None = None
) -> AsyncIterator[ReplicaSet]:
    """A controller, the replicas n0 (the first master) and n1, and an operator."""
    config = loads(TEXT + more, "/set.toml")
    with trio.fail_after(600):
        async with open_world("replica set", network=network) as world:
            for name, host in NODES.items():
                world.add_node(name, host)
            world.add_node("operator", OPERATOR)
            found = ReplicaSet(world, config)
            await world.start_node("operator", found.operate)
            await found.start("c0", "n0")
            await found.until("n0", lambda status: status.state == "open")
            await found.start("n1")
            await found.until("n1", lambda status: status.details["in_sync"] == [1, 2])
            yield found
