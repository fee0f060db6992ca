"""Store, syncer and dispatcher of one group on one disk, with the test as acknowledger."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import attrs
import trio
from store_tree import Machine, store_tree

from actors.config import ClassicGroup
from actors.env.protocols import Disk, Env, Held
from actors.log_types import NewRecord, Promotion
from actors.runtime import (
    Actor,
    ActorRef,
    ChildSpec,
    MailboxSpec,
    Registry,
    ReplyTo,
    Restart,
    SupervisorSpec,
    System,
    open_system,
)
from actors.sim.disk import EPOCH_MS, DiskOptions, SimDisk
from actors.sim.disk.fence import FencedDisk
from actors.storage.commitlog import store_messages
from actors.storage.commitlog.group_commit import StoreTime
from actors.storage.commitlog.store import Store
from actors.storage.dispatch import dispatcher_messages
from actors.storage.dispatch.dispatcher import Dispatcher
from actors.storage.layout import StoreLayout
from actors.storage.log.growth import Subscribe
from actors.storage.log.syncer import Syncer

ROOT = "/data/n0/groups/orders"
Heard: TypeAlias = (
    store_messages.RecordsWritten | store_messages.LogGrew | store_messages.RawRefused
)


def small_group(**changes: Any) -> ClassicGroup:
    """A group with small files."""
    fields: dict[str, Any] = {
        "name": "orders",
        "master": "n0",
        "slaves": ("n1",),
        "segment_bytes": 4096,
        "consume_queue_bytes": 2000,
        "index_slots_count": 50,
        "index_units_count": 200,
        "max_message_bytes": 3900,
    }
    return ClassicGroup(**(fields | changes))


@attrs.define
class Listener(Actor[Heard]):
    """Stands for group_transfer and ha_client; answers each append when its sync is done."""

    mailbox = MailboxSpec(conflate={store_messages.LogGrew: lambda message: None})
    kit: Kit
    _waits: list[store_messages.Waiting] = attrs.field(factory=list)

    async def on_start(self) -> None:
        await self.kit.store.tell(Subscribe(subscriber=self.ctx.self_ref))

    async def handle(self, message: Heard) -> None:
        self.kit.heard.append(message)
        match message:
            case store_messages.RecordsWritten():
                self._waits.extend(message.waits)
            case store_messages.LogGrew():
                self.kit.grown = message
            case store_messages.RawRefused():
                self.kit.refused.append(message)
        synced = self.kit.group.durability == "synced"
        grown = self.kit.grown
        held = 0 if grown is None else grown.synced_bytes if synced else grown.written_bytes
        while self._waits and self._waits[0].next_bytes <= held:
            wait = self._waits.pop(0)
            wait.reply_to.send(
                store_messages.Appended(
                    first_bytes=wait.first_bytes,
                    last_bytes=wait.last_bytes,
                    next_bytes=wait.next_bytes,
                    copies=1,
                    durability=self.kit.group.durability,
                )
            )


@attrs.define
class Kit(Machine):
    """A running group of actors, and what it said."""

    group: ClassicGroup
    layout: StoreLayout
    events: list[Any]
    heard: list[Heard] = attrs.field(factory=list)
    refused: list[store_messages.RawRefused] = attrs.field(factory=list)
    grown: store_messages.LogGrew | None = None
    started: list[store_messages.StoreStarted] = attrs.field(factory=list)
    system: System = attrs.field(init=False)
    wall_ms: int = EPOCH_MS
    changed_group: ClassicGroup | None = None
    time: StoreTime = attrs.field(factory=StoreTime)
    confirmed: Callable[[], int] | None = None

    @property
    def store(self) -> ActorRef[store_messages.Message]:
        return self.registry.ref("/n0/storage/store")

    @property
    def dispatcher(self) -> ActorRef[dispatcher_messages.Message]:
        return self.registry.ref("/n0/dispatcher")

    @property
    def listener(self) -> ActorRef[Heard]:
        return self.registry.ref("/n0/listener")

    async def append(self, *records: NewRecord, timeout_s: float = 5.0) -> store_messages.Appended:
        deadline_s = trio.current_time() + timeout_s
        return await self.store.ask(
            store_messages.Appended,
            lambda reply_to: store_messages.Append(
                records=records, deadline_s=deadline_s, reply_to=reply_to
            ),
            timeout_s=timeout_s,
        )

    async def open_session(self, session: int) -> None:
        await self.store.tell(store_messages.OpenSession(session=session, source=self.listener))

    async def receive(
        self, session: int, offset: int, data: bytes | Held, *, ends_frame: bool = True
    ) -> None:
        await self.store.tell(
            store_messages.AppendRaw(
                session=session, offset_bytes=offset, data=data, ends_frame=ends_frame
            )
        )

    async def range(self, *, looks: bool = False) -> store_messages.LogRange:
        return await self.store.ask(
            store_messages.LogRange,
            lambda reply_to: store_messages.GetRange(reply_to=reply_to, looks=looks),
            timeout_s=5.0,
        )

    async def progress(self) -> dispatcher_messages.Dispatched:
        return await self.dispatcher.ask(
            dispatcher_messages.Dispatched,
            lambda reply_to: dispatcher_messages.GetDispatched(reply_to=reply_to),
            timeout_s=5.0,
        )

    async def dispatched(self, offset: int) -> None:
        """Wait until the dispatcher has got there."""
        for _ in range(100_000):
            if (await self.progress()).dispatched_bytes >= offset:
                return
            await trio.sleep(0.001)
        raise AssertionError(f"{offset} was not dispatched: {await self.progress()}")

    async def units(
        self, topic: str, queue_id: int = 0, position: int = 0, count: int = 1000
    ) -> dispatcher_messages.QueueUnits:
        return await self.dispatcher.ask(
            dispatcher_messages.QueueUnits,
            lambda reply_to: dispatcher_messages.LookupQueue(
                topic=topic, queue_id=queue_id, position=position, count=count, reply_to=reply_to
            ),
            timeout_s=5.0,
        )

    async def by_key(self, topic: str, key: str, count: int = 10) -> tuple[tuple[int, int], ...]:
        answer = await self.dispatcher.ask(
            dispatcher_messages.KeyMatches,
            lambda reply_to: dispatcher_messages.LookupKey(
                topic=topic, key=key, count=count, reply_to=reply_to
            ),
            timeout_s=5.0,
        )
        return answer.matches

    def of(self, kind: type[Any]) -> list[Any]:
        """Events of this class, in order."""
        return [event for event in self.events if type(event) is kind]


@attrs.define
class Keeper(Actor[store_messages.StoreStarted]):
    """Stands for the role keeper: hears the store's starts; the test sets the gate."""

    kit: Kit

    async def handle(self, message: store_messages.StoreStarted) -> None:
        self.kit.started.append(message)


def tree(
    kit: Kit, env: Env, registry: Registry, *, is_master: bool, guarded: bool = False
) -> SupervisorSpec:
    """As trees/classic.py has it, without the network."""
    kit.registry = registry
    storage = (
        partial(
            Syncer,
            disk=env.disk,
            store=registry.ref("/n0/storage/store"),
            interval_s=0.0 if kit.group.durability == "synced" else kit.group.flush_interval_s,
            least_bytes=kit.group.flush_least_bytes,
            thorough_s=kit.group.flush_thorough_interval_s,
        ),
        partial(
            Store,
            env=env,
            layout=kit.layout,
            group=kit.group,
            node="n0",
            host=("127.0.0.1", 10912),
            syncer=registry.ref("/n0/storage/syncer"),
            acknowledger=registry.ref("/n0/listener") if is_master else None,
            guard=store_messages.Guard(registry.ref("/n0/keeper"), Promotion(3, "n7"))
            if guarded
            else None,
            changed_group=lambda: kit.changed_group or kit.group,
            time=kit.time,
        ),
    )
    spec = ChildSpec(name="keeper", start=lambda: Keeper(kit), restart=Restart.TEMPORARY)
    keeper = (spec,) if guarded else ()
    derived = partial(
        Dispatcher,
        env=env,
        layout=kit.layout,
        group=kit.group,
        store=registry.ref("/n0/storage/store"),
        confirmed=kit.confirmed,
    )
    behind = (
        ChildSpec(name="dispatcher", start=derived),
        ChildSpec(name="listener", start=lambda: Listener(kit)),
    )
    return store_tree(*storage, before=keeper, behind=behind)


@asynccontextmanager
async def running(
    disk: Disk,
    group: ClassicGroup | None = None,
    *,
    is_master: bool = True,
    guarded: bool = False,
    root: str = ROOT,
    wall_clock_ms: Any = None,
    confirmed: Callable[[], int] | None = None,
) -> AsyncIterator[Kit]:
    """The actors on this disk, until the block ends in order."""
    events: list[Any] = []
    kit = Kit(disk=disk, group=group or small_group(), layout=StoreLayout(root), events=events)
    kit.fence, kit.confirmed = FencedDisk(disk), confirmed
    env = Env(
        network=None,  # type: ignore[arg-type]
        disk=kit.fence,
        rng=random.Random(3),
        wall_clock_ms=wall_clock_ms or (lambda: kit.wall_ms),
        events=lambda path, incarnation, event: events.append(event),
    )
    async with open_system(
        "n0",
        lambda registry: tree(kit, env, registry, is_master=is_master, guarded=guarded),
        events=env.events,
    ) as system:
        kit.system = system
        yield kit


class FullDisk(SimDisk):
    """A disk that is as full as the test says."""

    used = 0.5
    free = 1 << 30

    def usage(self, path: str) -> float:
        return self.used

    def free_bytes(self, path: str) -> int:
        return self.free


def full_disk() -> FullDisk:
    return FullDisk(random.Random(1), DiskOptions())


def sim_disk(seed: int = 2) -> SimDisk:
    return SimDisk(random.Random(seed))


def local_reply(answers: list[Any]) -> ReplyTo[Any]:
    return ReplyTo.local(answers.append)


def log_of(disk: SimDisk) -> bytes:
    folder = f"{ROOT}/commitlog"
    files = [disk.open(f"{folder}/{name}", "r") for name in disk.listdir(folder)]
    return b"".join(file.pread(0, file.size_bytes) for file in files)


async def until(condition: Any) -> None:
    for _ in range(100_000):
        if condition():
            return
        await trio.sleep(0.001)
    raise AssertionError("it did not happen within 100 s")
