"""Operators change topics and groups at a master's port."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from operator_kit import operated

from wire.broker.codes import RequestCode
from wire.broker.java_json import Reader, encode
from wire.broker.metadata import SUBSCRIPTION_GROUP_CONFIG, SubscriptionGroupConfig
from wire.broker.topics import TopicConfig

UPDATE, DELETE = RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER
UPDATE_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
TOPIC = {
    "topic": "Ta", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "4",
    "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "true",
    "attributes": "+message.type=FIFO",
}  # fmt: skip
"""As mqadmin 5.3.3 says it."""


@pytest.mark.checklist(69, of="broker")
async def test_a_topic_is_made_changed_and_deleted(autojump_clock: object) -> None:
    async with operated("n0", "n1") as (_, nodes, operator):
        for _ in range(2):
            assert (await operator.ask(UPDATE, **TOPIC)).header.code == 0
            version = nodes.tables("n0").topics.data_version
            assert version.counter == 2, "the same again is no change"
        wanted = TopicConfig(
            topic_name="Ta", read_queue_nums=8, write_queue_nums=4, order=True,
            attributes={"message.type": "FIFO"},
        )  # fmt: skip
        found = await operator.ask(RequestCode.GET_TOPIC_CONFIG, topic="Ta")
        assert Reader(TopicConfig).decode(found.body) == wanted
        changed = {**TOPIC, "perm": "4", "attributes": "-message.type,+a=b=c"}
        assert (await operator.ask(UPDATE, **changed)).header.code == 0
        config = nodes.tables("n0").topics.topic_config_table["Ta"]
        assert (config.perm, config.attributes) == (4, {"a": "b=c"})
        await nodes.until_equal()
        assert nodes.topics("n1") == {"Ta"}
        for _ in range(2):
            assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        assert not nodes.topics("n0")
        found = await operator.ask(RequestCode.GET_TOPIC_CONFIG, topic="Ta")
        assert found.header.code == 17


@pytest.mark.checklist(69, of="broker")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "T" * 127}, 0),
        ({"topic": "T" * 128}, 29),
        ({"topic": "a b"}, 29),
        ({"topic": ""}, 29),
        ({"topic": "%RETRY%g|x-_"}, 0),
        ({"topic": "TBW102"}, 29),
        ({"topic": "rmq_sys_x"}, 29),
        ({"perm": "x"}, 1),
        ({"perm": "16"}, 29),
        ({"perm": "-1"}, 29),
        ({"readQueueNums": "65536"}, 0),
        ({"readQueueNums": "65537"}, 29),
        ({"writeQueueNums": "-1"}, 29),
        ({"readQueueNums": "3000000000"}, 1),
        ({"topicSysFlag": "3000000000"}, 1),
        ({"attributes": "message.type=FIFO"}, 29),
        ({"attributes": "+x"}, 29),
    ],
)
async def test_names_and_fields_are_checked(
    autojump_clock: object, change: dict[str, str], code: int
) -> None:
    async with operated() as (_, nodes, operator):
        asked: dict[str, Any] = {**TOPIC, **change}
        assert (await operator.ask(UPDATE, **asked)).header.code == code
        assert bool(nodes.topics("n0")) is (code == 0)
        asked = dict(TOPIC)
        del asked["readQueueNums"]
        refused = await operator.ask(UPDATE, **asked)
        assert refused.header.code == 1
        assert "readQueueNums" in (refused.header.remark or "")


async def test_changes_of_attributes_at_once_are_all_made(autojump_clock: object) -> None:
    """The second is asked for while the first is being written."""
    async with operated() as (world, nodes, operator):
        world.node("n0").disk.faults.slow_syncs(0.1, 5.0)
        async with trio.open_nursery() as nursery:
            for change in ("+a=1", "+b=2", "+c=3"):
                asked = {**TOPIC, "attributes": change}
                nursery.start_soon(partial(operator.ask, UPDATE, **asked))
        found = nodes.tables("n0").topics.topic_config_table["Ta"].attributes
        assert found == {"a": "1", "b": "2", "c": "3"}


async def test_a_group_is_made_and_deleted(autojump_clock: object) -> None:
    async with operated() as (_, nodes, operator):
        config = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
        assert (await operator.ask(UPDATE_GROUP, encode(config))).header.code == 0
        found = await operator.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")
        assert SUBSCRIPTION_GROUP_CONFIG.decode(found.body) == config
        assert (await operator.ask(UPDATE_GROUP, b"{")).header.code == 1
        bad = SubscriptionGroupConfig(group_name="a b")
        assert (await operator.ask(UPDATE_GROUP, encode(bad))).header.code == 29
        gone = await operator.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="g")
        assert gone.header.code == 0
        assert not nodes.tables("n0").groups.subscription_group_table
        found = await operator.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="g")
        assert found.header.code == 26


@pytest.mark.checklist(70, of="broker")
async def test_a_slave_refuses(autojump_clock: object) -> None:
    async with operated("n0", "n1") as (_, nodes, operator):
        refused = await operator.ask(UPDATE, at="n1", **TOPIC)
        assert refused.header.code == 16
        assert not nodes.topics("n1")


@pytest.mark.parametrize("prefix", ["%RETRY%", "%DLQ%"])
async def test_a_slave_leaves_a_groups_own_topics_to_its_master(
    autojump_clock: object, prefix: str
) -> None:
    """As mqadmin deleteSubGroup has every broker of a cluster delete them."""
    async with operated("n0", "n1") as (_, nodes, operator):
        topic = f"{prefix}g"
        assert (await operator.ask(UPDATE, **{**TOPIC, "topic": topic})).header.code == 0
        await trio.sleep(5.0)
        assert set(nodes.topics("n1")) == {topic}
        deleted = await operator.ask(DELETE, at="n1", topic=topic)
        assert deleted.header.code == 0
        assert set(nodes.topics("n1")) == set(nodes.topics("n0")) == {topic}
        assert (await operator.ask(DELETE, topic=topic)).header.code == 0
        await trio.sleep(5.0)
        assert not nodes.topics("n1")
        assert (await operator.ask(DELETE, at="n1", topic="Ta")).header.code == 16


async def test_a_full_disk_is_said(autojump_clock: object) -> None:
    async with operated() as (world, nodes, operator):
        world.node("n0").disk.faults.use_up_inodes(60.0)
        refused = await operator.ask(UPDATE, **TOPIC)
        assert refused.header.code == 1
        remark = refused.header.remark or ""
        assert remark.startswith("nothing is changed: no room: "), remark
        assert not nodes.topics("n0")


async def test_several_topics_are_made_together_or_not_at_all(autojump_clock: object) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    async with operated("n0", "n1") as (_, nodes, operator):
        body = (
            b'{"topicConfigList":[{"topicName":"a","attributes":{"+message.type":"FIFO"}},'
            b'{"topicName":"b","perm":4,"readQueueNums":3,"writeQueueNums":3}]}'
        )
        for _ in range(2):
            assert (await operator.ask(code, body)).header.code == 0
        rows = nodes.tables("n0").topics.topic_config_table
        assert rows["a"].attributes == {"message.type": "FIFO"}
        assert (rows["b"].perm, rows["b"].read_queue_nums) == (4, 3)
        bad = b'{"topicConfigList":[{"topicName":"c"},{"topicName":"no blank"}]}'
        assert (await operator.ask(code, bad)).header.code == 29
        bad = b'{"topicConfigList":[{"topicName":"c","writeQueueNums":-1}]}'
        assert (await operator.ask(code, bad)).header.code == 29
        assert (await operator.ask(code, b"{")).header.code == 1
        assert (await operator.ask(code, body, at="n1")).header.code == 16
        assert nodes.topics("n0") == {"a", "b"}
