"""Bodies and fields of what name servers answer: recorded ones, both forms of ids, properties."""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.broker import routes
from wire.broker.dialect import (
    Body,
    BodyDecoder,
    Fields,
    bare_integer_keys,
    encode_body,
)
from wire.broker.java_json import quote_integer_keys
from wire.broker.routes import BrokerData, QueueData, TopicRouteData, decode_route, encode_route
from wire.dledger.files import decode_properties_file
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.header import Header, read_fields, write_fields

SESSION = pathlib.Path(__file__).parent.parent / "golden" / "broker" / "name-server-5.3.3.jsonl.gz"

FIELDS: dict[int, type[Fields]] = {
    100: routes.KVValue, 101: routes.KVKey, 102: routes.KVKey, 205: routes.BrokerNamed,
    216: routes.TopicDeleted, 327: routes.BrokerNamed,
}  # fmt: skip
ANSWERS: dict[int, type[Fields]] = {205: routes.WipedTopics, 327: routes.AddedTopics}
READERS: dict[int, Callable[[bytes], Any]] = {
    103: routes.decode_kv_table, 105: decode_route, 106: BodyDecoder(routes.ClusterInfo).decode,
    206: BodyDecoder(routes.TopicList).decode,
}  # fmt: skip


def rows() -> list[tuple[dict[str, Any], dict[str, Any], str]]:
    """Of a recorded session: the request's header, the reply's and its body."""
    lines = gzip.decompress(SESSION.read_bytes()).decode().splitlines()
    found = [json.loads(line) for line in lines]
    return [
        (json.loads(row["header"]), json.loads(row["reply_header"]), row["reply_body"])
        for row in found
        if "header" in row
    ]


@pytest.mark.parametrize("code", FIELDS)
def test_recorded_fields_are_read_and_written(code: int) -> None:
    found = [asked["extFields"] for asked, _, _ in rows() if asked["code"] == code]
    assert found
    for fields in found:
        read = read_fields(Header(ext_fields=fields), FIELDS[code])
        absent = {"clusterName": ""} if code == 216 else {}
        assert write_fields(read) == {**absent, **fields}


@pytest.mark.parametrize("code", ANSWERS)
def test_recorded_answers_have_their_fields(code: int) -> None:
    (fields,) = [reply["extFields"] for asked, reply, _ in rows() if asked["code"] == code]
    assert write_fields(read_fields(Header(ext_fields=fields), ANSWERS[code])) == fields


@pytest.mark.parametrize("code", READERS)
def test_recorded_bodies_are_read(code: int) -> None:
    found = [body for asked, _, body in rows() if asked["code"] == code and body]
    assert found
    for body in found:
        read = READERS[code](body.encode())
        if isinstance(read, Body):
            assert bare_integer_keys(encode_body(read)) == bare_integer_keys(body.encode())
            assert READERS[code](encode_body(read)) == read


def test_a_recorded_route_for_a_client_that_asks_for_it_by_its_marker() -> None:
    asked = next(asked for asked, _, _ in rows() if "ReqT" in asked.get("extFields", {}))
    assert read_fields(Header(ext_fields=asked["extFields"]), routes.RouteAsked).topic == "TopicT"


# ---- ids as keys ----

ROUTE = TopicRouteData(
    broker_datas=(
        BrokerData(broker_addrs={0: "h:1", -1: 'x"0":{1:"2"', 2**62: "h:3"}, broker_name="1",
                   cluster='{"2":3}', zone_name="z"),
    ),
    order_topic_conf='1:4;"2":3',
    queue_datas=(QueueData(broker_name="1", perm=6, read_queue_nums=4, write_queue_nums=4),),
)  # fmt: skip


def test_both_forms_of_a_route_are_read_alike() -> None:
    bare, quoted = encode_route(ROUTE, version=400), encode_route(ROUTE, version=401)
    assert b'{0:"h:1",-1:' in bare
    assert b'{"0":"h:1","-1":' in quoted
    assert encode_route(ROUTE, version=400, standard_json=True) == quoted
    assert decode_route(bare) == decode_route(quoted) == ROUTE
    assert json.loads(quoted)["brokerDatas"][0]["brokerAddrs"]["-1"] == 'x"0":{1:"2"'


@given(st.recursive(st.text() | st.integers(),
                    lambda inner: st.dictionaries(st.text() | st.from_regex(r"\A-?[0-9]{1,3}\Z"),
                                                  inner)))  # fmt: skip
def test_only_keys_lose_their_quotes(value: Any) -> None:
    body = encode_body(value)
    assert quote_integer_keys(bare_integer_keys(body)) == body


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"brokerDatas":5}', b'{"brokerDatas":[{"brokerAddrs":{"x":""}}]}',
     b'{"a\\', b'{0:"', b"{" * 2000, b'"' * 3000, b'"\\' * 3000, b'{"queueDatas":[{"perm":1}]}',
     b'{"brokerDatas":[{"brokerAddrs":{9999999999999999999999:"a"},"brokerName":"","cluster":""}]}'],
)  # fmt: skip
def test_a_body_that_is_no_route_is_refused_in_one_line(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_route(body)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 200


def test_keys_that_are_not_known_are_skipped() -> None:
    assert decode_route(b'{"topicQueueMappingByBroker":{"a":{0:1}},"later":[]}') == TopicRouteData()


def test_what_cannot_be_written_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="QueueData"):
        encode_body(QueueData(broker_name="\ud800", perm=6, read_queue_nums=1, write_queue_nums=1))
    with pytest.raises(LocalProtocolError):
        encode_body(object())


def test_a_decoder_names_its_type() -> None:
    with pytest.raises(RemoteProtocolError, match="body of ClusterInfo: "):
        BodyDecoder(routes.ClusterInfo).decode(b"{}")


# ---- the rest ----


def test_the_file_of_the_kv_table_is_upstream_s() -> None:
    assert routes.decode_kv_config(b'{"configTable":{"n":{"k":"v"}}}') == {"n": {"k": "v"}}
    with pytest.raises(RemoteProtocolError):
        routes.decode_kv_config(b"")


@given(st.dictionaries(st.from_regex(r"\A[a-zA-Z]{1,9}\Z"), st.text(max_size=20)))
def test_properties_are_read_as_they_were_written(values: dict[str, str]) -> None:
    found = decode_properties_file(routes.encode_properties(values))
    java = {key: value.encode("utf-16-be", "surrogatepass") for key, value in found.items()}
    assert java == {key: value.encode("utf-16-be") for key, value in values.items()}
