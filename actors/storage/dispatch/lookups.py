"""Looking up in what derives from a log, and believing none of it: every record is looked at."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import attrs

from actors.errors import StorageError
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.queue_files import QueueGap, QueueKey
from actors.storage.derived.record_proof import RecordProof, shown
from actors.storage.dispatch.dispatcher_messages import (
    Dispatched,
    KeyMatches,
    LookupKey,
    LookupQueue,
    QueueUnits,
    ScrubRange,
)
from wire.files.commit_log import RecordHead

LOOKUP_COUNT_MAX: Final = 1024
SUSPECTS_MAX: Final = 64
"""Queues with a damaged unit that lookups have met, and nobody has looked at yet."""


@attrs.define(kw_only=True)
class Lookups:
    """The lookups of one dispatcher.

    Attributes:
        proof: looks at records; its owner says up to where.
    """

    files: DerivedFiles
    proof: RecordProof
    _suspects: dict[QueueKey, int] = attrs.field(factory=dict, init=False)

    def answer(self, request: LookupQueue | LookupKey) -> Generator[None, None, QueueGap | None]:
        """What cannot be read fails the request alone: appends wait behind a restart.

        Returns: what a queue has to be built anew for. Yields after every few units.
        """
        try:
            if isinstance(request, LookupQueue):
                request.reply_to.send((yield from self.units(request)))
            else:
                request.reply_to.send(KeyMatches(matches=self.matches(request)))
        except QueueGap as gap:
            request.reply_to.fail(StorageError(f"{gap}; the queue is built anew: ask again"))
            return gap
        except OSError as error:
            request.reply_to.fail(StorageError(f"cannot look that up: {error}"))
        return None

    def units(self, request: LookupQueue) -> Generator[None, None, QueueUnits]:
        """Up to the first that is damaged, so that nobody takes another record for it. Yields after
        every few units. Raises: QueueGap, OSError.
        """
        queues, key = self.files.queues, (request.topic, request.queue_id)
        least = queues.min_offset(*key, self.proof.min_bytes)
        first = max(request.position, least)
        units = queues.units(*key, first, min(request.count, LOOKUP_COUNT_MAX))
        good, damaged = yield from shown(self.proof, key, first, units)
        if damaged is not None and len(self._suspects) < SUSPECTS_MAX:
            self._suspects[key] = damaged
        return QueueUnits(
            min_offset=least,
            next_offset=queues.next_offset(*key),
            first_offset=first,
            units=good,
        )

    def matches(self, request: LookupKey) -> tuple[tuple[int, int], ...]:
        """Entries share hashes, so each record is looked at."""
        count = min(request.count, LOOKUP_COUNT_MAX)
        found: list[tuple[int, int]] = []
        for offset in self.files.index.find(request.topic, request.key, LOOKUP_COUNT_MAX):
            if len(found) >= count:
                break
            head = self.proof.head_at(offset)
            if head is not None and head.topic == request.topic and _has_key(head, request.key):
                found.append((offset, head.size))
        return tuple(dict.fromkeys(found))

    def progress(self, at_bytes: int) -> Dispatched:
        """How far the dispatcher is, which has come to `at_bytes`."""
        return Dispatched(
            dispatched_bytes=at_bytes,
            flushed_bytes=self.files.flushed_bytes,
            limit_bytes=self.proof.limit_bytes,
            queue_count=self.files.queue_count,
        )

    def scrub_range(self, limit_bytes: int) -> ScrubRange:
        """What there is to be scrubbed, up to there."""
        index, suspects = self.files.index, tuple(self._suspects.items())
        self._suspects.clear()
        name, header = index.newest()
        return ScrubRange(
            min_bytes=self.proof.min_bytes,
            limit_bytes=limit_bytes,
            index_name=name,
            index_units_next=header.units_next,
            with_tag_keys=index.with_tag_keys,
            suspects=suspects,
        )


def _has_key(head: RecordHead, key: str) -> bool:
    return key == head.uniq_key or key in head.keys.split(" ")
