"""Group commit: all appends that wait, one encoding pass into one buffer per segment, one write.

Upstream: apache/rocketmq store/.../CommitLog.java, asyncPutMessage, one record at a time under a
lock; DefaultAppendMessageCallback, and ConsumeQueue offsets under topicQueueLock (5.3.3).

Differs: one pass for all appends that wait, one write for all of them; an append that breaks a
limit is taken out again as if it had never come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from actors.errors import LogFull, NodeStopped, NotStored, Overloaded, TooLarge
from actors.log_types import BEHIND_FAILED, Message, NewRecord
from actors.runtime import ActorRef
from actors.storage.commitlog.store_messages import (
    Append,
    ForgetTopics,
    RecordsWritten,
    Waiting,
)
from actors.storage.derived.queue_files import TOPIC_BYTES_MAX, is_safe_topic
from actors.storage.files.room import NoRoom
from actors.storage.log.commit_log import CommitLog
from wire.errors import LocalProtocolError
from wire.files.commit_log import BLANK_BYTES, Host, RecordEncoder, encode_properties
from wire.files.properties import KEYS, TAGS

GROUP_BYTES = 4 << 20
"""One group takes appends up to so many encoded bytes; then other actors get a turn."""
GROUP_APPENDS = 1024
AHEAD_MAX_MS = 100 * 365 * 86_400_000
"""A stored time further ahead of the clock is no time: followed, it would be that of all records to
come. A clock that has lost its battery, and begins in 1970, is less behind."""


@attrs.frozen
class Placed:
    """One append of a group, and where its records are in the log."""

    append: Append
    first_bytes: int
    last_bytes: int
    next_bytes: int

    def waiting(self, acknowledger: ActorRef[RecordsWritten]) -> Waiting:
        """The append as the acknowledger gets it."""
        return Waiting(
            first_bytes=self.first_bytes,
            last_bytes=self.last_bytes,
            next_bytes=self.next_bytes,
            count=len(self.append.records),
            deadline_s=self.append.deadline_s,
            reply_to=self.append.reply_to.bound_to(acknowledger),
        )


@attrs.frozen(kw_only=True)
class WrittenGroup:
    """The result of writing some appends. Those that are not in `written` were answered.

    Attributes:
        taken: appends dealt with, from the first on.
        written: those in the log now, in log order.
        rolled: first offsets of the segments that were begun.
        failed: the disk's error; the log's end is unknown then.
    """

    taken: int
    written: list[Placed]
    rolled: tuple[int, ...] = ()
    failed: OSError | None = None


@attrs.define(eq=False)
class StoreTime:
    """What a master's store publishes of its store timestamps, which never fall, in ms since 1970.

    Attributes:
        begun_ms: no record that is appended since the store was opened has an earlier one; 0 on a
            slave.
        newest_ms: no record has a later one, and none that is appended from now on an earlier one;
            0 on a slave.
    """

    begun_ms: int = 0
    newest_ms: int = 0

    def begin(self, newest_ms: int, now_ms: int) -> None:
        """Note the newest store timestamp of a log that was opened, unless it is no time."""
        self.begun_ms = self.newest_ms = newest_ms if _is_time(newest_ms, now_ms) else 0


def _is_time(stored_ms: int, now_ms: int) -> bool:
    return stored_ms <= now_ms + AHEAD_MAX_MS


@attrs.define(kw_only=True)
class GroupCommit:
    """Writes appends to a log. It never awaits.

    Attributes:
        log: written by nobody else meanwhile.
        wall_clock_ms: store timestamps come from it, and never fall, but to it from a time that is
            none (AHEAD_MAX_MS).
        time: what is published of them; only this changes it.
        no_room: called when the disk has none up to an offset, so that nothing was written; why,
            for people.
    """

    log: CommitLog
    encoder: AppendEncoder
    wall_clock_ms: Callable[[], int]
    time: StoreTime
    no_room: Callable[[NoRoom, int], str]
    _opened_bytes: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._opened_bytes = self.log.written_bytes

    def commit(
        self, appends: Sequence[Append], now_s: float, refusal: Callable[[], NotStored | None]
    ) -> WrittenGroup:
        """Write the first of `appends`, as many as one group takes (at least one).

        Args:
            refusal: why no append is taken at all; a new error for each.
        """
        batch = self.encoder.begin(self.log.written_bytes)
        now_ms = self.wall_clock_ms()
        newest_ms = self.time.newest_ms
        store_ts = max(newest_ms, now_ms) if _is_time(newest_ms, now_ms) else now_ms
        self.time.newest_ms = store_ts
        placed: list[Placed] = []
        taken = 0
        is_closed = refusal() is not None
        for append in appends[:GROUP_APPENDS]:
            if batch.next_bytes - batch.start_bytes >= GROUP_BYTES:
                break
            taken += 1
            error = refusal() if is_closed else None
            if append.chain is not None and append.chain.broken:
                error = NotStored(BEHIND_FAILED)
            if error is None and append.deadline_s <= now_s:
                error = Overloaded("the append waited for its turn until its deadline")
            if error is None:
                try:
                    span = self.encoder.add(batch, append.records, store_ts)
                    placed.append(Placed(append, *span))
                except NotStored as refused:
                    error = refused
            if error is not None:
                append.reply_to.fail(error)
        return (
            self._write(batch, placed, taken) if placed else WrittenGroup(taken=taken, written=[])
        )

    def forget(self, message: ForgetTopics) -> None:
        """Let the queues of deleted topics begin anew if nothing was stored in them since."""
        encoder, topics = self.encoder, message.topics
        is_known = message.at_bytes >= self._opened_bytes
        for key in [key for key in encoder.next_offsets if key[0] in topics]:
            stored_ms = encoder.stored_ms.get(key)
            if stored_ms is None:
                is_older = is_known and key in message.gone
            else:
                is_older = stored_ms <= topics[key[0]]
            if is_older:
                del encoder.next_offsets[key]
                encoder.stored_ms.pop(key, None)
        self.time.newest_ms = max(self.time.newest_ms, max(topics.values()) + 1)

    def _write(self, batch: AppendBatch, placed: list[Placed], taken: int) -> WrittenGroup:
        log = self.log
        rolled = []
        try:
            log.reserve(batch.next_bytes)
        except OSError as error:
            self.encoder.take_back(batch)
            if isinstance(error, NoRoom):
                why, failed = self.no_room(error, batch.next_bytes), None
            else:
                why, failed = f"no room up to {batch.next_bytes}: {error}", error
            for each in placed:
                each.append.reply_to.fail(LogFull(why))
            return WrittenGroup(taken=taken, written=[], failed=failed)
        try:
            for number, part in enumerate(batch.parts):
                if number:
                    log.roll()
                    rolled.append(log.written_bytes)
                log.append(part)
        except OSError as error:
            for each in placed:
                place = each.first_bytes, each.last_bytes, each.next_bytes
                each.append.reply_to.fail(NodeStopped(f"the disk failed: {error}", *place))
            return WrittenGroup(taken=taken, written=[], rolled=tuple(rolled), failed=error)
        assert log.written_bytes == batch.next_bytes  # EncodedWhereItLies
        return WrittenGroup(taken=taken, written=placed, rolled=tuple(rolled))


ENCODERS_MAX = 1024
"""Topics whose encoder is kept; the oldest leaves."""
QUEUES_MAX = 100_000
"""Queues of one store; each has a folder and a file of its own."""
QUEUE_ID_MAX = (1 << 31) - 1

QueueKey = tuple[str, int]


Span = tuple[int, int, int]
"""Offsets of an append's first and last record, and the end of its last record."""


@attrs.define
class AppendBatch:
    """Records on their way to the log: encoded, not written.

    Attributes:
        start_bytes: offset of the first byte of the first part; the log's end.
        next_bytes: where the log will end.
        parts: bytes per segment; between two parts the segment is rolled.
    """

    start_bytes: int
    next_bytes: int
    parts: list[bytearray]
    _old_offsets: dict[QueueKey, int | None] = attrs.field(factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.next_bytes == self.start_bytes


@attrs.define
class AppendEncoder:
    """Encodes for one log on its master; owns the next queue offsets.

    Attributes:
        default_topic: where plain bytes go, to queue 0.
        host: the master's address, as both born and store host.
        segment_bytes: size of a segment.
        body_bytes_max: largest body.
        next_offsets: next queue offset by topic and queue id.
        first_offset: that of a queue's first record if it is not among them.
        stored_ms: by topic and queue id, store timestamp of the newest record encoded here.
    """

    default_topic: str
    host: Host
    segment_bytes: int
    body_bytes_max: int
    next_offsets: dict[QueueKey, int]
    first_offset: int = 0
    stored_ms: dict[QueueKey, int] = attrs.field(factory=dict, init=False)
    _encoders: dict[str, RecordEncoder] = attrs.field(factory=dict, init=False)

    def begin(self, at_bytes: int) -> AppendBatch:
        """An empty batch for a log that ends at `at_bytes`."""
        return AppendBatch(at_bytes, at_bytes, [bytearray()])

    def add(self, batch: AppendBatch, records: tuple[NewRecord, ...], store_ts: int) -> Span:
        """Encode one append behind what the batch holds.

        Args:
            store_ts: ms since 1970, for all of its records.

        Raises: TooLarge, NotStored: a record breaks a limit; the batch is as it was.
        """
        if not records:
            raise NotStored("an append of no records")
        parts, part_bytes, next_bytes = len(batch.parts), len(batch.parts[-1]), batch.next_bytes
        undo: dict[QueueKey, int | None] = {}
        try:
            span = self._encode(batch, records, store_ts, undo)
        except (LocalProtocolError, TooLarge) as error:
            del batch.parts[parts:]
            del batch.parts[-1][part_bytes:]
            batch.next_bytes = next_bytes
            self._restore(undo)
            raise TooLarge(str(error)) from None
        for key, offset in undo.items():
            batch._old_offsets.setdefault(key, offset)
            self.stored_ms[key] = store_ts
        return span

    def take_back(self, batch: AppendBatch) -> None:
        """Free the queue offsets of a batch of which nothing was written."""
        self._restore(batch._old_offsets)

    def _encode(
        self,
        batch: AppendBatch,
        records: tuple[NewRecord, ...],
        store_ts: int,
        undo: dict[QueueKey, int | None],
    ) -> Span:
        out, at = batch.parts[-1], batch.next_bytes
        rest = self.segment_bytes - at % self.segment_bytes
        room = rest - BLANK_BYTES
        first = last = -1
        queue_key: QueueKey | None = None
        queue_offset = empty_size = 0
        for record in records:
            if isinstance(record, Message):
                key = (record.topic or self.default_topic, record.queue_id)
                body, properties = record.body, _properties(record)
            else:
                key, body, properties = (self.default_topic, 0), record, b""
            if key != queue_key:
                if queue_key is not None:
                    self.next_offsets[queue_key] = queue_offset
                encoder, queue_offset = self._queue(key, undo)
                queue_key, empty_size = key, encoder.record_size(0)
            size = empty_size + len(body)
            if properties:
                size = encoder.record_size(len(body), properties)
            if size > room:
                if size + BLANK_BYTES > self.segment_bytes:
                    raise TooLarge(f"record of {size} bytes, a segment has {self.segment_bytes}")
                if out or rest < self.segment_bytes:
                    out = bytearray()
                    batch.parts.append(out)
                    at += rest
                rest = self.segment_bytes
                room = rest - BLANK_BYTES
            encoder.encode_into(
                out,
                body,
                queue_id=key[1],
                queue_offset=queue_offset,
                physical_offset=at,
                store_ts=store_ts,
                born_ts=store_ts,
                properties=properties,
            )
            last = at
            if first < 0:
                first = at
            at += size
            rest -= size
            room -= size
            queue_offset += 1
        assert queue_key is not None
        self.next_offsets[queue_key] = queue_offset
        batch.next_bytes = at
        return first, last, at

    def _queue(self, key: QueueKey, undo: dict[QueueKey, int | None]) -> tuple[RecordEncoder, int]:
        topic, queue_id = key
        offset = self.next_offsets.get(key)
        if offset is None:
            _check_queue(topic, queue_id)
            if len(self.next_offsets) >= QUEUES_MAX:
                raise TooLarge(f"{QUEUES_MAX} queues exist; {topic}/{queue_id} would be one more")
        undo.setdefault(key, offset)
        encoder = self._encoders.get(topic)
        if encoder is None:
            encoder = RecordEncoder(topic, self.host, self.host, body_bytes_max=self.body_bytes_max)
            if len(self._encoders) >= ENCODERS_MAX:
                del self._encoders[next(iter(self._encoders))]
            self._encoders[topic] = encoder
        return encoder, self.first_offset if offset is None else offset

    def _restore(self, offsets: dict[QueueKey, int | None]) -> None:
        for key, offset in offsets.items():
            if offset is None:
                self.next_offsets.pop(key, None)
                self.stored_ms.pop(key, None)
            else:
                self.next_offsets[key] = offset


def _check_queue(topic: str, queue_id: int) -> None:
    if not is_safe_topic(topic):
        raise TooLarge(
            f"topic {topic[:40]!r}: expected 1 to {TOPIC_BYTES_MAX} bytes of printable text "
            'without "/"'
        )
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        raise TooLarge(f"queue id {queue_id}: expected 0 to {QUEUE_ID_MAX}")


def _properties(message: Message) -> bytes:
    """The property block; a zero byte in it would make recovery take the record for a torn one."""
    pairs = list(message.properties)
    if message.tags:
        pairs.append((TAGS, message.tags))
    if message.keys:
        pairs.append((KEYS, " ".join(message.keys)))
    if not pairs:
        return b""
    block = encode_properties(pairs)
    if 0 in block:
        raise TooLarge("a property holds a zero byte")
    return block
