"""The messages of the dispatcher, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from actors.runtime import ReplyTo
from actors.storage.commitlog.store_messages import LogGrew
from actors.storage.derived.derived_mends import Mend
from actors.storage.derived.queue_files import QueueKey


@attrs.frozen(kw_only=True)
class QueueUnits:
    """The answer to LookupQueue: a part of a consume queue.

    Attributes:
        min_offset, next_offset: the queue offset of the queue's first unit, and of its next one.
        first_offset: the queue offset of the first unit in `units`; at least the one asked for.
        units: physical offset, size and tags code of each unit's record.
    """

    min_offset: int
    next_offset: int
    first_offset: int
    units: tuple[tuple[int, int, int], ...]


@attrs.frozen(kw_only=True)
class LookupQueue:
    """A request for the records of a queue, from queue offset `position` on, at most `count`."""

    topic: str
    queue_id: int
    position: int
    count: int
    reply_to: ReplyTo[QueueUnits]


@attrs.frozen(kw_only=True)
class KeyMatches:
    """The answer to LookupKey: physical offset and size of the records, the newest first."""

    matches: tuple[tuple[int, int], ...]


@attrs.frozen(kw_only=True)
class LookupKey:
    """A request for the records of a topic that have a key, at most `count`. UNIQ_KEY counts as a
    key.
    """

    topic: str
    key: str
    count: int
    reply_to: ReplyTo[KeyMatches]


@attrs.frozen(kw_only=True)
class Dispatched:
    """The answer to GetDispatched: how far the dispatcher is.

    Attributes:
        dispatched_bytes: all records that end at or below this offset can be looked up.
        flushed_bytes: those that end at or below this one need not be dispatched again after a
            crash.
        limit_bytes: the offset up to which the log may be dispatched.
        queue_count: the number of consume queues.
    """

    dispatched_bytes: int
    flushed_bytes: int
    limit_bytes: int
    queue_count: int


@attrs.frozen(kw_only=True)
class GetDispatched:
    """A request for Dispatched, answered at once."""

    reply_to: ReplyTo[Dispatched]


@attrs.frozen(kw_only=True)
class Rederived:
    """The answer to Rederive.

    Attributes:
        anew: whether queues and index lacked something of these records, so all are derived again.
    """

    anew: bool


@attrs.frozen(kw_only=True)
class Rederive:
    """These bytes of the log were mended: check that what is derived from them agrees with them
    now.
    """

    start_bytes: int
    end_bytes: int
    reply_to: ReplyTo[Rederived]


@attrs.frozen(kw_only=True)
class ScrubRange:
    """The answer to GetScrubRange: what has to be scrubbed.

    Attributes:
        min_bytes, limit_bytes: records between them have their units and entries.
        index_name, index_units_next: the name of the newest index file, and the number of its next
            unit.
        with_tag_keys: whether records have entries for their tags.
        suspects: key and queue offset of damaged units that lookups have found.
        deleted: as of `DerivedFiles`; records that were stored until then have no units.
    """

    min_bytes: int
    limit_bytes: int
    index_name: int
    index_units_next: int
    with_tag_keys: bool
    suspects: tuple[tuple[QueueKey, int], ...]
    deleted: Mapping[str, int]


@attrs.frozen(kw_only=True)
class GetScrubRange:
    """A request for ScrubRange, answered at once. Each suspect is reported once."""

    reply_to: ReplyTo[ScrubRange]


@attrs.frozen(kw_only=True)
class Mended:
    """The answer to MendDerived: how many units, entries, slots and headers were mended.

    Attributes:
        file: the queue or index file that was mended last; "" if none was.
    """

    count: int
    file: str


@attrs.frozen(kw_only=True)
class MendDerived:
    """Mend what the scrub has found to be damaged, as far as it is still as it was found."""

    mends: tuple[Mend, ...]
    reply_to: ReplyTo[Mended]


@attrs.frozen(kw_only=True)
class TopicsDeleted:
    """The answer to DeleteTopics. Attributes: queue_count: how many queues were removed for it."""

    queue_count: int


@attrs.frozen(kw_only=True)
class DeleteTopics:
    """Remove the queues of topics that were deleted, unless records were stored in them later.

    Attributes:
        topics: all of which that is known, by name, with the time of the deletion in ms since
            1970.
    """

    topics: Mapping[str, int]
    reply_to: ReplyTo[TopicsDeleted]


Message: TypeAlias = (
    LogGrew
    | LookupQueue
    | LookupKey
    | GetDispatched
    | Rederive
    | GetScrubRange
    | MendDerived
    | DeleteTopics
)
