"""Finds directories and ports of nodes that are in use, and the order in which nodes start.

It also checks that the limits of this process allow the files that the nodes write.
"""

from __future__ import annotations

from actors.config import ClusterConfig
from actors.config.check import ports
from actors.env.local_disk import lock_holder
from actors.env.protocols import process_text
from actors.env.tcp import TcpNetwork
from actors.errors import ConfigError
from actors.own_process import file_size_limit_bytes


def start_order(config: ClusterConfig, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Order nodes for their start: masters last, so that they stop first and can still feed their
    slaves.
    """

    def led(node: str) -> int:
        groups = config.groups_of(node)
        return sum(one.election is None and one.role_of(node).appends for one in groups)

    return tuple(sorted(nodes, key=led))


def data_holder(config: ClusterConfig, node: str) -> int | None:
    """Return the process on this machine that has a node's data open; None: there is none."""
    return lock_holder(f"{config.node_dir(node)}/lock")


async def refuse_what_is_in_use(config: ClusterConfig, nodes: tuple[str, ...]) -> None:
    """Check that each directory and port is free, before anything starts.

    Otherwise a slave that starts first could follow another cluster's master on its own master's
    port, and the nodes of another run would be taken for those of this one.

    Raises:
        ConfigError: a directory is in use, or files may not become as large as their keys say.
        OSError: a port is in use, or an address is not this machine's.
    """
    _refuse_small_limit(config, nodes)
    for node in nodes:
        holder = data_holder(config, node)
        if holder is not None:
            folder = config.node_dir(node)
            raise ConfigError(
                f"{config.path}: key data_dir: expected a free data directory, found that of node"
                f" {node} in use by {process_text(holder)} ({folder}); `status` asks what runs"
                " there"
            )
    network = TcpNetwork()
    for use in ports(config):
        if use.node in nodes:
            listener = await network.listen(use.address, use.port)
            await listener.aclose()


def _refuse_small_limit(config: ClusterConfig, nodes: tuple[str, ...]) -> None:
    limit = file_size_limit_bytes()
    if limit is None:
        return
    problems = []
    for group in config.groups.values():
        file = group.largest_file
        if file is not None and file.size_bytes > limit and set(group.members) & set(nodes):
            problems.append(
                f"{config.path}: key groups.{group.name}.{file.key}: expected at most {limit}, the"
                " largest file that this process may write (ulimit -f), found"
                f" {file.size_bytes}"
            )
    if problems:
        raise ConfigError(tuple(problems))
