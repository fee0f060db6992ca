"""Nodes with metadata in a simulated world: what a master changes, and its slaves have."""

from __future__ import annotations

import errno
from functools import partial
from typing import Any

import pytest
import trio
from metadata_kit import FOLDER, NODES, MetadataCluster, put_lone_topic, topics_in, until

from actors.env import Env
from actors.errors import StorageError
from actors.events.runtime import ChildKilled
from actors.metadata.config_folder import ConfigFolder
from actors.metadata.core import kinds
from actors.metadata.core.changes import put_group, put_topic, remove_topic, set_offsets
from actors.metadata.core.kinds import Kind
from actors.metadata.core.tables import Tables
from actors.metadata.keeper import WRITE_WITHIN_S, Adopt, Message, MetadataKeeper
from actors.metadata.view import MetadataView
from actors.runtime import ChildSpec, SupervisorSpec, System, open_system
from actors.sim.world import open_world
from actors.storage.files.room import NoRoom
from actors.trees.node import STORAGE_SHUTDOWN_S
from wire.broker.metadata import SubscriptionGroupConfig
from wire.broker.topics import TopicConfig

LONG_S = 3600.0


def topic(name: str, perm: int = 6) -> partial[Tables]:
    return partial(put_topic, config=TopicConfig(topic_name=name, perm=perm))


def offset(key: str, *offsets: int) -> partial[Tables]:
    return partial(set_offsets, offsets={key: dict(enumerate(offsets))})


GROUP = partial(put_group, config=SubscriptionGroupConfig(group_name="g"))


def on_disk(nodes: MetadataCluster, name: str) -> Tables:
    return ConfigFolder(nodes.world.node(name).disk, FOLDER.format(name), name).read()


@pytest.mark.checklist(49, 52)
async def test_slaves_get_every_kind(autojump_clock: object) -> None:
    async with open_world(1) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0")
        for change in (topic("a"), topic("b"), GROUP, offset("a@g", 4, 5)):
            await nodes.change(change)
        await nodes.start("n1", "n2")
        await nodes.until_equal(within_s=1.0)
        assert nodes.topics("n1") == {"a", "b"}
        await nodes.change(partial(remove_topic, topic="a"))
        await nodes.change(offset("b@g", 1))
        await nodes.until_equal()
        assert nodes.offsets("n2") == {"b@g": {0: 1}}
        await trio.sleep(2 * WRITE_WITHIN_S)
        assert on_disk(nodes, "n1").topics == nodes.tables("n0").topics
        assert on_disk(nodes, "n2").consumer_offsets == nodes.tables("n0").consumer_offsets


@pytest.mark.parametrize("java", [False, True])
async def test_a_master_that_does_not_run_yet_is_named_once(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, java: bool
) -> None:
    async with open_world(1) as world:
        await MetadataCluster(world, java=java).start("n1")
        await trio.sleep(15.0)
    lines = [each for each in caplog.messages if each.endswith("; asked for again")]
    assert lines
    assert {each.count(NODES["n0"]) for each in lines} == {1}


async def test_a_new_master_has_topics_of_its_own(autojump_clock: object) -> None:
    """A Java slave of it has them, too, so that name servers take it back after their restart, as
    they take none with exactly one topic. Those of a table that is there stay as they are.
    """
    async with open_world(1) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0", "n1")
        await nodes.change(topic("a"))
        await nodes.until_equal()
        rows = nodes.tables("n1").topics.topic_config_table
        assert {name: (row.write_queue_nums, row.perm) for name, row in rows.items()} == {
            "SCHEDULE_TOPIC_XXXX": (18, 6),
            "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
            "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
            "a": (16, 6),
        }
        put_lone_topic(world.node("n2").disk, "n2", "b")
        nodes.master = "n2"
        await nodes.start("n2")
        assert set(nodes.tables("n2").topics.topic_config_table) == {"b"}


async def test_a_change_that_was_answered_survives_a_power_loss(autojump_clock: object) -> None:
    async with open_world(2) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0")
        for number in range(5):
            await nodes.change(topic(f"t{number}"))
            await nodes.note(offset("t0@g", number))
            await world.power_loss("n0")
            await nodes.start("n0")
            assert nodes.topics("n0") == {f"t{each}" for each in range(number + 1)}


async def test_what_nobody_waits_for_is_written_soon_and_at_an_ordered_stop(
    autojump_clock: object,
) -> None:
    async with open_world(3) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0")
        await nodes.note(offset("a@g", 1))
        await until(lambda: nodes.offsets("n0") == {"a@g": {0: 1}}, within_s=0.1)
        await trio.sleep(2 * WRITE_WITHIN_S)
        await world.kill_node("n0")
        assert on_disk(nodes, "n0").consumer_offsets.offset_table == {"a@g": {0: 1}}
        await nodes.start("n0")
        await nodes.note(offset("a@g", 2))
        await nodes.systems["n0"].stop()
        assert on_disk(nodes, "n0").consumer_offsets.offset_table == {"a@g": {0: 2}}


async def test_a_full_disk_refuses_changes_and_takes_what_is_adopted_later(
    autojump_clock: object,
) -> None:
    async with open_world(4) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0", "n1")
        await nodes.change(topic("a"))
        await nodes.until_equal()
        await trio.sleep(2 * WRITE_WITHIN_S)
        for name in ("n0", "n1"):
            world.node(name).disk.faults.use_up_inodes(30.0)
        with pytest.raises(StorageError, match="nothing is changed: no room"):
            await nodes.change(topic("b"))
        assert nodes.topics("n0") == {"a"}, "as if it had not been asked for"
        await nodes.note(topic("c"))
        await until(lambda: nodes.topics("n1") == {"a", "c"})
        assert topics_in(on_disk(nodes, "n1")) == {"a"}
        await trio.sleep(60.0)
        for name in ("n0", "n1"):
            assert topics_in(on_disk(nodes, name)) == {"a", "c"}


async def test_a_slave_that_becomes_master_goes_on_with_the_tables(autojump_clock: object) -> None:
    async with open_world(5) as world:
        nodes = MetadataCluster(world)
        await nodes.start()
        await nodes.change(topic("a"))
        await nodes.change(offset("a@g", 7))
        await nodes.until_equal()
        await trio.sleep(2 * WRITE_WITHIN_S)
        for name in nodes.systems:
            await world.kill_node(name)
        nodes.master = "n1"
        await nodes.start()
        await nodes.change(topic("b"))
        await nodes.until_equal()
        assert nodes.topics("n0") == {"a", "b"}
        assert nodes.offsets("n0") == {"a@g": {0: 7}}
        version = nodes.tables("n0").topics.data_version
        assert version.counter == 3


async def _keeper(
    view: MetadataView, env: Env, task_status: trio.TaskStatus[System], *, is_master: bool
) -> None:
    """Run the keeper of a node on its own. `view` outlives it, as a group's tree does."""
    keeper = partial(
        MetadataKeeper,
        env=env,
        folder=FOLDER.format("n0"),
        owner="n0",
        view=view,
        is_master=is_master,
    )
    child = ChildSpec(name="metadata", start=keeper, shutdown_s=STORAGE_SHUTDOWN_S)
    spec = SupervisorSpec(children=(child,))
    async with open_system("n0", spec, rng=env.rng, events=env.events) as system:
        task_status.started(system)
        await system.wait_ended()


async def test_a_promotion_keeps_what_a_full_disk_kept_from_its_file(
    autojump_clock: object,
) -> None:
    """The master that said it may be gone."""
    view = MetadataView()
    answer = put_topic(Tables(), TopicConfig(topic_name="a"), 1).topics
    async with open_world(5) as world:
        nodes = MetadataCluster(world)
        system = await world.start_node("n0", partial(_keeper, view, is_master=False))
        world.node("n0").disk.faults.use_up_inodes(30.0)
        keeper = system.ref("/n0/metadata", Message)
        await keeper.tell(Adopt(kind=kinds.TOPICS, answer=answer))
        await until(lambda: "a" in view.tables.topics.topic_config_table)
        await world.stop_node("n0")
        await world.start_node("n0", partial(_keeper, view, is_master=True))
        assert set(view.tables.topics.topic_config_table) == {"a"}
        assert not topics_in(on_disk(nodes, "n0"))
        await trio.sleep(60.0)
        assert topics_in(on_disk(nodes, "n0")) == {"a"}


@pytest.mark.parametrize("wait_s", [0.0, 1.5 * WRITE_WITHIN_S], ids=["due", "under way"])
async def test_a_promotion_keeps_what_a_slow_disk_has_not_yet(
    autojump_clock: object, wait_s: float
) -> None:
    """Each file takes 4 s, which is longer than a role change may wait for all of them."""
    view, killed = MetadataView(), []
    told = put_group(
        put_topic(Tables(), TopicConfig(topic_name="a"), 1),
        SubscriptionGroupConfig(group_name="g"),
        1,
    )
    told = set_offsets(told, {"a@g": {0: 7}}, 1)
    async with open_world(5) as world:
        world.on_event.append(
            lambda seen: killed.append(seen) if isinstance(seen.event, ChildKilled) else None
        )
        nodes = MetadataCluster(world)
        system = await world.start_node("n0", partial(_keeper, view, is_master=False))
        world.node("n0").disk.faults.slow_syncs(2.0, 30.0)
        keeper = system.ref("/n0/metadata", Message)
        for kind in (kinds.TOPICS, kinds.GROUPS, kinds.CONSUMER_OFFSETS):
            await keeper.tell(Adopt(kind=kind, answer=getattr(told, kind.name)))
        await until(lambda: view.tables.consumer_offsets.offset_table != {})
        await trio.sleep(wait_s)
        await world.stop_node("n0")
        assert not killed
        await world.start_node("n0", partial(_keeper, view, is_master=True))
        assert set(view.tables.topics.topic_config_table) == {"a"}
        assert view.tables.consumer_offsets.offset_table == {"a@g": {0: 7}}
        await trio.sleep(60.0)
        found = on_disk(nodes, "n0")
        assert topics_in(found) == {"a"}
        assert found.consumer_offsets.offset_table == {"a@g": {0: 7}}


async def test_a_change_that_fails_half_way_leaves_no_half_behind(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is removed takes offsets with it, and their file finds no room."""
    write = ConfigFolder.write

    async def no_room(self: ConfigFolder, kind: Kind, value: Any) -> None:
        if kind is kinds.CONSUMER_OFFSETS:
            raise NoRoom(errno.ENOSPC, "no room")
        await write(self, kind, value)

    async with open_world(6) as world:
        nodes = MetadataCluster(world)
        await nodes.start("n0")
        await nodes.change(topic("a"))
        await nodes.change(offset("a@g", 1))
        with monkeypatch.context() as patch:
            patch.setattr(ConfigFolder, "write", no_room)
            with pytest.raises(StorageError, match="nothing is changed: no room"):
                await nodes.change(partial(remove_topic, topic="a"))
        await trio.sleep(2 * WRITE_WITHIN_S)
        await world.kill_node("n0")
        found = on_disk(nodes, "n0")
        assert topics_in(found) == {"a"}
        assert found.consumer_offsets.offset_table == {"a@g": {0: 1}}
