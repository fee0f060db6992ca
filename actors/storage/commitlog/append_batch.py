"""Encoding the master's appends into one buffer per segment, all or nothing for each append.

Upstream: apache/rocketmq store/.../CommitLog.java, DefaultAppendMessageCallback, and
ConsumeQueue offsets under topicQueueLock (5.3.3).

Differs: one pass for all appends that wait, one write for all of them; an append that breaks a
limit is taken out again as if it had never come.
"""

from __future__ import annotations

import attrs

from actors.errors import NotStored, TooLarge
from actors.log_types import Message, NewRecord
from actors.storage.derived.queue_units import TOPIC_BYTES_MAX, is_safe_topic
from wire.errors import LocalProtocolError
from wire.files.commit_log import BLANK_BYTES, Host, RecordEncoder, encode_properties
from wire.files.properties import KEYS, TAGS

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
    """

    default_topic: str
    host: Host
    segment_bytes: int
    body_bytes_max: int
    next_offsets: dict[QueueKey, int]
    first_offset: int = 0
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
        return span

    def take_back(self, batch: AppendBatch) -> None:
        """Nothing of the batch was written: its queue offsets are free again."""
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
