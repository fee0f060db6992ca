"""What clients, brokers and operators ask of routes, topics, the KV table and settings."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from namesrv_kit import Driven, golden_session, table

from actors.namesrv.core import settings
from actors.namesrv.core.name_server import Asked, not_saved
from actors.storage.files.stepping import finish
from wire.broker.codes import RequestCode
from wire.broker.dialect import BodyDecoder, encode_body
from wire.broker.java_json import quote_integer_keys
from wire.broker.routes import MemberGroupFound, QueueData, TopicList, TopicRouteData
from wire.dledger.files import decode_properties_file
from wire.remoting.header import Header

TOPICS = BodyDecoder(TopicList)
MEMBERS = BodyDecoder(MemberGroupFound)


@pytest.fixture
def server() -> Driven:
    found = Driven()
    found.register("x", "y")
    found.register("x", "y", broker_id=1)
    found.register("x", "z", broker="b", cluster="D")
    return found


def topics(server: Driven, code: int, **fields: object) -> tuple[str, ...]:
    answer = server.ask(code, **fields)
    assert answer.code == 0
    return TOPICS.decode(answer.body).topic_list


# ---- the recorded session ----

UNRECORDED = b',"1":"127.0.0.1:20931"'


@pytest.mark.checklist(9, 10, 11, 12, of="broker")
def test_a_recorded_session_is_answered_as_java_answered_it() -> None:
    """401 requests of a broker, its clients and mqadmin; `_comparable` has what differs."""
    server, compared = Driven(), 0
    for row in golden_session():
        if "end" in row:
            server.end(row["connection"])
            continue
        asked, reply = json.loads(row["header"]), json.loads(row["reply_header"])
        answer = server.serve(
            asked["code"], asked["version"], row["connection"], asked.get("extFields", {}),
            row["body"].encode(),
        )  # fmt: skip
        assert answer.code == reply["code"], row
        # Empty ones as well: a broker of 3.2.6 fails at the answer to its registration without.
        assert answer.fields == reply.get("extFields"), row
        remark = reply.get("remark", "").partition("\n")[0]
        assert (answer.remark or "") == remark, row
        assert _comparable(asked["code"], answer.body.decode()) == _comparable(
            asked["code"], row["reply_body"]
        ), row
        compared += 1
    assert compared == 401
    assert not server.core.tables.brokers, "the broker has unregistered"


def _comparable(code: int, body: str) -> Any:
    """A body without what may differ: quotes of ids, the order of lists that are sets, and a slave
    whose registrations were not recorded.
    """
    if code == RequestCode.GET_NAMESRV_CONFIG:
        return None  # Java's has many settings that mean nothing here
    if not body:
        return None
    found = json.loads(quote_integer_keys(body.encode()).replace(UNRECORDED, b""))
    if "topicList" in found:
        found["topicList"].sort()
    return found


# ---- routes ----


@pytest.mark.checklist(9, of="broker")
@pytest.mark.parametrize(
    ("version", "standard", "quoted"),
    [(400, False, False), (401, False, True), (0, True, True), (0, False, False)],
)
def test_ids_are_in_quotes_for_who_reads_json(
    server: Driven, version: int, standard: bool, quoted: bool
) -> None:
    fields = {"acceptStandardJsonOnly": True} if standard else {}
    answer = server.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, version=version, topic="y", ReqT="0", **fields
    )
    ids = b'{"0":"a:0","1":"a:1"}' if quoted else b'{0:"a:0",1:"a:1"}'
    assert answer.body == (
        b'{"brokerDatas":[{"brokerAddrs":%b,"brokerName":"a","cluster":"C",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"a",'
        b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}' % ids
    )


@pytest.mark.checklist(9, of="broker")
def test_an_unknown_topic_is_code_17(server: Driven) -> None:
    answer = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="nope")
    assert (answer.code, answer.body) == (17, b"")
    assert answer.remark == "No topic route info in name server for the topic: nope"


def test_a_route_names_the_queues_of_an_order_topic_if_that_is_on(server: Driven) -> None:
    server.ask(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="x", value="a:4;b:4")
    before = server.route("x")
    assert before is not None
    assert before.order_topic_conf is None
    server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    route = server.route("x")
    assert route is not None
    assert route.order_topic_conf == "a:4;b:4"


# ---- members and topics ----


@pytest.mark.checklist(10, of="broker")
def test_clusters_and_members(server: Driven) -> None:
    found = json.loads(server.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    assert found["clusterAddrTable"] == {"C": ["a"], "D": ["b"]}
    assert found["brokerAddrTable"]["a"] == {
        "brokerAddrs": {"0": "a:0", "1": "a:1"}, "brokerName": "a", "cluster": "C",
        "enableActingMaster": False,
    }  # fmt: skip
    fields = {"clusterName": "C", "brokerName": "a"}
    answer = server.ask(RequestCode.GET_BROKER_MEMBER_GROUP, **fields)
    assert MEMBERS.decode(answer.body).broker_member_group.broker_addrs == {0: "a:0", 1: "a:1"}
    answer = server.ask(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="C", brokerName="zz")
    assert answer.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"zz","cluster":"C"}}'
    )


@pytest.mark.checklist(10, of="broker")
def test_lists_of_topics(server: Driven) -> None:
    assert set(topics(server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)) == {"x", "y", "z"}
    assert set(topics(server, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="D")) == {"x", "z"}
    assert topics(server, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="E") == ()
    system = TOPICS.decode(server.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
    assert set(system.topic_list) == {"C", "D", "a", "b"}
    assert system.broker_addr in ("a:0", "a:1", "b:0")
    server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false")
    answer = server.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert (answer.code, answer.remark) == (1, "disable")


def test_lists_of_unit_topics(server: Driven) -> None:
    for flag, code in enumerate((None, "u", "s", "us")):
        if code is not None:
            queues = QueueData(
                broker_name="a", perm=6, read_queue_nums=1, topic_sys_flag=flag, write_queue_nums=1
            )
            body = encode_body(TopicRouteData(queue_datas=(queues,)))
            server.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic=code, body=body)
    assert topics(server, RequestCode.GET_UNIT_TOPIC_LIST) == ("u", "us")
    assert topics(server, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ("s", "us")
    assert topics(server, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ("s",)


@pytest.mark.checklist(12, of="broker")
def test_the_write_permission_is_taken_and_given_back(server: Driven) -> None:
    server.register(topics=table("x", "y", counter=2, perm=7))
    taken = server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="a")
    assert taken.fields == {"wipeTopicCount": "2"}
    assert server.perms("x") == {"a": 5, "b": 6}
    server.register(topics=table("x", "y", counter=2, perm=7))
    assert server.perms("x") == {"a": 5, "b": 6}, "not by a registration that changes nothing"
    given = server.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="a")
    assert given.fields == {"addTopicCount": "2"}
    assert server.perms("x") == {"a": 7, "b": 6}
    server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="a")
    server.register(topics=table("x", "y", counter=3, perm=6))
    assert server.perms("x") == {"a": 6, "b": 6}, "broker.md T7: the next write undoes it"
    none = server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="zz")
    assert none.fields == {"wipeTopicCount": "0"}


@pytest.mark.checklist(12, of="broker")
def test_a_topic_is_deleted_everywhere_or_in_a_cluster(server: Driven) -> None:
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="x", clusterName="D")
    assert set(server.addresses("x")) == {"a"}
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="x", clusterName="E")
    assert set(server.addresses("x")) == {"a"}
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="x")
    assert server.route("x") is None
    assert server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="x").code == 0
    server.register("x", "y")
    assert set(server.addresses("x")) == {"a"}, "a broker that has it brings it back"


def test_a_topic_alone_is_registered_for_brokers_that_are_known(server: Driven) -> None:
    queues = QueueData(broker_name="a", perm=6, read_queue_nums=3, write_queue_nums=3)
    other = QueueData(broker_name="zz", perm=6, read_queue_nums=3, write_queue_nums=3)
    body = encode_body(TopicRouteData(queue_datas=(queues, other)))
    assert server.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, topic="new", body=body).code == 0
    route = server.route("new")
    assert route is not None
    assert route.queue_datas == (queues,)


@pytest.mark.checklist(12, 71, of="broker")
@pytest.mark.parametrize("code", [0, 9, 17, 902, 903, 905, 9999, -1])
def test_an_unknown_code_is_answered_with_3(server: Driven, code: int) -> None:
    """broker.md T24: the name server of 4.9 leaves it unanswered."""
    answer = server.ask(code)
    assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


# ---- KV table and settings ----


@pytest.mark.checklist(11, of="broker")
def test_values_are_put_found_and_deleted(server: Driven) -> None:
    fields = {"namespace": "n", "key": "k"}
    absent = server.ask(RequestCode.GET_KV_CONFIG, **fields)
    assert (absent.code, absent.remark) == (22, "No config item, Namespace: n Key: k")
    assert server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="n").code == 22
    assert server.ask(RequestCode.PUT_KV_CONFIG, value="v", **fields).code == 0
    assert server.last.save is not None
    assert server.last.save.file == "kvConfig.json"
    assert server.last.save.data == b'{"configTable":{"n":{"k":"v"}}}', "as upstream's file"
    assert server.ask(RequestCode.GET_KV_CONFIG, **fields).fields == {"value": "v"}
    found = server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="n")
    assert found.body == b'{"table":{"k":"v"}}'
    assert server.ask(RequestCode.DELETE_KV_CONFIG, **fields).code == 0
    assert server.ask(RequestCode.GET_KV_CONFIG, **fields).code == 22
    assert server.ask(RequestCode.DELETE_KV_CONFIG, **fields).code == 0
    assert server.last.save is None


@pytest.mark.checklist(11, of="broker")
def test_what_is_saved_is_read_by_the_next_run(server: Driven) -> None:
    server.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="ä\n")
    assert server.last.save is not None
    kv = server.last.save.data
    server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true")
    assert server.last.save is not None
    again = Driven()
    again.core.read_files(kv, server.last.save.data)
    assert again.ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k").fields == {"value": "ä\n"}
    assert again.core.settings == server.core.settings
    assert again.route("x") is None, "routes are forgotten"


def test_what_cannot_be_saved_does_not_count(server: Driven) -> None:
    server.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="old")
    fields = {"namespace": "n", "key": "k", "value": "new"}
    header = Header(code=RequestCode.PUT_KV_CONFIG, ext_fields=fields)
    asked = Asked(header=header, connection=1)
    effects = finish(server.core.serve(asked, 0.0))
    assert effects.save is not None
    failed = not_saved(effects.save, "no room")
    assert failed.answer is not None
    assert (failed.answer.code, failed.answer.remark) == (1, "not saved: no room")
    assert server.ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k").fields == {"value": "old"}


def test_the_kv_table_has_a_bound(server: Driven) -> None:
    answer = server.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="k", value="v" * (4 << 20))
    assert answer.code == 1
    assert "4194304 bytes" in (answer.remark or "")
    assert server.ask(RequestCode.GET_KV_CONFIG, namespace="n", key="k").code == 22


def test_a_kv_table_that_is_too_large_may_be_made_smaller(
    server: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that an upstream name server has written."""
    monkeypatch.setattr(settings, "KV_BYTES_MAX", 60)
    stock = b'{"configTable":{"n":{"a":"%s","b":"%s"}}}' % (b"x" * 60, b"y" * 60)
    server.core.read_files(stock, None)
    refused = server.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="a", value="z")
    assert (refused.code, "more than 60 bytes" in (refused.remark or "")) == (1, True)
    for key in ("a", "b"):
        assert server.ask(RequestCode.DELETE_KV_CONFIG, namespace="n", key=key).code == 0
    assert server.core.kv == {}
    assert server.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="a", value="z").code == 0


def test_settings_are_shown_as_java_properties(server: Driven) -> None:
    body = server.ask(RequestCode.GET_NAMESRV_CONFIG).body
    found = decode_properties_file(body)
    java = next(
        row["reply_body"] for row in golden_session() if '"code":319' in row.get("header", "")
    )
    assert set(found) <= set(re.findall("^[^=]+", java, re.MULTILINE)), "upstream's names"
    assert found["listenPort"] == "9876"
    assert found["kvConfigPath"] == "/data/kvConfig.json"
    assert found["orderMessageEnable"] == "false"


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b"kvConfigPath=/x", 16, "kvConfigPath"),
        (b"configStorePath=/x", 16, "configStorePath"),
        (b"rocketmqHome=/x", 16, "rocketmqHome"),
        (b"configBlackList=x", 16, "configBlackList"),
        (b"orderMessageEnable=yes", 29, "true or false"),
        (b"supportActingMaster=true", 29, "supportActingMaster"),
        (b"nonsense=1", 29, "nonsense"),
        (b"half\\ud800=1", 29, "half"),
        (b"orderMessageEnable=true\nnonsense=1", 29, "nonsense"),
        (b"a=\\u12", 1, "unicode"),
    ],
)
def test_a_setting_that_would_not_act_is_refused(
    server: Driven, body: bytes, code: int, says: str
) -> None:
    answer = server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert answer.code == code
    assert says in (answer.remark or "")
    assert (answer.remark or "").encode(), "which half of a pair of characters could not be"
    assert server.last.save is None
    assert server.core.settings["orderMessageEnable"] is False


def test_all_settings_may_be_sent_back_as_they_were_shown(server: Driven) -> None:
    shown = server.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    kept = "".join(
        line for line in shown.splitlines(keepends=True)
        if not line.startswith(("configBlackList", "configStorePath", "kvConfigPath"))
    )  # fmt: skip
    kept = kept.replace("orderMessageEnable=false", "orderMessageEnable=true")
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=kept.encode()).code == 0
    assert server.core.settings["orderMessageEnable"] is True
