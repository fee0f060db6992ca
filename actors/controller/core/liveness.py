"""Which replicas live, by their heartbeats and by the connections that these came on.

Source: apache/rocketmq, controller/.../impl/heartbeat/DefaultBrokerHeartbeatManager.java, 5.3.3;
autoswitch-ha.md 7.4.

Differs from upstream:
- A heartbeat replaces the connection and the offsets of the one before. Upstream keeps the first
  connection, whose late end then removes a broker that lives, and offsets that only grow
  (autoswitch-ha.md T33).
- Times are of a clock that cannot be set (autoswitch-ha.md T46).
- There is a bound for replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from wire.broker.controller import LEAST_PRIORITY, ControllerHeartbeat

DEFAULT_TIMEOUT_S: Final = 10.0
"""How long a replica lives that announces nothing. Upstream: DEFAULT_BROKER_CHANNEL_EXPIRED_TIME.
"""
TIMEOUT_MAX_S: Final = 3600.0
"""The longest time that a replica may announce; more is taken for this."""
REPLICAS_MAX: Final = 10_000
"""Replicas that may live at once; heartbeats of others are ignored."""


@attrs.frozen(order=True)
class ReplicaKey:
    """A replica: its cluster, its broker set, and its id there."""

    cluster: str
    broker: str
    broker_id: int


@attrs.frozen(kw_only=True)
class Living:
    """What a replica said last.

    Attributes:
        connection: the number of the connection that it came on.
        until_s: it lives till then, if nothing else comes.
        epoch, max_offset, confirm_offset: of its log; -1: not known.
        priority: at equal epochs and offsets the lowest is elected.
    """

    connection: int
    until_s: float
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = LEAST_PRIORITY


@attrs.define
class Liveness:
    """The table of one controller. A heartbeat that arrived counts from its arrival."""

    _sets: dict[tuple[str, str], dict[int, Living]] = attrs.field(factory=dict)
    _count: int = 0

    def heartbeat(self, said: ControllerHeartbeat, connection: int, now_s: float) -> bool:
        """Note a heartbeat.

        Returns:
            Whether it counts; not if it names no id, or if REPLICAS_MAX others live.
        """
        if said.broker_id is None:
            return False
        name = said.cluster_name, said.broker_name
        if said.broker_id not in self._sets.get(name, {}):
            if self._count >= REPLICAS_MAX:
                return False
            self._count += 1
        timeout_s = DEFAULT_TIMEOUT_S
        if said.heartbeat_timeout_mills is not None:
            timeout_s = min(max(said.heartbeat_timeout_mills, 0) / 1000, TIMEOUT_MAX_S)
        self._sets.setdefault(name, {})[said.broker_id] = Living(
            connection=connection,
            until_s=now_s + timeout_s,
            epoch=_known(said.epoch),
            max_offset=_known(said.max_offset),
            confirm_offset=_known(said.confirm_offset),
            priority=LEAST_PRIORITY if said.election_priority is None else said.election_priority,
        )
        return True

    def closed(self, connection: int) -> tuple[ReplicaKey, ...]:
        """Note that a connection ended. Returns the replicas that are dead with it."""
        return self._forget(lambda each: each.connection == connection)

    def expire(self, now_s: float) -> tuple[ReplicaKey, ...]:
        """Forget who was silent for longer than it announced. Returns those replicas."""
        return self._forget(lambda each: each.until_s < now_s)

    def _forget(self, is_dead: Callable[[Living], bool]) -> tuple[ReplicaKey, ...]:
        gone = [
            ReplicaKey(*name, broker_id)
            for name, table in self._sets.items()
            for broker_id, each in table.items()
            if is_dead(each)
        ]
        for key in gone:
            del self._sets[key.cluster, key.broker][key.broker_id]
        self._sets = {name: table for name, table in self._sets.items() if table}
        self._count -= len(gone)
        return tuple(gone)

    @property
    def next_expiry_s(self) -> float | None:
        """When to call `expire`; None: nobody lives."""
        untils = (each.until_s for table in self._sets.values() for each in table.values())
        return min(untils, default=None)

    def next_of(self, key: ReplicaKey) -> float:
        """Return until when a replica lives that is in the table."""
        return self._sets[key.cluster, key.broker][key.broker_id].until_s

    def of(self, cluster: str, broker: str) -> dict[int, Living]:
        """The living replicas of a broker set by id: those that no `expire` has found silent."""
        return dict(self._sets.get((cluster, broker), {}))


def _known(value: int | None) -> int:
    return -1 if value is None else value
