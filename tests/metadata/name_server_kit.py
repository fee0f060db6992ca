"""Name servers of ours beside the nodes of `MetadataCluster`, in one simulated world."""

from __future__ import annotations

import trio
from frame_client import FrameClient
from registering import encode_registration

from actors.env import Env
from actors.namesrv.tree import NameServerSettings, name_server_tree
from actors.runtime import Registry, SupervisorSpec, System, open_system
from actors.sim.world import World
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.routes import decode_route
from wire.broker.topics import TopicTable
from wire.remoting.frame import Frame, encode_frame
from wire.remoting.header import VERSION, Header

NAME_SERVERS = {"ns0": "127.0.0.11", "ns1": "127.0.0.12"}
CLIENT = "127.0.0.21"
PORT = 9876
MORE = "namesrv_addr = [{}]\n".format(
    ", ".join(f'"{host}:{PORT}"' for host in NAME_SERVERS.values())
)


async def start_name_server(world: World, name: str) -> None:
    async def run(env: Env, task_status: trio.TaskStatus[System]) -> None:
        settings = NameServerSettings(
            path=f"/{name}",
            host=NAME_SERVERS[name],
            port=PORT,
            where="the test",
            folder="/data/name_server",
        )

        def build(registry: Registry) -> SupervisorSpec:
            return name_server_tree(settings, env, registry)

        async with open_system(name, build, rng=env.rng, events=env.events) as system:
            task_status.started(system)
            await system.wait_ended()

    await world.start_node(name, run)


async def start_name_servers(world: World) -> None:
    for name, address in NAME_SERVERS.items():
        world.add_node(name, address)
        await start_name_server(world, name)
    world.add_node("client", CLIENT)


async def ask(
    world: World, server: str, code: RequestCode, fields: dict[str, str], body: bytes = b""
) -> Frame:
    """A client's or a broker's question, on a connection of its own that stays open."""
    stream = await world.network.open("client").connect(NAME_SERVERS[server], PORT)
    client = FrameClient.of(stream)
    await client.put(encode_frame(Header(code=code, version=VERSION, ext_fields=fields), body))
    return await client.next_frame()


async def addresses(world: World, server: str, topic: str) -> dict[int, str]:
    """The brokers of group orders in a topic's route, by id, as a client is told; {}: none."""
    frame = await ask(world, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if frame.header.code == ResponseCode.TOPIC_NOT_EXIST:
        return {}
    (found,) = decode_route(frame.body).broker_datas
    return found.broker_addrs


async def register_java(world: World, server: str, *, broker: str, ha: str) -> None:
    """What a Java master of group orders tells a name server."""
    fields = {
        "brokerName": "orders",
        "brokerAddr": broker,
        "brokerId": "0",
        "clusterName": "kit",
        "haServerAddr": ha,
    }
    body = encode_registration(TopicTable(), version=VERSION)
    frame = await ask(world, server, RequestCode.REGISTER_BROKER, fields, body)
    assert frame.header.code == ResponseCode.SUCCESS


async def until_route(
    world: World, server: str, topic: str, wanted: dict[int, str], within_s: float
) -> None:
    """Wait until clients are told exactly these brokers."""
    found: dict[int, str] = {}
    with trio.move_on_after(within_s):
        while (found := await addresses(world, server, topic)) != wanted:  # noqa: ASYNC110
            await trio.sleep(within_s / 20)
    assert found == wanted
