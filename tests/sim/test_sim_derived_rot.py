"""Consume queues and index whose bytes change on the disk: the node mends them while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from actors.events import runtime as runtime_events
from actors.events import store as events
from actors.log_types import Message
from actors.node.node import Node
from actors.sim.classic.actions.rot import MENDED_WITHIN_S
from actors.sim.cluster import SimCluster, classic_config
from actors.sim.world import World, open_world
from actors.storage.derived.queue_files import list_queues
from actors.storage.dispatch import dispatcher_messages as messages
from actors.storage.dispatch.derived_scrubber import SUSPECTS_S
from actors.storage.layout import StoreLayout
from wire.files.consume_queue import UNIT_BYTES
from wire.files.index_file import INDEX_UNIT_BYTES

GROUP = "orders"
PAGE = 4096
COUNT = 600
BODY = 88
"""Into the first record, which is that of the first unit."""


@attrs.frozen
class Filled:
    """Two nodes with a log of several files, and the one queue that they have."""

    world: World
    cluster: SimCluster

    def layout(self, node: str) -> StoreLayout:
        return StoreLayout(self.cluster.config.group_dir(node, GROUP))

    def queue(self, node: str) -> tuple[str, tuple[str, int]]:
        disk, folder = self.world.node(node).disk, self.layout(node).consume_queue
        (key,) = list_queues(disk, folder)
        return f"{folder}/{key[0]}/{key[1]}/{0:020d}", key

    def content(self, node: str, path: str) -> bytes:
        inode = self.world.node(node).disk.inode(path)
        return inode.read(0, inode.size_bytes)

    def zero(self, node: str, path: str) -> None:
        self.world.node(node).disk.inode(path).patch(bytes(PAGE), 0)

    def events(self, node: str, kind: type) -> list[Any]:
        return [e.event for e in self.world.events if e.node == node and isinstance(e.event, kind)]

    def node(self, name: str) -> Node:
        node = self.cluster.running(name)
        assert node is not None
        return node

    async def units(self, name: str) -> tuple[tuple[int, int, int], ...]:
        _, key = self.queue(name)
        system = self.node(name)._system
        assert system is not None
        ref = system.registry.ref(f"/{name}/{GROUP}/dispatcher")
        found = await ref.ask(
            messages.QueueUnits,
            lambda reply_to: messages.LookupQueue(
                topic=key[0], queue_id=key[1], position=0, count=1000, reply_to=reply_to
            ),
            timeout_s=5.0,
        )
        assert isinstance(found, messages.QueueUnits)
        return found.units


@asynccontextmanager
async def filled(**settings: Any) -> AsyncIterator[Filled]:
    async with open_world(1) as world:
        cluster = SimCluster(world, classic_config(nodes=2, segment_bytes=16 << 10, **settings))
        await cluster.start()
        for first in range(0, COUNT, 50):
            await cluster.log(GROUP).append([b"%d" % n for n in range(first, first + 50)])
        await cluster.converged(GROUP)
        await trio.sleep(3)
        yield Filled(world, cluster)
        await cluster.stop()


@pytest.mark.parametrize("node", ["n0", "n1"])
async def test_a_page_that_is_zero_is_mended_and_reported(
    autojump_clock: object, node: str
) -> None:
    async with filled() as on:
        path, key = on.queue(node)
        before = on.content(node, path)
        on.zero(node, path)
        await trio.sleep(MENDED_WITHIN_S)
        assert on.content(node, path) == before
        assert on.world.node(node).disk.durable(path) == before
        reported = on.events(node, events.DerivedMended)
        assert {each.file for each in reported} == {f"consumequeue/{key[0]}/{key[1]}"}
        count = sum(each.count for each in reported)
        assert count == -(-PAGE // UNIT_BYTES)
        groups = (await on.node(node).status())["groups"]
        assert groups[GROUP]["findings"]["mended"].startswith(f"{count} damaged units")
        other = {"n0": "n1", "n1": "n0"}[node]
        assert on.events(other, events.DerivedMended) == []
        assert (await on.node(other).status())["groups"][GROUP]["findings"] == {}


async def test_what_a_lookup_meets_is_mended_at_once_also_without_a_rate(
    autojump_clock: object,
) -> None:
    async with filled(scrub_bytes_per_s=0) as on:
        path, _ = on.queue("n0")
        before, good = on.content("n0", path), await on.units("n0")
        on.zero("n0", path)
        await trio.sleep(MENDED_WITHIN_S)
        assert on.content("n0", path) != before
        assert await on.units("n0") == ()
        await trio.sleep(2 * SUSPECTS_S)
        assert await on.units("n0") == good
        assert on.content("n0", path) == before


async def test_nothing_is_taken_from_a_damaged_log(autojump_clock: object) -> None:
    """The record says where it is, but its bytes are not those that were written."""
    async with filled() as on:
        path, _ = on.queue("n0")
        before = on.content("n0", path)
        log = f"{on.layout('n0').commit_log}/{0:020d}"
        on.world.node("n0").disk.inode(log).flip_bit(BODY, 0)
        on.world.node("n0").disk.inode(path).patch(bytes(UNIT_BYTES), 0)
        damaged = on.content("n0", path)
        await trio.sleep(MENDED_WITHIN_S)
        assert on.events("n0", events.RotFound)
        assert on.content("n0", path) == damaged
        on.world.node("n0").disk.inode(log).flip_bit(BODY, 0)
        await trio.sleep(MENDED_WITHIN_S)
        assert on.content("n0", path) == before
        assert on.events("n0", runtime_events.ActorCrashed) == []


async def test_a_file_that_cannot_be_read_ends_nobody(autojump_clock: object) -> None:
    async with filled() as on:
        path, _ = on.queue("n0")
        before = on.content("n0", path)
        on.world.node("n0").disk.faults.fail("read", 5, path_part="consumequeue", times=3)
        on.zero("n0", path)
        await trio.sleep(2 * MENDED_WITHIN_S)
        assert on.content("n0", path) == before
        assert on.events("n0", runtime_events.ActorCrashed) == []


async def test_no_link_is_taken_from_a_damaged_key(autojump_clock: object) -> None:
    """The record can be read, but the key in it is not the one that was written: neither the
    entries behind its own nor their slots change, and damage behind it is still mended.
    """
    async with filled() as on:
        for _ in range(3):
            some = [Message("t", b"x" * 200, keys="all") for _ in range(40)]
            await on.cluster.log(GROUP).append(some)
        await on.cluster.converged(GROUP)
        await trio.sleep(3)
        disk, layout = on.world.node("n0").disk, on.layout("n0")
        path = f"{layout.index}/{disk.listdir(layout.index)[0]}"
        before = on.content("n0", path)
        log = f"{layout.commit_log}/{disk.listdir(layout.commit_log)[-3]}"
        flipped = on.content("n0", log).index(b"KEYS\x01all") + len("KEYS\x01a")
        disk.inode(log).flip_bit(flipped, 0)
        disk.inode(path).patch(bytes(INDEX_UNIT_BYTES), len(before.rstrip(b"\0")) - 80)
        await trio.sleep(MENDED_WITHIN_S)
        assert on.events("n0", events.RotFound)
        assert on.content("n0", path) == before
        disk.inode(log).flip_bit(flipped, 0)
