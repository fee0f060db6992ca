"""The HA actors of one node in a simulated network, over a store in the hands of the test."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import attrs
import trio
from ha_keeper import KitKeeper
from ha_peer import Peer
from handles_disk import HandlesDisk

from actors.config import ClusterConfig, loads
from actors.env import Env
from actors.ha import connection_state, role_messages
from actors.log_types import Promotion
from actors.runtime import (
    Actor,
    ActorRef,
    ChildSpec,
    MailboxSpec,
    Registry,
    ReplyTo,
    Strategy,
    SupervisorSpec,
    System,
    open_system,
)
from actors.sim.network import NetworkOptions, SimNetwork
from actors.storage.commitlog import pull_service, store_messages
from actors.storage.commitlog.pull_service import NEWS_WITHIN_S
from actors.storage.log.commit_log import segment_path
from actors.storage.log.growth import Growth, Subscribe, Unsubscribe
from actors.storage.scrub import scrubber_messages
from actors.trees.classic import master_ha, slave_ha
from actors.trees.group_setup import GroupSetup

SEGMENT = 4096
PORT = 10912
ADDRESSES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
STRANGER = "127.0.0.9"


def cluster(*lines: str, slaves: str = '["n1", "n2"]', drop: str | None = None) -> ClusterConfig:
    """Three nodes and the group `orders`, with more lines for the group, and less of one."""
    more = "\n".join(lines)
    text = f"""
version = 1
name = "kit"
data_dir = "/data"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = "n0"
slaves = {slaves}
segment_bytes = {SEGMENT}
{more}
"""
    return loads(text.replace(f"\n{drop}\n", "\n") if drop else text, "kit.toml")


@attrs.frozen(kw_only=True)
class Became:
    """The test changes the log."""

    min_bytes: int
    written_bytes: int
    synced_bytes: int
    waits: tuple[store_messages.Waiting, ...] = ()


KitMessage: TypeAlias = store_messages.Message | Became


@attrs.define
class KitStore(Actor[KitMessage]):
    """A store in memory and, for readers, on the simulated disk."""

    mailbox = MailboxSpec()
    kit: Kit
    _source: ActorRef[store_messages.RawRefused] | None = None
    _unanswered: list[store_messages.GetRange] = attrs.field(factory=list)

    async def handle(self, message: KitMessage) -> None:
        kit = self.kit
        match message:
            case Subscribe():
                await kit.growth.subscribe(message, kit.extent())
            case Unsubscribe():
                kit.growth.unsubscribe(message)
            case store_messages.GetRange():
                if kit.answers_range:
                    message.reply_to.send(kit.range())
                else:
                    self._unanswered.append(message)
            case store_messages.OpenSession():
                kit.session = message.session
                self._source = message.source
            case store_messages.AppendRaw():
                await self._append_raw(message)
            case Became():
                kit.min_bytes = message.min_bytes
                kit.synced_bytes = message.synced_bytes
                if message.waits:
                    transfer = self.ctx.ref(kit.setup.paths.group_transfer)
                    await transfer.tell(store_messages.RecordsWritten(waits=message.waits))
                await self._publish()
            case _:
                raise AssertionError(message)

    async def _append_raw(self, message: store_messages.AppendRaw) -> None:
        kit = self.kit
        if message.session != kit.session or kit.refusing:
            assert self._source is not None
            await self._source.tell(
                store_messages.RawRefused(session=message.session, reason="no space left on device")
            )
            return
        if not kit.log and message.offset_bytes:
            kit.base_bytes = message.offset_bytes
            kit.min_bytes = kit.synced_bytes = message.offset_bytes
        assert message.offset_bytes == kit.written_bytes
        data = message.data
        kit.write(data if isinstance(data, bytes) else data.take(len(data)))  # type: ignore[attr-defined]
        if not kit.sync_hangs:
            kit.synced_bytes = kit.written_bytes
        await self._publish()

    async def _publish(self) -> None:
        await self.kit.growth.publish(self.kit.extent())


@attrs.define
class Checks(Actor[scrubber_messages.Check | scrubber_messages.Watch]):
    """Stands where the scrubber is: all may be sent, and no copy is damaged."""

    mailbox = MailboxSpec()

    async def handle(self, message: scrubber_messages.Check | scrubber_messages.Watch) -> None:
        if isinstance(message, scrubber_messages.Watch):
            await message.subscriber.tell(scrubber_messages.CopyState(damage=""))
            return
        until = message.start_bytes + scrubber_messages.CHECK_BYTES
        now_s = self.ctx.now_s()
        message.reply_to.send(
            scrubber_messages.Checked(until_bytes=until, rotten=False, compared_s=now_s)
        )


@attrs.define
class Readers(Actor[pull_service.Acknowledged]):
    """Stands where pull_service is, and remembers."""

    mailbox = MailboxSpec(conflate={pull_service.Acknowledged: lambda message: message})
    seen: list[int]

    async def on_start(self) -> None:
        self.ctx.limit_delay(NEWS_WITHIN_S)  # as if somebody always watched

    async def handle(self, message: pull_service.Acknowledged) -> None:
        self.seen.append(message.offset_bytes)


@attrs.define
class Kit:
    """One node: its log, its actors, and the network around it.

    `received` and `verdicts` are of the role keeper's stand-in, if there is one.
    """

    setup: GroupSetup
    network: SimNetwork
    disk: HandlesDisk
    events: list[Any]
    log: bytearray = attrs.field(factory=bytearray)
    base_bytes: int = 0
    min_bytes: int = 0
    synced_bytes: int = 0
    session: int = 0
    refusing: bool = False
    sync_hangs: bool = False
    answers_range: bool = True
    growth: Growth[store_messages.LogGrew] = attrs.field(
        factory=partial(Growth, store_messages.LogGrew)
    )
    shown: list[int] = attrs.field(factory=list)
    received: list[Any] = attrs.field(factory=list)
    verdicts: list[role_messages.Verified] = attrs.field(factory=list)
    system: System = attrs.field(init=False)

    @property
    def written_bytes(self) -> int:
        return self.base_bytes + len(self.log)

    def extent(self) -> store_messages.LogGrew:
        return store_messages.LogGrew(
            min_bytes=self.min_bytes,
            written_bytes=self.written_bytes,
            synced_bytes=self.synced_bytes,
        )

    def range(self) -> store_messages.LogRange:
        return store_messages.LogRange(
            min_bytes=self.min_bytes,
            written_bytes=self.written_bytes,
            synced_bytes=self.synced_bytes,
            segment_bytes=self.setup.group.segment_bytes,
            folder=self.setup.layout.commit_log,
        )

    def write(self, data: bytes) -> None:
        """Into the log and its files, without telling anybody."""
        folder, segment_bytes = self.setup.layout.commit_log, self.setup.group.segment_bytes
        self.disk.mkdir(folder)
        at = self.written_bytes
        self.log += data
        while at < self.written_bytes:
            base = at - at % segment_bytes
            path = segment_path(folder, base)
            if not self.disk.exists(path):
                self.disk.open(path, "x").resize(segment_bytes)
            part = self.log[at - self.base_bytes : base + segment_bytes - self.base_bytes]
            self.disk.open(path, "w").pwrite(part, at - base)
            at += len(part)

    async def append(
        self,
        data: bytes,
        *,
        synced: bool = True,
        waits: tuple[store_messages.Waiting, ...] = (),
        min_bytes: int = 0,
    ) -> None:
        """The log grows, as after an append of the master."""
        self.write(data)
        await self.became(
            synced_bytes=self.written_bytes if synced else self.synced_bytes,
            waits=waits,
            min_bytes=min_bytes,
        )

    async def became(
        self,
        *,
        synced_bytes: int | None = None,
        waits: tuple[store_messages.Waiting, ...] = (),
        min_bytes: int = 0,
    ) -> None:
        message = Became(
            min_bytes=min_bytes,
            written_bytes=self.written_bytes,
            synced_bytes=self.synced_bytes if synced_bytes is None else synced_bytes,
            waits=waits,
        )
        await self.ref(self.setup.paths.store).tell(message)

    def ref(self, path: str) -> ActorRef[Any]:
        return self.system.ref(path)

    async def status(self) -> connection_state.HaStatus:
        return await self.ref(self.setup.paths.connection_state).ask(
            connection_state.HaStatus,
            lambda reply_to: connection_state.GetStatus(reply_to=reply_to),
            timeout_s=5.0,
        )

    async def crash(self, path: str) -> None:
        """Make this actor's next message one that it cannot read."""
        await self.ref(path).tell(object())

    def of(self, kind: type[Any]) -> list[Any]:
        """Events of this class, in order."""
        return [event for event in self.events if type(event) is kind]

    async def connect(self, node: str) -> Peer:
        """A slave in the hands of the test."""
        process = self.network.open(node)
        stream = await process.connect(ADDRESSES["n0"], PORT, local_host=ADDRESSES.get(node))
        return Peer.of(stream)

    async def turned_away(self, node: str) -> bool:
        """Whether a connection from there ends before a byte was said."""
        try:
            peer = await self.connect(node)
        except ConnectionResetError:
            return True
        return await peer.ended()


def waiting(first: int, end: int, deadline_s: float, answers: list[Any]) -> store_messages.Waiting:
    """A pending append whose answer, or error, lands in `answers`."""
    reply: ReplyTo[Any] = ReplyTo.local(answers.append)
    return store_messages.Waiting(
        first_bytes=first,
        last_bytes=first,
        next_bytes=end,
        count=1,
        deadline_s=deadline_s,
        reply_to=reply,
    )


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait in small steps of virtual time, at most 100 s."""
    for _ in range(100_000):
        held = condition()
        if held if isinstance(held, bool) else await held:
            return
        await trio.sleep(0.001)
    raise AssertionError("it did not happen within 100 s")


@asynccontextmanager
async def node(
    name: str,
    config: ClusterConfig,
    *,
    options: NetworkOptions | None = None,
    holding: bytes = b"",
    before: Callable[[SimNetwork], None] | None = None,
    guarded: bool = False,
) -> AsyncIterator[Kit]:
    """The HA actors of `orders` on this node, running.

    Args:
        holding: the log that is there at the start.
        before: called with the network before the node starts.
        guarded: with a role keeper, in the hands of the test.
    """
    async with trio.open_nursery() as nursery:
        network = SimNetwork(random.Random(1), options or NetworkOptions(fragment_share=0.0))
        await nursery.start(network.run)
        for number, (host, address) in enumerate(ADDRESSES.items()):
            network.add_host(host, f"10.0.0.{number}", address)  # the first is its own choice
        network.add_host("stranger", STRANGER)
        if before is not None:
            before(network)
        async with kit_on(name, config, network, holding, guarded) as kit:
            yield kit
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def kit_on(
    name: str,
    config: ClusterConfig,
    network: SimNetwork,
    holding: bytes = b"",
    guarded: bool = False,
) -> AsyncIterator[Kit]:
    """As `node`, in a network that is there already."""
    events: list[Any] = []
    disk = HandlesDisk(random.Random(2))
    env = Env(
        network=network.open(name),
        disk=disk,
        rng=random.Random(3),
        wall_clock_ms=lambda: 0,
        events=lambda path, incarnation, event: events.append(event),
    )
    kits: list[Kit] = []

    def build(registry: Registry) -> SupervisorSpec:
        group = config.groups["orders"]
        setup = GroupSetup.of(config, name, group, env, registry)
        if guarded:
            setup = setup.led_by(Promotion(0, group.master), None)
        kit = Kit(setup=setup, network=network, disk=disk, events=events)
        kits.append(kit)
        kit.write(holding)
        kit.synced_bytes = kit.written_bytes
        children = master_ha(setup) if group.master == name else slave_ha(setup)
        storage = SupervisorSpec(children=(ChildSpec(name="store", start=lambda: KitStore(kit)),))
        readers = ChildSpec(name="pull_service", start=lambda: Readers(kit.shown))
        checks = ChildSpec(name="scrubber", start=Checks)
        orders = SupervisorSpec(
            strategy=Strategy.REST_FOR_ONE,
            children=(ChildSpec(name="storage", start=storage), readers, checks, *children),
        )
        keeper = ChildSpec(name="orders", start=lambda: KitKeeper(kit.received, kit.verdicts))
        roles = ChildSpec(name="roles", start=SupervisorSpec(children=(keeper,)))
        group_child = ChildSpec(name="orders", start=orders)
        return SupervisorSpec(children=(*((roles,) if guarded else ()), group_child))

    async with open_system(name, build, rng=env.rng, events=env.events) as system:
        kits[0].system = system
        yield kits[0]
