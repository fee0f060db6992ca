"""Events of a store: its start, its growth, what was cut or expired, and what failed.

Offsets are physical offsets in bytes. Those about data are one per batch, never per record.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RecoveryFinished:
    """A store was opened. Emitted by store, at each start; checkers: `end_bytes` is the end of a
    record or of a file, and nothing synced lies behind it.

    Attributes:
        was_clean: the last stop was an ordered one.
        scanned_from_bytes: first byte looked at.
        end_bytes: where the log goes on.
        record_count: good records seen.
        kept_bytes: bytes behind the end that were cut and are in `cut/`.
        reason: why the log ends there; "" if nothing follows.
    """

    was_clean: bool
    scanned_from_bytes: int
    end_bytes: int
    record_count: int
    kept_bytes: int
    reason: str


@attrs.frozen(kw_only=True)
class LogTruncated:
    """Bytes at or behind `end_bytes` were cut and kept aside. Emitted by store, before anybody
    reads it.
    """

    end_bytes: int
    kept_bytes: int


@attrs.frozen(kw_only=True)
class RecordsAppended:
    """One write of a master: `appends` callers, `records` records. Emitted by store, when it is
    written.

    Checkers and audits: these ranges and those of AppendsAcknowledged tile the master's log.
    """

    first_bytes: int
    next_bytes: int
    appends: int
    records: int


@attrs.frozen(kw_only=True)
class BytesReceived:
    """A slave wrote what it received in one batch. Emitted by store.

    Checkers: the ranges of one session are contiguous.
    """

    session: int
    first_bytes: int
    next_bytes: int


@attrs.frozen(kw_only=True)
class LogSynced:
    """All below `offset_bytes` is on the disk. Emitted by store. Checkers: a restart never ends
    below.
    """

    offset_bytes: int


@attrs.frozen(kw_only=True)
class SegmentRolled:
    """The log went on in the file that begins at `base_bytes`. Emitted by store."""

    base_bytes: int


@attrs.frozen(kw_only=True)
class SegmentExpired:
    """The oldest file was deleted. Emitted by store.

    Attributes:
        min_bytes: the log's first offset now.
        reason: "age", or "usage" if the disk was too full to wait.
        undispatched_bytes: so much of its end had no units and index entries, or none that would
            have outlasted a crash: the disk had no room to wait for the dispatcher.
    """

    min_bytes: int
    reason: str
    undispatched_bytes: int = 0


@attrs.frozen(kw_only=True)
class DiskUsageChanged:
    """A log finds no room for what is appended or received, or does again. Emitted by store.

    Attributes:
        is_full: no room, as more is used than `disk_full_ratio` or as a write found none.
        used_ratio: of the disk, at the last look.
        reason: why there is no room, for people.
    """

    is_full: bool
    used_ratio: float
    reason: str = ""


@attrs.frozen(kw_only=True)
class WriteFailed:
    """A write to the log failed, so its end is unknown: the node stops. Emitted by store."""

    error: str
    offset_bytes: int


@attrs.frozen(kw_only=True)
class PageSealed:
    """A slave synced the page that ends at `offset_bytes` before it wrote on, so that no power loss
    leaves a hole in a record's head. Emitted by store.
    """

    offset_bytes: int


@attrs.frozen(kw_only=True)
class SyncFailed:
    """A sync failed, which is final: the node stops. Emitted by syncer, dispatcher and store."""

    error: str
    paths: tuple[str, ...]


@attrs.frozen(kw_only=True)
class RawAppendRefused:
    """Received bytes were not written, so the session ends. Emitted by store, once per session."""

    session: int
    offset_bytes: int
    reason: str


@attrs.frozen(kw_only=True)
class RotFound:
    """Bytes of the log are not what was written there, or cannot be read: this copy does not count
    until they are mended. Emitted by scrubber, once per range and incarnation; alarms: a copy is
    damaged.

    Attributes:
        first_bytes, next_bytes: the range.
        why: how that is known.
    """

    first_bytes: int
    next_bytes: int
    why: str


@attrs.frozen(kw_only=True)
class RotMended:
    """Damaged bytes are what was written again, or gone with their file. Emitted by scrubber."""

    first_bytes: int
    next_bytes: int


@attrs.frozen(kw_only=True)
class RangeRepaired:
    """A damaged range was written anew, as another member has it, and is on the disk. Emitted by
    scrubber, for `repair`; RotMended comes with it.

    Attributes:
        source: that member.
    """

    first_bytes: int
    next_bytes: int
    source: str


@attrs.frozen(kw_only=True)
class DispatchStarted:
    """The derived files are loaded; records from `from_bytes` on are dispatched (again).

    Emitted by dispatcher, at each start.
    """

    from_bytes: int
    end_bytes: int
    queue_count: int


@attrs.frozen(kw_only=True)
class DerivedAnew:
    """All consume queues and the index are built anew from the whole log. Emitted by dispatcher, at
    a start that finds something else than it left, or when the log was mended where they derive
    from it.

    Attributes:
        reason: what it found.
    """

    reason: str


@attrs.frozen(kw_only=True)
class QueueRebuilt:
    """A consume queue lacked units and is built anew from the whole log. Emitted by dispatcher."""

    topic: str
    queue_id: int


@attrs.frozen(kw_only=True)
class DispatchHalted:
    """Queues and index are derived no further: old bytes of the log that are needed for it are
    damaged, or nobody can say. Emitted by dispatcher, once for each such place; it goes on by
    itself when they are mended.

    Attributes:
        at_bytes: all records that end at or below it can be looked up.
        damaged_bytes: where the damage begins.
    """

    at_bytes: int
    damaged_bytes: int


@attrs.frozen(kw_only=True)
class DispatchWentOn:
    """The damage at which the dispatcher stood is mended. Emitted by dispatcher."""

    at_bytes: int


@attrs.frozen(kw_only=True)
class DerivedMended:
    """Bytes of a consume queue or an index file were not what its records say, and are again. By
    dispatcher, once for each of them that the scrub has found damaged in one step.

    Attributes:
        file: "consumequeue/TOPIC/QUEUE_ID" or "index/NAME".
        count: units, or entries, slots and headers, that were written again.
    """

    file: str
    count: int


@attrs.frozen(kw_only=True)
class RecordsNotDispatched:
    """Records that no queue can take (a topic that is no file name). Emitted by dispatcher, per
    batch.
    """

    first_bytes: int
    count: int


@attrs.frozen(kw_only=True)
class QueuesBegunAnew:
    """Consume queues began anew at a lower queue offset, for their topic was deleted and made again
    on a RocketMQ master. Emitted by dispatcher, per batch.

    Attributes:
        topic, queue_id, first_bytes: of the first of the records that queues began anew with.
        queue_count: how many queues.
        unit_count: units of older records, which no queue leads to any more.
    """

    topic: str
    queue_id: int
    first_bytes: int
    queue_count: int
    unit_count: int


@attrs.frozen(kw_only=True)
class QueuesDeleted:
    """Consume queues were removed, for their topics were deleted. Emitted by dispatcher.

    Attributes:
        topic: the first of these topics, by name.
        topic_count, queue_count: how many topics and queues.
    """

    topic: str
    topic_count: int
    queue_count: int


@attrs.frozen(kw_only=True)
class QueueOffsetsRepeated:
    """Records without a unit, for an older record of the queue has their queue offset, as a
    RocketMQ master gives it that was started before its queues were complete. Emitted by
    dispatcher, per batch.
    """

    first_bytes: int
    count: int
