"""A node as a supervised service: `open_node`, `serve`, `child_spec`.

    async with actors.open_node("cluster.toml", "n0") as node:      # ready on entry
        receipt = await node.log("orders").append([b"one", b"two"])

Ready means: the directory is taken, the log is recovered, the listeners listen. Leaving the block,
or cancelling whoever holds it, is a complete ordered stop: appends end first, connected slaves are
sent what they lack, then the tree stops, the listener first and the event log last.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Final, TypeAlias

import attrs
import trio

from actors import config as configuration
from actors.api.credentials import Credentials, MemberNetwork, prepare
from actors.api.handle import NodeIdentity
from actors.api.server import api_child
from actors.api.socket_file import api_socket_path
from actors.config import ClusterConfig, Group, settings
from actors.config.dledger import CONTROLLERS
from actors.config.model import NAME_SERVER
from actors.control.member_link import link_child
from actors.control.member_session import MemberAddress
from actors.env import Env
from actors.env.protocols import EventSink as TakesEvents
from actors.env.real import real_env
from actors.errors import ConfigError, TriologError, leaves
from actors.events.node import ORDERED, GroupConfigured, NodeStarted
from actors.events.runtime import ActorCrashed, ActorStarted
from actors.events.sink import EventSink
from actors.namesrv.tree import NameServerSettings, name_server_tree
from actors.node.kind import NodeContext
from actors.node.kinds import KINDS
from actors.node.node import Node
from actors.runtime import (
    Actor,
    Backoff,
    ChildSpec,
    Registry,
    SupervisorSpec,
    open_system,
)
from actors.state_machine import Machines
from actors.storage.files.room import room_to_start
from actors.storage.group_kind import check_group_kinds, warn_of_others
from actors.storage.node import event_log
from actors.storage.node.identity import NodeDirectory, events_path, open_directory
from actors.trees.node import node_tree
from actors.version import VERSION

Source: TypeAlias = "str | os.PathLike[str] | ClusterConfig"

# A host's supervisor that restarts a node at once would only see the same full disk again.
CHILD_BACKOFF: Final = Backoff(first_s=0.5, max_s=30.0)


def open_node(
    config: Source, name: str, *, env: Env | None = None, machines: Machines | None = None
) -> AbstractAsyncContextManager[Node]:
    """Run one node for the length of an `async with` block.

    Args:
        config: a cluster file, or what `actors.config.load` made of one.
        name: which of its nodes this is.
        env: its network, disk, clock and randomness: this machine's by default; those of
            `actors.sim` for tests.
        machines: by DLedger group, a function that makes its state machine
            (`actors.StateMachine`). All members of a group have one, or none has. Its results for
            appended records are in `Receipt.results`.

        Raises (on entry): ConfigError, with one line for each problem: the file, an address, a
            port, a directory that belongs to another node or is in use. CorruptLog: the log is
            damaged below its synced end.

    Error handling: if the node fails, the body is cancelled and an ExceptionGroup is raised.
    """
    return _OpenNode(config, name, env, machines or {})


async def serve(
    config: Source,
    name: str,
    *,
    env: Env | None = None,
    machines: Machines | None = None,
    task_status: trio.TaskStatus[Node] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run one node until it is cancelled, asked to stop, or fails; for `nursery.start`.

    Args: as for `open_node`. `task_status` gives the `Node` when it is ready.

    Raises: as `open_node`; an ExceptionGroup if the node fails.
    """
    async with open_node(config, name, env=env, machines=machines) as node:
        task_status.started(node)
        await node.wait_stop_requested()


def child_spec(
    config: Source,
    name: str,
    *,
    env: Env | None = None,
    machines: Machines | None = None,
    backoff: Backoff = CHILD_BACKOFF,
) -> ChildSpec:
    """Return the node as a child of the host's own supervisor, which restarts it with its data.

    Each incarnation has a new `Node`. A user that has to outlive it connects with
    `actors.client.connect_node`, as another process would.

    Args: as for `open_node`. `backoff` is the pause before a restart.

    Raises: ConfigError: the file is wrong. Later errors of `open_node` end the child.
    """
    source = load(config)
    budget_s = source.stop_timeout_s + source.drain_timeout_s + 1.0
    return ChildSpec(
        name=name,
        start=lambda: NodeService(source, name, env, machines or {}),
        shutdown_s=budget_s,
        backoff=backoff,
    )


def load(config: Source) -> ClusterConfig:
    """Return the configuration; read it if `config` is a path. Raises: ConfigError."""
    return config if isinstance(config, ClusterConfig) else configuration.load(os.fspath(config))


@attrs.define
class NodeService(Actor[None]):
    """One node as an actor, for `child_spec`; it takes no messages.

    Attributes:
        node: the node, once it runs.
    """

    _config: ClusterConfig
    _name: str
    _env: Env | None
    _machines: Machines
    node: Node | None = attrs.field(default=None, init=False)

    async def on_start(self) -> None:
        ready = trio.Event()
        self.ctx.spawn(self._run, ready)
        await ready.wait()

    async def _run(self, ready: trio.Event) -> None:
        async with open_node(
            self._config, self._name, env=self._env, machines=self._machines
        ) as node:
            self.node = node
            ready.set()
            await node.wait_stop_requested()
        self.ctx.stop()


class _OpenNode(AbstractAsyncContextManager[Node]):
    def __init__(self, config: Source, name: str, env: Env | None, machines: Machines) -> None:
        self._config = config
        self._name = name
        self._env = env
        self._machines = machines
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Node:
        config = load(self._config)
        _check_node(config, self._name, self._machines)
        env = self._env or real_env()
        async with AsyncExitStack() as stack:
            directory = _take_directory(config, self._name, env)
            stack.callback(directory.close)
            _check_groups(config, self._name, directory)
            prepare(config, env.secret_store)
            node = await _start(config, self._name, env, directory, self._machines, stack)
            # Last in, first out; and whatever becomes of it, the tree is stopped behind it.
            stack.push_async_callback(_drain, node)
            self._stack = stack.pop_all()
        return node

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, traceback)


async def _drain(node: Node) -> None:
    """Drain the node, even when the host has cancelled; `Node.drain` bounds its own time."""
    with trio.CancelScope(shield=True):
        await node.drain()


def _check_node(config: ClusterConfig, name: str, machines: Machines) -> None:
    if name not in config.nodes:
        known = ", ".join(config.nodes)
        raise ConfigError(f"{config.path or 'the configuration'}: no node {name!r}; it has {known}")
    if name not in config.python_nodes:
        raise ConfigError(
            f"{config.path or 'the configuration'}: node {name!r} is a Java broker, which has to be"
            " started by its own script"
        )
    takers = [
        each.name
        for each in config.groups_of(name)
        if KINDS[each.mode].takes_machines and each.name != CONTROLLERS
    ]
    for group in machines:
        if group not in takers:
            modes = " or ".join(mode for mode, kind in KINDS.items() if kind.takes_machines)
            raise ConfigError(
                f"{config.path or 'the configuration'}: a state machine for {group!r}; the {modes}"
                f" groups of {name!r} are: {', '.join(takers) or 'none'}"
            )


async def _start(
    config: ClusterConfig,
    name: str,
    env: Env,
    directory: NodeDirectory,
    machines: Machines,
    stack: AsyncExitStack,
) -> Node:
    """Build the tree and start it; `stack` gets what must be undone afterwards."""
    node, sink = new_node(config, name, env, directory)
    members = frozenset(f"/{name}/{group}" for group in node.identity.groups)
    emit = emitting(sink, env.events, members)
    for group in config.groups_of(name):
        emit(f"/{name}/{group.name}", 0, configured(group))
    inner = attrs.evolve(env, events=emit)

    def build(registry: Registry) -> SupervisorSpec:
        node.attach_groups(registry)
        return build_tree(node, sink, inner, registry, machines)

    try:
        system = await stack.enter_async_context(
            open_system(
                name,
                build,
                rng=env.rng,
                events=emit,
                stop_timeout_s=config.stop_timeout_s,
                tell_hook=env.tell_hook,
                log_crashes=False,  # a node has its event log
                shield=True,  # the tree has to outlive the drain
            )
        )
    except BaseExceptionGroup as group:
        why = why_not_started(group)
        if isinstance(why, ConfigError):
            raise why from group
        raise why from None  # it is part of the group, and nothing may be its own cause
    node.attach_system(system)
    return node


def new_node(
    config: ClusterConfig, name: str, env: Env, directory: NodeDirectory | None
) -> tuple[Node, EventSink]:
    """Return a node without its tree, and the sink of its events. It touches nothing outside.

    Args:
        directory: the node's data directory; None: the node is only inspected, and remembers
            nothing.
    """
    boot = directory.boot if directory is not None else 0
    groups = tuple(group.name for group in config.groups_of(name))
    sink = EventSink(
        name,
        boot,
        partial(_now_us, env),
        NodeStarted(cluster=config.name, version=VERSION, groups=groups, process=env.process),
        policy=config.events.policy,
        pending_max=config.events.pending_max_count,
    )
    identity = NodeIdentity(cluster=config.name, node=name, boot=boot, groups=groups)
    socket_path = api_socket_path(config.node_dir(name))
    context = NodeContext(config=config, identity=identity, rng=env.rng, directory=directory)
    by_mode = {
        mode: kind.groups(context, found)
        for mode, kind in KINDS.items()
        if (found := config.groups_of(name, mode))
    }
    return Node(config, identity, socket_path, sink, by_mode), sink


def build_tree(
    node: Node, sink: EventSink, env: Env, registry: Registry, machines: Machines | None = None
) -> SupervisorSpec:
    """Return the supervision tree of a node, which is not started.

    It has the event log, which stops last, the groups, the name server if there is one, and the
    API.
    """
    config, folder = node.config, node.config.node_dir(node.name)
    events = event_log.child_spec(
        sink, env.disk, events_path(folder), config.events, partial(_now_us, env)
    )
    api = api_child(node, env, config, folder, _links(node, env))
    trees = [groups.trees(env, registry, machines or {}) for groups in node.groups.values()]
    after = (*_name_server(node, env, registry), api)
    return node_tree(trees, before=(events,), after=after)


def _name_server(node: Node, env: Env, registry: Registry) -> tuple[ChildSpec, ...]:
    """Return the name server that the cluster file gives the node; () if it gives none."""
    config, name = node.config, node.name
    if name not in config.name_servers:
        return ()
    found = NameServerSettings(
        path=f"/{name}/{NAME_SERVER}",
        host=config.nodes[name],
        port=config.name_servers[name],
        where=f"name_servers.{name}",
        folder=config.name_server_dir(name),
    )
    return (ChildSpec(name=NAME_SERVER, start=name_server_tree(found, env, registry)),)


def _links(node: Node, env: Env) -> tuple[ChildSpec, ...]:
    """Return a link to each Python node that shares a group, and the actors that ask over them."""
    config, name, kinds = node.config, node.name, node.groups.values()
    network = MemberNetwork(env.network, Credentials.of(config, env.secret_store))
    links = (
        link_child(
            node=name,
            member=member,
            address=MemberAddress.of(config, member, name),
            network=network,
            groups=tuple(group for groups in kinds for group in groups.watched(member)),
        )
        for member in config.neighbours_of(name)
    )
    return (*links, *(watch for groups in kinds for watch in groups.watches()))


def _now_us(env: Env) -> int:
    return env.wall_clock_ms() * 1000


def emitting(sink: EventSink, outer: TakesEvents, groups: frozenset[str]) -> TakesEvents:
    """Return what takes the events of a node's actors: its event log and the sink outside.

    A group that ends for good ends the node, so its error becomes the node's reason to stop.

    Args:
        groups: the paths of the groups.
    """

    def emit(path: str, incarnation: int, event: object) -> None:
        if path in groups and isinstance(event, ActorCrashed):
            sink.stop_reason = event.error
        elif path in groups and isinstance(event, ActorStarted):
            sink.stop_reason = ORDERED
        sink(path, incarnation, event)
        outer(path, incarnation, event)

    return emit


def why_not_started(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error for a system that did not start.

    Returns: one ConfigError if all errors are; the error itself if there is only one and it is of
        `actors.errors`; else the whole group.
    """
    found = list(leaves(group))
    mistakes = [error for error in found if isinstance(error, ConfigError)]
    if mistakes == found:
        problems = [line for error in mistakes for line in error.problems]
        return ConfigError(tuple(dict.fromkeys(problems)))
    if len(found) == 1 and isinstance(found[0], TriologError):
        return found[0]
    return group


def configured(group: Group) -> GroupConfigured:
    """Return the event that tells what a group promises by its configuration."""
    return GroupConfigured(
        mode=group.mode,
        members=group.members,
        java_members=group.java_nodes,
        sure_copies=group.sure_copies,
        durability=group.durability,
        store=group.store,
        upstream=group.as_upstream,
    )


def _take_directory(config: ClusterConfig, name: str, env: Env) -> NodeDirectory:
    """Open and lock a node's data directory.

    Raises: ConfigError: it belongs to another node, or is in use. NoRoomToStart.
    """
    path = config.node_dir(name)
    try:
        check_group_kinds(env.disk, path, config.groups_of(name))
        with room_to_start(env.disk, path):
            directory = open_directory(
                env.disk,
                path,
                cluster=config.name,
                node=name,
                groups=tuple(group.name for group in config.groups_of(name)),
                settings=settings(config),
                ledgers=config.ledger_groups_of(name),
                source=config.path,
            )
    except OSError as error:
        raise ConfigError(f"{path}: cannot be used as a data directory: {error}") from error
    warn_of_others(env.disk, path, name, config.groups_of(name))
    return directory


def _check_groups(config: ClusterConfig, name: str, directory: NodeDirectory) -> None:
    """Check the groups against the node's data directory. Raises: ConfigError."""
    for group in config.groups_of(name):
        KINDS[group.mode].check(config, group, directory)
