"""Policies for when an append is answered: `copies`, which is ours, and upstream's two.

Source: apache/rocketmq store/ha/HAService.isSlaveOK and CommitLog.submitReplicaRequest (4.9.8);
store/CommitLog.asyncPutMessage, calcNeedAckNums, DefaultHAService.inSyncReplicasNums (5.3.3);
classic-ha.md 3.2 and 3.3. A policy holds no state. It judges by the replicas that count
(of each: name, where its log ends, when that was heard) and by where the master's own log ends.

Differs from upstream:
- The slaves that count are nodes, each by its newest live connection; upstream counts sockets (T12)
  and in 4.x remembers the furthest report for ever (T7). With `compat` ours does both.
- The number of live replicas is the number of connected slaves; upstream asks the name server.
- `all_ack_in_sync_state_set` needs no controller: the set is the nodes in sync when the answer is
  due, and never smaller than `min_in_sync_replicas` allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from actors.config import ClassicGroup

ALL_IN_SYNC = -1
"""A need that is counted when the answer is due. Upstream: MixAll.ALL_ACK_IN_SYNC_STATE_SET."""


@attrs.frozen
class Replica:
    """A node beside the master whose reports count.

    Attributes:
        node: the node's name.
        end_bytes: the end of its log, by its newest report.
        heard_s: when that report came, in Trio time.
    """

    node: str
    end_bytes: int
    heard_s: float


class AckPolicy(Protocol):
    """What an append needs before it is answered.

    All arguments `replicas` begin with the replica that holds most.
    """

    @property
    def name(self) -> str: ...
    @property
    def remembers_furthest(self) -> bool:
        """Whether upstream's version of the policy counts what the furthest slave ever reported."""

    def refusal(self, end_bytes: int, replicas: Sequence[Replica]) -> str:
        """Why nothing may be appended at `end_bytes` now; "" if something may."""

    def need(self, end_bytes: int, replicas: Sequence[Replica]) -> int:
        """How many nodes, the master included, must hold records that are appended at `end_bytes`.

        It may be ALL_IN_SYNC.
        """

    def needed(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        """The number of nodes that a result of `need` means now, at least 1."""

    def copied_bytes(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        """Up to where the nodes that a result of `need` means have the log; at most `end_bytes`,
        whether the master has synced that or not.
        """

    def unavailable(self, next_bytes: int, replicas: Sequence[Replica], connected: int) -> str:
        """Why records that were just written are answered without waiting for copies; "" if they
        wait.

        Args:
            next_bytes: the end of the last of these records.
            connected: the number of live connections of slaves that have reported.
        """


class _Counts:
    """A policy that any nodes satisfy, if they are as many as needed."""

    __slots__ = ()

    def needed(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        return need

    def copied_bytes(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        nodes = self.needed(need, end_bytes, replicas)
        if nodes == 1:
            return end_bytes
        return min(end_bytes, replicas[nodes - 2].end_bytes) if len(replicas) >= nodes - 1 else 0


@attrs.frozen
class Copies(_Counts):
    """Our policy: a fixed number of distinct nodes."""

    copies: int
    name = "copies"
    remembers_furthest = False

    def refusal(self, end_bytes: int, replicas: Sequence[Replica]) -> str:
        return ""

    def need(self, end_bytes: int, replicas: Sequence[Replica]) -> int:
        return self.copies

    def unavailable(self, next_bytes: int, replicas: Sequence[Replica], connected: int) -> str:
        return ""


@attrs.frozen
class FurthestSlave(_Counts):
    """4.x's SYNC_MASTER: the furthest slave, if one is connected and not too far behind.

    Attributes:
        fallbehind_max_bytes: a lag of so much is too far. Upstream: haSlaveFallbehindMax.
    """

    fallbehind_max_bytes: int
    name = "4.x"
    remembers_furthest = True

    def refusal(self, end_bytes: int, replicas: Sequence[Replica]) -> str:
        return ""

    def need(self, end_bytes: int, replicas: Sequence[Replica]) -> int:
        return 2

    def unavailable(self, next_bytes: int, replicas: Sequence[Replica], connected: int) -> str:
        if not connected:
            return "no slave is connected"
        lag_bytes = next_bytes - (replicas[0].end_bytes if replicas else 0)
        if lag_bytes < self.fallbehind_max_bytes:
            return ""
        return f"the furthest slave is {lag_bytes} bytes behind"


@attrs.frozen(kw_only=True)
class InSyncReplicas(_Counts):
    """5.x's SYNC_MASTER: a configured number, which may follow how many are in sync.

    Attributes:
        in_sync_replicas: nodes, the master included. Upstream: inSyncReplicas.
        min_in_sync_replicas: never fewer with `auto` or `all_ack`. Upstream: minInSyncReplicas.
        acting_master: judge before the write. Upstream: enableSlaveActingMaster.
        auto: need no more than are in sync. Upstream: enableAutoInSyncReplicas.
        all_ack: need all that are in sync. Upstream: allAckInSyncStateSet.
        gap_bytes: a slave so far behind the master's end is not in sync. Upstream:
            haMaxGapNotInSync.
    """

    in_sync_replicas: int
    min_in_sync_replicas: int
    acting_master: bool
    auto: bool
    all_ack: bool
    gap_bytes: int
    name = "5.x"
    remembers_furthest = False

    def in_sync(self, end_bytes: int, replicas: Sequence[Replica]) -> int:
        """Nodes in sync, the master included."""
        return 1 + sum(end_bytes - each.end_bytes < self.gap_bytes for each in replicas)

    def refusal(self, end_bytes: int, replicas: Sequence[Replica]) -> str:
        if not self.acting_master and not self.all_ack:
            return ""
        in_sync = self.in_sync(end_bytes, replicas)
        need = self.min_in_sync_replicas if self.all_ack else self.need(end_bytes, replicas)
        return f"nodes in sync: {in_sync}, required: {need}" if need > in_sync else ""

    def need(self, end_bytes: int, replicas: Sequence[Replica]) -> int:
        if self.all_ack:
            return ALL_IN_SYNC
        if not self.acting_master or not self.auto:
            return self.in_sync_replicas
        in_sync = self.in_sync(end_bytes, replicas)
        return max(min(self.in_sync_replicas, in_sync), self.min_in_sync_replicas)

    def needed(self, need: int, end_bytes: int, replicas: Sequence[Replica]) -> int:
        if need != ALL_IN_SYNC:
            return need
        return max(self.in_sync(end_bytes, replicas), self.min_in_sync_replicas)

    def unavailable(self, next_bytes: int, replicas: Sequence[Replica], connected: int) -> str:
        return ""


def ack_policy(group: ClassicGroup) -> AckPolicy:
    """The policy that the group's keys ask for."""
    match group.ack_policy:
        case "copies":
            return Copies(group.copies)
        case "4.x":
            return FurthestSlave(group.ha_slave_fallbehind_max_bytes)
        case "5.x":
            return InSyncReplicas(
                in_sync_replicas=group.in_sync_replicas,
                min_in_sync_replicas=group.min_in_sync_replicas,
                acting_master=group.enable_slave_acting_master,
                auto=group.enable_auto_in_sync_replicas,
                all_ack=group.all_ack_in_sync_state_set,
                gap_bytes=group.ha_max_gap_not_in_sync_bytes,
            )
