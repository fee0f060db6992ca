"""Registrations of brokers: their three forms, recorded ones, and what is refused."""

from __future__ import annotations

import gzip
import json
import pathlib
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from registering import encode_registration

from wire.broker import registration
from wire.broker.java_json import encode
from wire.broker.registration import (
    BrokerAddress,
    RegisterBroker,
    decode_registration,
    registration_crc,
)
from wire.broker.topics import DataVersion, TopicConfig, TopicTable
from wire.errors import RemoteProtocolError
from wire.remoting.header import Header, read_fields, write_fields

SESSION = pathlib.Path(__file__).parent.parent / "golden" / "broker" / "name-server-5.3.3.jsonl.gz"
VERSIONS = (37, 407, 479)


def recorded(code: int) -> list[tuple[dict[str, Any], bytes]]:
    """Headers and bodies of a recorded session's requests of a code."""
    lines = gzip.decompress(SESSION.read_bytes()).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    asked = [(json.loads(row["header"]), row["body"].encode()) for row in rows if "header" in row]
    return [(header, body) for header, body in asked if header["code"] == code]


def topic(name: str, **fields: Any) -> TopicConfig:
    return TopicConfig(topic_name=name, **fields)


def table(*topics: TopicConfig) -> TopicTable:
    version = DataVersion(counter=3, state_version=2, timestamp=1_795_782_647_232)
    return TopicTable(data_version=version, topic_config_table={t.topic_name: t for t in topics})


def packed(*parts: bytes | int) -> bytes:
    """A compressed body: lengths are put in front of bytes."""
    plain = b"".join(
        struct.pack(">i", part) if isinstance(part, int) else struct.pack(">i", len(part)) + part
        for part in parts
    )
    return zlib.compress(plain)


# ---- recorded ----


def test_recorded_registrations_are_read() -> None:
    found = recorded(103)
    assert len(found) == 50
    for header, body in found:
        said = read_fields(Header(ext_fields=header["extFields"]), RegisterBroker)
        assert write_fields(said) | {"compressed": "false"} == header["extFields"]
        assert said.body_crc32 == registration_crc(body)
        topics = decode_registration(body, compressed=False, version=header["version"])
        assert topics.topic_config_table
        assert topics.data_version.timestamp > 1_795_782_000_000
        again = encode_registration(topics, version=header["version"])
        assert json.loads(again) == json.loads(body)


def test_a_recorded_registration_says_what_it_says() -> None:
    header, body = recorded(103)[0]
    assert read_fields(Header(ext_fields=header["extFields"]), RegisterBroker) == RegisterBroker(
        body_crc32=927303188, broker_addr="127.0.0.1:20921", broker_id=0, broker_name="broker-a",
        cluster_name="DefaultCluster", enable_acting_master=False, ha_server_addr="127.0.0.1:20922",
    )  # fmt: skip
    topics = decode_registration(body, compressed=False, version=479).topic_config_table
    assert len(topics) == 13
    assert topics["TBW102"] == topic(
        "TBW102", attributes={}, perm=7, read_queue_nums=8, write_queue_nums=8
    )


def test_a_recorded_end_is_read() -> None:
    ((header, _),) = recorded(104)
    assert read_fields(Header(ext_fields=header["extFields"]), BrokerAddress) == BrokerAddress(
        broker_addr="127.0.0.1:20921", broker_id=0, broker_name="broker-a",
        cluster_name="DefaultCluster",
    )  # fmt: skip


# ---- forms ----


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_written_is_read(version: int, compressed: bool) -> None:
    topics = table(topic("a", perm=2), topic("b", read_queue_nums=0), topic("ü"))
    body = encode_registration(topics, compressed=compressed, version=version)
    assert decode_registration(body, compressed=compressed, version=version) == topics


@pytest.mark.parametrize("compressed", [False, True])
def test_attributes_are_kept(compressed: bool) -> None:
    topics = table(topic("a", attributes={"+message.type": "FIFO", "x": "1 2"}), topic("b"))
    body = encode_registration(topics, compressed=compressed, version=479)
    assert decode_registration(body, compressed=compressed, version=479) == topics


def test_the_compressed_form_is_as_java_reads_it() -> None:
    """The text form, five words without attributes: 4.9.7 refuses a sixth."""
    topics = table(topic("a", perm=7), topic("b", attributes={"k": "v"}))
    old = zlib.decompress(encode_registration(topics, compressed=True, version=407))
    new = zlib.decompress(encode_registration(topics, compressed=True, version=479))
    assert new == old + struct.pack(">i", 0)
    version = encode(topics.data_version)
    assert zlib.decompress(
        packed(version, 2, b"a 16 16 7 SINGLE_TAG", b'b 16 16 6 SINGLE_TAG {"k":"v"}', b"[]")
    ) == old  # fmt: skip


def test_the_oldest_form_is_the_table_alone() -> None:
    topics = table(topic("a"), topic("b"))
    assert decode_registration(encode(topics), compressed=False, version=36) == topics
    assert not decode_registration(encode(topics), compressed=False, version=37).topic_config_table


def test_no_body_is_no_topics() -> None:
    assert decode_registration(b"", compressed=False, version=479) == TopicTable()
    assert decode_registration(b"", compressed=True, version=479) == TopicTable()


def test_topics_have_the_names_that_they_bear() -> None:
    body = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":'
        b'{"a":{"topicName":"b","perm":2},"c":{"perm":4}}}}'
    )
    found = decode_registration(body, compressed=False, version=479).topic_config_table
    assert {name: each.perm for name, each in found.items()} == {"b": 2, "c": 4}


def test_keys_of_static_topics_are_read_in_java_s_form() -> None:
    """fastjson writes the integer keys of a mapping without quotes."""
    body = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{},'
        b'"topicQueueMappingDetailMap":{"s":{"hostedQueues":{0:[{"logicOffset":0}],1:[]}}}}}'
    )
    assert not decode_registration(body, compressed=False, version=479).topic_config_table


# ---- refused ----

_VERSION = encode(DataVersion())


@pytest.mark.parametrize(
    "body",
    [
        b"no zlib",
        zlib.compress(b""),
        zlib.compress(b"\0\0"),
        packed(_VERSION, 0, b"[]", 0)[:-1],
        packed(_VERSION, 0, b"[]", 0) + b"x",
        packed(_VERSION, 0, b"[]"),
        packed(_VERSION, 0, b"[]", 0, 0),
        packed(_VERSION, -1, b"[]", 0),
        packed(_VERSION, 2**31 - 1, b"[]", 0),
        packed(_VERSION, 1, b"[]", 0),
        packed(_VERSION, 1, b"a 1 1 6", b"[]", 0),
        packed(_VERSION, 1, b" 1 1 6 SINGLE_TAG", b"[]", 0),
        packed(_VERSION, 1, b"a x 1 6 SINGLE_TAG", b"[]", 0),
        packed(_VERSION, 1, b"a 1 1 99999999999 SINGLE_TAG", b"[]", 0),
        packed(_VERSION, 1, b"a 1,1 1 6 SINGLE_TAG", b"[]", 0),
        packed(_VERSION, 1, b"a 1 1 6 SINGLE_TAG {", b"[]", 0),
        packed(_VERSION, 1, b"\xff 1 1 6 SINGLE_TAG", b"[]", 0),
        packed(_VERSION, 1, b'{"topicName":"a"}', b"[]", 0),
        packed(_VERSION, 0, b"[]", -1),
        packed(_VERSION, 0, b"[]", 1),
        packed(b"{", 0, b"[]", 0),
    ],
)
def test_a_compressed_body_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_registration(body, compressed=True, version=479)
    assert "\n" not in str(caught.value)


def test_a_body_that_grows_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "PLAIN_BYTES_MAX", 100)
    body = packed(_VERSION, 1, b"a" * 200 + b" 1 1 6 SINGLE_TAG", b"[]", 0)
    with pytest.raises(RemoteProtocolError, match="more than 100 bytes"):
        decode_registration(body, compressed=True, version=479)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "brokerAddr"),
        ({"brokerId": "x"}, "brokerId"),
        ({"brokerId": str(2**63)}, "brokerId"),
        ({"compressed": "perhaps"}, "compressed"),
        ({"bodyCrc32": "3000000000"}, "bodyCrc32"),
    ],
)
def test_fields_of_another_type_are_named(fields: dict[str, str], says: str) -> None:
    others = {"brokerAddr": "h:1", "brokerId": "0", "brokerName": "a", "clusterName": "C",
              "haServerAddr": "h:2"}  # fmt: skip
    with pytest.raises(RemoteProtocolError, match=says):
        read_fields(Header(ext_fields={**others, **fields} if fields else {}), RegisterBroker)


names = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1, max_size=20)
ints = st.integers(-(2**31), 2**31 - 1)
topics_of = st.builds(
    TopicConfig, topic_name=names, perm=ints, read_queue_nums=ints, write_queue_nums=ints,
    attributes=st.none() | st.dictionaries(st.text(), st.text(), min_size=1, max_size=2),
)  # fmt: skip


@given(topics=st.lists(topics_of, max_size=4), compressed=st.booleans())
def test_any_table_round_trips(topics: list[TopicConfig], compressed: bool) -> None:
    said = table(*topics)
    body = encode_registration(said, compressed=compressed, version=479)
    assert decode_registration(body, compressed=compressed, version=479) == said
