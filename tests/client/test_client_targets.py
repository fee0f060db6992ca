"""From what a person types to a node's endpoint; and which endpoint, when one does not answer."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from api_kit import NODE, PORT, MemoryNode, Served, serving

from actors.api.handle import NodeIdentity
from actors.client import connect_node
from actors.client.race import STAGGER_S
from actors.client.targets import (
    TRY_S,
    Endpoint,
    Target,
    connect_target,
    endpoints,
    node_order,
    parse_target,
    pick_group,
)
from actors.config import ClassicGroup, ClusterConfig, MasterNode, SlaveNode
from actors.env.protocols import Address
from actors.errors import ConfigError, NotStored

FILE = """
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
j0 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = "n0"
slaves = ["n1", { node = "j0", kind = "java" }]
durability = "written"
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "c.toml"
    path.write_text(FILE)
    return str(path)


def test_a_cluster_file(file: str) -> None:
    target = parse_target(file)
    assert target.config is not None
    assert (target.config.name, target.node, target.address) == ("demo", None, None)
    assert parse_target(f"{file}:n1").node == "n1"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:80", Address("10.0.0.1", 80)),
        ("host-1.example:65535", Address("host-1.example", 65535)),
        ("[::1]:10911", Address("::1", 10911)),
    ],
)
def test_an_address(text: str, address: Address) -> None:
    assert parse_target(text).address == address


@pytest.mark.real_io
def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("api.sock")
        assert parse_target("api.sock").address == Address(str(tmp_path / "api.sock"), 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{file}:n7", "{file}:n7: expected one of n0, n1, found n7"),
        ("{file}:", "{file}:: expected one of n0, n1, found "),
        ("{file}:j0", "found j0 (a Java broker, which has no API socket)"),
        ("{file}.toml", "expected a cluster file, found no such file"),
        ("{file}x", "x', which is no file"),
        ("{folder}", "', which is not a socket"),
        ("10.0.0.1:0", "TARGET: expected a port of 1 to 65535, found 0"),
        ("10.0.0.1:65536", "TARGET: expected a port of 1 to 65535, found 65536"),
        ("::1:80", "expected CLUSTER.toml[:NODE], a socket's path or HOST:PORT, found '::1:80'"),
        ("", "found '', which is no file"),
        ("a\0b", "which is no file"),
    ],
)
def test_mistakes(file: str, text: str, problem: str) -> None:
    folder = os.path.dirname(file)
    with pytest.raises(ConfigError) as raised:
        parse_target(text.format(file=file, folder=folder))
    (line,) = raised.value.problems
    assert problem.format(file=file) in line


def test_which_group() -> None:
    assert pick_group(("orders",), None, "n0") == "orders"
    assert pick_group(("orders", "bills"), "bills", "n0") == "bills"
    with pytest.raises(ConfigError, match="expected one of the groups of n0: orders, bills"):
        pick_group(("orders", "bills"), None, "n0")
    with pytest.raises(ConfigError, match="groups of n0: none"):
        pick_group((), None, "n0")
    with pytest.raises(ConfigError, match="a group of n0, orders, found order"):
        pick_group(("orders",), "order", "n0")
    with pytest.raises(ConfigError, match=r"orders, bills \(did you mean bills\?\), found bill"):
        pick_group(("orders", "bills"), "bill", "n0")


def test_which_node() -> None:
    config = cluster("/data", groups={"a": ("n0", "n1"), "b": ("n1", "n2")})
    assert node_order(config, "b", master_only=True) == ("n1", "n2")
    assert node_order(config, "b", master_only=False) == ("n1", "n2")
    assert node_order(config, None, master_only=False) == ("n0", "n1", "n2")
    java = ClassicGroup(
        name="j",
        mode="classic",
        master=MasterNode(node="n0", kind="java"),
        slaves=(SlaveNode(node="n1"),),
    )
    config = attrs.evolve(config, groups={"j": java}, path="c.toml")
    assert node_order(config, "j", master_only=False) == ("n1",)
    with pytest.raises(ConfigError, match=r"c\.toml: key groups\.j: expected a node with"):
        node_order(config, "j", master_only=True)


def cluster(
    data_dir: str, *, groups: dict[str, tuple[str, str]], api_port: int | None = None
) -> ClusterConfig:
    return ClusterConfig(
        name="demo",
        data_dir=data_dir,
        nodes={"n0": NODE, "n1": "10.0.0.2", "n2": "10.0.0.9"},
        groups={
            name: ClassicGroup(
                name=name,
                mode="classic",
                master=MasterNode(node=master),
                slaves=(SlaveNode(node=slave),),
            )
            for name, (master, slave) in groups.items()
        },
        api_port=api_port,
    )


def test_endpoints(tmp_path: Path) -> None:
    config = cluster(str(tmp_path), groups={"orders": ("n0", "n1")})
    direct = Address(str(tmp_path / "n0" / "api.sock"), 0)
    assert endpoints(config, "n0") == (Endpoint(direct),)
    config = attrs.evolve(config, api_port=PORT)
    unix, port = endpoints(config, "n0")
    assert (unix, port.address) == (Endpoint(direct), Address(NODE, PORT))
    assert port.identity is not None
    assert port.identity.node == "n0"
    assert port.identity.credentials.path == str(tmp_path / "cluster.secret")


@asynccontextmanager
async def serving_n0(config: ClusterConfig) -> AsyncIterator[Served]:
    identity = NodeIdentity(cluster="demo", node="n0", boot=1, groups=("orders",))
    async with serving(MemoryNode(identity=identity)) as served:
        yield served


async def test_the_port_is_tried_when_there_is_no_socket(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    config = cluster(str(tmp_path), groups={"orders": ("n0", "n1")}, api_port=PORT)
    async with serving_n0(config) as served:
        async with connect_node(config, "n0", network=served.member) as client:
            assert client.identity.node == "n0"
            assert repr(client) == f"<Client of n0 at {NODE}:{PORT}>"


async def test_every_endpoint_that_was_tried_is_named(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    config = cluster(str(tmp_path), groups={"orders": ("n0", "n1")}, api_port=PORT + 1)
    async with serving_n0(config) as served:
        with pytest.raises(ConnectionError) as raised:
            async with connect_node(config, "n0", network=served.member):
                raise AssertionError("not reached")
    text = str(raised.value)
    assert f"{tmp_path}/n0/api.sock: No such file or directory" in text
    assert f"{NODE}:{PORT + 1}: Connection refused" in text


async def test_a_node_that_hangs_delays_no_other(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Its system takes the connection, and nobody ever answers."""
    config = cluster(str(tmp_path), groups={"orders": ("n1", "n0")}, api_port=PORT)
    async with serving_n0(config) as served:
        listener = await served.member.listen(config.nodes["n1"], PORT)
        begun_s = trio.current_time()
        target = Target(text="c.toml", config=config)
        async with connect_target(target, name="it", network=served.member) as client:
            assert client.identity.node == "n0"
            assert STAGGER_S <= trio.current_time() - begun_s < 2 * STAGGER_S
        alone = Target(text="c.toml:n1", config=config, node="n1")
        with pytest.raises(TimeoutError, match=r"cannot reach n1: .*no answer within 5 s"):
            async with connect_target(alone, name="it", network=served.member):
                raise AssertionError("not reached")
        for wait_s, most_s in ((30.0, 30.0), (1.5, 1.5), (0.0, TRY_S)):
            begun_s = trio.current_time()
            with pytest.raises(TimeoutError, match=rf"n1: .*no answer within {most_s:g} s"):
                async with connect_target(alone, name="it", network=served.member, wait_s=wait_s):
                    raise AssertionError("not reached")
            assert trio.current_time() - begun_s == pytest.approx(most_s, abs=2 * STAGGER_S)
        await listener.aclose()


async def test_an_error_in_the_block_tries_no_further_endpoint(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    config = cluster(str(tmp_path), groups={"orders": ("n0", "n1")}, api_port=PORT)
    entered = 0
    async with serving_n0(config) as served:
        for error in (ConnectionResetError("mine"), NotStored("mine")):
            with pytest.raises(type(error), match=r"^mine$"):
                async with connect_node(config, "n0", network=served.member):
                    entered += 1
                    raise error
    assert entered == 2


async def test_a_node_whose_data_somebody_has_is_asked_for_elsewhere(tmp_path: Path) -> None:
    """It starts, or waits for room, and has no endpoint yet."""
    config = cluster(str(tmp_path), groups={"orders": ("n0", "n1")})
    config = attrs.evolve(config, path="c.toml")
    lock = Path(config.node_dir("n0")) / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_bytes(b"lock")
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 1)"
    hold += "; print('.', end='', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(lock)]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.receive_some(1) == b"."
        words = f"process {process.pid} has the data of n0: `status` says"
        for node in (None, "n0"):
            target = Target(text="c.toml", config=config, node=node)
            with pytest.raises(ConnectionError, match=re.escape(words)):
                async with connect_target(target, name="it", wait_s=0.0):
                    raise AssertionError("not reached")
        with pytest.raises(ConnectionError) as other:
            async with connect_target(
                Target(text="c.toml:n1", config=config, node="n1"), name="it", wait_s=0.0
            ):
                raise AssertionError("not reached")
        assert "process" not in str(other.value)
    finally:
        await process.stdin.aclose()
        await process.wait()
