"""Keys about registration: which name servers, and under which address."""

from __future__ import annotations

import pytest
from refusals_kit import BASE, GROUP, HEAD, NODES, lines

from actors.config import ClusterConfig, check, loads
from actors.config.semantics import problems

PORT = "broker_port = 10911\n"
REMOTE = 'namesrv_addr = ["192.0.2.1:9876"]\n'
APART = NODES.replace("127.0.0.", "192.0.2.1")


def config(text: str) -> ClusterConfig:
    return loads(text, "f.toml")


@pytest.mark.parametrize(
    "found",
    ["a", "0.0.0.0:1", "127.0.0.1:0", "127.0.0.1:65536", "h:", ":1", "a..b:1", "-a:1", "a b:1",
     "127.0.0.300:1", "1:1", "a.1:1", f"{'a' * 64}:1", f"{'a.' * 127}b:1", "ä:1", "2001:db8::1",
     "[2001:db8::1]", "[2001:db8::1:1", "2001:db8::1]:1", "[127.0.0.1]:1", "[a]:1", "a:b:1",
     "[fe80::1%eth0]:1"],
)  # fmt: skip
def test_a_name_server_has_a_host_and_a_port(found: str) -> None:
    (line,) = lines(f'namesrv_addr = ["{found}"]\n' + BASE + PORT)
    assert line.startswith(
        "f.toml: key namesrv_addr: expected an IP address or a host name, and a port, such as"
        " 192.0.2.1:9876 or [2001:db8::1]:9876, found"
    )


def test_name_servers_may_have_host_names() -> None:
    """As containers have it; a name may be anywhere, so nothing that only this machine reaches."""
    names = 'namesrv_addr = ["Rocketmq_Namesrv:9876", "ns-1.mq.svc.:9876"]\n'
    found = config(names + HEAD + APART + GROUP + PORT)
    assert found.registers_with == (("rocketmq_namesrv", 9876), ("ns-1.mq.svc.", 9876))
    assert "with rocketmq_namesrv:9876, ns-1.mq.svc.:9876" in next(check.advertised(found))
    (line, *_) = lines(names + BASE + PORT)
    assert "expected an address that rocketmq_namesrv, a name server, and its clients" in line
    assert config('namesrv_addr = ["localhost:9876"]\n' + BASE + PORT)


def test_a_java_master_may_have_a_host_name_and_nobody_else() -> None:
    java = GROUP.replace('"n0"', '{ node = "n0", kind = "java" }')
    named = HEAD + NODES.replace("127.0.0.1", "broker-a.mq")
    found = config(named + java)
    assert found.nodes["n0"] == "broker-a.mq"
    assert "broker-a.mq" in check.render(found, {})
    expected = "an IP address of one host, such as 127.0.0.1 (a host name is for a Java master)"
    refused = [f'f.toml: key nodes.n0: expected {expected}, found "broker-a.mq"']
    assert lines(named + GROUP) == refused
    slave = GROUP.replace('"n0"', '"n1"').replace('["n1"', '[{ node = "n0", kind = "java" }')
    other = slave.replace("orders", "more") + "port = 10922\n"
    assert lines(named + java + other) == refused


def test_none_is_named_twice() -> None:
    (line,) = lines('namesrv_addr = ["127.0.0.9:1", "127.0.0.9:1"]\n' + BASE + PORT)
    assert "expected a list of different addresses" in line


def test_it_says_nothing_without_brokers() -> None:
    (line,) = lines('namesrv_addr = ["127.0.0.1:9876"]\n' + BASE)
    assert line.startswith(
        "f.toml: key namesrv_addr: expected nothing without a group's broker_port"
    )
    (line,) = lines(BASE + '[advertised]\nn0 = "127.0.0.4"\n')
    assert line.startswith("f.toml: key advertised.n0: expected nothing without a broker_port")


def test_a_loopback_address_is_refused_beside_a_name_server_elsewhere() -> None:
    found = lines(REMOTE + BASE + PORT)
    assert [line.partition(":")[2].split(":")[0] for line in found] == [
        f" key advertised.{node}" for node in ("n0", "n1", "n2")
    ]
    assert "expected an address that 192.0.2.1, a name server, and its clients reach" in found[0]


def test_an_address_of_no_host_is_refused() -> None:
    (line,) = lines(BASE + PORT + '[advertised]\nn0 = "0.0.0.0"\n')
    assert line.startswith("f.toml: key advertised.n0: expected an IP address of one host")


def test_what_is_advertised_is_printed() -> None:
    text = REMOTE + HEAD + APART + GROUP + PORT + '[advertised]\nn0 = "203.0.113.7"\n'
    found = config(text)
    assert not problems(found)
    assert list(check.advertised(found)) == [
        "group orders: n0 registers as 203.0.113.7:10911, for slaves 203.0.113.7:10912,"
        " with 192.0.2.1:9876",
        "group orders: n1 registers as 192.0.2.12:10911, for slaves 192.0.2.12:10912,"
        " with 192.0.2.1:9876",
        "group orders: n2 registers as 192.0.2.13:10911, for slaves 192.0.2.13:10912,"
        " with 192.0.2.1:9876",
    ]
    assert set(check.advertised(found)) <= set(check.warnings(found))


def test_name_servers_of_our_nodes_are_registered_with_too() -> None:
    found = config(
        'namesrv_addr = ["127.0.0.9:9876"]\n' + BASE + PORT + "[name_servers]\nn0 = 9876\n"
    )
    assert found.registers_with == (("127.0.0.1", 9876), ("127.0.0.9", 9876))


def test_slaves_have_different_ids() -> None:
    text = 'namesrv_addr = ["127.0.0.9:9876"]\n' + BASE + PORT + "[broker_ids]\n"
    found = config(text + "n1 = 7\n")
    assert found.slave_ids_of(found.groups["orders"]) == {"n1": 7, "n2": 2, "n0": 8}
    assert lines(text + "n1 = 2\n") == [
        "f.toml: key broker_ids.n1: expected an id of its own, not that of n2, found 2"
    ]
    (line,) = lines(text + "n1 = 0\n")
    assert line.startswith("f.toml: key broker_ids.n1: expected an integer from 1 to")
    (line,) = lines(text + "n9 = 1\n")
    assert line.startswith("f.toml: key broker_ids.n9: expected a member of a group that registers")


def test_slaves_may_be_told_another_address_than_clients() -> None:
    text = REMOTE + HEAD + APART + GROUP + PORT + '[advertised]\nn0 = "203.0.113.7"\n'
    found = config(text + '[advertised_ha]\nn0 = "10.0.0.7"\nn1 = "10.0.0.8"\n')
    first, second, *_ = check.advertised(found)
    assert first.startswith(
        "group orders: n0 registers as 203.0.113.7:10911, for slaves 10.0.0.7:10912, with"
    )
    assert second.startswith(
        "group orders: n1 registers as 192.0.2.12:10911, for slaves 10.0.0.8:10912, with"
    )
    hosts = [found.second_host_of(node) for node in ("n0", "n1", "n2")]
    assert hosts == ["203.0.113.7", None, None]
    assert config(text).second_host_of("n0") is None, "something forwards it, as ever"


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("127.0.0.9", "expected an address that 192.0.2.1, a name server, and its clients reach"),
        ("192.0.2.13", "expected an address of its own, not that of n2, found"),
        ("broker-a", "expected an IP address of one host, such as"),
    ],
)
def test_an_address_for_slaves_is_like_one_for_clients(address: str, line: str) -> None:
    text = REMOTE + HEAD + APART + GROUP + PORT + f'[advertised_ha]\nn0 = "{address}"\n'
    (found,) = lines(text)
    assert found.startswith(f"f.toml: key advertised_ha.n0: {line}")
    (found,) = lines(BASE + '[advertised_ha]\nn0 = "127.0.0.4"\n')
    assert found.startswith("f.toml: key advertised_ha.n0: expected nothing without a broker_port")


@pytest.mark.parametrize("other", ["203.0.113.7", "192.0.2.11"])
def test_two_members_of_a_group_advertise_two_addresses(other: str) -> None:
    """The second one is n0's in [nodes]."""
    text = REMOTE + HEAD + APART + GROUP + PORT + f'[advertised]\nn2 = "{other}"\n'
    known = 'n0 = "203.0.113.7"\n' if other.startswith("203.") else ""
    assert lines(text + known) == [
        "f.toml: key advertised.n2: expected an address of its own, not that of n0, found"
        f' "{other}"'
    ]
