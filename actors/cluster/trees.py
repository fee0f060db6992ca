"""The tree of each node as text, for `check`: built by the same functions as a running one."""

from __future__ import annotations

import random

from actors.config import ClusterConfig
from actors.env import Env
from actors.env.local_disk import LocalDisk
from actors.env.tcp import TcpNetwork
from actors.runtime import Registry, render_spec
from actors.service import build_tree, new_node


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
    node, sink = new_node(config, name, env, directory=None)
    registry = Registry(rng=env.rng, event_sink=_ignore)
    return render_spec(build_tree(node, sink, env, registry), name)


def _ignore(path: str, incarnation: int, event: object) -> None:
    """A tree that does not run has no events."""
