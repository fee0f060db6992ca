"""A group with `mode = "classic"` as a frozen class: one master and the slaves that copy its log.

Upstream: apache/rocketmq 5.3.3, `store/.../config/MessageStoreConfig.java`.
Differs: units stand in the names; every value is checked; `copies` and `durability` say directly
what upstream spreads over brokerRole, totalReplicas, inSyncReplicas and flushDiskType.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import attrs

from actors.config import bounds
from actors.config.bounds import INTERVAL, PORT, EachWithin
from actors.config.group import ConfiguredRole, Durability, LargestFile, StoreType
from actors.config.members import MasterNode, SlaveNode, master_node, slave_nodes
from wire.files.message_record import RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX
from wire.files.properties import DELAY_LEVELS, delay_levels_ms

AckPolicyName: TypeAlias = Literal["copies", "4.x", "5.x"]

MIB = 1 << 20
MESSAGE_BYTES_DEFAULT = 4 * MIB
PAGE_BYTES = 4096
"""The size of a page that `flush_least_pages` counts. Upstream: MappedFile.OS_PAGE_SIZE."""
_MASTER: Final = ConfiguredRole(name="master", listens=True, appends=True, receives=False)
_SLAVE: Final = ConfiguredRole(name="slave", listens=False, appends=False, receives=True)


def _default_copies(group: Any) -> int:
    return 2 if group.slaves else 1


def _default_message_bytes(group: Any) -> int:
    half: int = group.segment_bytes // 2
    return min(MESSAGE_BYTES_DEFAULT, half)


@attrs.frozen(kw_only=True)
class ClassicGroup:
    """`[groups.NAME]` with `mode = "classic"`: one master, any number of slaves, one commit log.

    Attributes:
        name: the table's name; also the topic of plain records, and the folder under `groups/`.
        mode: "classic".
        master_node: key `master`; where appends go. Upstream: brokerRole, brokerId 0.
        slaves: who copies the log. Upstream: brokerRole = SLAVE, brokerId > 0; haMasterAddress
            follows from `master`.
        copies: nodes, the master among them, that hold an append before it is answered. 1 =
            asynchronous. Default 2 with slaves, else 1. Upstream: brokerRole and inSyncReplicas (1,
            so SYNC_MASTER waits for nobody: T13).
        durability: "synced": every copy that counts is on the disk; "written": in the page cache,
            synced every `flush_interval_s`. Upstream: flushDiskType = ASYNC_FLUSH, on the master
            only.
        port: where the master listens for slaves. Upstream: haListenPort, 10912.
        broker_port: where every member answers what brokers are asked for: topics, offsets and
            consumer groups, which its slaves copy. They ask for topics at this port less 2, where
            it listens, too. Java members listen there themselves. None: the group has no such
            metadata. Upstream: listenPort, 10911.
        master_broker_port: where a Java master listens, if not at `broker_port`: it is asked for
            its metadata there. Upstream: the master's listenPort.
        broker_peers: addresses that may connect there, beside the members' and this machine's own,
            because there are no access rules yet. Upstream lets everybody.
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
        frame_bytes: most log bytes in one frame. Upstream: haTransferBatchSize, 32 KiB.
        ha_send_heartbeat_interval_s: an idle link says so this often. Upstream:
            haSendHeartbeatInterval, 5000 ms.
        ha_housekeeping_interval_s: silence that ends a connection. Upstream:
            haHousekeepingInterval, 20000 ms.
        slave_timeout_s: how long an append waits for its copies (and its sync) before its outcome
            is unknown. Upstream: slaveTimeout, 3000 ms; syncFlushTimeout, 5000 ms.
        reconnect_interval_s: a slave's longest pause between attempts; the first is 0.2 s, each
            next one twice as long. Upstream: a constant in HAClient, 5000 ms, from the first on.
        connect_timeout_s: for one attempt. Upstream: a constant in HAClient, 5000 ms.
        ha_max_gap_not_in_sync_bytes: a slave further behind is shown as not in sync. Upstream:
            haMaxGapNotInSync, 256 MiB (4.x: haSlaveFallbehindMax).
        max_ha_transfer_bytes_per_s: a limit for each connection; 0 = none. Upstream:
            haFlowControlEnable false, maxHaTransferByteInSecond 100 MiB.
        segment_bytes: size of one commit log file; equal on all nodes of a group. Upstream:
            mappedFileSizeCommitLog, 1 GiB.
        consume_queue_bytes: size of one consume queue file. Upstream: mappedFileSizeConsumeQueue, 6
            000 000.
        index_slots_count: hash slots of one index file. Upstream: maxHashSlotNum, 5 000 000.
        index_units_count: units of one index file. Upstream: maxIndexNum, 20 000 000.
        store_version: the RocketMQ version whose index and `checkpoint` are written, such as
            "5.3.3". Since 5.4.0 the index has an entry for the tags of each record; since 5.5.0
            `checkpoint` says up to where the queues reach (logicsPhysicalOffset), without which a
            broker with enableAcceleratedRecovery refuses a store that was not stopped in order. By
            default as the store that is found, and the newest for one that says nothing.
        message_delay_level: the delay of each level, the first one's first. By it the queues of
            SCHEDULE_TOPIC_XXXX say when a delayed message is due, and a slave makes them itself, so
            it has to be its master's. Upstream: messageDelayLevel, 1s 5s 10s 30s 1m .. 10m 20m 30m
            1h 2h.
        max_message_bytes: largest body of a record. Upstream: maxMessageSize, 4 MiB. Default: that,
            or half a segment.
        flush_interval_s: how often a `written` group syncs behind the answers. Upstream:
            flushIntervalCommitLog, 500 ms.
        flush_least_pages: for a `written` group: while fewer pages of 4 KiB are not synced, they
            wait for `flush_thorough_interval_s`; 0: they do not. Upstream:
            flushCommitLogLeastPages, 4.
        flush_thorough_interval_s: how long they wait. Upstream: flushCommitLogThoroughInterval,
            10000 ms.
        check_crc_on_recover: check each record's CRC at start. Upstream: checkCRCOnRecover, true.
        file_reserved_time_h: age at which a full segment expires. Upstream: fileReservedTime, 72 h.
        delete_when_hours: local hours in which expired segments are deleted. Upstream: deleteWhen,
            "04".
        disk_max_used_ratio: above it they are deleted at any hour. Upstream: diskMaxUsedSpaceRatio,
            75 %.
        disk_clean_forcibly_ratio: above it the oldest go before they expire. Upstream: 0.85.
        disk_full_ratio: above it appends are refused. Upstream: 0.90; ours also stops a slave's
            copying.
        clean_resource_interval_s: how often the disk is looked at. Upstream: cleanResourceInterval,
            10000 ms.
        scrub_bytes_per_s: how fast what lies on the disk is read again, to find bytes that have
            changed there: half of it is the log's, half that of queues and index; 0: it is not.
            Upstream has no scrub.
        append_pending_bytes: bodies that may wait unwritten in the master; above it callers wait or
            are refused.
        receive_pending_bytes: received log bytes that may wait unwritten in a slave; above it TCP
            pushes back.
    """

    name: str = attrs.field(validator=bounds.NAME)
    mode: Literal["classic"] = "classic"
    master_node: MasterNode = attrs.field(alias="master", converter=master_node)
    slaves: tuple[SlaveNode, ...] = attrs.field(default=(), converter=slave_nodes)
    copies: int = attrs.field(
        default=attrs.Factory(_default_copies, takes_self=True),
        validator=bounds.NODES,
    )
    durability: Durability = "synced"
    port: int = attrs.field(default=10_912, validator=PORT)
    broker_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(bounds.BROKER_PORT)
    )
    master_broker_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(bounds.BROKER_PORT)
    )
    broker_peers: tuple[str, ...] = attrs.field(default=(), converter=bounds.as_connecting)
    compat: Literal["upstream"] | None = None

    ack_policy: AckPolicyName = "copies"
    ha_slave_fallbehind_max_bytes: int = attrs.field(default=256 * MIB, validator=bounds.GAP)
    in_sync_replicas: int = attrs.field(default=1, validator=bounds.NODES)
    min_in_sync_replicas: int = attrs.field(default=1, validator=bounds.NODES)
    enable_slave_acting_master: bool = False
    enable_auto_in_sync_replicas: bool = False
    all_ack_in_sync_state_set: bool = False

    frame_bytes: int = attrs.field(default=1 << 20, validator=bounds.FRAME)
    ha_send_heartbeat_interval_s: float = attrs.field(default=5.0, validator=INTERVAL)
    ha_housekeeping_interval_s: float = attrs.field(default=20.0, validator=INTERVAL)
    slave_timeout_s: float = attrs.field(default=3.0, validator=INTERVAL)
    reconnect_interval_s: float = attrs.field(default=5.0, validator=INTERVAL)
    connect_timeout_s: float = attrs.field(default=5.0, validator=INTERVAL)
    ha_max_gap_not_in_sync_bytes: int = attrs.field(default=256 * MIB, validator=bounds.GAP)
    max_ha_transfer_bytes_per_s: int = attrs.field(default=0, validator=bounds.RATE)

    segment_bytes: int = attrs.field(default=1 << 30, validator=bounds.SEGMENT)
    consume_queue_bytes: int = attrs.field(default=6_000_000, validator=bounds.CONSUME_QUEUE)
    index_slots_count: int = attrs.field(default=5_000_000, validator=bounds.INDEX_COUNT)
    index_units_count: int = attrs.field(default=20_000_000, validator=bounds.INDEX_COUNT)
    store_version: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(bounds.STORE_VERSION)
    )
    message_delay_level: str = attrs.field(default=DELAY_LEVELS, validator=bounds.DELAY_LEVELS)
    max_message_bytes: int = attrs.field(
        default=attrs.Factory(_default_message_bytes, takes_self=True),
        validator=bounds.MESSAGE,
    )
    flush_interval_s: float = attrs.field(default=0.5, validator=INTERVAL)
    flush_least_pages: int = attrs.field(default=0, validator=bounds.PAGES)
    flush_thorough_interval_s: float = attrs.field(default=10.0, validator=INTERVAL)
    check_crc_on_recover: bool = True

    file_reserved_time_h: int = attrs.field(default=72, validator=bounds.HOURS)
    delete_when_hours: tuple[int, ...] = attrs.field(
        default=(4,), validator=EachWithin(0, 23, "hours")
    )
    disk_max_used_ratio: float = attrs.field(default=0.75, validator=bounds.RATIO)
    disk_clean_forcibly_ratio: float = attrs.field(default=0.85, validator=bounds.RATIO)
    disk_full_ratio: float = attrs.field(default=0.90, validator=bounds.RATIO)
    clean_resource_interval_s: float = attrs.field(default=10.0, validator=INTERVAL)
    scrub_bytes_per_s: int = attrs.field(default=8 * MIB, validator=bounds.RATE)

    append_pending_bytes: int = attrs.field(default=64 * MIB, validator=bounds.PENDING)
    receive_pending_bytes: int = attrs.field(default=16 * MIB, validator=bounds.PENDING)

    @property
    def master(self) -> str:
        """The master's node name."""
        return self.master_node.node

    @property
    def broker_ports(self) -> tuple[int, ...]:
        """Listen port and, 2 below, what clients call its VIP channel."""
        return () if self.broker_port is None else (self.broker_port, self.broker_port - 2)

    @property
    def asked_port(self) -> int | None:
        """Where the present master is asked for metadata; None: nowhere."""
        is_java = self.master_node.kind == "java"
        return (self.master_broker_port if is_java else None) or self.broker_port

    @property
    def append_timeout_s(self) -> float:
        """How long an append waits before its outcome is unknown."""
        return self.slave_timeout_s

    @property
    def body_bytes_max(self) -> int:
        """The largest record."""
        return self.max_message_bytes

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delays of the levels in ms."""
        return delay_levels_ms(self.message_delay_level)

    @property
    def sure_copies(self) -> int:
        """Nodes that hold whatever was answered, at least, the master included."""
        if self.ack_policy == "copies":
            return self.copies
        if self.ack_policy == "4.x":
            return 2
        varies = self.all_ack_in_sync_state_set or self.enable_auto_in_sync_replicas
        return self.min_in_sync_replicas if varies else self.in_sync_replicas

    @property
    def store(self) -> StoreType:
        """Its log is in files."""
        return "file"

    @property
    def as_upstream(self) -> bool:
        """Whether it follows upstream's looser rules."""
        return self.compat is not None

    @property
    def takes_empty(self) -> bool:
        """Whether empty records may be appended: here they are records like others."""
        return True

    @property
    def election(self) -> None:
        """An operator chooses the master."""

    @property
    def largest_file(self) -> LargestFile:
        """A segment of the commit log."""
        return LargestFile(key="segment_bytes", size_bytes=self.segment_bytes)

    def role_of(self, node: str) -> ConfiguredRole:
        """Master or slave by the cluster file: only a master listens, for slaves."""
        return _MASTER if node == self.master else _SLAVE

    @property
    def flush_least_bytes(self) -> int:
        """While less than this is not synced, it waits for `flush_thorough_interval_s`."""
        return self.flush_least_pages * PAGE_BYTES

    @property
    def strict_sync(self) -> bool:
        """Whether every copy that counts, and every byte that leaves, was synced before."""
        return self.durability == "synced" and self.compat is None

    @property
    def record_bytes_max(self) -> int:
        """Largest record that is taken for one: the configured body, or upstream's default."""
        return max(RECORD_BYTES_MAX, self.max_message_bytes + RECORD_OVERHEAD_MAX)

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
