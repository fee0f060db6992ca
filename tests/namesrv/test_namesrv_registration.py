"""How brokers come: the seven steps of a registration, and who is refused."""

from __future__ import annotations

import json
import zlib

import pytest
from msgspec import Raw
from namesrv_kit import Driven, table
from registering import encode_registration

from actors.events import namesrv as events
from actors.namesrv.core import tables
from actors.namesrv.core.name_server import Answer
from wire.broker.codes import RequestCode
from wire.broker.dialect import encode_body
from wire.broker.java_json import encode
from wire.broker.registration import (
    registration_crc,
)
from wire.broker.topics import DataVersion, TopicTable

VERSIONS = (407, 479)


@pytest.fixture
def server() -> Driven:
    return Driven()


@pytest.mark.checklist(1, 2, of="broker")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("compressed", [False, True])
def test_topics_are_in_routes_at_once(server: Driven, version: int, compressed: bool) -> None:
    answer = server.register("x", "y", version=version, compressed=compressed)
    assert (answer.code, answer.remark, answer.fields, answer.body) == (0, None, {}, b"")
    assert server.addresses("x") == server.addresses("y") == {"a": {0: "a:0"}}
    route = server.route("x")
    assert route is not None
    assert [(each.perm, each.read_queue_nums) for each in route.queue_datas] == [(6, 4)]


@pytest.mark.checklist(2, of="broker")
def test_a_body_with_blanks_is_read(server: Driven) -> None:
    body = encode_registration(table("x", "y"), version=479).replace(b":", b" : ")
    server.register("x", "y")
    fields = {
        "brokerName": "b",
        "brokerAddr": "b:0",
        "clusterName": "C",
        "haServerAddr": "h",
        "brokerId": 0,
    }
    assert server.ask(RequestCode.REGISTER_BROKER, body=body, **fields).code == 0
    assert set(server.addresses("x")) == {"a", "b"}


@pytest.mark.checklist(2, of="broker")
@pytest.mark.parametrize(("crc", "code"), [(0, 0), (5, 1), (None, 0)])
def test_a_crc_is_checked_unless_it_is_0(server: Driven, crc: int | None, code: int) -> None:
    right = registration_crc(encode_registration(table("x", "y"), version=479))
    answer = server.register("x", "y", bodyCrc32=right if crc is None else crc)
    assert answer.code == code
    assert answer.remark == ("crc32 not match" if code else None)
    assert bool(server.route("x")) is not bool(code)


def test_the_crc_of_java_has_no_highest_bit() -> None:
    body = next(bytes([n]) for n in range(256) if zlib.crc32(bytes([n])) >> 31)
    assert registration_crc(body) == zlib.crc32(body) - (1 << 31)


@pytest.mark.checklist(3, of="broker")
def test_the_first_registration_of_an_id_may_not_have_one_topic(server: Driven) -> None:
    """Upstream's step 3: a broker's whole table comes first (I#4522)."""
    refused = server.register("x")
    assert (refused.code, refused.remark) == (1, tables.FAILED)
    assert not server.core.tables.brokers
    assert server.register().code == 0
    assert server.register("x").code == 0
    assert server.register("x", broker_id=1).code == 1
    assert server.register("x", "y", broker_id=1).code == 0
    assert server.register("x", broker="b").code == 1
    assert server.register("x", "y", broker="b").code == 0
    assert isinstance(server.told[0], events.RegistrationRefused)


@pytest.mark.checklist(4, of="broker")
def test_a_slave_hears_of_a_master_that_lives(server: Driven) -> None:
    assert server.register("x", "y", broker_id=1).fields == {}
    server.register("x", "y")
    answer = server.register("x", "y", broker_id=1)
    assert answer.fields == {"haServerAddr": "ha-a:0", "masterAddr": "a:0"}
    assert server.register("x", "y").fields == {}
    server.end(server.core.tables.live["C", "a:0"].connection)
    assert server.register("x", "y", broker_id=1).fields == {}


@pytest.mark.checklist(4, of="broker")
def test_a_slave_beside_a_master_changes_no_topics(server: Driven) -> None:
    server.register("x", "y")
    server.register("x", "z", broker_id=1, topics=table("x", "z", perm=4), enableActingMaster=True)
    assert server.addresses("x") == {"a": {0: "a:0", 1: "a:1"}}
    assert server.perms("x") == {"a": 6}
    assert server.route("z") is None


@pytest.mark.parametrize(
    ("acting", "perms"), [(None, {}), (False, {"a": 6}), (True, {"a": 4})], ids=str
)
def test_a_slave_whose_master_is_away_writes_topics(
    server: Driven, acting: bool | None, perms: dict[str, int]
) -> None:
    """A 5.x slave does; with acting masters not to be written to."""
    more = {} if acting is None else {"enableActingMaster": acting}
    server.register("x", "y", broker_id=2, **more)
    assert server.perms("x") == perms
    server.register("x", "z", broker_id=3, **more)
    assert server.route("z") is None, "not the smallest id"


@pytest.mark.parametrize("acting", [False, True])
def test_a_candidate_of_dledger_changes_no_topics(server: Driven, acting: bool) -> None:
    """broker.md T6: with it, upstream made all topics read-only (I#7600)."""
    server.register("x", "y", enableActingMaster=acting)
    server.register("x", "y", broker_id=-1, enableActingMaster=acting)
    assert server.perms("x") == {"a": 6}
    assert server.addresses("x") == {"a": {-1: "a:-1", 0: "a:0"}}
    server.register("x", "q", broker_id=1, enableActingMaster=acting)
    assert server.route("q") is None


@pytest.mark.checklist(5, of="broker")
def test_a_promoted_slave_has_one_entry(server: Driven) -> None:
    server.register("x", "y")
    server.register("x", "y", broker_id=1)
    server.end(server.core.tables.live["C", "a:0"].connection)
    server.register("x", "y", "z", broker_id=0, address="a:1")
    assert server.addresses("x") == {"a": {0: "a:1"}}
    assert server.addresses("z") == {"a": {0: "a:1"}}
    assert [each.broker_id for each in server.told if isinstance(each, events.BrokerLeft)] == [0, 1]


def test_the_only_slave_of_a_name_is_promoted_and_keeps_its_topics(server: Driven) -> None:
    server.register("x", "y", broker_id=1, enableActingMaster=False)
    server.register("x", "z", broker_id=0, address="a:1", enableActingMaster=False)
    assert server.addresses("y") == server.addresses("z") == {"a": {0: "a:1"}}


def test_a_promotion_with_one_topic_is_refused_and_changes_nothing(server: Driven) -> None:
    server.register("x", "y", broker_id=1, enableActingMaster=False)
    assert server.register("x", broker_id=0, address="a:1").code == 1
    assert server.addresses("x") == {"a": {1: "a:1"}}


@pytest.mark.checklist(6, of="broker")
def test_an_older_state_of_another_address_is_ignored(server: Driven) -> None:
    server.register(topics=table("x", "y", state=5))
    answer = server.register(address="other", topics=table("q", "r", state=4))
    assert answer.code == 0
    assert server.addresses("x") == {"a": {0: "a:0"}}
    assert server.route("q") is None
    assert ("C", "other") not in server.core.tables.live
    server.register(address="other", topics=table("q", "r", state=5))
    assert server.addresses("x") == {"a": {0: "other"}}
    assert ("C", "a:0") not in server.core.tables.live


def test_topics_are_written_when_their_version_changes(server: Driven) -> None:
    server.register(topics=table("x", "y"))
    server.register(topics=table("x", "y", perm=4))
    assert server.perms("x") == {"a": 6}, "the version is the same"
    server.register(topics=table("x", "z", perm=4))
    assert server.perms("x") == {"a": 6}
    assert server.perms("z") == {"a": 4}, "it lacked this broker"
    server.register(topics=table("x", counter=2, perm=4, queues=8))
    assert server.perms("x") == {"a": 4}
    assert server.perms("y") == {"a": 6}, "what a table leaves out stays"


def test_a_topic_of_two_brokers_has_both_in_its_route(server: Driven) -> None:
    server.register("x", "y")
    server.register("x", "z", broker="b", cluster="D")
    assert server.addresses("x") == {"a": {0: "a:0"}, "b": {0: "b:0"}}
    assert server.addresses("y") == {"a": {0: "a:0"}}


def test_an_address_that_comes_with_another_name_leaves_the_first(server: Driven) -> None:
    server.register("x", "y")
    server.register("x", "z", broker="b", address="a:0")
    assert server.addresses("x") == {"b": {0: "a:0"}}
    assert server.route("y") is None
    assert list(server.core.tables.live) == [("C", "a:0")]


def test_a_name_belongs_to_one_cluster(server: Driven) -> None:
    server.register("x", "y")
    refused = server.register("x", "q", cluster="D", address="other")
    assert (refused.code, refused.remark) == (1, "the name a is taken in cluster C")
    assert server.route("q") is None
    assert server.register("x", "q", cluster="D").code == 0, "the same broker, moved"
    assert server.core.tables.clusters() == {"D": ("a",)}
    assert server.route("y") is None


def test_two_clusters_may_use_the_same_addresses(server: Driven) -> None:
    server.register("x", "y", address="10.0.0.1:1", connection=1)
    server.register("x", "y", broker="b", cluster="D", address="10.0.0.1:1", connection=2)
    server.end(1)
    assert server.addresses("x") == {"b": {0: "10.0.0.1:1"}}


def test_brokers_and_topics_have_bounds(server: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BROKERS_MAX", 2)
    monkeypatch.setattr(tables, "QUEUE_DATA_MAX", 5)
    server.register("x", "y")
    server.register("x", "y", broker="b")
    assert "no more are taken" in (server.register("x", "y", broker="c").remark or "")
    assert server.register("x", "y").code == 0
    assert "more than 5 topics" in (server.register("x", "u", "v").remark or "")
    assert server.register("x", "v", topics=table("x", "v", counter=2)).code == 0


@pytest.mark.parametrize("what", ["brokerName", "brokerAddr", "clusterName", "haServerAddr",
                                  "zoneName", "topic"])  # fmt: skip
def test_names_have_a_bound(server: Driven, what: str) -> None:
    """An attempt that changes nothing; else a few requests fill the memory."""

    def register(chars: int) -> Answer:
        fields = {"brokerName": "a", "brokerAddr": "a:0", "clusterName": "C", "haServerAddr": "h",
                  "brokerId": "0", what: "n" * chars}  # fmt: skip
        body = encode_registration(table("x", fields.pop("topic", "y")), version=479)
        return server.serve(RequestCode.REGISTER_BROKER, 479, 1, fields, body)

    refused = register(tables.NAME_CHARS_MAX + 1)
    assert (refused.code, refused.remark) == (1, "a name of more than 512 characters")
    assert not server.core.tables.live
    assert register(tables.NAME_CHARS_MAX).code == 0


def test_the_names_of_all_topics_have_a_bound(
    server: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "TOPIC_CHARS_MAX", 10)
    assert server.register("12345", "1234").code == 0
    assert "more than 10 characters" in (server.register("12", "1234").remark or "")
    route = encode_body(server.route("1234"))
    for topic in ("n" * (tables.NAME_CHARS_MAX + 1), "12"):
        answer = server.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic=topic, body=route)
        assert answer.code == (topic != "12")
        assert server.route(topic) is None
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="12345")
    assert server.register("12", "1234").code == 0


def test_of_a_version_only_its_numbers_are_kept(server: Driven) -> None:
    version = DataVersion(counter=1, state_version=2, timestamp=3, more={"x": Raw(b'"y"')})
    server.register(topics=TopicTable(data_version=version))
    answer = server.ask(
        RequestCode.QUERY_DATA_VERSION, brokerName="a", brokerAddr="a:0", clusterName="C",
        brokerId=0, body=encode(version),
    )  # fmt: skip
    assert answer.fields == {"changed": "false"}
    assert json.loads(answer.body) == {"counter": 1, "stateVersion": 2, "timestamp": 3}


@pytest.mark.parametrize("lacking", ["brokerName", "brokerAddr", "clusterName", "haServerAddr",
                                     "brokerId"])  # fmt: skip
def test_a_field_that_is_missing_is_named(server: Driven, lacking: str) -> None:
    fields = {"brokerName": "a", "brokerAddr": "h", "clusterName": "C", "haServerAddr": "h",
              "brokerId": "0"}  # fmt: skip
    del fields[lacking]
    answer = server.serve(RequestCode.REGISTER_BROKER, 479, 1, fields, b"")
    assert answer.code == 1
    assert lacking in (answer.remark or "")
    assert "\n" not in (answer.remark or "")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":5}', b"\0" * 9])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_that_is_none_is_refused(server: Driven, body: bytes, compressed: bool) -> None:
    fields = {
        "brokerName": "a",
        "brokerAddr": "h",
        "clusterName": "C",
        "haServerAddr": "h",
        "brokerId": 0,
    }
    answer = server.ask(RequestCode.REGISTER_BROKER, body=body, compressed=compressed, **fields)
    assert answer.code == 1
    assert answer.remark
    assert not server.core.tables.brokers


@pytest.mark.checklist(11, of="broker")
def test_the_answer_carries_order_topics(server: Driven) -> None:
    server.ask(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="a:4")
    assert server.register("x", "y").body == b'{"table":{"T":"a:4"}}'
    server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"returnOrderTopicConfigToBroker=false")
    assert server.register("x", "y").body == b""
