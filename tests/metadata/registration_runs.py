"""Runs of a master and two slaves beside two name servers, from a seed: name servers and nodes that
are killed, stopped and started, links that lose requests or answers, promotions of which
the old master hears late, new and changed topics. What clients are told is judged after each:

Found: a node that runs is in the routes of its topics within the bound of what happened.
TriedAgain: what a name server was told in vain it is told again, at most `RETRY_MAX_S` later.
ToldAtOnce: of a new or changed topic every name server hears within `SOON_S`, none of them waits.
Leaves: a node that stops in order is out of all routes then, because it said so.
TheNewMasterStays: once a promoted master has its id, its predecessor does not take it back.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio
from metadata_kit import BROKER_PORT, NODES, MetadataCluster, put_lone_topic
from name_server_kit import MORE, NAME_SERVERS, ask, start_name_server, start_name_servers

from actors.broker.core.registration import CALL_S, PERIOD_S, RETRY_MAX_S
from actors.broker.registrar import Presence
from actors.events.namesrv import BrokerLeft
from actors.metadata.core.changes import put_topic
from actors.metadata.core.tables import Tables
from actors.sim.world import World, open_world
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.routes import TopicRouteData, decode_route
from wire.broker.topics import TopicConfig

SOON_S = 1.0
RENEWED_S = PERIOD_S + RETRY_MAX_S
"""Within which a name server has all that it has forgotten."""
TRIED_AGAIN_S = RETRY_MAX_S + 1.0
"""Within which it has what it was told in vain."""
FAULT_MAX_S = 15.0
MENDED_S = FAULT_MAX_S + CALL_S + 2 * RETRY_MAX_S
"""Within which a registration that was lost is made up for."""
STEPS = 9


class Objection(AssertionError):
    """A judge has seen what must not happen."""


@attrs.define
class Run:
    """One history.

    Attributes:
        perms: what clients have to see of each topic.
        master: who has id 0, since promotion `number`.
    """

    world: World
    nodes: MetadataCluster
    rng: random.Random
    perms: dict[str, int] = attrs.field(factory=dict)
    master: str = "n0"
    number: int = 0

    async def play(self) -> None:
        await start_name_servers(self.world)
        put_lone_topic(self.world.node("n0").disk, "n0", "a")
        self.perms["a"] = 6
        await self.nodes.start()
        await self._whole("Found", 5.0)
        steps: list[Callable[[], Awaitable[None]]] = [
            self._restart_server, self._topic, self._perms, self._lose, self._stop,
            self._kill, self._promote,
        ]  # fmt: skip
        for step in (*steps, *self.rng.choices(steps, k=STEPS - len(steps))):
            await step()
            await trio.sleep(self.rng.uniform(0.0, 20.0))

    # ---- what clients are told ----

    async def _route(self, server: str, topic: str) -> TopicRouteData | None:
        fields = {"topic": topic}
        frame = await ask(self.world, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        found = frame.header.code != ResponseCode.TOPIC_NOT_EXIST
        return decode_route(frame.body) if found else None

    async def _ids(self, server: str) -> dict[int, str]:
        """The ids of the group's addresses, by name of the node."""
        route = await self._route(server, "a")
        names = {f"{address}:{BROKER_PORT}": name for name, address in NODES.items()}
        datas = () if route is None else route.broker_datas
        return {id_: names[at] for each in datas for id_, at in each.broker_addrs.items()}

    def _wanted(self) -> dict[int, str]:
        ids = self.nodes.setups["n0"].registering
        assert ids is not None
        return {ids.broker_id(name, self.master): name for name in NODES}

    async def _whole(self, judge: str, within_s: float) -> None:
        """Both name servers have all topics as they are, and all nodes with their present ids."""
        said = ""
        with trio.move_on_after(within_s):
            while said := await self._lacks():  # noqa: ASYNC110
                await trio.sleep(within_s / 40)
        if said:
            raise Objection(f"{judge}: {said}")

    async def _lacks(self) -> str:
        for server in NAME_SERVERS:
            if (found := await self._ids(server)) != self._wanted():
                return f"{found} at {server}, not {self._wanted()}"
            for topic, perm in self.perms.items():
                route = await self._route(server, topic)
                perms = [] if route is None else [each.perm for each in route.queue_datas]
                if perms != [perm]:
                    return f"{topic} at {server} has {perms}, not {perm}"
        return ""

    # ---- what happens ----

    async def _change(self, **perms: int) -> None:
        """Topics are made or changed together."""

        def make(tables: Tables, now_ms: int) -> Tables:
            for name, perm in perms.items():
                tables = put_topic(tables, TopicConfig(topic_name=name, perm=perm), now_ms)
            return tables

        self.perms |= perms
        await self.nodes.change(make)

    async def _topic(self) -> None:
        await self._change(**{f"t{len(self.perms)}": 6})
        await self._whole("ToldAtOnce", SOON_S)

    async def _perms(self) -> None:
        for perm in (4, 6):
            await self._change(**dict.fromkeys(self.perms, perm))
            await self._whole("ToldAtOnce", SOON_S)

    async def _restart_server(self) -> None:
        """A topic is made or changed meanwhile, the only one at first."""
        topic = "a" if self.perms == {"a": 6} else f"t{len(self.perms)}"
        server = self.rng.choice([*NAME_SERVERS])
        await self.world.kill_node(server)
        await self._change(**{topic: 4})
        await trio.sleep(self.rng.uniform(0.5, 20.0))
        await start_name_server(self.world, server)
        with trio.move_on_after(TRIED_AGAIN_S) as tried:
            while await self._route(server, topic) is None:  # noqa: ASYNC110
                await trio.sleep(0.2)
        if tried.cancelled_caught:
            raise Objection(f"TriedAgain: {server} has not heard of {topic}")
        await self._whole("Found", RENEWED_S)

    async def _lose(self) -> None:
        """A link loses requests or answers, one of them with a new topic."""
        name, server = self.rng.choice([*NODES]), self.rng.choice([*NAME_SERVERS])
        link = self.rng.choice([(name, server), (server, name)])
        self.world.network.cut(*link)
        await self._change(**{f"t{len(self.perms)}": 6})
        await trio.sleep(self.rng.uniform(4.0, FAULT_MAX_S))
        self.world.network.heal(*link)
        await self._whole("Found", MENDED_S)

    async def _stop(self) -> None:
        name = self.rng.choice([each for each in NODES if each not in (self.master, "n0")])
        before = len(self.world.events)
        await self.nodes.systems[name].stop()
        gone = [each.event for each in self.world.events[before:]]
        why = [each.reason for each in gone if isinstance(each, BrokerLeft)]
        if why != ["unregistered"] * len(NAME_SERVERS):
            raise Objection(f"Leaves: {name} has left name servers as: {why}")
        for server in NAME_SERVERS:
            if name in (await self._ids(server)).values():
                raise Objection(f"Leaves: {name} is still at {server}")
        await self._start(name)

    async def _kill(self) -> None:
        name = self.rng.choice([each for each in NODES if each not in (self.master, "n0")])
        await self.world.kill_node(name)
        await trio.sleep(self.rng.uniform(0.1, 5.0))
        await self._start(name)

    async def _start(self, name: str) -> None:
        """The cluster file alone says who is master in these trees; the run says who is by now."""
        await self.nodes.start(name)
        await trio.sleep(0.1)
        self._announce(name)
        await self._whole("Found", 5.0)

    def _announce(self, name: str) -> None:
        setup = self.nodes.setups[name]
        assert setup.registering is not None
        id_ = setup.registering.broker_id(name, self.master)
        member = attrs.evolve(setup.member, broker_id=id_, number=self.number)
        setup.registrations.announce(Presence(member=member, followers=None))

    async def _promote(self) -> None:
        old = self.master
        self.master = self.rng.choice([each for each in NODES if each != old])
        self.number += 1
        await self.nodes.until_equal()
        for name in NODES:
            if name != old:
                self._announce(name)
        await trio.sleep(1.0)
        for _ in range(self.rng.randrange(50)):
            for server in NAME_SERVERS:
                if (found := (await self._ids(server)).get(0)) != self.master:
                    raise Objection(f"TheNewMasterStays: {found} has id 0 at {server}")
            await trio.sleep(1.0)
        self._announce(old)
        await self._whole("Found", 2.0)


async def run(seed: int) -> Run:
    """A whole run. Raises: Objection, in an ExceptionGroup."""
    async with open_world(seed) as world:
        nodes = MetadataCluster(world, more=MORE)
        history = Run(world=world, nodes=nodes, rng=random.Random(f"{seed}:registration"))
        await history.play()
    return history


def objections(error: BaseException) -> list[Any]:
    """The judges' names in what a run has raised, in order."""
    if isinstance(error, BaseExceptionGroup):
        return [name for each in error.exceptions for name in objections(each)]
    return [str(error).partition(":")[0]] if isinstance(error, Objection) else []
