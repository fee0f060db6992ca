"""A slave's link to its master's API, and the whole API of a node as `api_child` builds it."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import attrs
import pytest
import trio
from api_kit import (
    MEMBER,
    NODE,
    PORT,
    SOCKET,
    BareClient,
    MemoryNode,
    serving,
)
from member_kit import TCP, Reader, slave
from proof_kit import credentials
from trio.testing import MockClock

from actors.api import frame_socket, socket_file
from actors.api.credentials import Credentials, MemberNetwork
from actors.api.server import api_child
from actors.config import ClassicGroup, ClusterConfig
from actors.config.bounds import API_CLIENTS as CLIENTS
from actors.config.members import SlaveNode
from actors.control.member_link import WatchedGroup, link_child
from actors.control.member_session import MemberAddress
from actors.env.protocols import Address, Env, Network
from actors.errors import ConfigError
from actors.events.codec import decode_line
from actors.runtime import ChildSpec, SupervisorSpec, System, open_system
from actors.sim.disk import SimDisk
from actors.sim.network import NetworkOptions, SimNetwork
from actors.storage.commitlog import pull_service
from wire.api import frames


async def test_a_slave_learns_what_it_may_show(autojump_clock: MockClock) -> None:
    node = MemoryNode(stored=[b"x"] * 9, acknowledged=100)
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        assert found.got == [
            pull_service.Acknowledged(offset_bytes=100),
            pull_service.MasterChanged(master="n0"),
        ]
        node.acknowledged = 300
        node.stir()
        await trio.sleep(1)
        assert found.acknowledged() == [100, 300]
        assert found.events() == ["MasterLinkOpened"]
        (opened,) = served.events("APIConnectionOpened")
        assert opened.client == "member n1"


async def test_a_link_comes_back_and_shows_its_loss_once(autojump_clock: MockClock) -> None:
    node = MemoryNode(stored=[b"x"] * 9, acknowledged=100)
    async with serving(node) as served, slave(served) as found:
        await trio.sleep(1)
        served.network.isolate("n0")
        served.network.reset("n0", "n1")
        await trio.sleep(60)
        assert found.events() == ["MasterLinkOpened", "MasterLinkLost"]
        node.acknowledged = 500
        node.stir()
        served.network.heal_all()
        await trio.sleep(20)
        assert found.acknowledged()[-1] == 500
        assert found.events() == ["MasterLinkOpened", "MasterLinkLost", "MasterLinkOpened"]


async def test_the_longest_pause_may_be_shorter_than_the_usual_first_one(
    autojump_clock: MockClock,
) -> None:
    """Attempts that fail at once: one that lasts makes the pauses begin again."""
    address = MemberAddress(address=Address(NODE, PORT + 1), cluster="demo")
    async with serving() as served, slave(served, address, retry_s=0.05) as found:
        await trio.sleep(10)
        kinds = [decode_line(line).kind for line in found.sink.peek(10_000)]
        assert found.events() == ["MasterLinkLost"]
        assert "ActorCrashed" not in kinds


async def test_a_silent_master_is_noticed(autojump_clock: MockClock) -> None:
    async with serving(MemoryNode()) as served, slave(served) as found:
        await trio.sleep(100)
        assert found.events() == ["MasterLinkOpened"], "quiet is not silent"
        served.network.isolate("n0")
        await trio.sleep(16)
        assert found.events() == ["MasterLinkOpened", "MasterLinkLost"]


@pytest.mark.parametrize(
    ("address", "group", "master"),
    [
        (MemberAddress(address=Address(NODE, PORT + 1), cluster="demo"), "orders", "n0"),
        (MemberAddress(address=Address("/no/such.sock", 0), cluster="demo"), "orders", "n0"),
        (TCP, "other", "n0"),
        (TCP, "orders", "n7"),
    ],
    ids=["wrong port", "no socket", "unknown group", "another node"],
)
async def test_a_wrong_endpoint_is_tried_again_and_reported_once(
    address: MemberAddress, group: str, master: str, autojump_clock: MockClock
) -> None:
    async with serving() as served, slave(served, address, group, master) as found:
        await trio.sleep(100)
        assert found.got == []
        events = [kind for kind in found.events() if kind == "MasterLinkLost"]
        assert 1 <= len(events) <= 1 + found.events().count("MasterLinkOpened")


@pytest.mark.parametrize(
    ("address", "master", "words"),
    [
        (attrs.evolve(TCP, cluster="other"), "n0", "expected node n0 of cluster other"),
        (TCP, "n7", "expected node n7 of cluster demo"),
    ],
    ids=["another cluster", "another node"],
)
async def test_a_foreign_master_is_refused_and_reported_also_after_other_failures(
    address: MemberAddress,
    master: str,
    words: str,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(MemoryNode(stored=[b"x"], acknowledged=100)) as served:
        served.network.isolate("n0")
        async with slave(served, address, "orders", master) as found:
            await trio.sleep(60)
            served.network.heal_all()
            await trio.sleep(100)
            assert found.got == []
            assert found.events() == ["MasterLinkLost", "MasterLinkLost"]
    (line,) = [line for line in caplog.messages if words in line]
    assert line.endswith("found node n0 of cluster demo")
    assert line.startswith("n1: orders: ")


# The API of a node.


def config(api_port: int | None = PORT) -> ClusterConfig:
    group = ClassicGroup(
        name="orders", mode="classic", master="n0", slaves=(SlaveNode(node="n1"),), port=1
    )
    return ClusterConfig(
        version=1,
        name="demo",
        data_dir="/data",
        nodes={"n0": NODE, "n1": MEMBER},
        groups={"orders": group},
        api_port=api_port,
    )


@asynccontextmanager
async def two_nodes(
    found: ClusterConfig, got: list[object]
) -> AsyncIterator[tuple[System, Network]]:
    """The APIs of n0 and n1 on one machine; `got` is what n1's pull_service of orders hears."""
    network = SimNetwork(random.Random(1), NetworkOptions())
    network.add_host("here", NODE, MEMBER)
    disk = SimDisk(random.Random(2))
    reader = ChildSpec(name="pull_service", start=lambda: Reader(got=got))
    group = ChildSpec(name="orders", start=SupervisorSpec(children=(reader,)))
    async with trio.open_nursery() as nursery:
        await nursery.start(network.run)
        systems = []
        for name in ("n0", "n1"):
            node = MemoryNode(stored=[b"x"] * 9, acknowledged=300)
            node.identity = attrs.evolve(node.identity, node=name, groups=tuple(found.groups))
            env = Env(
                network=network.open("here"),
                secret_store=credentials().secret_store,
                disk=disk,
                rng=random.Random(3),
                wall_clock_ms=lambda: 0,
                events=node.sink,
            )
            disk.mkdir(f"/data/{name}")
            other = "n1" if name == "n0" else "n0"
            link = link_child(
                node=name,
                member=other,
                address=MemberAddress.of(found, other, name),
                network=MemberNetwork(env.network, Credentials.of(found, env.secret_store)),
                groups=tuple(
                    WatchedGroup(
                        name=each.name,
                        retry_s=each.reconnect_interval_s,
                        role_status=node.role_status,
                    )
                    for each in found.classic_groups.values()
                ),
            )
            child = api_child(node, env, found, f"/data/{name}", (link,))
            systems.append(open_system(name, SupervisorSpec(children=(group, child))))
        async with systems[0] as master, systems[1]:
            yield master, network.open("here")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("api_port", [PORT, None])
async def test_two_nodes_find_each_other(api_port: int | None, autojump_clock: MockClock) -> None:
    got: list[object] = []
    async with two_nodes(config(api_port), got) as (master, _):
        await trio.sleep(5)
        assert got == [
            pull_service.Acknowledged(offset_bytes=300),
            pull_service.MasterChanged(master="n0"),
        ]
        api_tree = master.tree().find("/n0/api")
        assert api_tree is not None
        names = [each.path.rpartition("/")[2] for each in api_tree.children]
        listeners = ["unix_socket", *(["tcp_socket"] if api_port else [])]
        assert names == ["connections", "links", *listeners]


async def test_the_link_and_feeds_of_many_groups_leave_clients_their_room(
    autojump_clock: MockClock,
) -> None:
    """The slave has one link, however many groups there are, and watches each over it."""
    orders = config().groups["orders"]
    groups = {f"g{n}": attrs.evolve(orders, name=f"g{n}", port=n + 1) for n in range(CLIENTS)}
    found = attrs.evolve(config(None), groups=groups)
    async with two_nodes(found, []) as (master, host), AsyncExitStack() as clients:
        await trio.sleep(30)
        for number in range(CLIENTS + len(groups)):
            client = frame_socket.connect(await host.connect_unix(SOCKET))
            bare = BareClient(await clients.enter_async_context(client))
            welcome = await bare.ask(frames.Hello(id=0, version=1, name=f"client {number}"))
            assert isinstance(welcome, frames.Welcome)
        connections = master.tree().find("/n0/api/connections")
        assert connections is not None
        assert len(connections.children) == 2 * CLIENTS + 1


async def test_a_port_in_use_is_one_line(autojump_clock: MockClock) -> None:
    async with serving() as served:
        node = MemoryNode()
        env = Env(
            network=served.host,
            secret_store=credentials().secret_store,
            disk=SimDisk(random.Random(2)),
            rng=random.Random(3),
            wall_clock_ms=lambda: 0,
            events=node.sink,
        )
        child = api_child(node, env, config(), "/data/elsewhere")
        with pytest.RaisesGroup(ConfigError, flatten_subgroups=True) as caught:
            async with open_system("n0", SupervisorSpec(children=(child,))):
                raise AssertionError
        assert f"API: cannot listen on {NODE}:{PORT}" in str(leaf(caught.value))


def leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# Where the socket is.


def test_a_short_path_is_taken_as_it_is() -> None:
    assert socket_file.api_socket_path("/data/n0") == SOCKET
    longest = "/" + "x" * (107 - len("//api.sock"))
    assert socket_file.api_socket_path(longest) == f"{longest}/api.sock"


def test_what_an_older_version_said_of_a_long_path_is_removed() -> None:
    disk = SimDisk(random.Random(1))
    folder = "/" + "ä" * 100
    disk.mkdir(folder)
    assert socket_file.api_socket_path(folder) == f"{folder}/api.sock"
    disk.open(f"{folder}/api.path", "x").close()
    for _ in range(2):
        socket_file.remove_pointer(disk, folder)
        assert disk.listdir(folder) == []


def test_a_pointer_that_is_a_folder_is_named() -> None:
    disk = SimDisk(random.Random(1))
    disk.mkdir("/data/n0/api.path")
    said = r"^/data/n0/api\.path: expected a file, found a folder$"
    with pytest.raises(ConfigError, match=said):
        socket_file.remove_pointer(disk, "/data/n0")
