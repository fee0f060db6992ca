"""Ports that nobody uses, for nodes that listen on real sockets a moment later.

They lie below those that Linux gives to outgoing connections and to `bind(0)`, so nothing takes one
between the look and the node's own bind, and below those of the peers that interoperability tests
start (`interop_processes.PORTS`); and each worker of pytest-xdist has a range of its own.
"""

from __future__ import annotations

import itertools
import os
import socket

FIRST, LAST = 10_000, 20_000
WORKERS_MAX = 4
"""With more of them, ranges are shared."""
BLOCK = 8
"""Ports that one call may give, in a row."""
BLOCKS = (LAST - FIRST) // WORKERS_MAX // BLOCK
ADDRESSES = tuple(f"127.0.0.{last}" for last in range(1, 6))

_blocks = itertools.count(os.getpid())  # two sessions on one machine begin at different places


def free_port(count: int = 1) -> int:
    """The first of `count` ports in a row, free a moment ago; others at each call."""
    assert count <= BLOCK
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
    for _ in range(BLOCKS):
        port = FIRST + (worker * BLOCKS + next(_blocks) % BLOCKS) * BLOCK
        if all(_is_free(port + more) for more in range(count)):
            return port
    raise AssertionError("no port is free")


def _is_free(port: int) -> bool:
    for address in ADDRESSES:
        with socket.socket() as one:
            try:
                one.bind((address, port))
            except OSError:
                return False
    return True
