"""Whole nodes in a simulated world whose group has a `broker_port`, and a master that says what a
test wants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs
import trio

from actors.broker.registrar import RegistrationView
from actors.config import ClusterConfig, loads
from actors.env import Env
from actors.metadata import keeper
from actors.metadata.core.changes import OWN_TOPICS
from actors.metadata.core.kinds import KINDS, TOPICS
from actors.metadata.core.tables import Tables
from actors.metadata.keeper import Change, Done
from actors.metadata.view import BOOT_KEY, MetadataView
from actors.remoting.requests import Answer, Processor, Processors, Request, plain
from actors.remoting.server import SLOTS_KEPT, ServerSettings, anybody, rpc_server
from actors.runtime import ChildSpec, Registry, SupervisorSpec, System, open_system
from actors.sim.disk import SimDisk
from actors.sim.world import World
from actors.storage.files.whole_files import write_synced
from actors.trees.classic import classic_trees
from actors.trees.group_setup import GroupPaths, GroupSetup
from actors.trees.node import node_tree
from wire.broker.codes import RequestCode
from wire.broker.dialect import encode_body
from wire.broker.increments import WATCH_METADATA
from wire.broker.java_json import JavaObject, encode
from wire.broker.routes import KVTable
from wire.broker.topics import DataVersion, TopicConfig, TopicTable

BROKER_PORT = 10_921
VIP_PORT = 10_919
NODES = {"n0": "127.0.0.1", "n1": "127.0.0.2", "n2": "127.0.0.3"}
CONFIG = f"""
version = 1
name = "kit"
data_dir = "/data"
[nodes]
n0 = "127.0.0.1"
n1 = "127.0.0.2"
n2 = "127.0.0.3"
[groups.orders]
mode = "classic"
master = MASTER
slaves = SLAVES
segment_bytes = 4096
broker_port = {BROKER_PORT}
"""
FOLDER = "/data/{}/groups/orders/config"
PATHS = {name: GroupPaths(f"/{name}/orders") for name in NODES}


def config_of(
    master: str, more: str = "", n0: str = NODES["n0"], more_of_group: str = ""
) -> ClusterConfig:
    """The other nodes are its slaves. Args: more: keys of the whole cluster; n0: its host."""
    slaves = ", ".join(f'"{name}"' for name in NODES if name not in master)
    return loads(
        more
        + CONFIG.replace("MASTER", master).replace("SLAVES", f"[{slaves}]").replace(NODES["n0"], n0)
        + more_of_group,
        "kit.toml",
    )


class MetadataCluster:
    """Three machines, and what a test does with them.

    Args:
        java: whether the master is a Java broker, which the test runs or plays.
        more: further keys of the cluster file.
        n0: the host of n0 there.
        also: further addresses of machines.
    """

    def __init__(
        self,
        world: World,
        *,
        java: bool = False,
        more: str = "",
        n0: str = NODES["n0"],
        also: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.world = world
        self.systems: dict[str, System] = {}
        self.views: dict[str, MetadataView] = {}
        self.master = "n0"
        self.registrations: dict[str, RegistrationView] = {}
        self.setups: dict[str, GroupSetup] = {}
        self._java, self._more, self._n0 = java, more, n0
        self.more_of_group = ""
        for name, address in NODES.items():
            world.add_node(name, address, *(also or {}).get(name, ()))

    async def start(self, *names: str) -> None:
        master = (
            f'{{ node = "{self.master}", kind = "java" }}' if self._java else f'"{self.master}"'
        )
        config = config_of(master, self._more, self._n0, self.more_of_group)
        for name in names or tuple(NODES):
            run = partial(self._run_node, config, name)
            self.systems[name] = await self.world.start_node(name, run)

    async def _run_node(
        self, config: ClusterConfig, name: str, env: Env, task_status: trio.TaskStatus[System]
    ) -> None:
        def build(registry: Registry) -> SupervisorSpec:
            group = config.classic_groups["orders"]
            setup = GroupSetup.of(config, name, group, env, registry)
            self.views[name], self.registrations[name] = setup.metadata, setup.registrations
            self.setups[name] = setup
            return node_tree([classic_trees([setup])])

        async with open_system(name, build, rng=env.rng, events=env.events) as system:
            task_status.started(system)
            await system.wait_ended()

    async def change(self, make: Callable[..., Tables]) -> None:
        """The master's tables are changed, and the change is on its disk. Raises: StorageError."""
        ref = self.systems[self.master].ref(PATHS[self.master].metadata, keeper.Message)
        await ref.ask(Done, lambda reply_to: Change(make=make, reply_to=reply_to), timeout_s=5.0)

    async def note(self, make: Callable[..., Tables]) -> None:
        """The same, with nobody who waits until it is on the disk."""
        ref = self.systems[self.master].ref(PATHS[self.master].metadata, keeper.Message)
        await ref.tell(Change(make=make))

    def tables(self, name: str) -> Tables:
        return self.views[name].tables

    def topics(self, name: str) -> set[str]:
        return topics_in(self.tables(name))

    def offsets(self, name: str) -> dict[str, dict[int, int]]:
        return self.tables(name).consumer_offsets.offset_table

    def differing(self, one: str, other: str) -> list[str]:
        """The kinds that differ on two nodes."""
        mine, theirs = self.tables(one), self.tables(other)
        return [
            kind.name for kind in KINDS if getattr(mine, kind.name) != getattr(theirs, kind.name)
        ]

    async def until_equal(self, within_s: float = 15.0) -> None:
        """Wait until every node has the master's tables."""
        await until(
            lambda: not any(self.differing(self.master, name) for name in self.systems), within_s
        )


def topics_in(tables: Tables) -> set[str]:
    """Without those that a new master has of itself."""
    return set(tables.topics.topic_config_table) - OWN_TOPICS.keys()


def put_lone_topic(disk: SimDisk, node: str, name: str) -> None:
    """The table of a master that was begun before masters had topics of their own."""
    rows = {name: TopicConfig(topic_name=name)}
    table = TopicTable(data_version=DataVersion(counter=1), topic_config_table=rows)
    folder = FOLDER.format(node)
    disk.mkdir(folder)
    write_synced(disk, f"{folder}/{TOPICS.file}", TOPICS.encode_file(table))


async def until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    """Looks often enough."""
    with trio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - tables have no event for every test's question
            await trio.sleep(0.01)


@attrs.define
class FakeMaster:
    """A broker's two ports, whose answers a test sets.

    Attributes:
        said: by request code, a document, bytes, or a code of failure.
        asked: the ports and codes of all requests so far.
        boot: when it was started, as it says.
        then: by request code, what happens once right behind the answer.
        serve: answers before all that; None: not this request.
    """

    said: dict[int, JavaObject | bytes | int] = attrs.field(factory=dict)
    asked: list[tuple[int, int]] = attrs.field(factory=list)
    boot: int = 1
    then: dict[int, Callable[[], None]] = attrs.field(factory=dict)
    serve: Callable[[Request], Answer | None] = lambda _: None

    def count(self, code: int) -> int:
        return sum(code == asked for _, asked in self.asked)

    def _answer(self, port: int, request: Request) -> Answer:
        code = request.header.code
        self.asked.append((port, code))
        answer = self.serve(request) or self._said(code)
        self.then.pop(code, lambda: None)()
        return answer

    def _said(self, code: int) -> Answer:
        if code == RequestCode.GET_BROKER_RUNTIME_INFO and code not in self.said:
            return Answer(body=encode_body(KVTable(table={BOOT_KEY: str(self.boot)})))
        said = self.said.get(code, 3)
        if isinstance(said, int):
            return Answer(code=said, remark="no")
        return Answer(body=said if isinstance(said, bytes) else encode(said))

    async def run(
        self, ports: tuple[int, ...], env: Env, task_status: trio.TaskStatus[System]
    ) -> None:
        """As a node of the world."""

        def server(port: int) -> SupervisorSpec:
            table: dict[int, Processor] = {
                code: partial(self._answer, port) for code in (*RequestCode, WATCH_METADATA)
            }
            return rpc_server(
                ServerSettings(
                    network=env.network,
                    host=NODES["n0"],
                    port=port,
                    where="the test",
                    may_connect=anybody,
                    session=plain(Processors(table).serve),
                    next_connection=itertools.count(1).__next__,
                    connections_max=SLOTS_KEPT + 8,
                )
            )

        spec = SupervisorSpec(
            children=tuple(ChildSpec(name=f"p{port}", start=server(port)) for port in ports)
        )
        async with open_system("n0", spec, rng=env.rng, events=env.events) as system:
            task_status.started(system)
            await system.wait_ended()

    async def start(self, world: World, *ports: int) -> None:
        await world.start_node("n0", partial(self.run, ports or (BROKER_PORT, VIP_PORT)))
