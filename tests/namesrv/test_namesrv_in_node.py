"""`[name_servers]` of a cluster file: a node that has a name server beside its groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from frame_client import FrameClient
from free_ports import free_port
from namesrv_kit import table
from namesrv_lan import Caller

import actors
from actors.client.report import status_lines
from actors.client.status_text import name_server_text
from actors.cluster.checking import fixed_memory
from actors.cluster.terminal import node_lines
from actors.cluster.view import node_view
from actors.config import check, loads
from actors.config.model import ClusterConfig
from actors.env.real import real_env
from actors.errors import ConfigError, TriologError
from wire.broker.codes import RequestCode

BASE = """\
version = 1
name = "demo"
data_dir = "var"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
j0 = "127.0.0.3"
[groups.orders]
master = "n0"
slaves = ["n1", { node = "j0", kind = "java" }]
port = 10912
"""
KV = {"namespace": "n", "key": "k"}


def with_servers(text: str, base: str = BASE) -> ClusterConfig:
    return loads(f"{base}[name_servers]\n{text}\n", "f.toml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n0 = 0", "name_servers.n0: expected an integer from 1 to 65535, found 0"),
        ('n0 = "9876"', "name_servers.n0: expected an integer, found \"9876\""),
        ("n5 = 9876", "name_servers.n5: expected one of n0, n1, found n5"),
        ("j0 = 9876",
         "name_servers.j0: expected one of n0, n1, found j0 (a Java broker, not run by us)"),
        ("n0 = 10912",
         "name_servers.n0: expected a port of its own on node n0, found 10912, a port of group"
         " orders"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_servers(text)
    assert caught.value.problems == (f"f.toml: key {line}",)


def test_the_api_has_another_port() -> None:
    with pytest.raises(ConfigError, match=r"key name_servers.n0: .*found 9000, the api_port"):
        with_servers("n0 = 9000", f"api_port = 9000\n{BASE}")


def test_a_group_may_have_its_name_only_without() -> None:
    base = BASE.replace("groups.orders", "groups.name_server")
    assert list(loads(base, "f.toml").groups) == ["name_server"]
    with pytest.raises(ConfigError, match=r"key groups\.name_server: expected another name"):
        with_servers("n0 = 9876", base)


def test_check_knows_it() -> None:
    config = with_servers("n0 = 9876")
    (use,) = [each for each in check.ports(config) if each.port == 9876]
    assert (use.node, use.address, use.key) == ("n0", "127.0.0.1", "name_servers.n0")
    assert "name server" in use.purpose
    page = check.render(config, {})
    assert "  n0  127.0.0.1  master of orders, name server\n" in page
    assert "whoever reaches the port may register" in page
    assert any("name server" in bound.what for bound in fixed_memory(config))


def test_status_shows_one_line() -> None:
    said = {"address": "127.0.0.1:9876", "brokers": 2, "topics": 31}
    status = {"node": "n0", "cluster": "c", "state": "running", "groups": {}, "name_server": said}
    line = "name server 127.0.0.1:9876: 2 brokers, 31 topics"
    assert name_server_text(status) == line
    assert f"  {line}" in node_lines(node_view("n0", status, {"path": "/n0"}))
    assert line in status_lines(status)
    assert name_server_text({}) == ""
    silent = {"name_server": {"address": "127.0.0.1:9876"}}
    assert name_server_text(silent) == "name server 127.0.0.1:9876: does not answer"
    with pytest.raises(TriologError, match="cannot read"):
        name_server_text({"name_server": {"brokers": 2}})
    with pytest.raises(TriologError, match="cannot read"):
        name_server_text({"name_server": {"address": "h:1", "brokers": "many", "topics": 1}})


@pytest.mark.real_io
async def test_a_node_has_it_beside_its_groups(tmp_path: Path) -> None:
    group, port = free_port(), free_port()
    text = BASE.replace(', { node = "j0", kind = "java" }', "").replace('j0 = "127.0.0.3"\n', "")
    text = text.replace('slaves = ["n1"]', "").replace("10912", str(group))
    text = text.replace('data_dir = "var"', f'data_dir = "{tmp_path}"')
    config = with_servers(f"n0 = {port}", text)

    async def call() -> Caller:
        return Caller(FrameClient.of(await real_env().network.connect("127.0.0.1", port)))

    async with actors.open_node(config, "n0") as node:
        broker = await call()
        assert (await broker.register(*table("x", "y").topic_config_table)).header.code == 0
        assert await broker.addresses("x") == {"a": {0: "a:0"}}
        await broker.ask(RequestCode.PUT_KV_CONFIG, value="v", **KV)
        assert name_server_text(await node.status()) == (
            f"name server 127.0.0.1:{port}: 1 broker, 2 topics"
        )
        broker.hang_up()
    assert (tmp_path / "n0" / "name_server" / "kvConfig.json").exists()
    async with actors.open_node(config, "n0"):
        operator = await call()
        found = await operator.ask(RequestCode.GET_KV_CONFIG, **KV)
        assert found.header.ext_fields == {"value": "v"}
        other = with_servers(f"n1 = {port}", text.replace('n1 = "127.0.0.2"', 'n1 = "127.0.0.1"'))
        with pytest.raises(
            ConfigError, match=f"name_servers.n1: cannot listen on 127.0.0.1:{port}"
        ):
            async with actors.open_node(other, "n1"):
                pass
        operator.hang_up()
