"""What the dispatcher is asked, and what it answers."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from actors.runtime import ReplyTo
from actors.storage.commitlog.store_messages import LogGrew
from actors.storage.derived.derived_mends import Mend
from actors.storage.derived.queue_files import QueueKey


@attrs.frozen(kw_only=True)
class QueueUnits:
    """Part of a consume queue.

    Attributes:
        min_offset, next_offset: the queue's range.
        first_offset: queue offset of the first unit given; at least the one asked for.
        units: physical offset, size and tags code of each.
    """

    min_offset: int
    next_offset: int
    first_offset: int
    units: tuple[tuple[int, int, int], ...]


@attrs.frozen(kw_only=True)
class LookupQueue:
    """Where the records of a queue are, from queue offset `position` on."""

    topic: str
    queue_id: int
    position: int
    count: int
    reply_to: ReplyTo[QueueUnits]


@attrs.frozen(kw_only=True)
class KeyMatches:
    """Physical offset and size of the records that have the key, newest first."""

    matches: tuple[tuple[int, int], ...]


@attrs.frozen(kw_only=True)
class LookupKey:
    """Which records of a topic have a key, at most `count`. UNIQ_KEY counts as a key."""

    topic: str
    key: str
    count: int
    reply_to: ReplyTo[KeyMatches]


@attrs.frozen(kw_only=True)
class Dispatched:
    """How far the dispatcher is.

    Attributes:
        dispatched_bytes: all records that end at or below it can be looked up.
        flushed_bytes: and need not be dispatched again after a crash.
        limit_bytes: the log's end as it may be dispatched.
        queue_count: consume queues.
    """

    dispatched_bytes: int
    flushed_bytes: int
    limit_bytes: int
    queue_count: int


@attrs.frozen(kw_only=True)
class GetDispatched:
    """Answered at once."""

    reply_to: ReplyTo[Dispatched]


@attrs.frozen(kw_only=True)
class Rederived:
    """Attributes:
    anew: queues and index lacked something of these records: all are being derived again.
    """

    anew: bool


@attrs.frozen(kw_only=True)
class Rederive:
    """These bytes of the log were mended: see that what derives from them is what they say now."""

    start_bytes: int
    end_bytes: int
    reply_to: ReplyTo[Rederived]


@attrs.frozen(kw_only=True)
class ScrubRange:
    """What has to be scrubbed.

    Attributes:
        min_bytes, limit_bytes: records between them have their units and entries.
        index_name, index_units_next: the index file that entries are added to, and its next one.
        with_tag_keys: records have entries for their tags.
        suspects: queue offsets of units that lookups have met and not shown, by their queues.
    """

    min_bytes: int
    limit_bytes: int
    index_name: int
    index_units_next: int
    with_tag_keys: bool
    suspects: tuple[tuple[QueueKey, int], ...]


@attrs.frozen(kw_only=True)
class GetScrubRange:
    """Answered at once; each suspect is reported once."""

    reply_to: ReplyTo[ScrubRange]


@attrs.frozen(kw_only=True)
class Mended:
    """How many units, entries, slots and headers were written again, and the last file of them."""

    count: int
    file: str


@attrs.frozen(kw_only=True)
class MendDerived:
    """Write again what the scrub has found to be damaged, as far as it still is."""

    mends: tuple[Mend, ...]
    reply_to: ReplyTo[Mended]


Message: TypeAlias = (
    LogGrew | LookupQueue | LookupKey | GetDispatched | Rederive | GetScrubRange | MendDerived
)
