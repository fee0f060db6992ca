"""Clients of a simulated cluster: they append, give up, read from any node, and record what they
saw.

Every body is unique in its run, so each record that is found later has one owner. An append whose
outcome no client learned stays open: its records may turn up, or not.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from actors.errors import NotStored, OutcomeUnknown, TriologError
from actors.log import Log
from actors.log_types import Batch, Message, NewRecord, Receipt
from actors.sim.cluster import SimCluster
from actors.sim.history import (
    AppendAnswered,
    AppendAsked,
    AppendRefused,
    AppendUnknown,
    History,
    OffsetsSeen,
    RecordsRead,
)

TOPICS = (None, "returns")
QUEUES_COUNT = 2
READ_TIMEOUT_S = 2.0
READ_AGAIN_S = 0.5
DEPOSED_LOOK_S = 0.4
FLOW_PAUSE_S = 1.0
"""The pause between the appends of a steady flow; a member that speaks so often is never silent."""


@attrs.frozen(kw_only=True)
class WorkloadOptions:
    """How busy the clients are.

    Attributes:
        appenders: how many clients append, one batch after the other.
        pause_mean_s: the mean pause between two batches of one client.
        batch_max: the most records of a batch.
        body_mean_bytes: the mean size of a body, exponentially distributed.
        body_max_bytes: the most bytes of a body.
        property_bytes: the size of a property that half of the records have besides their keys; 0:
            none.
        burst_share: the share of appends that are bursts through a pipelined appender.
        give_up_share: the share of appends that are cancelled after a while.
        readers: how many clients read, each from one node after the other.
        read_pause_mean_s: the mean pause between two reads of one client.
        fresh_share: the share of these reads that are fresh.
    """

    appenders: int = 3
    pause_mean_s: float = 0.8
    batch_max: int = 8
    body_mean_bytes: int = 300
    body_max_bytes: int = 4000
    property_bytes: int = 0
    burst_share: float = 0.1
    give_up_share: float = 0.1
    readers: int = 2
    read_pause_mean_s: float = 0.7
    fresh_share: float = 0.5


def draw_options(rng: random.Random, *, busy: bool = False) -> WorkloadOptions:
    """Draw a workload of another character for every seed. `busy`: whether files fill up soon."""
    options = WorkloadOptions(
        appenders=rng.randint(1, 3),
        pause_mean_s=rng.choice([0.5, 1.0, 2.0]),
        batch_max=rng.choice([1, 3, 8]),
        body_mean_bytes=rng.choice([20, 300, 1200]),
        burst_share=rng.choice([0.0, 0.05, 0.15]),
        give_up_share=rng.choice([0.0, 0.1, 0.3]),
        readers=rng.randint(1, 3),
        property_bytes=rng.choice([0, 0, 0, 400]),
        # Fresh reads make a node ask the members, which then speak where they were silent else.
        fresh_share=rng.choice([0.0, 0.5]),
    )
    if not busy:
        return options
    return attrs.evolve(options, appenders=3, pause_mean_s=0.5, batch_max=8, body_mean_bytes=1200)


@attrs.define(eq=False)
class Workload:
    """The clients of one group.

    Attributes:
        cluster: the cluster that they ask.
        group: the group's name.
        history: records what they saw.
        options: how busy they are.
        rng: the source of their decisions.
    """

    cluster: SimCluster
    group: str
    history: History
    options: WorkloadOptions
    rng: random.Random
    _fresh: random.Random = attrs.field(init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def __attrs_post_init__(self) -> None:
        self._fresh = random.Random(self.rng.random())

    async def run(self, until_s: float) -> None:
        """Run all clients until virtual time `until_s`; return when each has its answer."""
        async with trio.open_nursery() as nursery:
            for number in range(self.options.appenders):
                nursery.start_soon(self._append, f"c{number}", until_s, name=f"client c{number}")
            for number in range(self.options.readers):
                nursery.start_soon(self._read, until_s, name=f"client r{number}")
            nursery.start_soon(self._follow, until_s, name="client f")
            nursery.start_soon(self._read_deposed, until_s, name="client d")

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Within the block, append small records one after the other, and read from every node that
        believes that it is master, if there are several.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._flow, name="client flow")
            nursery.start_soon(self._read_deposed, math.inf, name="client deposed")
            yield
            nursery.cancel_scope.cancel()

    # ---- appending ----

    async def _flow(self) -> None:
        log = self.cluster.log(self.group)
        while True:
            await trio.sleep(FLOW_PAUSE_S)
            number = next(self._numbers)
            body = f"{number}.flow;".encode()
            self._asked("flow", number, [body])
            await self._one_append("flow", number, [body], log, False, trio.CancelScope())

    async def _append(self, client: str, until_s: float) -> None:
        rng, options = random.Random(f"{self.rng.random()}:{client}"), self.options
        log = self.cluster.log(self.group)
        while trio.current_time() < until_s:
            await trio.sleep(rng.expovariate(1 / options.pause_mean_s))
            burst = rng.random() < options.burst_share
            number = next(self._numbers)
            count = rng.randint(1, options.batch_max * (5 if burst else 1))
            records = [self._record(rng, f"{number}.{each}") for each in range(count)]
            self._asked(client, number, records)
            scope = trio.CancelScope()
            if rng.random() < options.give_up_share:
                scope.deadline = trio.current_time() + rng.choice([0.0, 0.001, 0.005, 0.1, 1.0])
            await self._one_append(client, number, records, log, burst, scope)

    def _asked(self, client: str, number: int, records: list[NewRecord]) -> None:
        bodies = tuple(map(_body, records))
        self.history.now(AppendAsked, client=client, operation=number, bodies=bodies)

    def _record(self, rng: random.Random, name: str) -> NewRecord:
        size = min(
            int(rng.expovariate(1 / self.options.body_mean_bytes)), self.options.body_max_bytes
        )
        body = f"{name};".encode() + rng.randbytes(size)
        if rng.random() < 0.5:
            return body
        note = "x" * self.options.property_bytes
        return Message(
            topic=rng.choice(TOPICS),
            body=body,
            tags=rng.choice(["", "red", "blue"]),
            keys=tuple(f"k{rng.randrange(50)}" for _ in range(rng.randrange(3))),
            properties=(("note", note),) * bool(note),
            queue_id=rng.randrange(QUEUES_COUNT),
        )

    async def _one_append(
        self,
        client: str,
        number: int,
        records: list[NewRecord],
        log: Log,
        burst: bool,
        scope: trio.CancelScope,
    ) -> None:
        receipt: Receipt | None = None
        error, now = "given up", self.history.now
        with scope:
            try:
                if burst:
                    async with log.appender(in_flight_bytes=4096) as out:
                        for record in records:
                            await out.send(record)
                else:
                    receipt = await log.append(records)
                error = ""
            except NotStored as refused:
                # Of a burst, earlier batches may be stored.
                error = repr(refused)
                if not burst:
                    now(AppendRefused, client=client, operation=number, error=error)
                    return
            except OutcomeUnknown as unknown:
                error = repr(unknown)
        if error:
            now(AppendUnknown, client=client, operation=number, error=error)
            return
        now(AppendAnswered, client=client, operation=number, receipt=receipt)

    # ---- reading ----

    async def _read(self, until_s: float) -> None:
        rng = random.Random(self.rng.random())
        positions = [0]
        members = self.cluster.config.groups[self.group].members
        while trio.current_time() < until_s:
            await trio.sleep(rng.expovariate(1 / self.options.read_pause_mean_s))
            name = rng.choice(members)
            with trio.move_on_after(READ_TIMEOUT_S):
                try:
                    fresh = self._fresh.random() < self.options.fresh_share
                    await self._one_read(rng, name, positions, fresh=fresh)
                except TriologError:
                    continue  # it is off, or was killed meanwhile

    async def _one_read(
        self, rng: random.Random, name: str, positions: list[int], *, fresh: bool
    ) -> None:
        boot = self.cluster.world.node(name).boots
        log = self.cluster.log(self.group, name)
        asked = len(self.history.observations)
        offsets = await log.offsets()
        self.history.now(OffsetsSeen, node=name, boot=boot, asked=asked, offsets=offsets)
        start = rng.choice([positions[-1], rng.choice(positions)])
        asked = len(self.history.observations)
        size = rng.choice([1, 1000, 100_000])
        batch = await log.read(start, max_bytes=size, fresh=fresh)
        self._was_read(name, boot, asked, start, batch, fresh=fresh)
        if batch.next > positions[-1]:
            positions.append(batch.next)

    @property
    def _members(self) -> tuple[str, ...]:
        return self.cluster.config.groups[self.group].members

    async def _read_deposed(self, until_s: float) -> None:
        """While several nodes believe that they are master, make a fresh read from each: a client
        may not have learned of the newest master.
        """
        while trio.current_time() < until_s:
            await trio.sleep(DEPOSED_LOOK_S)
            nodes = {name: self.cluster.running(name) for name in self._members}
            masters = [name for name, node in nodes.items() if node and node.is_open(self.group)]
            for name in masters if len(masters) > 1 else ():
                with trio.move_on_after(READ_TIMEOUT_S), suppress(TriologError):
                    await self._one_read(self._fresh, name, [0], fresh=True)

    async def _follow(self, until_s: float) -> None:
        """Read one node's log continuously, as it grows; after an error go on from the same
        position.
        """
        members = self.cluster.config.groups[self.group].members
        name = self.rng.choice(members)
        log, position = self.cluster.log(self.group, name), 0
        with trio.move_on_at(until_s):
            while True:
                reader = log.reader(position, follow=True, batch_bytes=2000)
                boot = self.cluster.world.node(name).boots
                asked = len(self.history.observations)
                try:
                    async for batch in reader:
                        self._was_read(name, boot, asked, position, batch)
                        position = reader.position
                        asked = len(self.history.observations)
                except TriologError:
                    await trio.sleep(READ_AGAIN_S)

    def _was_read(
        self, node: str, boot: int, asked: int, start: int, batch: Batch, *, fresh: bool = False
    ) -> None:
        where = {"node": node, "boot": boot, "asked": asked}
        self.history.now(RecordsRead, **where, start=start, batch=batch, fresh=fresh)


def _body(record: NewRecord) -> bytes:
    return record.body if isinstance(record, Message) else record
