"""Which queues lead to a record: its own, and the light message queues that its properties name."""

from __future__ import annotations

from collections.abc import Iterator

from actors.env.protocols import LOST_AND_FOUND
from wire.files.commit_log import RecordHead

TOPIC_BYTES_MAX = 255
"""A topic is a folder's name."""
QUEUE_OFFSET_MAX = 1 << 58
"""A unit's byte position is 20 times as large and has to be a long."""
QUEUE_OFFSET_LAST = 1 << 57
"""A queue that a received record has brought above it begins anew at 0 with its master's next
start: soon no unit would lead to a record any more."""


def is_safe_topic(topic: str) -> bool:
    """Whether a topic can be a folder's name. Upstream's own topics are a subset of these."""
    if topic in ("", ".", "..", LOST_AND_FOUND) or not topic.isprintable() or "/" in topic:
        return False
    return len(topic.encode("utf-8", "replace")) <= TOPIC_BYTES_MAX and "\ufffd" not in topic


def light_heads(head: RecordHead) -> Iterator[RecordHead]:
    """The record as each of its light message queues has it; what cannot be a queue is left out."""
    for name, offset in head.light_queues:
        if is_safe_topic(name) and offset < QUEUE_OFFSET_MAX:
            yield head._replace(topic=name, queue_id=0, queue_offset=offset)


def queue_heads(head: RecordHead) -> Iterator[RecordHead]:
    """The record as each queue that leads to it has it, its own first. Any of them begins anew with
    queue offset 0.
    """
    yield head
    if head.light_queues:
        yield from light_heads(head)
