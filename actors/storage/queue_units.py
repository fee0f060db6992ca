"""Which queues lead to a record: its own, and the light message queues that its properties name."""

from __future__ import annotations

from collections.abc import Iterator

from actors.storage.consume_queue import is_safe_topic
from wire.commitlog import RecordHead

QUEUE_OFFSET_MAX = 1 << 58
"""A unit's byte position is 20 times as large and has to be a long."""
QUEUE_OFFSET_LAST = 1 << 57
"""A queue that a received record has brought above it begins anew at 0 with its master's next
start: soon no unit would lead to a record any more."""


def light_heads(head: RecordHead) -> Iterator[RecordHead]:
    """The record as each of its light message queues has it; what cannot be a queue is left out."""
    for name, offset in head.light_queues:
        if is_safe_topic(name) and offset < QUEUE_OFFSET_MAX:
            yield head._replace(topic=name, queue_id=0, queue_offset=offset)
