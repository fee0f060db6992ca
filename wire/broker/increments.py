"""How nodes of ours follow each other's metadata: rows that changed, and names of those that went.

Upstream has nothing like it: its slaves ask for whole tables (classic-ha.md 5.2). A broker that
does not know the request answers with code 3.

`WATCH_METADATA` has `Watch` as its extFields; its answer has no extFields, and `Increment` as its
body. It comes when there is something that the asker does not have, or after a while with nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from wire.broker.java_json import JavaObject, Reader
from wire.broker.metadata import (
    ConsumerOffsets,
    DelayOffsets,
    GroupTable,
    RequestModes,
    TimerMetrics,
)
from wire.broker.topics import TopicQueueMappings, TopicTable
from wire.remoting.tolerant_json import Long

WATCH_METADATA: Final = 32_021
"""Code of the request: beyond those that upstream has below 2^15, which a binary header holds."""


class Watch(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the asker has.

    Attributes:
        boot: the run of the master that said it; 0: it has nothing.
        number: the newest number of that run with which the broker answered.
    """

    boot: int = 0
    number: int = 0


class Increment(JavaObject, frozen=True, kw_only=True):
    """What changed. A kind that did not is left out.

    The tables of topics, static topics, groups, consumer offsets and timer metrics have only the
    rows that changed, all else is whole.

    Attributes:
        full: whether it is everything, whatever the asker has.
        removed: the names of the rows that were removed, by kind.
        timer_checkpoint: its bytes in hexadecimal digits.
    """

    boot: Long
    consumer_offsets: ConsumerOffsets | None = None
    delay_offsets: DelayOffsets | None = None
    full: bool
    groups: GroupTable | None = None
    number: Long
    queue_mappings: TopicQueueMappings | None = None
    removed: dict[str, tuple[str, ...]] | None = None
    request_modes: RequestModes | None = None
    timer_checkpoint: str | None = None
    timer_metrics: TimerMetrics | None = None
    topics: TopicTable | None = None


INCREMENT = Reader(Increment)
