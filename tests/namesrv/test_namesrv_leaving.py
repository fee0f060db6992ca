"""How brokers go: by their word, with their connection, by silence."""

from __future__ import annotations

import pytest
from namesrv_kit import Driven

from actors.events import namesrv as events
from wire.broker.codes import RequestCode
from wire.broker.java_json import encode
from wire.broker.topics import DATA_VERSION, DataVersion


@pytest.fixture
def server() -> Driven:
    found = Driven()
    found.register("x", "y")
    found.register("x", "y", broker_id=1)
    found.register("x", "z", broker="b")
    return found


def gone(server: Driven) -> list[tuple[str, int, str]]:
    left = [each for each in server.told if isinstance(each, events.BrokerLeft)]
    return [(each.broker, each.broker_id, each.reason) for each in left]


def heartbeat(server: Driven, address: str) -> None:
    fields = {"brokerAddr": address, "clusterName": "C", "brokerName": address[0]}
    assert server.ask(RequestCode.BROKER_HEARTBEAT, **fields).code == 0


def test_a_broker_that_stops_says_so(server: Driven) -> None:
    assert server.unregister("b").code == 0
    assert server.addresses("x") == {"a": {0: "a:0", 1: "a:1"}}
    assert server.route("z") is None
    assert server.unregister("b").code == 0, "also for whom is not known"
    assert gone(server) == [("b", 0, "unregistered")]


@pytest.mark.parametrize("fields", [{"brokerAddr": "b:9"}, {"brokerName": "a"},
                                    {"clusterName": "D"}], ids=str)  # fmt: skip
def test_only_the_registered_address_can_be_unregistered(
    server: Driven, fields: dict[str, str]
) -> None:
    said = {"brokerAddr": "b:0", "brokerName": "b", "clusterName": "C", "brokerId": "0", **fields}
    assert server.ask(RequestCode.UNREGISTER_BROKER, **said).code == 0
    assert server.route("z") is not None


@pytest.mark.checklist(7, of="broker")
def test_a_lost_connection_removes_at_once(server: Driven) -> None:
    server.end(server.core.tables.live["C", "a:0"].connection)
    assert server.addresses("x") == {"a": {1: "a:1"}, "b": {0: "b:0"}}
    assert server.perms("y") == {"a": 6}, "consumers go on at the slave"
    server.end(server.core.tables.live["C", "a:1"].connection)
    assert server.addresses("x") == {"b": {0: "b:0"}}
    assert server.route("y") is None
    server.end(server.core.tables.live["C", "b:0"].connection)
    assert server.core.tables.clusters() == {}
    assert not server.core.tables.topics
    assert gone(server) == [(*each, "connection ended") for each in (("a", 0), ("a", 1), ("b", 0))]


@pytest.mark.checklist(7, of="broker")
def test_a_connection_ends_all_that_registered_on_it(server: Driven) -> None:
    server.register("x", "y", broker="c", connection=7)
    server.register("x", "y", broker="d", connection=7)
    server.end(7)
    assert set(server.addresses("x")) == {"a", "b"}


def test_an_older_connection_takes_nothing_with_it(server: Driven) -> None:
    older = server.core.tables.live["C", "b:0"].connection
    server.register("x", "z", broker="b", connection=older + 1)
    server.end(older)
    assert "b" in server.addresses("x")
    server.end(older + 1)
    assert "b" not in server.addresses("x")


@pytest.mark.parametrize("acting", [False, True])
def test_without_its_master_an_acting_group_is_read_only(server: Driven, acting: bool) -> None:
    for broker_id in (0, 1):
        server.register("u", "v", broker="c", broker_id=broker_id, enableActingMaster=acting)
    server.unregister("c")
    assert server.perms("u") == {"c": 4 if acting else 6}
    server.register("u", "v", broker="c", enableActingMaster=acting)
    assert server.perms("u") == {"c": 6}


@pytest.mark.checklist(8, of="broker")
def test_silence_of_120_s_removes(server: Driven) -> None:
    server.pass_s(120)
    assert set(server.addresses("x")) == {"a", "b"}
    server.register("x", "z", broker="b")
    connections = {server.core.tables.live["C", f"a:{each}"].connection for each in (0, 1)}
    server.pass_s(1)
    assert set(server.last.close) == connections
    assert set(server.addresses("x")) == {"b"}
    assert gone(server) == [("a", 0, "expired"), ("a", 1, "expired")]


@pytest.mark.checklist(8, of="broker")
def test_a_heartbeat_and_a_question_for_the_version_renew(server: Driven) -> None:
    server.pass_s(100)
    heartbeat(server, "a:0")
    fields = {"brokerAddr": "b:0", "clusterName": "C", "brokerName": "b", "brokerId": 0}
    version = encode(DataVersion(counter=1, timestamp=1))
    answer = server.ask(RequestCode.QUERY_DATA_VERSION, body=version, **fields)
    assert (answer.code, answer.fields) == (0, {"changed": "false"})
    server.pass_s(21)
    assert server.addresses("x") == {"a": {0: "a:0"}, "b": {0: "b:0"}}
    server.pass_s(100)
    assert server.addresses("x") == {}


def test_another_version_is_said_to_be_one(server: Driven) -> None:
    fields = {"brokerAddr": "b:0", "clusterName": "C", "brokerName": "b", "brokerId": 0}
    asked = encode(DataVersion(counter=2, timestamp=1))
    answer = server.ask(RequestCode.QUERY_DATA_VERSION, body=asked, **fields)
    assert answer.fields == {"changed": "true"}
    assert DATA_VERSION.decode(answer.body) == DataVersion(counter=1, timestamp=1)
    fields["brokerAddr"] = "unknown"
    answer = server.ask(RequestCode.QUERY_DATA_VERSION, body=asked, **fields)
    assert (answer.code, answer.fields, answer.body) == (0, {"changed": "true"}, b"")


def test_a_heartbeat_of_whom_is_not_known_registers_nobody(server: Driven) -> None:
    heartbeat(server, "c:0")
    assert ("C", "c:0") not in server.core.tables.live


def test_a_registration_says_how_long_it_lives(server: Driven) -> None:
    server.register("q", "r", broker="c", heartbeatTimeoutMillis=5000)
    server.pass_s(5)
    assert server.route("q") is not None
    server.pass_s(1)
    assert server.route("q") is None
    server.register("q", "r", broker="c")
    server.pass_s(6)
    assert server.route("q") is not None


def test_what_was_removed_comes_back_with_the_next_registration(server: Driven) -> None:
    server.pass_s(121)
    assert server.route("x") is None
    server.register("x", "y")
    assert server.addresses("x") == {"a": {0: "a:0"}}
