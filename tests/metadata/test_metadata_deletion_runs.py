"""Histories in which topics are deleted and made again under faults: what was stored before the
deletion is in no queue on any node, what was acknowledged after it is in its queue on each.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
import trio
from metadata_kit import MetadataCluster
from test_metadata_deleted_topics import damage, stored_at, units

from actors.errors import TriologError
from actors.metadata.core.changes import put_topic, remove_topic
from actors.runtime import ActorError
from actors.sim.world import World, open_world
from actors.storage.layout import StoreLayout
from wire.broker.topics import TopicConfig

SEEDS = (0, 1, 2, 3, 22, 29)
ROOT = "/data/{}/groups/orders"
TOPICS = ("Ta", "Tb", "Tc")
STEPS = 50


@attrs.define
class Run:
    """One history.

    Attributes:
        found: by topic, where the records are that a queue has to lead to.
        gone: where those are that no queue may lead to.
        jumps: whether the master's clock is set now and then.
    """

    world: World
    nodes: MetadataCluster
    rng: random.Random
    found: dict[str, list[int]] = attrs.field(factory=lambda: {topic: [] for topic in TOPICS})
    gone: dict[str, set[int]] = attrs.field(factory=lambda: {topic: set() for topic in TOPICS})
    jumps: bool = False
    deleted: int = 0

    async def play(self) -> None:
        await self.nodes.start("n0", "n1")
        await trio.sleep(2.0)
        steps = [
            *[self._append] * 6, *[self._delete] * 3, self._make, self._kill, self._lose_power,
            self._slow, self._take_inodes, *[self._jump] * self.jumps,
        ]  # fmt: skip
        for _ in range(STEPS):
            await self.rng.choice(steps)()
            await trio.sleep(self.rng.choice((0.0, 0.01, 0.3, 2.0)))
        await trio.sleep(60.0)
        await self.nodes.until_equal()
        await self._append()
        await trio.sleep(30.0)

    async def judge(self) -> None:
        for name in ("n0", "n1"):
            for topic in TOPICS:
                found = [unit[0] for unit in (await units(self.nodes, topic, name)).units]
                lost = set(self.found[topic]) - set(found)
                assert not lost, f"{topic} on {name} does not lead to {sorted(lost)}"
                back = self.gone[topic] & set(found)
                assert not back, f"{topic} on {name} leads to {sorted(back)}"
            await self.nodes.systems[name].stop()
            assert damage(self.world.node(name).disk, name) == []

    async def _append(self) -> None:
        topic = self.rng.choice(TOPICS)
        for _ in range(self.rng.randrange(1, 4)):
            try:
                self.found[topic].append(await stored_at(self.nodes, topic))
            except (TriologError, ActorError):
                return  # nobody knows whether it was stored

    async def _delete(self) -> None:
        topic = self.rng.choice(TOPICS)
        try:
            await self.nodes.change(partial(remove_topic, topic=topic))
        except (TriologError, ActorError):
            await self._delete_surely(topic)
        self.deleted += 1
        self.gone[topic] |= set(self.found[topic])
        self.found[topic].clear()

    async def _delete_surely(self, topic: str) -> None:
        """Whether it was deleted is not known: it is deleted again until that is answered."""
        while True:
            await trio.sleep(5.0)
            try:
                await self.nodes.change(partial(remove_topic, topic=topic))
            except (TriologError, ActorError):
                continue
            return

    async def _make(self) -> None:
        topic = self.rng.choice(TOPICS)
        self.gone[topic].clear()  # if queues are derived anew they have all records again
        try:
            await self.nodes.change(partial(put_topic, config=TopicConfig(topic_name=topic)))
        except (TriologError, ActorError):
            return

    async def _kill(self) -> None:
        await self._restart(self.world.kill_node)

    async def _lose_power(self) -> None:
        await self._restart(self.world.power_loss)

    async def _restart(self, end: Callable[[str], Awaitable[None]]) -> None:
        """One of them, sometimes while a topic is being deleted."""
        name = self.rng.choice(("n0", "n0", "n1"))
        if self.rng.random() < 0.5:
            topic = self.rng.choice(TOPICS)
            await self.nodes.note(partial(remove_topic, topic=topic))
            await trio.sleep(self.rng.choice((0.0, 0.001, 0.01, 0.6)))
        else:
            topic = ""
        await end(name)
        if self.rng.random() < 0.3:  # all queues are derived again
            self.world.node(name).disk.unlink(StoreLayout(ROOT.format(name)).dispatched)
        await self.nodes.start(name)
        await trio.sleep(3.0)
        if topic:  # that may have been forgotten
            await self._delete_surely(topic)
            self.gone[topic] |= set(self.found[topic])
            self.found[topic].clear()

    async def _slow(self) -> None:
        self.world.node(self.rng.choice(("n0", "n1"))).disk.faults.slow_syncs(0.5, 3.0)
        await trio.sleep(0.0)

    async def _take_inodes(self) -> None:
        self.world.node(self.rng.choice(("n0", "n1"))).disk.faults.use_up_inodes(4.0)
        await trio.sleep(0.0)

    async def _jump(self) -> None:
        """The master's clock is set: no deletion is before a record, and no later record before a
        deletion.
        """
        self.world.node("n0").skew_ms += self.rng.choice((-600_000, -60_000, -1, 1000, 60_000))
        await trio.sleep(0.0)


@pytest.mark.parametrize("jumps", [False, True], ids=["steady", "jumping"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_deleted_records_stay_away_and_newer_ones_are_found(
    autojump_clock: object, seed: int, jumps: bool
) -> None:
    async with open_world(seed) as world:
        run = Run(world, MetadataCluster(world), random.Random(f"{seed}:deletions"), jumps=jumps)
        await run.play()
        await run.judge()
    assert run.deleted > 2
    assert sum(map(len, run.gone.values())) > 0
