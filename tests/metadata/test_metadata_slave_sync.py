"""A slave of ours and a master that answers as a Java broker does, or worse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from metadata_kit import BROKER_PORT, VIP_PORT, FakeMaster, MetadataCluster

from actors.metadata.slave_sync import ROUND_S
from actors.sim.world import World, open_world
from wire.broker.codes import RequestCode
from wire.broker.metadata import (
    ConsumerOffsets,
    DelayOffsets,
    GroupTable,
    RequestMode,
    RequestModes,
    SubscriptionGroupConfig,
    TimerCheckpoint,
    TimerMetric,
    TimerMetrics,
    encode_timer_checkpoint,
)
from wire.broker.topics import DataVersion, TopicConfig, TopicTable
from wire.files.properties import DELAY_LEVELS

TOPICS = RequestCode.GET_ALL_TOPIC_CONFIG
OFFSETS = RequestCode.GET_ALL_CONSUMER_OFFSET
DELAYS = RequestCode.GET_ALL_DELAY_OFFSET
GROUPS = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
MODES = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
METRICS = RequestCode.GET_TIMER_METRICS
CHECKPOINT = RequestCode.GET_TIMER_CHECK_POINT
BOOT = RequestCode.GET_BROKER_RUNTIME_INFO
CONFIG = RequestCode.GET_BROKER_CONFIG


def topics(counter: int, *names: str) -> TopicTable:
    rows = {name: TopicConfig(topic_name=name) for name in names}
    return TopicTable(data_version=DataVersion(counter=counter), topic_config_table=rows)


def offsets(**table: dict[int, int]) -> ConsumerOffsets:
    return ConsumerOffsets(offset_table={f"{key}@g": queues for key, queues in table.items()})


def of_4x() -> FakeMaster:
    """What a 4.x master answers."""
    groups = GroupTable(
        data_version=DataVersion(counter=1),
        subscription_group_table={"g": SubscriptionGroupConfig(group_name="g")},
    )
    return FakeMaster(
        {
            TOPICS: topics(2, "a", "b"),
            OFFSETS: offsets(a={0: 5}),
            DELAYS: b'{"offsetTable":{1:1}}',
            GROUPS: groups,
        }
    )


@asynccontextmanager
async def beside(master: FakeMaster, *ports: int) -> AsyncIterator[tuple[World, MetadataCluster]]:
    async with open_world(1) as world:
        nodes = MetadataCluster(world, java=True)
        await master.start(world, *ports)
        await nodes.start("n1")
        yield world, nodes


async def rounds(count: int = 1) -> None:
    await trio.sleep(count * ROUND_S + 0.5)


@pytest.mark.checklist(49, 51, 55)
async def test_a_slave_asks_for_each_kind_at_its_port(autojump_clock: object) -> None:
    master = of_4x()
    async with beside(master) as (_, nodes):
        await trio.sleep(0.5)
        assert nodes.topics("n1") == {"a", "b"}
        assert nodes.offsets("n1") == {"a@g": {0: 5}}
        assert nodes.tables("n1").delay_offsets == DelayOffsets(offset_table={1: 1})
        assert set(nodes.tables("n1").groups.subscription_group_table) == {"g"}
        ports = {code: port for port, code in master.asked}
        assert ports == {
            **dict.fromkeys((BOOT, OFFSETS, DELAYS, GROUPS, MODES, CONFIG), BROKER_PORT),
            **dict.fromkeys((TOPICS, METRICS, CHECKPOINT), VIP_PORT),
        }
        await rounds(3)
        assert master.count(TOPICS) == 4
        assert master.count(MODES) == 1, "it said that it does not know them"
        assert master.count(CHECKPOINT) == 1


async def test_a_5x_master_has_six_kinds_and_a_checkpoint(autojump_clock: object) -> None:
    master = of_4x()
    modes = RequestModes(message_request_mode_map={"a": {"g": RequestMode(mode="POP")}})
    metrics = TimerMetrics(
        data_version=DataVersion(counter=1), timing_count={"a": TimerMetric(count=1)}
    )
    checkpoint = TimerCheckpoint(last_read_ms=5, data_version=DataVersion(counter=1))
    master.said |= {
        MODES: modes,
        METRICS: metrics,
        CHECKPOINT: encode_timer_checkpoint(checkpoint),
    }
    async with beside(master) as (_, nodes):
        await trio.sleep(9.5)
        tables = nodes.tables("n1")
        assert (tables.request_modes, tables.timer_metrics) == (modes, metrics)
        assert tables.timer_checkpoint == checkpoint
        assert master.count(CHECKPOINT) == 4, "every 3 s"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (b"brokerId=0\nmessageDelayLevel=2s 6s 3d\nx=1\n", 1),
        (b"messageDelayLevel=%b\n" % DELAY_LEVELS.encode(), 0),
        (b"messageDelayLevels=2s\nbrokerId=0\n", 0),
        (b"", 0),
        (1, 0),
    ],
)
async def test_a_master_with_other_delay_levels_is_told_of(
    autojump_clock: object, config: bytes | int, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each run is asked, for it may have been given them at its start; they are named once."""
    master = of_4x()
    master.said[CONFIG] = config
    async with beside(master) as (_, nodes):
        await rounds(3)
        assert master.count(CONFIG) == 1
        master.boot = 2
        await rounds(3)
        assert master.count(CONFIG) == 2
        assert nodes.offsets("n1") == {"a@g": {0: 5}}
        found = [each.getMessage() for each in caplog.records if "delay" in each.getMessage()]
        assert len(found) == said
        assert all("has messageDelayLevel=2s 6s 3d, this group" in each for each in found)


@pytest.mark.checklist(50)
@pytest.mark.parametrize("code", [TOPICS, OFFSETS, DELAYS, GROUPS, BOOT])
@pytest.mark.parametrize("answer", [1, b"{", b'{"dataVersion":[]}'])
async def test_a_kind_that_fails_stops_no_other(
    autojump_clock: object, code: RequestCode, answer: bytes | int, caplog: pytest.LogCaptureFixture
) -> None:
    master = of_4x()
    good = master.said.get(code)
    master.said[code] = answer
    async with beside(master) as (_, nodes):
        await rounds(3)
        said = [record for record in caplog.records if "asked for again" in record.getMessage()]
        assert len(said) == 1, "once"
        assert (nodes.topics("n1") == {"a", "b"}) is (code is not TOPICS)
        assert (nodes.offsets("n1") == {"a@g": {0: 5}}) is (code is not OFFSETS)
        assert ("g" in nodes.tables("n1").groups.subscription_group_table) is (code is not GROUPS)
        if good is None:
            del master.said[code]
        else:
            master.said[code] = good
        await rounds()
        assert nodes.topics("n1") == {"a", "b"}
        assert nodes.offsets("n1") == {"a@g": {0: 5}}
        assert nodes.views["n1"].asked["topics"][1] == ""


@pytest.mark.checklist(54)
async def test_a_master_that_restarts_with_older_offsets_takes_none_back(
    autojump_clock: object,
) -> None:
    """T21. A reset while it runs arrives."""
    master = of_4x()
    async with beside(master) as (world, nodes):
        await rounds()
        await world.kill_node("n0")
        master.boot, master.said[OFFSETS] = 2, offsets(a={0: 3})
        await master.start(world)
        await rounds(3)
        assert nodes.offsets("n1") == {"a@g": {0: 5}}
        master.said[OFFSETS] = offsets(a={0: 1})
        await rounds(2)
        assert nodes.offsets("n1") == {"a@g": {0: 1}}, "it has itself gone back"


@pytest.mark.parametrize("behind", [BOOT, TOPICS, OFFSETS, DELAYS])
async def test_offsets_of_a_round_in_which_the_master_restarted_go_nowhere_back(
    autojump_clock: object, behind: RequestCode
) -> None:
    """It restarts behind one of the questions of a round."""
    master = of_4x()
    async with beside(master) as (_, nodes):
        await rounds()
        master.said[OFFSETS] = offsets(a={0: 6})

        def restart() -> None:
            master.boot, master.said[OFFSETS] = 2, offsets(a={0: 3})

        master.then[behind] = restart
        said = 5 if behind in (BOOT, TOPICS) else 6
        for _ in range(3):
            await rounds()
            assert nodes.offsets("n1") == {"a@g": {0: said}}
        assert not master.then


async def test_a_reset_arrives_also_where_the_master_came_back_with_equal_offsets(
    autojump_clock: object,
) -> None:
    master = of_4x()
    async with beside(master) as (_, nodes):
        await rounds(2)
        master.boot = 2
        await rounds(2)
        master.said[OFFSETS] = offsets(a={0: 1})
        await rounds()
        assert nodes.offsets("n1") == {"a@g": {0: 1}}


async def test_another_master_is_asked_for_what_the_last_one_did_not_know(
    autojump_clock: object,
) -> None:
    master = of_4x()
    async with beside(master) as (_, nodes):
        await rounds()
        modes = RequestModes(message_request_mode_map={"a": {"g": RequestMode(mode="POP")}})
        master.boot, master.said[MODES] = 2, modes
        await rounds()
        assert nodes.tables("n1").request_modes == modes


@pytest.mark.checklist(53)
async def test_an_empty_answer_of_a_master_that_began_anew_takes_no_topic(
    autojump_clock: object,
) -> None:
    """T1."""
    master = of_4x()
    async with beside(master) as (world, nodes):
        await rounds()
        await world.kill_node("n0")
        master.boot, master.said[TOPICS] = 2, topics(0)
        await master.start(world)
        await rounds(2)
        assert nodes.topics("n1") == {"a", "b"}
        master.said[TOPICS] = topics(1, "c")
        await rounds()
        assert nodes.topics("n1") == {"a", "b", "c"}


async def test_topics_are_asked_for_at_the_port_where_there_is_an_answer(
    autojump_clock: object,
) -> None:
    """A firewall may forget listenPort - 2."""
    master = of_4x()
    async with beside(master, BROKER_PORT) as (_, nodes):
        await rounds(2)
        assert nodes.topics("n1") == {"a", "b"}


async def test_a_master_that_comes_late_is_found(autojump_clock: object) -> None:
    master = of_4x()
    async with open_world(1) as world:
        nodes = MetadataCluster(world, java=True)
        await nodes.start("n1")
        await rounds(2)
        assert not nodes.topics("n1")
        await master.start(world)
        await rounds(2)
        assert nodes.topics("n1") == {"a", "b"}
