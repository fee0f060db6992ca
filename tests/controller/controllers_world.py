"""Controllers on simulated nodes, and brokers that are not there but for their requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio
from controller_kit import CLUSTER, NAME, address
from frame_client import FrameClient

import actors
from actors.config import ClusterConfig, loads
from actors.env import Env
from actors.sim.world import World, open_world
from wire.broker import controller as said
from wire.broker.codes import RequestCode
from wire.broker.dialect import encode_body
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import FLAG_ONEWAY, Header, read_fields, write_fields

PORT: Final = 9878
NODES: Final = {"c0": "10.0.0.1", "c1": "10.0.0.2", "c2": "10.0.0.3"}
BROKERS_HOST: Final = "10.0.1.1"
VERSION: Final = 479


def config(*, count: int = 3, more: str = "") -> ClusterConfig:
    """The cluster file of the controllers alone."""
    nodes = dict(list(NODES.items())[:count])
    hosts = "\n".join(f'{name} = "{host}"' for name, host in nodes.items())
    names = ", ".join(f'"{name}"' for name in nodes)
    text = f"""
version = 1
name = "sim"
data_dir = "/data"
[nodes]
{hosts}
[controllers]
nodes = [{names}]
port = {PORT}
data_file_bytes = 65536
index_file_bytes = 65536
{more}
"""
    return loads(text, "/controllers.toml")


class StreamOver(Exception):
    """The controller has ended the connection."""


@attrs.define
class Broker:
    """A replica of the set NAME: requests to one controller, by keywords."""

    client: FrameClient
    broker_id: int
    opaque: int = 0

    async def ask(self, code: RequestCode, fields: Any = None, body: Any = None) -> Frame:
        frame = await self.send(code, fields, body)
        found = await self.client.frame_or_end()
        if found is None:
            raise StreamOver
        assert found.header.opaque == frame.opaque
        return found

    async def send(
        self, code: RequestCode, fields: Any = None, body: Any = None, *, flag: int = 0
    ) -> Header:
        self.opaque += 1
        header = Header(
            code=code,
            ext_fields=None if fields is None else write_fields(fields),
            flag=flag,
            opaque=self.opaque,
            version=VERSION,
        )
        data = body if isinstance(body, bytes) else b"" if body is None else encode_body(body)
        await self.client.put(encode_frame(header, data))
        return header

    async def beat(self, **more: Any) -> None:
        beat = said.ControllerHeartbeat(
            broker_addr=address(self.broker_id),
            broker_id=self.broker_id,
            broker_name=NAME,
            cluster_name=CLUSTER,
            **more,
        )
        await self.send(RequestCode.BROKER_HEARTBEAT, beat, flag=FLAG_ONEWAY)

    async def join(self) -> Frame:
        """Take the id and register; the answer to the registration."""
        taken = await self.ask(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            said.ApplyBrokerId(
                applied_broker_id=self.broker_id,
                broker_name=NAME,
                cluster_name=CLUSTER,
                register_check_code=f"{address(self.broker_id)};7",
            ),
        )
        assert taken.header.code == 0, taken
        return await self.ask(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            said.RegisterToController(
                broker_address=address(self.broker_id),
                broker_id=self.broker_id,
                broker_name=NAME,
                cluster_name=CLUSTER,
            ),
        )

    async def elect(self) -> Frame:
        return await self.ask(
            RequestCode.CONTROLLER_ELECT_MASTER,
            said.ElectMaster(broker_id=self.broker_id, broker_name=NAME, cluster_name=CLUSTER),
        )

    async def alter(self, *members: int, epoch: int, master_epoch: int) -> Frame:
        return await self.ask(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            said.AlterSyncStateSet(
                broker_name=NAME, master_broker_id=self.broker_id, master_epoch=master_epoch
            ),
            said.SyncStateSet(sync_state_set=members, sync_state_set_epoch=epoch),
        )

    async def info(self) -> tuple[int, said.ReplicaInfo, said.SyncStateSet | None]:
        """The answer's code, who is master, and the sync state set."""
        found = await self.ask(
            RequestCode.CONTROLLER_GET_REPLICA_INFO, said.BrokerSet(broker_name=NAME)
        )
        body = said.decode_sync_state_set(found.body) if found.body else None
        return found.header.code, read_fields(found.header, said.ReplicaInfo), body

    def hang_up(self) -> None:
        self.client.stream.abort()


@attrs.define
class Controllers:
    """See the module's text.

    Attributes:
        brokers: the environment of the machine that the requests come from.
        events: what was emitted, in order.
    """

    world: World
    config: ClusterConfig
    brokers: Env
    events: list[Any] = attrs.field(factory=list)
    nodes: dict[str, actors.Node] = attrs.field(factory=dict)

    async def start(self, name: str) -> None:
        async def main(env: Env, task_status: trio.TaskStatus[actors.Node]) -> None:
            outer = env.events

            def emit(path: str, incarnation: int, event: object) -> None:
                self.events.append(event)
                outer(path, incarnation, event)

            inner = attrs.evolve(env, events=emit)
            async with actors.open_node(self.config, name, env=inner) as node:
                task_status.started(node)
                await trio.sleep_forever()

        self.nodes[name] = await self.world.start_node(name, main)

    async def kill(self, name: str) -> None:
        del self.nodes[name]
        await self.world.kill_node(name)

    async def connect(self, broker_id: int, controller: str) -> Broker:
        stream = await self.brokers.network.connect(NODES[controller], PORT)
        return Broker(FrameClient.of(stream), broker_id)

    async def leader(self) -> str:
        """Wait for a controller that says that it leads, and answers as a leader."""
        while True:
            for name in list(self.nodes):
                broker = await self.connect(0, name)
                found = await broker.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
                leads = read_fields(found.header, said.ControllerMetadata)
                code, _, _ = await broker.info()
                broker.hang_up()
                if leads.is_leader and code != 2007:
                    return name
            await trio.sleep(0.1)

    def seen(self, kind: type) -> list[Any]:
        return [each for each in self.events if isinstance(each, kind)]


@asynccontextmanager
async def controllers(
    *, count: int = 3, more: str = "", seed: int = 0
) -> AsyncIterator[Controllers]:
    """Running controllers, within 600 s of simulated time."""
    found = config(count=count, more=more)

    async def idle(env: Env, task_status: trio.TaskStatus[Env]) -> None:
        task_status.started(env)
        await trio.sleep_forever()

    with trio.fail_after(600):
        async with open_world(f"controllers {seed}") as world:
            for name, host in found.nodes.items():
                world.add_node(name, host)
            world.add_node("brokers", BROKERS_HOST)
            group = Controllers(world, found, await world.start_node("brokers", idle))
            for name in found.nodes:
                await group.start(name)
            yield group
