"""Finds a node's endpoint from what a user types: a cluster file, a socket's path, or HOST:PORT.

A node's endpoints are its Unix socket, if it is on this machine, and its `api_port`, if the file
has one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import attrs
import trio

from actors.api.credentials import Credentials, ExpectedNode
from actors.api.socket_file import api_socket_path
from actors.client.arguments import TARGETS
from actors.client.connection import CONNECT_TIMEOUT_S, Client, connect
from actors.client.race import open_race
from actors.client.slot_retries import NoSlot, with_slot
from actors.config import ClusterConfig, load
from actors.config.problems import one_of, suggestion
from actors.env.local_disk import lock_holder
from actors.env.local_secrets import LocalSecretStore
from actors.env.protocols import Address, Network, SecretStore, process_text
from actors.errors import ConfigError

PORT_MAX = 65_535
EXPECTED = f"expected {TARGETS}"
TRY_S = 1.0
"""A node that the user named has at least so long to answer, however short the wait."""


@attrs.frozen(kw_only=True)
class Target:
    """What a user typed as TARGET.

    Attributes:
        text: the text as it was typed.
        config: the cluster, if a file was named; otherwise `address` is set.
        node: the node that was named in the text; None: none was.
    """

    text: str
    config: ClusterConfig | None = None
    node: str | None = None
    address: Address | None = None


def file_of(text: str) -> str:
    """Return the cluster file that a TARGET names, as typed; "FILE": it names none."""
    file = text.rpartition(":")[0]
    return file if file.endswith(".toml") else text if text.endswith(".toml") else "FILE"


def parse_target(text: str) -> Target:
    """Parse a TARGET, and read the cluster file if it names one. Raises: ConfigError."""
    file, colon, node = text.rpartition(":")
    if colon and file.endswith(".toml"):
        config = load(file)
        _check_node(text, config, node)
        return Target(text=text, config=config, node=node)
    if text.endswith(".toml"):
        return Target(text=text, config=load(text))
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:/\[\]]+)):(\d{1,5})", text)
    if found is not None:
        port = int(found[3])
        if not 0 < port <= PORT_MAX:
            raise ConfigError(f"TARGET: expected a port of 1 to {PORT_MAX}, found {port}")
        return Target(text=text, address=Address(found[1] or found[2], port))
    return Target(text=text, address=Address(_socket_path(text), 0))


def _socket_path(text: str) -> str:
    try:
        mode = os.stat(text).st_mode
    except (OSError, ValueError):
        raise ConfigError(f"TARGET: {EXPECTED}, found {text!r}, which is no file") from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"TARGET: {EXPECTED}, found {text!r}, which is not a socket")
    return os.path.abspath(text)


def _check_node(where: str, config: ClusterConfig, node: str) -> None:
    known = config.python_nodes
    if node not in known:
        java = " (a Java broker, which has no API socket)" if node in config.nodes else ""
        raise ConfigError(f"{where}: expected {one_of(node, known)}, found {node}{java}")


def pick_group(groups: tuple[str, ...], wanted: str | None, where: str) -> str:
    """Return the group that is meant: the one named, or else the only one. Raises: ConfigError."""
    if wanted is not None:
        if wanted not in groups:
            known = ", ".join(groups) or "none"
            hint = suggestion(wanted, groups)
            raise ConfigError(
                f"--group: expected a group of {where}, {known}{hint}, found {wanted}"
            )
        return wanted
    if len(groups) != 1:
        known = ", ".join(groups) or "none"
        raise ConfigError(f"--group: expected one of the groups of {where}: {known}")
    return groups[0]


def node_order(config: ClusterConfig, group: str | None, *, master_only: bool) -> tuple[str, ...]:
    """Return the nodes to try, in order: the group's first master before the others; group None:
    any.

    Raises: ConfigError if `master_only` and only a Java broker can take appends.
    """
    wanted = [config.groups[group]] if group is not None else list(config.groups.values())
    members = [node for one in wanted for node in one.members]
    takers = [node for one in wanted for node in one.members if one.role_of(node).appends]
    if master_only and group is not None and not set(takers) & set(config.python_nodes):
        raise ConfigError(
            f"{config.path}: key groups.{group}: expected a node with an API socket to take"
            f" appends, found {', '.join(takers)}, a Java broker"
        )
    nodes = dict.fromkeys([*takers, *members])
    return tuple(node for node in nodes if node in config.python_nodes)


@attrs.frozen
class Endpoint:
    """One way to reach a node.

    Attributes:
        identity: the node that is expected at a port; None for a Unix socket, and for a port
            without a cluster file.
    """

    address: Address
    identity: ExpectedNode | None = None


def endpoints(
    config: ClusterConfig, node: str, secret_store: SecretStore | None = None
) -> tuple[Endpoint, ...]:
    """Return the endpoints of a node: its Unix socket, then its port."""
    found = [Endpoint(Address(api_socket_path(config.node_dir(node)), 0))]
    if config.api_port is not None:
        address = Address(config.nodes[node], config.api_port)
        identity = ExpectedNode(node, Credentials.of(config, secret_store or LocalSecretStore()))
        found.append(Endpoint(address, identity))
    return tuple(found)


@asynccontextmanager
async def connect_node(
    config: ClusterConfig,
    node: str,
    *,
    name: str = "client",
    network: Network | None = None,
    secret_store: SecretStore | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
    wait_s: float | None = None,
) -> AsyncIterator[Client]:
    """Connect to a node of a cluster file, by the first of its endpoints that opens.

    Args: as for `connect`, and `secret_store`: this machine's by default, `actors.sim`'s in
        simulation.

    Raises (on entry): as `connect`; ConnectionError, which names every endpoint; NoSlot if one had
        no slot to the end; TimeoutError if one opened but did not answer: the node hangs, or is
        slow.
    """
    found = endpoints(config, node, secret_store)
    wait_s = timeout_s if wait_s is None else wait_s

    def enter() -> AbstractAsyncContextManager[Client]:
        return _first_of(found, node, name, network, timeout_s)

    async with with_slot(enter, wait_s, name, node) as client:
        yield client


@asynccontextmanager
async def connect_target(
    target: Target, *, name: str, network: Network | None = None, wait_s: float | None = None
) -> AsyncIterator[Client]:
    """Connect to the node that the user named, or to the first of a cluster file's that answers.

    Args:
        wait_s: how many seconds to wait for an answer, and to try again while all slots are taken;
            None: `CONNECT_TIMEOUT_S`. Each try has at least `TRY_S`.

    Raises: OSError, which names every endpoint that was tried; RequestRefused.
    """
    config = target.config
    if config is None:
        assert target.address is not None
        found: tuple[Endpoint, ...] = (Endpoint(target.address),)
        who = target.text
    else:
        nodes = (target.node,) if target.node else node_order(config, None, master_only=False)
        found = tuple(endpoint for node in nodes for endpoint in endpoints(config, node))
        who = " or ".join(nodes)

    wait_s = CONNECT_TIMEOUT_S if wait_s is None else wait_s
    until_s = trio.current_time() + wait_s

    def enter() -> AbstractAsyncContextManager[Client]:
        left_s = round(until_s - trio.current_time(), 1)  # it is shown in messages
        return _first_of(found, who, name, network, max(left_s, TRY_S), partial(_held, target))

    async with with_slot(enter, wait_s, name, who) as client:
        yield client


@asynccontextmanager
async def _first_of(
    endpoints: tuple[Endpoint, ...],
    who: str,
    name: str,
    network: Network | None,
    timeout_s: float,
    held: Callable[[], str] = str,
) -> AsyncIterator[Client]:
    """Connect by the endpoint that opens first: one that hangs delays no other by more than
    `STAGGER_S`.

    Each is tried once. Raises: as `connect_node`.
    """
    found = {str(endpoint.address): endpoint for endpoint in endpoints}

    def enter(text: str) -> AbstractAsyncContextManager[Client]:
        endpoint = found[text]
        return connect(
            endpoint.address,
            name=name,
            network=network,
            timeout_s=timeout_s,
            wait_s=0.0,
            identity=endpoint.identity,
        )

    async with open_race(tuple(found), enter, passing=(OSError,)) as race:
        client = await race.first()
        if client is None:
            failures = [_failure_text(endpoint, race.reasons[endpoint]) for endpoint in found]
            full = [each for each in race.reasons.values() if isinstance(each, NoSlot)]
            if full:
                text = "; ".join(failures)
                confirmed = any(each.confirmed for each in full)
                raise NoSlot(text if who in found else f"{who}: {text}", confirmed=confirmed)
            hangs = any(isinstance(race.reasons[endpoint], TimeoutError) for endpoint in found)
            kind = TimeoutError if hangs else ConnectionError
            text = "; ".join(failures).removeprefix(f"{who}: ")  # `who` may be the endpoint itself
            raise kind(f"cannot reach {who}: {text}{held()}")
        yield client


def _held(target: Target) -> str:
    """Say that a node which does not answer is running on this machine, and how to find out
    more.
    """
    config = target.config
    if config is None:
        return ""
    nodes = (target.node,) if target.node else config.python_nodes
    pids = {node: lock_holder(f"{config.node_dir(node)}/lock") for node in nodes}
    held = [
        f"{process_text(pid)} has the data of {node}"
        for node, pid in pids.items()
        if pid is not None
    ]
    return f"; {', '.join(held)}: `status` says what it does" if held else ""


def _failure_text(endpoint: str, error: Exception | str) -> str:
    reason = str(error)
    if isinstance(error, OSError) and error.errno and error.errno > 0:  # not a resolver's
        reason = os.strerror(error.errno)
    return reason if endpoint in reason else f"{endpoint}: {reason}"
