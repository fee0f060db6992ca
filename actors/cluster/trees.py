"""The tree of each node as text, for `check`: built by the same functions as a running one."""

from __future__ import annotations

import random

from actors.api.handle import NodeIdentity
from actors.api.server import api_child
from actors.config import ClusterConfig
from actors.env import Env
from actors.env.local_disk import LocalDisk
from actors.env.tcp import TcpNetwork
from actors.events.node import NodeStarted
from actors.events.sink import EventSink
from actors.node import Node
from actors.runtime import Registry, render_spec
from actors.storage import event_log
from actors.trees.classic import node_tree
from actors.version import VERSION


def trees_of(config: ClusterConfig) -> dict[str, str]:
    """Every node of ours with its tree. Opens nothing: a specification is only a value."""
    return {name: _tree_of(config, name) for name in config.python_nodes}


def _tree_of(config: ClusterConfig, name: str) -> str:
    env = Env(
        network=TcpNetwork(),
        disk=LocalDisk(),
        rng=random.Random(name),
        wall_clock_ms=lambda: 0,
        events=_ignore,
    )
    groups = tuple(group.name for group in config.groups_of(name))
    started = NodeStarted(cluster=config.name, version=VERSION, groups=groups)
    sink = EventSink(
        name,
        0,
        env.wall_clock_ms,
        started,
        policy=config.events.policy,
        pending_max=config.events.pending_max_count,
    )
    identity = NodeIdentity(cluster=config.name, node=name, boot=0, groups=groups)
    node = Node(config, identity, "", sink)
    folder = config.node_dir(name)
    events = event_log.child_spec(
        sink, env.disk, f"{folder}/events", config.events, env.wall_clock_ms
    )
    registry = Registry(rng=env.rng, event_sink=_ignore)
    api = api_child(node, env, config, folder)
    spec = node_tree(config, name, env, registry, before=(events,), after=(api,))
    return render_spec(spec, name)


def _ignore(path: str, incarnation: int, event: object) -> None:
    """A tree that does not run has no events."""
