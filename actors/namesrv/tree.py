"""A name server's tree: `routes`, and the port in front of it.

Its strategy is rest_for_one: if `routes` is restarted and has lost its tables, the port is
restarted as well, so that brokers notice and register again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from actors.env.protocols import Env
from actors.namesrv.core.name_server import Place
from actors.namesrv.routes import Message, NameServerStatus, Routes
from actors.remoting.budget import memory_bytes
from actors.remoting.requests import plain, posted_to
from actors.remoting.server import ServerSettings, anybody, rpc_server
from actors.runtime import ActorRef, ChildSpec, Registry, Strategy, SupervisorSpec

CONNECTIONS_MAX: Final = 2048
"""The most connections. Each broker, client and operator keeps one."""
MEMORY_BYTES: Final = memory_bytes(CONNECTIONS_MAX)
"""The most that the connections can hold together."""
ROUTES: Final = "routes"


@attrs.frozen(kw_only=True)
class NameServerSettings:
    """The settings with which a name server is started.

    Attributes:
        path: the path of its tree.
        host, port: where it listens.
        where: the name of the option or key that sets the port, for people.
        folder: the absolute path of the folder for its files.
        on_change: see `Routes`.
    """

    path: str
    host: str
    port: int
    where: str
    folder: str
    on_change: Callable[[NameServerStatus], None] = lambda status: None


def name_server_tree(settings: NameServerSettings, env: Env, registry: Registry) -> SupervisorSpec:
    """Return the specification of a whole name server."""
    ref: ActorRef[Message] = registry.ref(f"{settings.path}/{ROUTES}")
    place = Place(host=settings.host, port=settings.port, folder=settings.folder)
    routes = partial(
        Routes,
        disk=env.disk,
        place=place,
        run_beside=env.run_beside,
        on_change=settings.on_change,
    )
    port = ServerSettings(
        network=env.network,
        host=settings.host,
        port=settings.port,
        where=settings.where,
        may_connect=anybody,
        session=plain(posted_to(ref)),
        next_connection=itertools.count(1).__next__,
        connections_max=CONNECTIONS_MAX,
    )
    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=(
            ChildSpec(name=ROUTES, start=routes),
            ChildSpec(name="port", start=rpc_server(port)),
        ),
    )
