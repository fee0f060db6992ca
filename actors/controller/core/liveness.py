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

    _table: dict[ReplicaKey, Living] = attrs.field(factory=dict)

    def heartbeat(self, said: ControllerHeartbeat, connection: int, now_s: float) -> bool:
        """Note a heartbeat.

        Returns:
            Whether it counts; not if it names no id, or if REPLICAS_MAX others live.
        """
        if said.broker_id is None:
            return False
        key = ReplicaKey(said.cluster_name, said.broker_name, said.broker_id)
        if key not in self._table and len(self._table) >= REPLICAS_MAX:
            return False
        timeout_s = DEFAULT_TIMEOUT_S
        if said.heartbeat_timeout_mills is not None:
            timeout_s = min(max(said.heartbeat_timeout_mills, 0) / 1000, TIMEOUT_MAX_S)
        self._table[key] = Living(
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
        gone = [key for key, each in self._table.items() if each.connection == connection]
        for key in gone:
            del self._table[key]
        return tuple(gone)

    def expire(self, now_s: float) -> tuple[ReplicaKey, ...]:
        """Forget who was silent for longer than it announced. Returns those replicas."""
        gone = [key for key, each in self._table.items() if each.until_s < now_s]
        for key in gone:
            del self._table[key]
        return tuple(gone)

    @property
    def next_expiry_s(self) -> float | None:
        """When to call `expire`; None: nobody lives."""
        return min((each.until_s for each in self._table.values()), default=None)

    def of(self, cluster: str, broker: str, now_s: float) -> dict[int, Living]:
        """The living replicas of a broker set by id."""
        return {
            key.broker_id: each
            for key, each in self._table.items()
            if key.broker == broker and key.cluster == cluster and each.until_s >= now_s
        }


def _known(value: int | None) -> int:
    return -1 if value is None else value
