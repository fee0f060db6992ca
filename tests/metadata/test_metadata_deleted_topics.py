"""What is left of a topic that an operator has deleted: on its master, and on slaves."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from metadata_kit import PATHS, MetadataCluster, until
from operator_kit import operated

from actors.log_types import Message
from actors.metadata.core.changes import put_topic, remove_topic
from actors.metadata.keeper import MetadataKeeper
from actors.sim.disk import SimDisk
from actors.storage.commitlog.store_messages import Append, Appended
from actors.storage.dispatch.dispatcher_messages import LookupQueue, QueueUnits
from actors.storage.files.stepping import finish
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.stores import GroupStore
from actors.storage.tools.target import find_target, one_store
from wire.broker.codes import RequestCode
from wire.broker.topics import TopicConfig
from wire.files.consume_queue import is_filler

DELETE = RequestCode.DELETE_TOPIC_IN_BROKER
QUEUES = "/data/{}/groups/orders/consumequeue"


async def stored_at(nodes: MetadataCluster, topic: str) -> int:
    """Append one record to queue 1 of a topic. Returns: where it is in the log."""
    store = nodes.systems["n0"].ref(PATHS["n0"].store, Append)
    answer = await store.ask(
        Appended,
        lambda reply_to: Append(
            records=(Message(topic, b"body", queue_id=1),),
            deadline_s=trio.current_time() + 9,
            reply_to=reply_to,
        ),
        timeout_s=10.0,
    )
    return answer.first_bytes


async def append(nodes: MetadataCluster, *topics: str) -> None:
    store = nodes.systems["n0"].ref(PATHS["n0"].store, Append)
    records = tuple(
        Message(topic, b"body", queue_id=number) for topic in topics for number in (0, 1)
    )
    await store.ask(
        Appended,
        lambda reply_to: Append(
            records=records, deadline_s=trio.current_time() + 9, reply_to=reply_to
        ),
        timeout_s=10.0,
    )


async def units(nodes: MetadataCluster, topic: str, at: str = "n0") -> QueueUnits:
    dispatcher = nodes.systems[at].ref(PATHS[at].dispatcher, LookupQueue)
    return await dispatcher.ask(
        QueueUnits,
        lambda reply_to: LookupQueue(
            topic=topic, queue_id=1, position=0, count=100, reply_to=reply_to
        ),
        timeout_s=10.0,
    )


def topics_with_queues(nodes: MetadataCluster, name: str = "n0") -> list[str]:
    """The names of folders, empty ones too."""
    return nodes.world.node(name).disk.listdir(QUEUES.format(name))


async def until_there(nodes: MetadataCluster, name: str, *topics: str) -> None:
    disk = nodes.world.node(name).disk
    await until(
        lambda: disk.exists(QUEUES.format(name)) and topics_with_queues(nodes, name) == [*topics],
        within_s=30.0,
    )


def damage(disk: SimDisk, name: str) -> list[str]:
    """What a check of a node's store finds."""
    store = one_store(find_target(disk, f"/data/{name}/groups/orders"))
    assert isinstance(store, GroupStore)
    return list(finish(check_store(disk, store, CheckOptions())).findings.damage)


@pytest.mark.checklist(69, of="broker")
async def test_its_queues_go_with_it_on_every_node(autojump_clock: object) -> None:
    async with operated("n0", "n1") as (_, nodes, operator):
        for topic in ("Ta", "Tb"):
            await nodes.change(partial(put_topic, config=TopicConfig(topic_name=topic)))
        for _ in range(3):
            await append(nodes, "Ta", "Tb")
        for name in ("n0", "n1"):
            await until_there(nodes, name, "Ta", "Tb")
        assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        assert topics_with_queues(nodes) == ["Tb"], "they are gone when it is answered"
        assert (await units(nodes, "Tb")).next_offset == 3
        await until_there(nodes, "n1", "Tb")
        await append(nodes, "Ta")  # in the same millisecond, or a later one
        for name in ("n0", "n1"):
            await until_there(nodes, name, "Ta", "Tb")
            found = await units(nodes, "Ta", name)
            assert (found.min_offset, found.next_offset) == (0, 1), "as a topic that is new"
        for name in ("n0", "n1"):
            await nodes.systems[name].stop()
            assert damage(nodes.world.node(name).disk, name) == []


async def test_a_slave_that_comes_later_makes_no_queues_of_it(autojump_clock: object) -> None:
    names = "n0", "n1", "n2"
    async with operated("n0", "n1") as (world, nodes, operator):
        await append(nodes, "Ta", "Tb")  # topics that no table has
        assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        await world.power_loss("n0")
        await nodes.start("n0", "n2")
        for name in names:
            await until_there(nodes, name, "Tb")
        await trio.sleep(5.0)
        for name in names:
            await nodes.systems[name].stop()
            disk = world.node(name).disk
            assert disk.listdir(QUEUES.format(name)) == ["Tb"]
            assert damage(disk, name) == []


async def test_the_queues_go_although_the_dispatcher_was_not_told(autojump_clock: object) -> None:
    """The process ends between the two: a start finds what is left, and removes it."""
    async with operated("n0", "n1") as (world, nodes, _):
        await append(nodes, "Ta", "Tb")
        await until_there(nodes, "n0", "Ta", "Tb")
        await trio.sleep(3.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MetadataKeeper, "_delete_queues", lambda *_: None)
            await nodes.note(partial(remove_topic, topic="Ta"))
            await trio.sleep(3.0)
        await world.kill_node("n0")
        assert topics_with_queues(nodes) == ["Ta", "Tb"]
        await nodes.start("n0")
        await until_there(nodes, "n0", "Tb")
        await append(nodes, "Ta")
        await until_there(nodes, "n0", "Ta", "Tb")
        assert (await units(nodes, "Ta")).next_offset == 1


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_a_new_run_with_a_clock_behind_the_deletion(
    autojump_clock: object, is_made_again: bool
) -> None:
    """Its records are older than the deletion by its clock, and are not deleted."""
    async with operated("n0", "n1") as (world, nodes, operator):
        await nodes.change(partial(put_topic, config=TopicConfig(topic_name="Ta")))
        await append(nodes, "Ta", "Tb")
        await trio.sleep(100.0)
        assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        if is_made_again:
            await nodes.change(partial(put_topic, config=TopicConfig(topic_name="Ta")))
        await until_there(nodes, "n1", "Tb")
        await nodes.until_equal()
        await world.kill_node("n0")
        world.node("n0").skew_ms -= 60_000
        await nodes.start("n0")
        await trio.sleep(5.0)
        await nodes.until_equal()
        for name in ("n0", "n1"):
            await until_there(nodes, name, "Tb")
        await append(nodes, "Ta")
        for name in ("n0", "n1"):
            await until_there(nodes, name, "Ta", "Tb")
            assert (await units(nodes, "Ta", name)).next_offset == 1
            await nodes.systems[name].stop()
            assert damage(world.node(name).disk, name) == []


@pytest.mark.parametrize("is_lost", [False, True], ids=["running", "started anew"])
async def test_a_clock_that_is_behind_the_newest_record(
    autojump_clock: object, is_lost: bool
) -> None:
    """The topic is deleted all the same, on each node and when queues are derived again."""
    async with operated("n0", "n1") as (world, nodes, operator):
        await nodes.change(partial(put_topic, config=TopicConfig(topic_name="Ta")))
        await append(nodes, "Ta", "Tb")
        world.node("n0").skew_ms -= 60_000
        if is_lost:
            await world.kill_node("n0")
            await nodes.start("n0")
            await trio.sleep(5.0)
        assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        assert topics_with_queues(nodes) == ["Tb"]
        await until_there(nodes, "n1", "Tb")
        await append(nodes, "Ta")
        for name in ("n0", "n1"):
            await until_there(nodes, name, "Ta", "Tb")
            assert (await units(nodes, "Ta", name)).next_offset == 1
            await world.kill_node(name)
            world.node(name).disk.unlink(f"/data/{name}/groups/orders/dispatched")
        await nodes.start("n0", "n1")
        for name in ("n0", "n1"):
            await until_there(nodes, name, "Ta", "Tb")
            found = (await units(nodes, "Ta", name)).units
            assert sum(not is_filler(*unit) for unit in found) == 1


async def test_a_run_whose_clock_is_behind_all_of_it(autojump_clock: object) -> None:
    """What was deleted stays deleted, on a slave that comes later, too."""
    names = "n0", "n1", "n2"
    async with operated("n0", "n1") as (world, nodes, operator):
        await append(nodes, "Ta", "Tb")
        assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        await world.kill_node("n0")
        world.node("n0").disk.unlink("/data/n0/groups/orders/dispatched")
        world.node("n0").skew_ms -= 60_000
        await nodes.start("n0", "n2")
        for name in names:
            await until_there(nodes, name, "Tb")
        await trio.sleep(5.0)
        for name in names:
            assert topics_with_queues(nodes, name) == ["Tb"]
        await append(nodes, "Ta")
        for name in names:
            await until_there(nodes, name, "Ta", "Tb")
            found = (await units(nodes, "Ta", name)).units
            assert sum(not is_filler(*unit) for unit in found) == 1


async def test_a_topic_that_is_made_again_gets_nothing_back(autojump_clock: object) -> None:
    """Not on its master when queues are derived again, and not on a slave that comes later."""
    names = "n0", "n1", "n2"
    async with operated("n0", "n1") as (world, nodes, operator):
        await nodes.change(partial(put_topic, config=TopicConfig(topic_name="Ta")))
        for _ in range(3):
            await append(nodes, "Ta", "Tb")
        assert (await operator.ask(DELETE, topic="Ta")).header.code == 0
        await nodes.change(partial(put_topic, config=TopicConfig(topic_name="Ta")))
        await world.kill_node("n0")
        world.node("n0").disk.unlink("/data/n0/groups/orders/dispatched")
        await nodes.start("n0", "n2")
        for name in names:
            await until_there(nodes, name, "Tb")
        await trio.sleep(5.0)
        await append(nodes, "Ta")
        for name in names:
            await until_there(nodes, name, "Ta", "Tb")
            found = (await units(nodes, "Ta", name)).units
            assert sum(not is_filler(*unit) for unit in found) == 1
            await nodes.systems[name].stop()
            assert damage(world.node(name).disk, name) == []
