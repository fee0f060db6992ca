"""What changed is told from node to node: the other end has all of it, and soon."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from metadata_kit import BROKER_PORT, NODES, FakeMaster, MetadataCluster, until
from test_metadata_nodes import GROUP, offset, topic

from actors.env import Env
from actors.env.protocols import Address
from actors.metadata.core.changes import (
    put_group,
    put_topic,
    remove_group,
    remove_topic,
    set_offsets,
)
from actors.metadata.core.increments import applied, increment
from actors.metadata.core.tables import Tables
from actors.metadata.watches import GATHER_S, HOLD_S
from actors.remoting.client import Call, RemotingClient
from actors.runtime import ChildSpec, SupervisorSpec, System, open_system
from actors.sim.world import World, open_world
from wire.broker.increments import INCREMENT, WATCH_METADATA, Increment
from wire.broker.java_json import encode
from wire.broker.metadata import (
    DelayOffsets,
    RequestMode,
    RequestModes,
    SubscriptionGroupConfig,
    TimerCheckpoint,
)
from wire.broker.topics import DataVersion, TopicConfig, TopicQueueMappings
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Frame

BOUND_S = 1.0
"""A slave of ours is at most so far behind."""
NAMES = st.sampled_from("abc")
CHANGES = st.one_of(
    st.builds(
        lambda name, perm: partial(put_topic, config=TopicConfig(topic_name=name, perm=perm)),
        NAMES,
        st.sampled_from([4, 6]),
    ),
    st.builds(lambda name: partial(remove_topic, topic=name), NAMES),
    st.builds(
        lambda name: partial(put_group, config=SubscriptionGroupConfig(group_name=name)), NAMES
    ),
    st.builds(lambda name: partial(remove_group, group=name, clean_offsets=True), NAMES),
    st.builds(
        lambda topic, group, queue, at: partial(
            set_offsets, offsets={f"{topic}@{group}": {queue: at}}
        ),
        NAMES,
        NAMES,
        st.integers(0, 1),
        st.integers(0, 3),
    ),
)


def crossed(told: Increment) -> Increment:
    """As it comes out of a frame's body."""
    return INCREMENT.decode(encode(told))


@given(rounds=st.lists(st.lists(CHANGES, max_size=4), max_size=5))
def test_the_other_end_has_the_same_state(rounds: list[list[Any]]) -> None:
    tables, told, copy = Tables(), None, Tables()
    for number, changes in enumerate(rounds):
        for change in changes:
            tables = change(tables, now_ms=number)
        copy = applied(copy, crossed(increment(told, tables, boot=1, number=number)))
        assert copy == tables
        told = tables


def test_every_kind_is_told() -> None:
    tables = Tables(
        queue_mappings=TopicQueueMappings(
            data_version=DataVersion(counter=1),
            topic_queue_mapping_info_map={"s": msgspec.Raw(b'{"bname":"b"}')},
        ),
        delay_offsets=DelayOffsets(data_version=DataVersion(), offset_table={1: 5}),
        request_modes=RequestModes(message_request_mode_map={"t": {"g": RequestMode(mode="POP")}}),
        timer_checkpoint=TimerCheckpoint(last_read_ms=5, data_version=DataVersion(counter=1)),
    )
    told = crossed(increment(None, tables, boot=1, number=1))
    assert told.full
    assert applied(Tables(timer_checkpoint=TimerCheckpoint(last_read_ms=9)), told) == tables
    nothing = increment(tables, tables, boot=1, number=1)
    assert encode(nothing) == b'{"boot":1,"full":false,"number":1}'
    assert applied(tables, nothing) == tables


def test_only_what_changed_is_told() -> None:
    tables = Tables()
    for name in "abc":
        tables = put_topic(tables, TopicConfig(topic_name=name), 1)
        tables = set_offsets(tables, {f"{name}@g": {0: 1, 1: 1}}, 1)
    later = set_offsets(remove_topic(tables, "a", 2), {"b@g": {1: 2}}, 2)
    told = increment(tables, later, boot=1, number=2)
    assert told.topics is not None
    assert not told.topics.topic_config_table
    assert told.consumer_offsets is not None
    assert told.consumer_offsets.offset_table == {"b@g": {0: 1, 1: 2}}
    assert told.removed == {"topics": ("a",), "consumer_offsets": ("a@g",)}
    assert told.groups is None


@pytest.mark.parametrize("text", ["x", "00", "é"])
def test_a_checkpoint_that_is_none_is_refused(text: str) -> None:
    told = Increment(boot=1, full=True, number=1, timer_checkpoint=text)
    with pytest.raises(RemoteProtocolError):
        applied(Tables(), told)


# ---- between nodes ----


async def test_each_change_is_on_the_slaves_within_the_bound(autojump_clock: object) -> None:
    async with open_world(1) as world:
        nodes = MetadataCluster(world)
        await nodes.start()
        await nodes.change(GROUP)
        rng = world.rng("test")
        for number in range(40):
            await trio.sleep(rng.random() * 2 * GATHER_S)
            await nodes.note(topic(f"t{number % 7}", perm=4 if number % 2 else 6))
            await nodes.note(offset("t0@g", number))
            await until(lambda number=number: nodes.offsets("n0").get("t0@g") == {0: number})  # type: ignore[misc]
            await nodes.until_equal(within_s=BOUND_S)


async def test_a_reset_arrives_and_a_restart_takes_nothing_back(autojump_clock: object) -> None:
    async with open_world(2) as world:
        nodes = MetadataCluster(world)
        await nodes.start()
        await nodes.change(offset("a@g", 9))
        await nodes.until_equal()
        await nodes.note(offset("a@g", 4))
        await until(lambda: nodes.offsets("n1") == {"a@g": {0: 4}}, BOUND_S)
        await nodes.change(offset("a@g", 7))
        world.node("n0").disk.faults.use_up_inodes(5.0)
        await nodes.note(offset("a@g", 8))  # which cannot be written
        await until(lambda: nodes.offsets("n1") == {"a@g": {0: 8}}, BOUND_S)
        await world.kill_node("n0")
        await trio.sleep(5.0)
        await nodes.start("n0")
        assert nodes.offsets("n0") == {"a@g": {0: 7}}
        await trio.sleep(10.0)
        assert nodes.offsets("n1") == {"a@g": {0: 8}}
        await nodes.note(offset("a@g", 6))
        await until(lambda: nodes.offsets("n1") == {"a@g": {0: 6}}, BOUND_S)


async def test_a_master_whose_answers_are_none_is_asked_seldom(autojump_clock: object) -> None:
    """Each of them is all that it has."""
    async with open_world(3) as world:
        nodes, master = MetadataCluster(world), FakeMaster(said={WATCH_METADATA: b"{"})
        await master.start(world)
        await nodes.start("n1")
        await trio.sleep(600.0)
        assert 10 < master.count(WATCH_METADATA) < 25
        tables = put_topic(Tables(), TopicConfig(topic_name="a"), now_ms=1)
        master.said[WATCH_METADATA] = increment(None, tables, boot=1, number=1)
        await until(lambda: nodes.topics("n1") == {"a"}, within_s=61.0)
        master.said[WATCH_METADATA], before = b"{", master.count(WATCH_METADATA)
        await trio.sleep(5.0)
        assert master.count(WATCH_METADATA) >= before + 3, "it begins at RETRY_S again"


async def test_a_quiet_master_is_asked_now_and_then(autojump_clock: object) -> None:
    """Nothing changes for an hour: four requests a minute, which say nothing."""
    async with open_world(3) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0", "n1")
        await nodes.change(topic("a"))
        await nodes.until_equal()
        await trio.sleep(3600.0)
        await nodes.note(topic("b"))
        await until(lambda: nodes.topics("n1") == {"a", "b"}, HOLD_S)


class Asker:
    """A client at the master's port that says what a test wants."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.system: System | None = None
        world.add_node("asker", "127.0.0.9")

    async def run(self, env: Env, task_status: trio.TaskStatus[System]) -> None:
        client = partial(RemotingClient, network=env.network)
        spec = SupervisorSpec(children=(ChildSpec(name="client", start=client),))
        async with open_system("asker", spec, rng=env.rng, events=env.events) as system:
            self.system = system
            task_status.started(system)
            await system.wait_ended()

    async def ask(self, **fields: str) -> Frame:
        assert self.system is not None
        ref = self.system.ref("/asker/client", Call)
        return await ref.ask(
            Frame,
            lambda reply_to: Call(
                address=Address(NODES["n0"], BROKER_PORT),
                code=WATCH_METADATA,
                ext_fields=fields,
                timeout_s=60.0,
                reply_to=reply_to,
            ),
            timeout_s=60.0,
        )


async def test_who_asks_for_what_it_was_not_told_is_told_everything(
    autojump_clock: object,
) -> None:
    async with open_world(4) as world:
        nodes, asker = MetadataCluster(world), Asker(world)
        await nodes.start("n0")
        await world.start_node("asker", asker.run)
        await nodes.change(topic("a"))
        first = INCREMENT.decode((await asker.ask()).body)
        assert first.full
        known = {"boot": str(first.boot), "number": str(first.number)}
        nothing = INCREMENT.decode((await asker.ask(**known)).body)
        assert (nothing.full, nothing.topics) == (False, None)
        await nodes.change(topic("b"))
        other = {**known, "number": str(first.number + 5)}
        assert INCREMENT.decode((await asker.ask(**other)).body).full
        refused = await asker.ask(number="x")
        assert refused.header.code == 1
        assert "number" in (refused.header.remark or "")


async def test_a_second_question_takes_the_place_of_the_first(autojump_clock: object) -> None:
    async with open_world(5) as world:
        nodes, asker = MetadataCluster(world), Asker(world)
        await nodes.start("n0")
        await world.start_node("asker", asker.run)
        told = INCREMENT.decode((await asker.ask()).body)
        known = {"boot": str(told.boot), "number": str(told.number)}
        codes = []

        async def ask() -> None:
            codes.append((await asker.ask(**known)).header.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(1.0)
            nursery.start_soon(ask)
            await trio.sleep(1.0)
            assert codes == [1]
            await nodes.change(topic("a"))
        assert codes == [1, 0]
