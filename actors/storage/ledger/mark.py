"""The synced mark of a DLedger store: how much of the log was once surely on the disk.

Upstream has nothing like it: its recovery accepts whatever looks like an entry, and an entry's body
has no checksum.

| Value       | Meaning                                                                     |
|-------------|-----------------------------------------------------------------------------|
| end_bytes   | every entry that ends at or below this offset was synced                    |
| whole_bytes | index and checksums of entries that end at or below this offset were synced |
| is_clean    | 1: the last stop was ordered, and nothing was written since                  |
| begin_bytes | the log's first file begins at this offset or at a lower one                 |

It is written with every sync, and itself synced at most a second later: it may be old. Entries that
a start could not know to be whole without it are not called synced before the mark that covers them
is (`ledger.may_be_torn`). Before entries are cut it is lowered, before the oldest
file is deleted `begin_bytes` is raised, and that synced.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.files.side_file import SideFile, SideFileDamaged, read_side_file
from actors.storage.ledger.term_files import REMOVE_THEN

_VALUES = 4
_OLDER = 3
"""The number of fields in marks that earlier versions wrote, without `begin_bytes`."""
UNKNOWN = -1


@attrs.frozen
class MarkValues:
    """The values of a mark; the module's table says what they mean.

    Attributes:
        begin_bytes: UNKNOWN if an earlier version wrote the mark.
    """

    end_bytes: int = 0
    whole_bytes: int = 0
    is_clean: bool = False
    begin_bytes: int = UNKNOWN

    @classmethod
    def of(cls, values: tuple[int, ...]) -> MarkValues:
        """Make the mark of the values that its file holds."""
        end, whole, clean, *begin = values
        return cls(end, whole, clean == 1, *begin)


def read_mark(disk: Disk, path: str) -> MarkValues | None:
    """Read the mark without changing anything; None if there is none. Raises: SideFileDamaged."""
    values = read_side_file(disk, path, _VALUES, older=_OLDER)
    return None if values is None else MarkValues.of(values)


def need_mark(disk: Disk, path: str) -> MarkValues | None:
    """Read the mark as `read_mark` does, for a start. Raises: CorruptLog: it cannot be read."""
    try:
        return read_mark(disk, path)
    except SideFileDamaged:
        raise CorruptLog(
            f"{path}: the synced mark cannot be read, so it is unknown what may be cut;"
            f" {REMOVE_THEN}"
        ) from None


@attrs.define
class Mark:
    """The file of a store's mark, with one owner.

    Attributes:
        values: the values that were written last; None: the store never had a mark of ours.
    """

    values: MarkValues | None
    _file: SideFile

    @classmethod
    def open(cls, disk: Disk, path: str) -> Mark:
        """Open the mark's file, or create it. Raises: CorruptLog: it cannot be read."""
        values = need_mark(disk, path)
        file, _ = SideFile.open(disk, path, _VALUES, older=_OLDER)
        return cls(values, file)

    @property
    def path(self) -> str:
        return self._file.path

    def write(self, values: MarkValues) -> None:
        """Write the mark, without a sync."""
        end, whole, begin = values.end_bytes, values.whole_bytes, values.begin_bytes
        self._file.write((end, whole, int(values.is_clean), begin))
        self.values = values

    def lower(self, end_bytes: int) -> None:
        """Lower the mark to `end_bytes`, and sync it. Raises: OSError."""
        was = self.values or MarkValues()
        end, whole = min(was.end_bytes, end_bytes), min(was.whole_bytes, end_bytes)
        self.write(MarkValues(end, whole, begin_bytes=was.begin_bytes))
        self.sync()

    def begin_at(self, begin_bytes: int) -> None:
        """Record that the log may begin at `begin_bytes`, so files before it may be deleted, and
        sync that. Raises: OSError.
        """
        was = self.values or MarkValues()
        self.write(attrs.evolve(was, is_clean=False, begin_bytes=begin_bytes))
        self.sync()

    def derive_again(self) -> None:
        """Record that the index and the checksums are not synced, because they are made again.

        The mark is synced when this returns. Raises: OSError.
        """
        if self.values is not None:
            self.write(attrs.evolve(self.values, whole_bytes=0))
            self.sync()

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
