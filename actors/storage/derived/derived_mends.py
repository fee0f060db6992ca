"""Mends consume queues and index files where the scrub has found damage.

The scrub only reads; who owns the files writes, and only what is still as it was found: between the
two a queue may have begun anew, or an entry may have been added.
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
    """A unit of a consume queue that leads nowhere.

    Attributes:
        topic, queue_id, offset: its queue, and its number there.
        found, wanted: its 20 bytes as they are, and as the record says.
        first_bytes, next_bytes: where that record is.
        is_sure: no other record can have the number; else the queue is built anew, for it began
            anew once.
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
    """An entry of an index file that is not its record's, or is not in its slot's chain.

    Attributes:
        name: of the file, as a number.
        unit: which one.
        found, wanted, first_bytes, next_bytes: as for a unit.
    """

    name: int
    unit: int
    found: bytes
    wanted: bytes
    first_bytes: int
    next_bytes: int


@attrs.frozen(kw_only=True)
class SlotMend:
    """A slot of an index file that does not lead to its newest entry.

    Attributes:
        name: of the file.
        slot: which one.
        found: what it says, also what no slot may say.
        wanted: number of the newest unit below `units_next`.
    """

    name: int
    slot: int
    found: int
    wanted: int
    units_next: int


@attrs.frozen(kw_only=True)
class HeaderMend:
    """A header of an index file that is not what its entries say.

    Attributes:
        name: of the file.
        wanted: what they say; of the newest file only where it begins.
    """

    name: int
    wanted: IndexHeader

    def wanted_now(self, known: IndexHeader, *, is_newest: bool) -> IndexHeader:
        """Entries may be added to the newest file meanwhile."""
        if not is_newest:
            return self.wanted
        begin_ts, begin_offset = self.wanted.begin_ts, self.wanted.begin_offset
        return attrs.evolve(known, begin_ts=begin_ts, begin_offset=begin_offset)


Mend: TypeAlias = UnitMend | EntryMend | SlotMend | HeaderMend


MENDS_MAX: Final = 4096
"""Written again at once; what is more is found again in the next round."""
CHAIN_MAX: Final = 4096
"""Entries that may have been added since a slot was looked at; with more it is looked at again."""
_NewestSince: TypeAlias = dict[tuple[int, int], dict[int, int]]
"""By name of an index file and number of a unit: see `IndexFile.newest_since`."""


def mend_in_room(
    queues: ConsumeQueues, index: IndexFiles, mends: Sequence[Mend]
) -> tuple[QueueGap | None, dict[str, int]]:
    """See `apply_mends`. Without room nothing is lost: the next round of the scrub finds the same.

    Raises: OSError.
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
    """Carry out what still fits, and count it in `done` by queue ("consumequeue/TOPIC/QUEUE_ID")
    and index file.

    Returns: what a queue has to be built anew for: it began anew once, and other records might be
    meant; or a file of it is not there. Raises: OSError.
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
    """`newest_since`: read once for all slots of a file."""
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
