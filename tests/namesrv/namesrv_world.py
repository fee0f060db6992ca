"""Name servers, brokers and clients on a simulated network and virtual time, drawn from a seed.

The name servers are ours, actors and files; the brokers are models that register as Java's do:
with all topics at first and every 30 s, with one topic when it is new, on a connection that is made
again when it breaks. Faults are cut, clogged and reset links, killed name servers and brokers,
machines without power, promotions with the old master still there, and wall clocks that jump.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio
from frame_client import FrameClient
from namesrv_checkers import FAULT_MAX_S, FOUND_S, TIMEOUT_S, WHOLE_S, Life, Role, Truth, lives_s
from namesrv_kit import table
from namesrv_lan import Caller
from registering import encode_registration

from actors.env.protocols import Env
from actors.namesrv.tree import NameServerSettings, name_server_tree
from actors.runtime import Registry, SupervisorSpec, open_system
from actors.sim.disk import SimDisk
from actors.sim.network import SimNetwork
from actors.sim.scheduler import cancel_through_shields, run
from wire.broker.codes import RequestCode
from wire.broker.routes import TopicRouteData, decode_route
from wire.broker.topics import TopicTable

DURATION_S: Final = 600.0
SERVERS: Final = ("ns0", "ns1")
GROUPS: Final = ("a", "b")
PORT: Final = 9876
REGISTER_S: Final = 30.0
RETRY_S: Final = 1.0
ANSWER_S: Final = 10.0
LOOK_S: Final = 3.0
CLUSTER: Final = "C"


@attrs.define(eq=False)
class Broker:
    """A broker on a machine of its own; each start is a new `Life`.

    Attributes:
        topics: of its group, which all of it have.
        life: the present run; None: it does not run.
        changed: set when it has something to say to the name servers.
    """

    world: World
    group: str
    number: int
    broker_id: int
    state: int = 0
    counter: int = 1
    life: Life | None = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    changed: trio.Event = attrs.field(factory=trio.Event)

    @property
    def host(self) -> str:
        return f"{self.group}{self.number}"

    @property
    def role(self) -> Role:
        return Role(self.group, self.broker_id, f"{self.host}:10911")

    def table(self) -> TopicTable:
        return table(*self.world.topics[self.group], counter=self.counter, state=self.state)

    async def run(self) -> None:
        """One run of the process."""
        truth = self.world.truth
        life = self.life = Life(self.host, self.role, truth.now_s(), self.state)
        truth.lives.append(life)
        process = self.world.network.open(self.host)
        with trio.CancelScope() as self.scope:
            async with trio.open_nursery() as nursery:
                for server in SERVERS:
                    nursery.start_soon(self._register_with, server, process)
        process.end(silently=life.is_silent)

    def end(self, *, silently: bool = False) -> None:
        if self.life is not None:
            self.life.ended_s, self.life.is_silent = self.world.truth.now_s(), silently
            self.life = None
            self.scope.cancel()

    def take_role(self, broker_id: int, state: int) -> None:
        self.broker_id, self.state = broker_id, state
        self.counter += 1
        if self.life is not None:
            self.life.role, self.life.state = self.role, state
            self.life.role_s = self.world.truth.now_s()
        self.say()

    def say(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def _register_with(self, server: str, process: object) -> None:
        while True:
            try:
                await self._connected(server, process)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, AssertionError):
                await trio.sleep(RETRY_S)

    async def _connected(self, server: str, process: object) -> None:
        """Register on one connection until it breaks. As in Java, a full table comes first."""
        open_stream: Callable[[str, int], Awaitable[object]] = process.connect  # type: ignore[attr-defined]
        with trio.fail_after(ANSWER_S):
            stream = await open_stream(self.world.addresses[server], PORT)
        caller, known = Caller(FrameClient.of(stream)), ()  # type: ignore[arg-type]
        try:
            while True:
                whole = self.table()
                new = [name for name in whole.topic_config_table if name not in known]
                is_one = bool(known) and len(new) == 1
                body = table(*new, counter=self.counter, state=self.state) if is_one else whole
                with trio.fail_after(ANSWER_S):
                    code = await self._say(server, caller, body)
                if code == 0:
                    known = tuple(whole.topic_config_table)
                changed = self.changed
                with trio.move_on_after(REGISTER_S):
                    await changed.wait()
                    continue
                known = ()
        finally:
            caller.hang_up()

    async def _say(self, server: str, caller: Caller, body: TopicTable) -> int:
        truth, role = self.world.truth, self.role
        truth.said[server, role] = truth.now_s()
        answer = await caller.ask(
            RequestCode.REGISTER_BROKER,
            body=encode_registration(body, version=479),
            brokerName=role.name,
            brokerAddr=role.address,
            clusterName=CLUSTER,
            haServerAddr=f"ha-{role.address}",
            brokerId=role.broker_id,
            enableActingMaster="false",
            heartbeatTimeoutMillis=int(TIMEOUT_S[role.name] * 1000),
        )
        return answer.header.code


@attrs.define(eq=False)
class Server:
    """A name server's machine."""

    world: World
    name: str
    disk: SimDisk
    clock_ms: int = 0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    failures: list[str] = attrs.field(factory=list)

    async def run(self) -> None:
        network = self.world.network.open(self.name)
        env = Env(
            network=network,
            disk=self.disk,
            rng=random.Random(f"{self.world.seed}:{self.name}"),
            wall_clock_ms=lambda: self.clock_ms + int(self.world.truth.now_s() * 1000),
            events=self._take,
        )
        settings = NameServerSettings(
            path=f"/{self.name}",
            host=self.world.addresses[self.name],
            port=PORT,
            where="--listen",
            folder=f"/{self.name}",
        )

        def build(registry: Registry) -> SupervisorSpec:
            return name_server_tree(settings, env, registry)

        with trio.CancelScope() as self.scope:
            async with open_system(
                self.name, build, rng=env.rng, events=self._take, log_crashes=False
            ):
                self.world.truth.up_s[self.name] = self.world.truth.now_s()
                await trio.sleep_forever()
        network.end()
        self.disk.kill()

    def kill(self) -> None:
        self.world.truth.up_s.pop(self.name, None)
        cancel_through_shields(self.scope)

    def _take(self, path: str, incarnation: int, event: object) -> None:
        if type(event).__name__ == "ActorCrashed" and self.name in self.world.truth.up_s:
            self.failures.append(str(event))


@attrs.define(eq=False)
class World:
    """See the module's text.

    Attributes:
        topics: by group; a broker's table has them all.
        counts: of the faults.
    """

    seed: int
    network: SimNetwork = attrs.field(init=False)
    truth: Truth = attrs.field(init=False)
    rng: random.Random = attrs.field(init=False)
    nursery: trio.Nursery = attrs.field(init=False)
    addresses: dict[str, str] = attrs.field(factory=dict, init=False)
    topics: dict[str, list[str]] = attrs.field(factory=dict, init=False)
    brokers: list[Broker] = attrs.field(factory=list, init=False)
    servers: dict[str, Server] = attrs.field(factory=dict, init=False)
    counts: dict[str, int] = attrs.field(factory=dict, init=False)

    async def run(self) -> None:
        self.rng = random.Random(f"{self.seed}:name servers")
        self.truth = Truth(trio.current_time)
        async with trio.open_nursery() as self.nursery:
            self.network = SimNetwork(random.Random(f"{self.seed}:network"))
            await self.nursery.start(self.network.run)
            self._build()
            for server in self.servers.values():
                self.nursery.start_soon(server.run)
            for broker in self.brokers:
                self.nursery.start_soon(broker.run)
            for name in SERVERS:
                self.nursery.start_soon(self._look, name)
            await self._faults()
            await trio.sleep(max(map(lives_s, GROUPS)) + FOUND_S)
            await self._judge_end()
            self.nursery.cancel_scope.cancel()
        for server in self.servers.values():
            self.truth.objections += [f"NothingFails: {each}" for each in server.failures]

    def _build(self) -> None:
        hosts = [*SERVERS, *(f"{group}{number}" for group in GROUPS for number in (0, 1)), "client"]
        for number, host in enumerate(hosts):
            self.addresses[host] = f"127.0.0.{number + 1}"
            self.network.add_host(host, self.addresses[host])
        for name in SERVERS:
            self.servers[name] = Server(self, name, SimDisk(random.Random(f"{self.seed}:{name}")))
        for group in GROUPS:
            self.topics[group] = [f"{group}-{number}" for number in range(3)] + ["shared"]
            self.brokers += [Broker(self, group, number, number) for number in (0, 1)]

    # Clients look.

    async def _look(self, server: str) -> None:
        while True:
            try:
                with trio.fail_after(ANSWER_S):
                    stream = await self.network.open("client").connect(self.addresses[server], PORT)
                caller = Caller(FrameClient.of(stream))
                while True:
                    await self._look_once(server, caller)
                    await trio.sleep(LOOK_S)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, AssertionError):
                await trio.sleep(RETRY_S)

    async def _look_once(self, server: str, caller: Caller) -> None:
        for topic in ("a-0", "b-1", "shared"):
            with trio.fail_after(ANSWER_S):
                route = await self._route(caller, topic)
            names = {group for group in GROUPS if topic in self.topics[group]}
            self.truth.judge(server, topic, names, route)

    async def _route(self, caller: Caller, topic: str) -> TopicRouteData | None:
        answer = await caller.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
        return None if answer.header.code == 17 else decode_route(answer.body)

    async def _judge_end(self) -> None:
        """All faults are over for long: every route names exactly who lives."""
        living = {each.role for each in self.brokers}
        for server in SERVERS:
            stream = await self.network.open("client").connect(self.addresses[server], PORT)
            route = await self._route(Caller(FrameClient.of(stream)), "shared")
            found = set() if route is None else {
                Role(each.broker_name, broker_id, address)
                for each in route.broker_datas
                for broker_id, address in each.broker_addrs.items()
            }  # fmt: skip
            if found != living:
                self.truth.objections.append(f"Converges: {found} at {server}, not {living}")

    # Faults.

    async def _faults(self) -> None:
        actions = (
            self._cut, self._clog, self._reset, self._kill_server, self._kill_broker,
            self._kill_broker, self._stop_broker, self._power_off, self._promote, self._new_topic,
            self._jump,
        )  # fmt: skip
        end_s = trio.current_time() + DURATION_S
        await trio.sleep(FOUND_S)
        while trio.current_time() < end_s:
            action = self.rng.choice(actions)
            self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
            if action in (self._cut, self._clog, self._kill_server):  # beside what else happens
                self.nursery.start_soon(action)
            else:
                await action()
            await trio.sleep(self.rng.uniform(5.0, 60.0))

    def _pair(self) -> tuple[str, str] | None:
        """A link that has been whole for long: what several faults in a row hold back has no
        bound.
        """
        now_s, broken_s = trio.current_time(), self.truth.broken_s
        pairs = [(broker.host, server) for broker in self.brokers for server in SERVERS]
        whole = [each for each in pairs if now_s - broken_s.get(each, -WHOLE_S) >= FAULT_MAX_S]
        return self.rng.choice(whole) if whole else None

    async def _cut(self) -> None:
        pair = self._pair()
        if pair is None:
            return
        host, server = pair
        ways = self.rng.choice([((host, server),), ((server, host),),
                                ((host, server), (server, host))])  # fmt: skip
        for source, target in ways:
            self.network.cut(source, target)
        await self._not_whole(host, server, self.rng.uniform(1.0, FAULT_MAX_S))
        for source, target in ways:
            self.network.heal(source, target)

    async def _clog(self) -> None:
        pair = self._pair()
        if pair is None:
            return
        host, server = pair
        seconds = self.rng.uniform(0.5, FAULT_MAX_S)
        self.network.clog(host, server, seconds)
        await self._not_whole(host, server, seconds)

    async def _not_whole(self, host: str, server: str, seconds: float) -> None:
        end_s = trio.current_time() + seconds
        while trio.current_time() < end_s:
            self.truth.broken_s[host, server] = trio.current_time()
            await trio.sleep(1.0)
        self.truth.broken_s[host, server] = trio.current_time()

    async def _reset(self) -> None:
        host, server = self._pair() or (self.brokers[0].host, SERVERS[0])
        self.truth.broken_s[host, server] = trio.current_time()
        self.network.reset(host, server)

    async def _kill_server(self) -> None:
        server = self.servers[self.rng.choice(SERVERS)]
        if server.name not in self.truth.up_s:
            return
        server.kill()
        await trio.sleep(self.rng.uniform(0.5, 60.0))
        self.nursery.start_soon(server.run)

    async def _kill_broker(self) -> None:
        broker = self.rng.choice(self.brokers)
        broker.end()
        await self._back(broker)

    async def _back(self, broker: Broker) -> None:
        await trio.sleep(self.rng.choice((1.0, 10.0, 100.0)))
        self.nursery.start_soon(broker.run)

    async def _stop_broker(self) -> None:
        """In order: it unregisters, on a connection of its own."""
        broker = self.rng.choice(self.brokers)
        for server in SERVERS:
            with trio.move_on_after(ANSWER_S):
                try:
                    stream = await self.network.open(broker.host).connect(
                        self.addresses[server], PORT
                    )
                    await Caller(FrameClient.of(stream)).ask(
                        RequestCode.UNREGISTER_BROKER,
                        brokerName=broker.group,
                        brokerAddr=broker.role.address,
                        clusterName=CLUSTER,
                        brokerId=broker.broker_id,
                    )
                except (OSError, trio.BrokenResourceError, AssertionError):
                    pass
        broker.end()
        await self._back(broker)

    async def _power_off(self) -> None:
        broker = self.rng.choice(self.brokers)
        broker.end(silently=True)
        self.network.power_off(broker.host)
        await trio.sleep(self.rng.choice((5.0, 60.0, 150.0)))
        self.network.power_on(broker.host)
        self.nursery.start_soon(broker.run)

    async def _promote(self) -> None:
        """The slave becomes master; the old one hears of it at once, or later."""
        group = self.rng.choice(GROUPS)
        members = [each for each in self.brokers if each.group == group]
        old, new = sorted(members, key=lambda each: each.broker_id)
        new.take_role(0, old.state + 1)
        await trio.sleep(self.rng.choice((0.0, 5.0, 60.0)))
        old.take_role(1, new.state)

    async def _new_topic(self) -> None:
        group = self.rng.choice(GROUPS)
        self.topics[group].append(f"{group}-{len(self.topics[group]) + 10}")
        for broker in self.brokers:
            if broker.group == group:
                broker.counter += 1
                broker.say()

    async def _jump(self) -> None:
        server = self.servers[self.rng.choice(SERVERS)]
        server.clock_ms += self.rng.choice((-3_600_000, 3_600_000))


def run_seed(seed: int) -> World:
    """A whole run; what the judges found is in `truth.objections`."""

    async def program() -> World:
        world = World(seed)
        await world.run()
        return world

    world = run(str(seed), program).result
    assert isinstance(world, World)
    return world
