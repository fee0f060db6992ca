"""Runs of a master and two slaves from a seed, under kills, power losses, cuts, full disks and lost
files, and the judges of what their tables do meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from metadata_kit import FOLDER, NODES, MetadataCluster, until

from actors.metadata.core.changes import put_group, put_topic, remove_topic, set_offsets
from actors.metadata.core.tables import Tables
from actors.metadata.view import MetadataView
from actors.sim.world import open_world
from wire.broker.metadata import SubscriptionGroupConfig
from wire.broker.topics import TopicConfig

LASTING = ("Ta", "Tb")
"""Topics that nobody removes once they are there."""
PASSING = ("Tc", "Td")
KEYS = tuple(f"{topic}@g" for topic in LASTING)
STEPS = 40


class Objection(AssertionError):
    """A judge has seen what must not happen."""


@attrs.define
class Judge:
    """Sees each state that a slave publishes, and what masters were told to do.

    Attributes:
        removed: topics that were ever removed.
        resets: by key, the offset that was set lower than before, and those committed from there
            on: a slave may hear of a reset and of commits behind it at once.
        seen: how many states of slaves it has judged.
    """

    removed: set[str] = attrs.field(factory=set)
    resets: dict[str, set[int]] = attrs.field(factory=dict)
    seen: int = 0

    def judge(self, before: Tables, after: Tables) -> None:
        """NoTopicVanishes and NoOffsetGoesBack, of one run of one slave."""
        self.seen += 1
        lost = set(before.topics.topic_config_table) - set(after.topics.topic_config_table)
        if lost - self.removed:
            raise Objection(f"topics vanish: {sorted(lost - self.removed)}")
        old, new = before.consumer_offsets.offset_table, after.consumer_offsets.offset_table
        for key in KEYS:
            mine, theirs = old.get(key, {}).get(0, -1), new.get(key, {}).get(0, -1)
            if theirs < mine and theirs not in self.resets.get(key, ()):
                raise Objection(f"offset of {key} goes back from {mine} to {theirs}")


@contextmanager
def judged(judge: Judge, nodes: MetadataCluster, raised: list[Objection]) -> Iterator[None]:
    """While it lasts, every state that a slave publishes goes to the judge."""
    publish = MetadataView.publish

    def seen(view: MetadataView, tables: Tables) -> None:
        is_slave = view is not nodes.views[nodes.master]
        if is_slave and view.number:  # the first is what the files have
            try:
                judge.judge(view.tables, tables)
            except Objection as objection:
                raised.append(objection)
        publish(view, tables)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataView, "publish", seen)
        yield


@attrs.define
class Run:
    """One history."""

    nodes: MetadataCluster
    judge: Judge
    rng: random.Random
    raised: list[Objection] = attrs.field(factory=list)
    down: set[str] = attrs.field(factory=set)

    async def play(self) -> None:
        """All steps, then peace; at the end every slave has the master's topics and groups."""
        await self.nodes.start()
        await self.nodes.change(partial(put_group, config=SubscriptionGroupConfig(group_name="g")))
        for topic in LASTING:
            await self.nodes.change(partial(put_topic, config=TopicConfig(topic_name=topic)))
        await self.nodes.until_equal()
        await trio.sleep(1.0)
        steps: list[Callable[[], Any]] = [
            *[self._commit] * 9, self._reset, *[self._topic] * 4,
            self._kill, self._kill_master, self._wipe_master, self._fill, *[self._restart] * 3,
            self._cut, self._heal,
        ]  # fmt: skip
        for _ in range(STEPS):
            await self.rng.choice(steps)()
            await trio.sleep(self.rng.random())
            if self.raised:
                raise self.raised[0]
        await self._restart_all()
        await until(self._agrees, within_s=60.0)
        if self.raised:
            raise self.raised[0]

    def _agrees(self) -> bool:
        master = self.nodes.tables("n0")
        for name in ("n1", "n2"):
            slave = self.nodes.tables(name)
            theirs = master.topics.topic_config_table
            mine = slave.topics.topic_config_table
            if slave.topics.data_version != master.topics.data_version:
                return False
            if not theirs.items() <= mine.items():
                return False
            if (set(mine) - set(theirs)) & self.judge.removed & set(PASSING) and not _kept(slave):
                return False
        return True

    # ---- what happens ----

    async def _commit(self) -> None:
        await self._note(self.rng.choice(KEYS))

    async def _note(self, key: str) -> None:
        if "n0" not in self.down:
            now = self.nodes.offsets("n0").get(key, {}).get(0, 0)
            if now in (since := self.judge.resets.get(key, set())):
                since.add(now + 1)
            await self.nodes.note(partial(set_offsets, offsets={key: {0: now + 1}}))

    async def _reset(self) -> None:
        """At most one, behind which the judge knows less of that queue."""
        key = self.rng.choice(KEYS)
        now = self.nodes.offsets("n0").get(key, {}).get(0, 0)
        if "n0" not in self.down and now and not self.judge.resets:
            low = self.rng.randrange(now)
            self.judge.resets.setdefault(key, set()).add(low)
            await self.nodes.note(partial(set_offsets, offsets={key: {0: low}}))

    async def _topic(self) -> None:
        if "n0" in self.down:
            return
        topic = self.rng.choice(PASSING)
        if topic in self.nodes.topics("n0"):
            self.judge.removed.add(topic)
            await self.nodes.note(partial(remove_topic, topic=topic))
        else:
            await self.nodes.note(partial(put_topic, config=TopicConfig(topic_name=topic)))

    async def _kill(self) -> None:
        await self._stop(self.rng.choice(["n1", "n2"]))

    async def _kill_master(self) -> None:
        await self._stop("n0")

    async def _stop(self, name: str) -> None:
        if name in self.down:
            return
        self.down.add(name)
        if self.rng.random() < 0.5:
            await self.nodes.world.power_loss(name)
        else:
            await self.nodes.world.kill_node(name)

    async def _wipe_master(self) -> None:
        """Its operator starts it with an empty config/."""
        await self._stop("n0")
        disk = self.nodes.world.node("n0").disk
        if disk.exists(FOLDER.format("n0")):
            disk.rmtree(FOLDER.format("n0"))
        await self._start("n0")
        for topic in LASTING:  # as clients make them again, one after the other
            if self.rng.random() < 0.5:
                await self.nodes.note(partial(put_topic, config=TopicConfig(topic_name=topic)))

    async def _fill(self) -> None:
        name = self.rng.choice(list(NODES))
        self.nodes.world.node(name).disk.faults.use_up_inodes(3.0 * self.rng.random())

    async def _cut(self) -> None:
        self.nodes.world.network.cut_both("n0", self.rng.choice(["n1", "n2"]))

    async def _heal(self) -> None:
        self.nodes.world.network.heal_all()

    async def _restart(self) -> None:
        if self.down:
            await self._start(self.rng.choice(sorted(self.down)))

    async def _restart_all(self) -> None:
        await trio.sleep(5.0)
        self.nodes.world.network.heal_all()
        for name in sorted(self.down):
            await self._start(name)

    async def _start(self, name: str) -> None:
        self.nodes.world.node(name).disk.faults.use_up_inodes(0.0)
        await self.nodes.start(name)
        self.down.discard(name)


def _kept(tables: Tables) -> bool:
    return bool(tables.topics.more)


async def run(seed: int) -> Judge:
    """Raises: Objection. TooSlowError: the slaves do not come to an agreement."""
    async with open_world(seed) as world:
        nodes = MetadataCluster(world)
        judge, rng = Judge(), world.rng("metadata")
        history = Run(nodes, judge, rng)
        with judged(judge, nodes, history.raised):
            await history.play()
        return judge
