"""Queues and index that are built anew while the log that they derive from is damaged."""

from __future__ import annotations

import pytest
import trio
from rot_kit import GROUP, SEGMENT, Filled, filled

from actors.errors import StorageError
from actors.events import store as events
from actors.events.runtime import ActorCrashed
from actors.ha.core.role_effects import RoleState
from actors.storage.derived.queue_files import list_queues
from actors.storage.dispatch.dispatcher_messages import LookupQueue, QueueUnits
from actors.storage.scrub.scrubber_messages import RECHECK_S
from wire.files.consume_queue import UNIT_BYTES

QUEUE_OFFSET, SIZE, MAGIC, BODY_LENGTH = 21, 1, 4, 84
"""Into a record: a high byte of its queue offset, its size, and fields without which no record can
be distinguished from the next."""


def queue_bytes(on: Filled, node: str) -> dict[str, bytes]:
    """The files of all queues."""
    disk, root, found = on.world.node(node).disk, on.layout(node).consume_queue, {}
    for topic in disk.listdir(root):
        for queue in disk.listdir(f"{root}/{topic}"):
            for name in disk.listdir(f"{root}/{topic}/{queue}"):
                inode = disk.inode(f"{root}/{topic}/{queue}/{name}")
                found[f"{topic}/{queue}/{name}"] = inode.read(0, inode.size_bytes)
    return found


async def lose_units(on: Filled, node: str) -> None:
    """A queue's file is cut, and somebody asks for its units: it is built anew."""
    disk, root = on.world.node(node).disk, on.layout(node).consume_queue
    topic, queue_id = list_queues(disk, root)[0]
    disk.inode(f"{root}/{topic}/{queue_id}/{0:020d}").resize(UNIT_BYTES)
    running = on.cluster.running(node)
    assert running is not None
    assert running._system is not None
    with pytest.raises(StorageError, match="the queue is built anew"):
        await running._system.registry.ref(f"/{node}/{GROUP}/dispatcher").ask(
            QueueUnits,
            lambda reply_to: LookupQueue(
                topic=topic, queue_id=queue_id, position=0, count=10, reply_to=reply_to
            ),
            timeout_s=5.0,
        )


@pytest.mark.parametrize("by_repair", [True, False])
@pytest.mark.parametrize("name", ["n0", "n1"])
@pytest.mark.parametrize("place", [QUEUE_OFFSET, SIZE, MAGIC, BODY_LENGTH])
async def test_what_is_built_anew_waits_at_damage_until_it_is_mended(
    autojump_clock: object, name: str, place: int, by_repair: bool
) -> None:
    """Where its records cannot be distinguished from each other, too."""
    async with filled() as on:
        due = queue_bytes(on, name)
        on.flip(name, SEGMENT + place)
        await lose_units(on, name)
        await trio.sleep(2 * RECHECK_S)
        (stands,) = on.events(name, events.DispatchHalted)
        assert stands.damaged_bytes == SEGMENT
        assert stands.at_bytes <= SEGMENT
        assert "bytes 16384 to 32768 are damaged" in on.view(name).damage
        if name != "n0":
            assert on.view(name).state is RoleState.DAMAGED
        if by_repair:
            node = on.cluster.running(name)
            assert node is not None
            done = await node.repair(GROUP, None)
            assert len(done["mended"]) == 1
            assert not done["derived_anew"]
        else:
            on.flip(name, SEGMENT + place)
        await trio.sleep(2 * RECHECK_S)
        (went_on,) = on.events(name, events.DispatchWentOn)
        assert went_on.at_bytes > SEGMENT
        assert queue_bytes(on, name) == due
        assert on.view(name).damage == ""
        assert on.events(name, ActorCrashed) == []


@pytest.mark.parametrize("has_digests", [True, False])
@pytest.mark.parametrize("name", ["n0", "n1"])
async def test_a_stop_just_after_the_start_derives_all_that_is_good(
    autojump_clock: object, name: str, has_digests: bool
) -> None:
    """By then the scrubber, which compares the log for the dispatcher, has stopped."""
    async with filled() as on:
        due, layout, disk = queue_bytes(on, name), on.layout(name), on.world.node(name).disk
        await on.cluster.stop(name)
        disk.rmtree(layout.consume_queue)
        if not has_digests:
            disk.rmtree(layout.digests)
        await on.cluster.start(name)
        await on.cluster.stop(name)
        assert queue_bytes(on, name) == due
        assert not disk.exists(layout.abort)
        await on.cluster.start(name)


async def test_a_stop_just_after_the_start_derives_nothing_from_damage(
    autojump_clock: object,
) -> None:
    async with filled() as on:
        due, layout, disk = queue_bytes(on, "n1"), on.layout("n1"), on.world.node("n1").disk
        await on.cluster.stop("n1")
        disk.rmtree(layout.consume_queue)
        on.flip("n1", SEGMENT + QUEUE_OFFSET)
        await on.cluster.start("n1")
        await on.cluster.stop("n1")
        found = queue_bytes(on, "n1")
        assert found.keys() <= due.keys()
        units = b"".join(found.values())
        places = {int.from_bytes(units[at : at + 8], "big") for at in range(0, len(units), 20)}
        assert 0 < max(places) < SEGMENT
        assert disk.exists(layout.abort)
        on.flip("n1", SEGMENT + QUEUE_OFFSET)
        await on.cluster.start("n1")
        await trio.sleep(2 * RECHECK_S)
        assert queue_bytes(on, "n1") == due
