"""Name servers on simulated machines, and whoever asks them over the simulated network."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from frame_client import FrameClient
from namesrv_kit import VERSION, table
from registering import encode_registration

from actors.env.protocols import Env, RunBeside, run_here
from actors.namesrv.routes import Look, NameServerStatus
from actors.namesrv.tree import NameServerSettings, name_server_tree
from actors.runtime import Registry, SupervisorSpec, System, open_system
from actors.sim.disk import SimDisk
from actors.sim.network import NetworkOptions, SimNetwork
from wire.broker.codes import RequestCode
from wire.broker.routes import decode_route
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import Header, SerializeType

PORT = 9876
FOLDER = "/data/name_server"
HOSTS = {"ns0": "127.0.0.1", "ns1": "127.0.0.2", "a": "127.0.0.3", "b": "127.0.0.4",
         "client": "127.0.0.5"}  # fmt: skip


@attrs.define
class Caller:
    """A connection to a name server."""

    client: FrameClient
    opaque: int = 0

    async def ask(
        self,
        code: int,
        *,
        body: bytes = b"",
        version: int = VERSION,
        encoding: SerializeType = SerializeType.JSON,
        **fields: object,
    ) -> Frame:
        self.opaque += 1
        header = Header(
            code=code,
            ext_fields={key: str(value) for key, value in fields.items()} or None,
            opaque=self.opaque,
            serialize_type=encoding,
            version=version,
        )
        await self.client.put(encode_frame(header, body))
        frame = await self.client.next_frame()
        assert frame.header.opaque == self.opaque
        assert frame.header.is_reply
        return frame

    async def register(
        self, *names: str, broker: str = "a", broker_id: int = 0, compressed: bool = False
    ) -> Frame:
        return await self.ask(
            RequestCode.REGISTER_BROKER,
            body=encode_registration(table(*names), compressed=compressed, version=VERSION),
            brokerName=broker,
            brokerAddr=f"{broker}:{broker_id}",
            clusterName="C",
            haServerAddr=f"ha-{broker}:{broker_id}",
            brokerId=broker_id,
            compressed=str(compressed).lower(),
        )

    async def addresses(self, topic: str) -> dict[str, dict[int, str]]:
        frame = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        if frame.header.code == 17:
            return {}
        assert frame.header.code == 0, frame
        return {
            each.broker_name: each.broker_addrs for each in decode_route(frame.body).broker_datas
        }

    def hang_up(self) -> None:
        self.client.stream.abort()


@attrs.define
class Lan:
    """Attributes: told: every event with its path; statuses: what `on_change` was told."""

    network: SimNetwork
    disk: SimDisk
    run_beside: RunBeside = run_here
    wall_ms: int = 1_800_000_000_000
    told: list[tuple[str, Any]] = attrs.field(factory=list)
    statuses: list[NameServerStatus] = attrs.field(factory=list)

    async def call(self, host: str, server: str = "ns0") -> Caller:
        stream = await self.network.open(host).connect(HOSTS[server], PORT)
        return Caller(FrameClient.of(stream))

    def events(self, kind: type) -> list[Any]:
        return [event for _, event in self.told if isinstance(event, kind)]

    @asynccontextmanager
    async def serving(self, name: str = "ns0") -> AsyncIterator[System]:
        def emit(path: str, incarnation: int, event: object) -> None:
            self.told.append((path, event))

        env = Env(
            network=self.network.open(name),
            disk=self.disk,
            rng=random.Random(3),
            wall_clock_ms=lambda: self.wall_ms,
            events=emit,
            run_beside=self.run_beside,
        )
        settings = NameServerSettings(
            path=f"/{name}",
            host=HOSTS[name],
            port=PORT,
            where="--listen",
            folder=FOLDER if name == "ns0" else f"{FOLDER}-{name}",
            on_change=self.statuses.append,
        )

        def build(registry: Registry) -> SupervisorSpec:
            return name_server_tree(settings, env, registry)

        async with open_system(name, build, rng=env.rng, events=emit, log_crashes=False) as system:
            yield system


@asynccontextmanager
async def lan(**options: Any) -> AsyncIterator[Lan]:
    async with trio.open_nursery() as nursery:
        network = SimNetwork(random.Random(1), NetworkOptions(**options))
        await nursery.start(network.run)
        for name, address in HOSTS.items():
            network.add_host(name, address)
        yield Lan(network, SimDisk(random.Random(2)))
        nursery.cancel_scope.cancel()


async def status_of(system: System, name: str = "ns0") -> NameServerStatus:
    ref = system.ref(f"/{name}/routes", Look)
    return await ref.ask(NameServerStatus, Look, timeout_s=5.0)
