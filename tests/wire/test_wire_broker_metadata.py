"""What brokers say of topics, offsets and groups: a slave's requests answered, and files.

`golden/classic/*/wire/vip.*.bin` and `listen.*.bin` are the last round of requests that a real
slave sent to its real master's two ports, and the answers.
"""

import json
import re
from typing import Any

import golden_classic as golden
import pytest
from msgspec import Raw

from wire.broker import metadata
from wire.broker.java_json import JavaObject, Reader, encode, encode_pretty, quote_integer_keys
from wire.broker.topics import (
    DATA_VERSION,
    TOPIC_QUEUE_MAPPINGS,
    TOPIC_TABLE,
    DataVersion,
    TopicConfig,
    TopicTable,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.frame import Decoder

OF_CODE: dict[int, Reader[Any]] = {
    21: TOPIC_TABLE,
    43: metadata.CONSUMER_OFFSETS,
    45: metadata.DELAY_OFFSETS,
    201: metadata.GROUP_TABLE,
    402: metadata.REQUEST_MODES,
}
OF_FILE: dict[str, Reader[Any]] = {
    "topics.json": TOPIC_TABLE,
    "topicQueueMapping.json": TOPIC_QUEUE_MAPPINGS,
    "consumerOffset.json": metadata.CONSUMER_OFFSETS,
    "delayOffset.json": metadata.DELAY_OFFSETS,
    "subscriptionGroup.json": metadata.GROUP_TABLE,
    "messageRequestMode.json": metadata.REQUEST_MODES,
}
FILES = sorted(
    (version, node, path.name)
    for version in golden.VERSIONS
    for node in ("master", "slave", "late")
    for path in (golden.ROOT / version / node / "config").glob("*.json")
)
FRAMES_MAX = 1_000
"""More than a round of a slave's requests has."""
_GROUP_TOPICS = re.compile(rb'"groupTopicMap":\{[^}]*\},')


def answers(version: str) -> dict[int, bytes]:
    """The body of the answer to each code."""
    found: dict[int, bytes] = {}
    for port in ("vip", "listen"):
        requests, _ = Decoder().decode(golden.stream(version, port, "client"), FRAMES_MAX)
        replies, _ = Decoder().decode(golden.stream(version, port, "server"), FRAMES_MAX)
        bodies = {reply.header.opaque: reply.body for reply in replies}
        found |= {each.header.code: bodies[each.header.opaque] for each in requests}
    return found


def plain(text: bytes) -> Any:
    """A document as an independent reading has it, without what Java derives."""
    found = json.loads(re.sub(rb"([{,]\s*)(\d+)(\s*:)", rb'\1"\2"\3', text))
    found.pop("groupTopicMap", None)
    return found


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_answers_are_read_and_written_as_java_wrote_them(version: str) -> None:
    """The same bytes but for quotes around integer keys, and without what Java derives."""
    found = answers(version)
    assert set(found) == set(OF_CODE) - ({402} if version == "4.9.7" else set())
    for code, body in found.items():
        written = _GROUP_TOPICS.sub(b"", quote_integer_keys(body))
        assert encode(OF_CODE[code].decode(body)) == written


@pytest.mark.parametrize(("version", "node", "name"), FILES)
def test_files_are_read_and_written_with_the_same_content(
    version: str, node: str, name: str
) -> None:
    text = (golden.ROOT / version / node / "config" / name).read_bytes()
    found = OF_FILE[name].decode(text)
    assert plain(encode_pretty(found)) == plain(text)
    assert OF_FILE[name].decode(encode_pretty(found)) == found


def test_values_have_their_types() -> None:
    found = answers("5.3.3")
    topics = TOPIC_TABLE.decode(found[21])
    assert topics.topic_config_table["GoldenA"] == TopicConfig(
        topic_name="GoldenA", read_queue_nums=4, write_queue_nums=4, attributes={}
    )
    assert topics.data_version == DataVersion(counter=3, timestamp=1795199065631)
    offsets = metadata.CONSUMER_OFFSETS.decode(found[43])
    assert offsets.offset_table["GoldenA@C_drive"] == {0: 5, 1: 6, 2: 6, 3: 6}
    assert metadata.DELAY_OFFSETS.decode(found[45]).offset_table == {1: 1}
    groups = metadata.GROUP_TABLE.decode(found[201])
    assert groups.subscription_group_table["C_drive"].consume_timeout_minute == 15
    assert groups.subscription_group_table["C_drive"].more is None


# ---- versions ----


def test_versions_are_equal_if_all_numbers_are() -> None:
    version = DataVersion(counter=1, state_version=0, timestamp=7)
    assert version == DataVersion(counter=1, timestamp=7), "4.9 has no stateVersion"
    assert not version != DataVersion(counter=1, timestamp=7)  # noqa: SIM202
    assert len({version, DataVersion(counter=1, timestamp=7)}) == 1
    assert version != DataVersion(counter=2, state_version=0, timestamp=7)
    assert version != DataVersion(counter=1, state_version=1, timestamp=7)
    assert version != DataVersion(counter=1, state_version=0, timestamp=8)
    assert version != "version"


def test_a_change_makes_a_later_version() -> None:
    version = DataVersion(counter=1, state_version=2, timestamp=7)
    assert version.next(9) == DataVersion(counter=2, state_version=2, timestamp=9)
    assert version.next(5).key > version.key, "the clock was set back"
    assert DataVersion().next(9).state_version == 0, "a 5.x broker has one"


def test_a_version_is_written_with_the_numbers_it_had() -> None:
    for text in (b'{"counter":4,"timestamp":5}', b'{"counter":4,"stateVersion":0,"timestamp":5}'):
        assert encode(DATA_VERSION.decode(text)) == text


# ---- what a newer broker writes ----


def test_unknown_keys_are_kept_at_every_depth() -> None:
    text = (
        b'{"":{"x":1},"dataVersion":{"counter":1,"timestamp":2,"zone":[1,{"2":3}]},"more":{"a":1},'
        b'"topicConfigTable":{"t":{"liteTopics":{"0":"a"},"order":false,"perm":6,"readQueueNums":1,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":1}}}'
    )
    found = TOPIC_TABLE.decode(text.replace(b":", b" : ").replace(b'"0"', b"0"))
    assert encode(found) == text
    assert found.more == {"more": Raw(b'{"a":1}'), "": Raw(b'{"x":1}')}
    assert TOPIC_TABLE.decode(encode_pretty(found)) == found
    modes = b'{"messageRequestModeMap":{"t":{"g":{"mode":"POP","popShareQueueNum":2,"v":null}}}}'
    mode = metadata.REQUEST_MODES.decode(modes).message_request_mode_map["t"]["g"]
    assert mode == metadata.RequestMode(mode="POP", pop_share_queue_num=2)


@pytest.mark.parametrize("kept", [b'{"a":1,"a":2}', b'{"\\u0041":1}', b'"\xc3\xa9"', b"1e999"])
def test_what_is_kept_is_written_as_it_was(kept: bytes) -> None:
    """Also with a key twice, which is one line of a file then."""
    text = b'{"new":' + kept + b"}"
    found = TOPIC_TABLE.decode(text)
    assert found.more == {"new": Raw(kept)}
    assert kept in encode_pretty(found)
    assert TOPIC_TABLE.decode(encode_pretty(found)) == found


def test_java_reads_null_and_quoted_numbers() -> None:
    found = Reader(TopicConfig).decode(
        b'{"topicName":"t","perm":"4","order":null,"attributes":null}'
    )
    assert found == TopicConfig(topic_name="t", perm=4)
    assert TOPIC_TABLE.decode(b'{"topicConfigTable":{"t":null},"dataVersion":{"x":1}}') == (
        TopicTable(data_version=DataVersion())
    )


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":"{1:2,"}', b'{"a":"\\"{1:"}', b'{"a":[1,2],"b":-1}', b'{"a":"\\\\",  "b":1}',
        b'{"1":2}',
    ],
)  # fmt: skip
def test_only_integer_keys_are_put_into_quotes(text: bytes) -> None:
    assert quote_integer_keys(text) == text
    assert quote_integer_keys(b"{ 1 :" + text + b",-2:3}") == b'{ "1" :' + text + b',"-2":3}'


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"null", b"{", b"\xff{}", b'{"new":"\xab"}', b'{"new":{"\xab":1}}',
        b'{"topicQueueMappingDetailMap":{"t":"\xab"}}', b'{"topicConfigTable":[]}', b'{"x":' * 5000,
        b'{"topicConfigTable":{"t":{"perm":"x"}}}',
        b'{"topicConfigTable":{"t":{"perm":2147483648}}}',
        b'{"dataVersion":{"counter":9223372036854775808}}', b'{"\\ud800":1}',
        b'{"' + b'\\"' * 90_000,
    ],
)  # fmt: skip
def test_what_is_no_such_document_is_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^TopicTable: "):
        TOPIC_TABLE.decode(text)


def test_what_json_does_not_have_is_not_written() -> None:
    class Odd(JavaObject, frozen=True):
        value: object = None

    with pytest.raises(LocalProtocolError, match="cannot encode Odd"):
        encode(Odd(value=object()))


# ---- the timer checkpoint ----


def test_timer_checkpoints_of_either_length() -> None:
    data = b"".join(number.to_bytes(8) for number in range(1, 8))
    found = metadata.decode_timer_checkpoint(data)
    assert found == metadata.TimerCheckpoint(
        last_read_ms=1,
        last_log_flush_offset=2,
        last_queue_offset=3,
        master_queue_offset=4,
        data_version=DataVersion(state_version=5, timestamp=6, counter=7),
    )
    assert metadata.encode_timer_checkpoint(found) == data
    assert metadata.decode_timer_checkpoint(data.ljust(4096, b"\0")) == found
    assert metadata.decode_timer_checkpoint(data[:32]).data_version == DataVersion()
    with pytest.raises(RemoteProtocolError, match="31 bytes"):
        metadata.decode_timer_checkpoint(data[:31])
    with pytest.raises(LocalProtocolError, match="cannot encode"):
        metadata.encode_timer_checkpoint(metadata.TimerCheckpoint(last_read_ms=2**63))
