"""Finds damaged entries of a DLedger log, gives good entries to other members, and takes theirs.

Only committed and synced entries are mended: no leader can have them removed, and they are equal on
every member. The member's own checksum (`per_index`) tells what was written; an entry without one
is neither given nor taken. An entry from another member has to have the index, term, position and
size that this member's index record says.

Order of a mend: the old bytes are copied to `aside/`, the good entry is written over them, and the
file is synced. A crash leaves an entry that its checksum contradicts, or the good one. Upstream has
nothing like it.
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
"""The sizes of the reads that are tried: less each time damage is found, in the end one entry."""
FIELDS: Final = "index, term, position and size"
NO_SUM: Final = "no checksum of the entry was written here"


@attrs.frozen(kw_only=True)
class BadEntry:
    """An entry that cannot be read, or is not what was written.

    Attributes:
        index: the index of the entry.
        reason: why, for people, with the path of the file.
    """

    index: int
    reason: str


@attrs.frozen(kw_only=True)
class Inspected:
    """The result of one `inspect`.

    Attributes:
        next_index: every entry from the one that was asked for up to here, exclusive, was read.
        bad: the last of them, if it is damaged; None: none is.
    """

    next_index: int
    bad: BadEntry | None = None


def inspect(reader: LedgerReader, index: int, end_index: int) -> Inspected:
    """Read some entries from `index` on, and say which of them is damaged, if one is.

    The log must have had both `index` and `end_index`; they may have been removed since.
    """
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
    """Return an entry for another member if its checksum is known and fits, else why not."""
    try:
        known, data = reader.known_sum(index), reader.read(index, index, 0)
    except IndexGone:
        return GoodRange(start=index, refused="it has removed the entry")
    except StorageError:
        return GoodRange(start=index, refused="its own entry is damaged")
    except OSError as error:
        return GoodRange(start=index, refused=f"it cannot read its own entry: {error}")
    if known is None:
        return GoodRange(start=index, refused=NO_SUM)
    return GoodRange(start=index, data=data, digest=known)


@attrs.define
class EntryMender:
    """Mends the entries of one store on disk.

    Attributes:
        disk, layout, settings: the store's.
    """

    disk: Disk
    layout: LedgerLayout
    settings: LedgerSettings

    def mend(self, index: int, data: bytes, source: str) -> RangeRepaired | str:
        """Replace an entry by these bytes. Returns: what was done, or for people why nothing was.

        Raises: OSError: a write failed, so what the disk holds there is unknown.
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
                old = b""  # the disk cannot read it
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
        """Say, for people, why these bytes are not the entry of this record; "" if they are."""
        try:
            entry = decode_entry(data)
        except (IncompleteData, RemoteProtocolError) as error:
            return f"the bytes received are no entry: {error}"
        came = (entry.index, entry.term, entry.pos, len(data))
        wanted = (record.index, record.term, record.pos, record.size)
        if came != wanted:
            return f"the bytes received are another entry, with {FIELDS} {came}, not {wanted}"
        if known is None:
            return NO_SUM
        if crc32(data) != known:
            return "the bytes received are not what was written here: the checksums differ"
        return ""
