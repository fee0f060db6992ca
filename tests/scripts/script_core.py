"""The pure waits of the master (`actors.ha.core.transfer_wait`), driven by a script's lines."""

from __future__ import annotations

from typing import Any

import attrs

from actors.config import ClassicGroup, SlaveNode
from actors.ha.core.ack_policy import ack_policy
from actors.ha.core.extent import LogExtent
from actors.ha.core.transfer_wait import TransferWait


@attrs.frozen
class Put:
    """An append that waits: `number` names it in the output."""

    number: int
    next_bytes: int
    deadline_s: float


@attrs.define(eq=False)
class CoreWaits:
    """One master's waits; made by the command `waits`."""

    wait: TransferWait[Put]
    count: int = 0
    end_bytes: int = 0

    @classmethod
    def of(cls, options: dict[str, Any]) -> CoreWaits:
        slaves = tuple(SlaveNode(name) for name in ("n1", "n2"))
        group = ClassicGroup(name="g", master="n0", slaves=slaves, **options)
        upstream = group.compat is not None
        return cls(
            TransferWait(
                copies=group.sure_copies,
                synced=False,
                counted=("n1", "n2"),
                whole_range=not upstream,
                upstream=upstream,
                policy=ack_policy(group),
            )
        )

    def put(self, end: int, deadline: float) -> list[str]:
        """An append up to `end` was written."""
        self.count += 1
        self.end_bytes = end
        self.wait.wait([Put(self.count, end, deadline)])
        self.wait.grew(LogExtent(0, end, end))
        return []

    def ack(self, slave: str, connection: int, offset: int) -> list[str]:
        """A connection's report; its first one joins it."""
        self.wait.joined(slave, connection, 0)
        self.wait.acked(slave, connection, offset, 0.0)
        return []

    def settle(self, now_s: float) -> list[str]:
        """Look at time `now_s`."""
        effects = self.wait.settle(now_s)
        lines = [f"put {put.number}: PUT_OK, {copies} copies" for put, copies in effects.done]
        lines += [f"put {put.number}: FLUSH_SLAVE_TIMEOUT" for put in effects.timed_out]
        lines += [f"put {put.number}: SLAVE_NOT_AVAILABLE" for put, _ in effects.unavailable]
        return lines or ["nothing"]


@attrs.define(eq=False)
class CoreCommands:
    """The commands for pure waits, under one setting."""

    _compat: dict[str, Any]
    _waiting: CoreWaits = attrs.field(init=False)

    async def _waits(self, **options: Any) -> list[str]:
        self._waiting = CoreWaits.of({**self._compat, **options})
        return []

    async def _put(self, end: str, deadline: float = 3.0) -> list[str]:
        return self._waiting.put(int(end), deadline)

    async def _ack(self, slave: str, connection: str, offset: str) -> list[str]:
        return self._waiting.ack(slave, int(connection), int(offset))

    async def _settle(self, now_s: str) -> list[str]:
        return self._waiting.settle(float(now_s))
