"""How Python nodes follow each other's metadata: the rows that changed, and names of removed rows.

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
"""The code of the request: above upstream's codes, and below 2^15, as a binary header holds it."""


class Watch(Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata that the asking node has.

    Attributes:
        boot: the boot of the master that sent it; 0 if it has none.
        number: the newest number with which the master answered in that boot.
    """

    boot: int = 0
    number: int = 0


class Increment(JavaObject, frozen=True, kw_only=True):
    """The metadata that changed. A kind that did not change is left out.

    The tables of topics, static topics, groups, consumer offsets and timer metrics have only the
    rows that changed; the other kinds are whole.

    Attributes:
        full: whether it is all metadata, whatever the asking node has.
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
