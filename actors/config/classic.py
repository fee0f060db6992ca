"""A group with `mode = "classic"` as a frozen class: one master and the slaves that copy its log.

Upstream: apache/rocketmq 5.3.3, `store/.../config/MessageStoreConfig.java`.
Differs: units stand in the names; every value is checked; `copies` and `durability` say directly
what upstream spreads over brokerRole, totalReplicas, inSyncReplicas and flushDiskType.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import attrs

from actors.config import bounds
from actors.config.commit_log_group import MIB, CommitLogGroup, in_order
from actors.config.group import ConfiguredRole
from actors.config.members import MasterNode, SlaveNode, master_node, slave_nodes

AckPolicyName: TypeAlias = Literal["copies", "4.x", "5.x"]

_MASTER: Final = ConfiguredRole(name="master", listens=True, appends=True, receives=False)
_SLAVE: Final = ConfiguredRole(name="slave", listens=False, appends=False, receives=True)


def _default_copies(group: Any) -> int:
    return 2 if group.slaves else 1


_FIRST: Final = (
    *("name", "mode", "master_node", "slaves", "copies", "durability", "port", "broker_port"),
    *("master_broker_port", "broker_peers", "compat"),
)


@attrs.frozen(kw_only=True, field_transformer=in_order(*_FIRST))
class ClassicGroup(CommitLogGroup):
    """`[groups.NAME]` with `mode = "classic"`: one master, any number of slaves, one commit log.

    Attributes:
        mode: "classic".
        master_node: key `master`; where appends go. Upstream: brokerRole, brokerId 0.
        slaves: who copies the log. Upstream: brokerRole = SLAVE, brokerId > 0; haMasterAddress
            follows from `master`.
        copies: nodes, the master among them, that hold an append before it is answered. 1 =
            asynchronous. Default 2 with slaves, else 1. Upstream: brokerRole and inSyncReplicas (1,
            so SYNC_MASTER waits for nobody: T13).
        master_broker_port: where a Java master listens, if not at `broker_port`: it is asked for
            its metadata there. Upstream: the master's listenPort.
        compat: "upstream" turns on RocketMQ 5.3.3's looser rules, for comparison and to see its
            known bugs run (`python tests/traps.py`; in brackets the traps of classic-ha.md 7):
            bytes leave the master before its sync, slaves and Java slaves count by what they have
            written, and report bytes when they hand them to the store, not when it has them (T4,
            T6); a failed sync is reported as an event only and counts as done (T26); every report
            that is not negative is believed (T2, T3, T8), and a master keeps no mark of what it
            acknowledged (T30); each connection of a slave is a copy (T12), also of a slave that
            lacks the beginning, and an empty one starts with the master's last file (T14); a slave
            waits in vain for a frame that is too large (T10), retries at one pace, is never called
            diverged (T1), and keeps its connection when the master's address changes (T16);
            `ack_policy = "4.x"` never forgets the furthest report (T7); a deadline is looked at
            before the offset (T11); an asynchronous master's idle writer looks every 100 ms (T19);
            a master counts on from its consume queues alone (T22); reads may show what is not
            acknowledged yet (T27); recovery cuts at the first bad record.
        ack_policy: when an append is answered. "copies": that many distinct nodes hold it. "4.x":
            the furthest slave holds it; with none, or one too far behind, it ends at once with
            SLAVE_NOT_AVAILABLE, stored. "5.x": `in_sync_replicas` and the keys below it. (Upstream:
            brokerRole = SYNC_MASTER of 4.9.8 and of 5.3.3.)
        ha_slave_fallbehind_max_bytes: "4.x": the lag at which a slave is too far behind. Upstream:
            haSlaveFallbehindMax, 256 MiB.
        in_sync_replicas: "5.x": nodes that hold an append, the master included. Upstream:
            inSyncReplicas, 1.
        enable_slave_acting_master: "5.x": refuse an append, nothing written, while fewer nodes are
            in sync than it needs (`ha_max_gap_not_in_sync_bytes`). Upstream:
            enableSlaveActingMaster, false, of which only this is here.
        enable_auto_in_sync_replicas: with it: need no more than are in sync. Upstream:
            enableAutoInSyncReplicas, false.
        all_ack_in_sync_state_set: "5.x": need all slaves that are in sync. Upstream:
            allAckInSyncStateSet, false, with a controller only.
        min_in_sync_replicas: with either of the two: need at least so many. Upstream:
            minInSyncReplicas, 1.
    """

    mode: Literal["classic"] = "classic"
    master_node: MasterNode = attrs.field(alias="master", converter=master_node)
    slaves: tuple[SlaveNode, ...] = attrs.field(default=(), converter=slave_nodes)
    copies: int = attrs.field(
        default=attrs.Factory(_default_copies, takes_self=True),
        validator=bounds.NODES,
    )
    master_broker_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(bounds.BROKER_PORT)
    )
    compat: Literal["upstream"] | None = None
    ack_policy: AckPolicyName = "copies"
    ha_slave_fallbehind_max_bytes: int = attrs.field(default=256 * MIB, validator=bounds.GAP)
    in_sync_replicas: int = attrs.field(default=1, validator=bounds.NODES)
    min_in_sync_replicas: int = attrs.field(default=1, validator=bounds.NODES)
    enable_slave_acting_master: bool = False
    enable_auto_in_sync_replicas: bool = False
    all_ack_in_sync_state_set: bool = False

    @property
    def master(self) -> str:
        """The master's node name."""
        return self.master_node.node

    @property
    def follows_java(self) -> bool:
        """Whether its master is a Java broker."""
        return self.master_node.kind == "java"

    @property
    def asked_port(self) -> int | None:
        """Where the present master is asked for metadata; None: nowhere."""
        return (self.master_broker_port if self.follows_java else None) or self.broker_port

    @property
    def sure_copies(self) -> int:
        """Nodes that hold whatever was answered, at least, the master included."""
        if self.ack_policy == "copies":
            return self.copies
        if self.ack_policy == "4.x":
            return 2
        varies = self.all_ack_in_sync_state_set or self.enable_auto_in_sync_replicas
        return self.min_in_sync_replicas if varies else self.in_sync_replicas

    def role_of(self, node: str) -> ConfiguredRole:
        """Master or slave by the cluster file: only a master listens, for slaves."""
        return _MASTER if node == self.master else _SLAVE

    @property
    def members(self) -> tuple[str, ...]:
        """Every node of the group, the master first."""
        return (self.master, *(slave.node for slave in self.slaves))

    def led_by(self, node: str) -> ClassicGroup:
        """The same group with another of its Python members as master, the old one in its place."""
        if node == self.master:
            return self
        slaves = tuple(
            SlaveNode(self.master, self.master_node.kind) if slave.node == node else slave
            for slave in self.slaves
        )
        assert len(slaves) == len(self.slaves)
        return attrs.evolve(self, master=MasterNode(node), slaves=slaves)

    @property
    def java_nodes(self) -> tuple[str, ...]:
        """The members that are Java brokers."""
        slaves = tuple(slave.node for slave in self.slaves if slave.kind == "java")
        return (self.master, *slaves) if self.master_node.kind == "java" else slaves

    @property
    def counting_nodes(self) -> tuple[str, ...]:
        """The members that can count towards `copies`, the master first."""
        counts = not self.strict_sync
        slaves = tuple(s.node for s in self.slaves if counts or s.kind == "python")
        return (self.master, *slaves)
