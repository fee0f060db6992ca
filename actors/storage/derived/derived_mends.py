"""Mends damage that the scrub has found in consume queues and index files.

The scrub only reads. The owner of the files writes, and only over bytes that are still as they were
found: meanwhile a queue may have begun anew, or an entry may have been added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from actors.errors import NO_ROOM_CODES
from actors.storage.derived.consume_queue import ConsumeQueues
from actors.storage.derived.index_files import IndexFiles
from actors.storage.derived.queue_files import QueueGap
from wire.files.index_file import (
    SLOT_BYTES,
    IndexHeader,
    encode_index_header,
    encode_slot,
    slot_position,
    unit_position,
)


@attrs.frozen(kw_only=True)
class UnitMend:
    """A mend of a unit of a consume queue that does not lead to its record.

    Attributes:
        topic, queue_id, offset: the unit's queue, and its number in the queue.
        found, wanted: the unit's 20 bytes as they are, and as they should be by the record.
        first_bytes, next_bytes: the offsets in the log of the record's first byte and of the byte
            after it.
        is_sure: whether no other record can have this number. If not, because the queue began anew
            once, the whole queue is built anew.
    """

    topic: str
    queue_id: int
    offset: int
    found: bytes
    wanted: bytes
    first_bytes: int
    next_bytes: int
    is_sure: bool


@attrs.frozen(kw_only=True)
class EntryMend:
    """A mend of an entry of an index file that does not fit its record, or is not in its slot's
    chain.

    Attributes:
        name: the name of the file, as a number.
        unit: the number of the entry in the file, from 1.
        found, wanted, first_bytes, next_bytes: as of `UnitMend`.
    """

    name: int
    unit: int
    found: bytes
    wanted: bytes
    first_bytes: int
    next_bytes: int


@attrs.frozen(kw_only=True)
class SlotMend:
    """A mend of a slot of an index file that does not lead to the newest entry of its chain.

    Attributes:
        name: the name of the file, as a number.
        slot: the number of the slot, from 0.
        found: the slot's present value, which need not be a valid one.
        wanted: the number of its newest unit below `units_next`, or NO_UNIT.
    """

    name: int
    slot: int
    found: int
    wanted: int
    units_next: int


@attrs.frozen(kw_only=True)
class HeaderMend:
    """A mend of an index file's header that does not fit the file's entries.

    Attributes:
        name: the name of the file, as a number.
        wanted: the header by the entries; of the newest file only its first record's time and
            offset count.
    """

    name: int
    wanted: IndexHeader

    def wanted_now(self, known: IndexHeader, *, is_newest: bool) -> IndexHeader:
        """Return the header to be written: entries may have been added to the newest file
        meanwhile.
        """
        if not is_newest:
            return self.wanted
        begin_ts, begin_offset = self.wanted.begin_ts, self.wanted.begin_offset
        return attrs.evolve(known, begin_ts=begin_ts, begin_offset=begin_offset)


Mend: TypeAlias = UnitMend | EntryMend | SlotMend | HeaderMend


MENDS_MAX: Final = 4096
"""How many mends are carried out in one round; the scrub finds the others again in its next
round."""
CHAIN_MAX: Final = 4096
"""How many entries may have been added since a slot was read; after more, it is read again in the
next round."""
_NewestSince: TypeAlias = dict[tuple[int, int], dict[int, int]]
"""Results of `IndexFile.newest_since`, by name of the index file and number of the first unit."""


def mend_in_room(
    queues: ConsumeQueues, index: IndexFiles, mends: Sequence[Mend]
) -> tuple[QueueGap | None, dict[str, int]]:
    """Carry out mends as `apply_mends` does; if the disk is full, leave the rest to the scrub's
    next round.

    Returns: its result, and how many mends were done, by file. Raises: OSError.
    """
    done: dict[str, int] = {}
    try:
        return apply_mends(queues, index, mends, done), done
    except OSError as error:
        if error.errno not in NO_ROOM_CODES:
            raise
        return None, done


def apply_mends(
    queues: ConsumeQueues, index: IndexFiles, mends: Sequence[Mend], done: dict[str, int]
) -> QueueGap | None:
    """Carry out the mends whose bytes are still as they were found.

    Args:
        done: counts the mends, by queue ("consumequeue/TOPIC/QUEUE_ID") and by index file
            ("index/NAME").

    Returns: the reason to build a queue anew: it began anew once, so another record might be meant,
        or a file of it is missing; None if there is none. Raises: OSError.
    """
    gap: QueueGap | None = None
    newest_since: _NewestSince = {}
    for mend in mends:
        if isinstance(mend, UnitMend):
            where = f"consumequeue/{mend.topic}/{mend.queue_id}"
            wanted, at = (mend.wanted if mend.is_sure else None), mend.offset
            try:
                is_so = queues.rewrite(mend.topic, mend.queue_id, at, mend.found, wanted)
            except QueueGap as found:
                gap = gap or found
                continue
            if is_so and wanted is None:
                gap = gap or QueueGap(mend.topic, mend.queue_id, f"unit {at} is damaged")
                continue
        else:
            where = f"index/{mend.name:017d}"
            is_so = _mend_index(index, mend, newest_since)
        if is_so:
            done[where] = done.get(where, 0) + 1
    return gap


def _mend_index(
    index: IndexFiles, mend: EntryMend | SlotMend | HeaderMend, newest_since: _NewestSince
) -> bool:
    """Carry out one mend of an index file; return whether its bytes were still as they were found.

    Args:
        newest_since: keeps what is read for all slots of a file.
    """
    each = index.file(mend.name)
    if each is None:
        return False
    match mend:
        case EntryMend():
            at = unit_position(mend.unit, each.slots)
            if mend.unit >= each.header.units_next or each.file.pread(at, len(mend.found)) != (
                mend.found
            ):
                return False
            index.patch(each, mend.wanted, at)
        case SlotMend():
            at, added = slot_position(mend.slot), each.header.units_next - mend.units_next
            is_so = int.from_bytes(each.file.pread(at, SLOT_BYTES), "big", signed=True)
            if not 0 <= added <= CHAIN_MAX or is_so != mend.found:
                return False
            since = mend.name, mend.units_next
            if since not in newest_since:
                newest_since[since] = each.newest_since(mend.units_next)
            wanted = newest_since[since].get(mend.slot, mend.wanted)
            if wanted == is_so:
                return False
            index.patch(each, encode_slot(wanted), at)
        case HeaderMend():
            each.header = mend.wanted_now(each.header, is_newest=index.newest()[0] == mend.name)
            index.patch(each, encode_index_header(each.header), 0)
    return True
