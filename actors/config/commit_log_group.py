"""What a group has whose log is RocketMQ's commit log, whoever decides which node is its master.

Upstream: apache/rocketmq 5.3.3, `store/.../config/MessageStoreConfig.java`.
Differs: units stand in the names; every value is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import attrs

from actors.config import bounds
from actors.config.bounds import INTERVAL, PORT, EachWithin
from actors.config.group import ConfiguredRole, Durability, ElectionTimes, LargestFile, StoreType
from wire.files.message_record import RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX
from wire.files.properties import DELAY_LEVELS, delay_levels_ms

MIB = 1 << 20
MESSAGE_BYTES_DEFAULT = 4 * MIB
PAGE_BYTES = 4096
"""The size of a page that `flush_least_pages` counts. Upstream: MappedFile.OS_PAGE_SIZE."""


def _default_message_bytes(group: Any) -> int:
    half: int = group.segment_bytes // 2
    return min(MESSAGE_BYTES_DEFAULT, half)


def in_order(*first: str) -> Callable[[type, list[Any]], list[Any]]:
    """Return attrs' transformer that puts these fields first, then the class's own, then its
    base's. Problems and settings are listed in the order of the fields.
    """
    places = {name: place for place, name in enumerate(first)}

    def sort(_: type, fields: list[Any]) -> list[Any]:
        return sorted(fields, key=lambda one: (places.get(one.name, len(first)), one.inherited))

    return sort


@attrs.frozen(kw_only=True)
class CommitLogGroup:
    """The keys of `[groups.NAME]` that all modes with a commit log have.

    Attributes:
        name: the table's name; also the topic of plain records, and the folder under `groups/`.
        durability: "synced": every copy that counts is on the disk; "written": in the page cache,
            synced every `flush_interval_s`. Upstream: flushDiskType = ASYNC_FLUSH, on the master
            only.
        port: where the master listens for slaves. Upstream: haListenPort, 10912.
        broker_port: where every member answers what brokers are asked for: topics, offsets and
            consumer groups, which its slaves copy. They ask for topics at this port less 2, where
            it listens, too. Java members listen there themselves. None: the group has no such
            metadata. Upstream: listenPort, 10911.
        broker_peers: addresses that may connect there, beside the members' and this machine's own,
            because there are no access rules yet. Upstream lets everybody.
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
    durability: Durability = "synced"
    port: int = attrs.field(default=10_912, validator=PORT)
    broker_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(bounds.BROKER_PORT)
    )
    broker_peers: tuple[str, ...] = attrs.field(default=(), converter=bounds.as_connecting)
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
    def body_bytes_max(self) -> int:
        """The largest record."""
        return self.max_message_bytes

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delays of the levels in ms."""
        return delay_levels_ms(self.message_delay_level)

    @property
    def append_timeout_s(self) -> float:
        """How long an append waits before its outcome is unknown."""
        return self.slave_timeout_s

    @property
    def store(self) -> StoreType:
        """Its log is in files."""
        return "file"

    @property
    def takes_empty(self) -> bool:
        """Whether empty records may be appended: here they are records like others."""
        return True

    @property
    def election(self) -> ElectionTimes | None:
        """How its master is elected; None: an operator chooses it."""
        return None

    @property
    def largest_file(self) -> LargestFile:
        """A segment of the commit log."""
        return LargestFile(key="segment_bytes", size_bytes=self.segment_bytes)

    @property
    def flush_least_bytes(self) -> int:
        """While less than this is not synced, it waits for `flush_thorough_interval_s`."""
        return self.flush_least_pages * PAGE_BYTES

    @property
    def record_bytes_max(self) -> int:
        """Largest record that is taken for one: the configured body, or upstream's default."""
        return max(RECORD_BYTES_MAX, self.max_message_bytes + RECORD_OVERHEAD_MAX)

    @property
    def broker_ports(self) -> tuple[int, ...]:
        """Listen port and, 2 below, what clients call its VIP channel."""
        return () if self.broker_port is None else (self.broker_port, self.broker_port - 2)

    # ---- what the modes differ in ----

    @property
    def mode(self) -> str:
        """Which of `kinds.KINDS` it is."""
        raise NotImplementedError

    @property
    def master(self) -> str:
        """The node that is master, by the file or at present; "" if no node of the file is."""
        raise NotImplementedError

    @property
    def members(self) -> tuple[str, ...]:
        """Every node of the group."""
        raise NotImplementedError

    @property
    def java_nodes(self) -> tuple[str, ...]:
        """The members that are Java brokers."""
        return ()

    @property
    def sure_copies(self) -> int:
        """Nodes that hold whatever was answered, at least, the master included."""
        raise NotImplementedError

    @property
    def compat(self) -> Literal["upstream"] | None:
        """Whether it follows upstream's looser rules, and whose."""
        return None

    @property
    def as_upstream(self) -> bool:
        """Whether it follows upstream's looser rules."""
        return self.compat is not None

    @property
    def strict_sync(self) -> bool:
        """Whether every copy that counts, and every byte that leaves, was synced before."""
        return self.durability == "synced" and self.compat is None

    @property
    def follows_java(self) -> bool:
        """Whether its master is a Java broker."""
        raise NotImplementedError

    @property
    def asked_port(self) -> int | None:
        """Where the present master is asked for metadata; None: nowhere."""
        return self.broker_port

    def led_by(self, node: str) -> Self:
        """The same group with another master."""
        raise NotImplementedError

    def role_of(self, node: str) -> ConfiguredRole:
        """What one of `members` is."""
        raise NotImplementedError
