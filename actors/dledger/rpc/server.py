"""The port of a node's members of DLedger groups: `actors.remoting.server` for them.

Upstream: openmessaging/dledger, DLedgerRpcNettyService.java, proxy/DLedgerProxy.java,
dledger-all-0.3.1.2.

Differs: a connection from an address that is no member's is turned away, and named once in the log
`triolog.dledger`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from actors.dledger.rpc.routing import Directory
from actors.dledger.rpc.rpc_messages import Services
from actors.dledger.rpc.session import RPCSession
from actors.env.protocols import Network
from actors.remoting import server
from actors.runtime import SupervisorSpec

_LOGGER: Final = logging.getLogger("triolog.dledger")
CONNECTIONS_MAX: Final = 256
"""The most open connections: two from each peer, and one from each client's process."""


def rpc_server(
    *,
    network: Network,
    host: str,
    port: int,
    where: str,
    addresses: frozenset[str],
    services: tuple[Services, ...],
    next_connection: Callable[[], int],
) -> SupervisorSpec:
    """Return the specification of all actors that serve one port.

    Args:
        network, host, port, where, next_connection: as in `ServerSettings`.
        addresses: the addresses of members, from which clients have to come too; no other address
            is served.
        services: the members that share the port.
    """
    settings = server.ServerSettings(
        network=network,
        host=host,
        port=port,
        where=where,
        may_connect=addresses.__contains__,
        session=partial(RPCSession, Directory(services)),
        next_connection=next_connection,
        connections_max=CONNECTIONS_MAX,
        turned_away=partial(_turned_away, services),
    )
    return server.rpc_server(settings)


def _turned_away(services: tuple[Services, ...], host: str) -> None:
    """Note the address for each group at this port, as nothing shows which one was meant."""
    now_s = trio.current_time()
    for each in services:
        if each.role_status.non_members.came(host, now_s):
            _LOGGER.warning(
                "%s: %s turned away %s: the cluster file names no member at that address",
                each.group,
                each.member,
                host,
            )
