"""What slaves copy from their master beside topics, as it travels and as it lies in config/.

Upstream: apache/rocketmq, broker/.../offset/ConsumerOffsetManager.java, schedule/
ScheduleMessageService.java, subscription/SubscriptionGroupManager.java, store/.../timer/
TimerCheckpoint.java and TimerMetrics.java, 5.3.3 and 4.9.7; classic-ha.md 5.2 and 5.3.

| Code | Class            | File                                            |
|------|------------------|-------------------------------------------------|
| 43   | ConsumerOffsets  | consumerOffset.json                             |
| 45   | DelayOffsets     | delayOffset.json                                |
| 201  | GroupTable       | subscriptionGroup.json                          |
| 402  | RequestModes     | messageRequestMode.json                         |
| 61   | TimerMetrics     | timermetrics                                    |
| 60   | TimerCheckpoint  | timercheck: the same bytes, zeros to the file's end |

A timer checkpoint, 56 bytes:

| Offset | Width | Type | Field                     | Meaning                                |
|--------|-------|------|---------------------------|----------------------------------------|
| 0      | 8     | long | last_read_ms              | to which time its timer wheel was read |
| 8      | 8     | long | last_log_flush_offset     | of its own timer log                   |
| 16     | 8     | long | last_queue_offset         | to which it read timer messages        |
| 24     | 8     | long | master_queue_offset       | the same of its master                 |
| 32     | 8     | long | data_version.stateVersion | not before 5.1, as the next two        |
| 40     | 8     | long | data_version.timestamp    |                                        |
| 48     | 8     | long | data_version.counter      |                                        |
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from wire.broker.java_json import JavaObject, Reader, table
from wire.broker.topics import DataVersion
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.remoting.tolerant_json import Int, Long, always

TIMER_CHECKPOINT_BYTES: Final = 56
TIMER_CHECK_FILE_BYTES: Final = 4096
RETRY_TIMES_DEFAULT: Final = 16

_CHECKPOINT = struct.Struct(">7q")
_CHECKPOINT_OLD = struct.Struct(">4q")


class ConsumerOffsets(JavaObject, frozen=True):
    """The offset at which each group continues to read each queue.

    Attributes:
        data_version: from 5.x on. Java changes it only at every 500th commit, so equal versions
            tell nothing about the offsets.
        offset_table: the next offset of each queue id, by "topic@group".
    """

    DERIVED: ClassVar[frozenset[str]] = frozenset({"groupTopicMap"})

    data_version: DataVersion | None = None
    offset_table: dict[str, dict[Int, Long]] = table()


class DelayOffsets(JavaObject, frozen=True):
    """The offset up to which the queue of each delay level was delivered.

    Attributes:
        data_version: the version of the table; None: a 4.x broker sends none.
        offset_table: the next offset of each delay level's queue, by delay level.
    """

    data_version: DataVersion | None = None
    offset_table: dict[Int, Long] = table()


class GroupRetryPolicy(JavaObject, frozen=True):
    """When a failed message is delivered again; the policies themselves are in `more`."""

    type: str | None = None


class SubscriptionGroupConfig(JavaObject, frozen=True):
    """A consumer group on one broker. A 4.x broker does not know the fields with the default None.

    Attributes:
        broker_id: the broker from which it reads.
        which_broker_when_consume_slowly: the broker from which it reads when it is far behind.
    """

    attributes: dict[str, str] | None = None
    broker_id: Long = always(0)
    consume_broadcast_enable: bool = always(True)
    consume_enable: bool = always(True)
    consume_from_min_enable: bool = always(True)
    consume_message_orderly: bool | None = None
    consume_timeout_minute: Int | None = None
    group_name: str = always("")
    group_retry_policy: GroupRetryPolicy | None = None
    group_sys_flag: Int | None = None
    notify_consumer_ids_changed_enable: bool = always(True)
    retry_max_times: Int = always(RETRY_TIMES_DEFAULT)
    retry_queue_nums: Int = always(1)
    which_broker_when_consume_slowly: Long = always(1)


class GroupTable(JavaObject, frozen=True):
    """All consumer groups by name.

    Attributes:
        forbidden_table: from 5.x on: by group and topic, the bits of what the group may not do.
    """

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int]] | None = None
    subscription_group_table: dict[str, SubscriptionGroupConfig] = table()


class RequestMode(JavaObject, frozen=True):
    """How a group gets a topic's messages: by PULL or POP."""

    consumer_group: str | None = None
    mode: str | None = None
    pop_share_queue_num: Int = always(0)
    topic: str | None = None


class RequestModes(JavaObject, frozen=True):
    """The modes that were set explicitly, by topic and group. They have no version."""

    message_request_mode_map: dict[str, dict[str, RequestMode]] = table()


class TimerMetric(JavaObject, frozen=True):
    """The number of waiting timer messages of a topic, and when it changed, in ms."""

    count: Long = always(0)
    time_stamp: Long = always(0)


class TimerMetrics(JavaObject, frozen=True):
    """The numbers of waiting timer messages, by topic."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    timing_count: dict[str, TimerMetric] = table()


class TimerCheckpoint(Struct, frozen=True, kw_only=True):
    """See the module's table."""

    last_read_ms: int = 0
    last_log_flush_offset: int = 0
    last_queue_offset: int = 0
    master_queue_offset: int = 0
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)


CONSUMER_OFFSETS = Reader(ConsumerOffsets)
DELAY_OFFSETS = Reader(DelayOffsets)
GROUP_TABLE = Reader(GroupTable)
SUBSCRIPTION_GROUP_CONFIG = Reader(SubscriptionGroupConfig)
REQUEST_MODES = Reader(RequestModes)
TIMER_METRICS = Reader(TimerMetrics)


def decode_timer_checkpoint(data: bytes) -> TimerCheckpoint:
    """Decode the checkpoint at the beginning of an answer's body or of a file.

    Raises:
        RemoteProtocolError: there are fewer bytes than any version writes.
    """
    if len(data) >= TIMER_CHECKPOINT_BYTES:
        *offsets, state_version, timestamp, counter = _CHECKPOINT.unpack_from(data)
    elif len(data) >= _CHECKPOINT_OLD.size:
        offsets = list(_CHECKPOINT_OLD.unpack_from(data))
        state_version = timestamp = counter = 0
    else:
        raise RemoteProtocolError(f"TimerCheckpoint of {len(data)} bytes")
    read_ms, log_flush, queue, master_queue = offsets
    return TimerCheckpoint(
        last_read_ms=read_ms,
        last_log_flush_offset=log_flush,
        last_queue_offset=queue,
        master_queue_offset=master_queue,
        data_version=DataVersion(counter=counter, state_version=state_version, timestamp=timestamp),
    )


def encode_timer_checkpoint(value: TimerCheckpoint) -> bytes:
    """Encode a checkpoint as TIMER_CHECKPOINT_BYTES bytes.

    Raises:
        LocalProtocolError: a number does not fit into 64 bits.
    """
    version = value.data_version
    try:
        return _CHECKPOINT.pack(
            value.last_read_ms,
            value.last_log_flush_offset,
            value.last_queue_offset,
            value.master_queue_offset,
            version.state_version or 0,
            version.timestamp,
            version.counter,
        )
    except struct.error as error:
        raise LocalProtocolError(f"cannot encode {value}: {error}") from None
