"""Connections to a classic group that should not be made, and connections that only a slave's
machine forgets.
"""

from __future__ import annotations

import random
from typing import Final

import trio

from actors.sim.actions.action import Action, Ground
from actors.sim.actions.network import HalfOpen
from actors.sim.actions.script import Fault
from actors.sim.classic.runner import FaultRunner
from wire.ha.classic import encode_report

STRANGER: Final = "stranger"
"""A machine outside of the cluster, whose address is no member's."""
STRANGER_ADDRESS: Final = "10.0.9.9"
LISTEN_S: Final = 5.0
"""How long a machine that is no member waits to see what happens to its connection."""
REPORT_BYTES: Final = 8


class SlaveHalfOpen(HalfOpen):
    """A slave's machine forgets its connections to the first master, which does not notice."""

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[1:]

    def others(self, rng: random.Random, ground: Ground, node: str) -> tuple[str, ...]:
        return ground.names[:1]


class FalseReport(Action[FaultRunner]):
    """Another process on a slave's machine connects to the master's replication port, and reports
    an impossible offset.

    The offset is `extra` bytes above the end of the master's log, or `extra` itself if that is
    negative.
    """

    name = "false_report"
    chance = 0.3
    most = 2

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[1:]

    def extra(self, rng: random.Random) -> float:
        return float(rng.choice([-1, 1 << 30, 1 << 40, 1 << 62]))  # far above any run's log

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        end = await runner.master_end()
        if end is None:
            return
        offset = int(fault.extra) if fault.extra < 0 else end + int(fault.extra)
        report = offset.to_bytes(REPORT_BYTES, "big", signed=True)
        await knock(runner, fault, fault.node, report)


class Stranger(Action[FaultRunner]):
    """A machine that is no member connects to the replication port and reports an empty log."""

    name = "stranger"
    chance = 0.2
    most = 2

    def nodes(self, ground: Ground) -> tuple[str, ...]:
        return ground.names[:1]

    async def act(self, runner: FaultRunner, fault: Fault) -> None:
        await knock(runner, fault, STRANGER, encode_report(0))


async def knock(runner: FaultRunner, fault: Fault, host: str, report: bytes) -> None:
    """Connect from `host` to the master's replication port, send `report`, listen, and close."""
    net = runner.cluster.world.network
    if not net.is_up(host) or not runner.is_on(runner.master):
        return
    runner.began(fault)
    network, address = net.open(host), runner.cluster.config.nodes[runner.master]
    try:
        with trio.move_on_after(LISTEN_S):
            stream = await network.connect(address, runner.group.port)
            receive, send = stream.halves()
            await send.send_all(report)
            while await receive.receive_some(1000):
                pass
    except (OSError, trio.BrokenResourceError):
        pass
    finally:
        network.end(silently=False)
