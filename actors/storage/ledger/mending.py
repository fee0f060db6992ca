"""Finds damaged entries of a DLedger log, gives good ones to other members, and takes theirs.

Only committed and synced entries are mended: no leader can have them removed, and every member has
the same. The member's own checksum (`per_index`) says what was written; an entry without one is
neither given nor taken. An entry from another member has to be exactly the one that the own index
has: with its index, term, position and size.

Order of a mend: keep the old bytes in `aside/`, write the entry in its place, sync. A crash leaves
an entry that its checksum contradicts, or the new one. There is no upstream.
"""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import Final

import attrs

from actors.env.protocols import Disk
from actors.errors import StorageError
from actors.events.store import RangeRepaired
from actors.log_types import GoodRange
from actors.storage.commitlog.set_aside import keep_bytes
from actors.storage.files.room import why_failed
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import FileGone, IndexGone
from actors.storage.ledger.reader import LedgerReader, last_index
from actors.storage.ledger.settings import LedgerSettings
from actors.storage.log.commit_log import segment_path
from wire.crc import crc32
from wire.dledger.entry import IndexRecord, decode_entries, decode_entry
from wire.errors import IncompleteData, RemoteProtocolError

LOOK_BYTES: Final = (1 << 20, 32 << 10, 0)
"""Read at once: less where something is damaged, in the end one entry."""
FIELDS: Final = "index, term, position and size"
NO_SUM: Final = "nobody has written down a checksum of it here"


@attrs.frozen(kw_only=True)
class BadEntry:
    """Attributes:
    index: of the entry.
    reason: for people, with the file.
    """

    index: int
    reason: str


@attrs.frozen(kw_only=True)
class Inspected:
    """Entries below `next_index` were read; `bad`: the one before it is damaged."""

    next_index: int
    bad: BadEntry | None = None


def inspect(reader: LedgerReader, index: int, end_index: int) -> Inspected:
    """Read some entries from `index` on; both are there, unless they have been let go of."""
    reason = ""
    for bytes_max in LOOK_BYTES:
        try:
            data = reader.read(index, end_index if bytes_max else index, bytes_max)
        except FileGone as error:
            reason = str(error)
        except (StorageError, OSError) as error:
            reason = str(error)
        else:
            if _are_in_place(data, index):
                return Inspected(next_index=last_index(data) + 1)
    return Inspected(next_index=index + 1, bad=BadEntry(index=index, reason=reason))


def _are_in_place(data: bytes, index: int) -> bool:
    """Whether the entries' heads show that they follow each other.

    Without known checksums, a read of several entries has checked the head of the first one alone.
    """
    try:
        entries = decode_entries(data)
    except (IncompleteData, RemoteProtocolError):
        return False
    counted = all(entry.index == number for number, entry in enumerate(entries, index))
    return counted and all(one.pos + one.size == behind.pos for one, behind in pairwise(entries))


def good_entry(reader: LedgerReader, index: int) -> GoodRange:
    """The entry for another member, if its checksum is known and fits."""
    try:
        known, data = reader.known_sum(index), reader.read(index, index, 0)
    except IndexGone:
        return GoodRange(start=index, refused="it has let go of it")
    except StorageError:
        return GoodRange(start=index, refused="its own is damaged")
    except OSError as error:
        return GoodRange(start=index, refused=f"it cannot read it: {error}")
    if known is None:
        return GoodRange(start=index, refused=NO_SUM)
    return GoodRange(start=index, data=data, digest=known)


@attrs.define
class EntryMender:
    """Mends the entries of one store on disk.

    Attributes:
        file_bytes: of a data file.
    """

    disk: Disk
    layout: LedgerLayout
    settings: LedgerSettings

    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        """Put an entry in its place; what was done, or why nothing was.

        Raises: OSError: what the disk holds there is unknown.
        """
        reader = LedgerReader.of(self.disk, self.layout, self.settings)
        try:
            record = reader.record(index)
            refused = self._refusal(record, reader.known_sum(index), data)
        except (StorageError, IndexGone, OSError) as error:
            return str(error)
        finally:
            reader.forget()
        if refused:
            return refused
        base = record.pos - record.pos % self.settings.data_file_bytes
        path = segment_path(self.layout.commit_log, base)
        if not self.disk.exists(path):
            return f"{path}: the file is missing"
        done = RangeRepaired(
            first_bytes=record.pos, next_bytes=record.pos + record.size, source=source
        )
        with closing(self.disk.open(path, "w")) as file:
            try:
                old = file.pread(record.pos - base, record.size)
            except OSError:
                old = b""  # the disk does not give it
            if old == data:
                return done
            try:
                keep_bytes(self.disk, self.layout, [(record.pos, old)])
            except OSError as error:
                return why_failed(self.disk, self.layout.root, error)
            file.pwrite(data, record.pos - base)
            file.sync()
        return done

    def _refusal(self, record: IndexRecord, known: int | None, data: bytes) -> str:
        """Why these bytes are not the entry of this record."""
        try:
            entry = decode_entry(data)
        except (IncompleteData, RemoteProtocolError) as error:
            return f"what came is no entry: {error}"
        came = (entry.index, entry.term, entry.pos, len(data))
        wanted = (record.index, record.term, record.pos, record.size)
        if came != wanted:
            return f"what came is another entry, with {FIELDS} {came}, not {wanted}"
        if known is None:
            return NO_SUM
        if crc32(data) != known:
            return "what came is not what was written here: its checksum is another"
        return ""
