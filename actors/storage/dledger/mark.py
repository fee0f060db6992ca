"""The synced mark of a DLedger store: what was surely on the disk once.

Upstream has nothing like it: its recovery believes whatever looks like an entry, and an entry's
body has no checksum.

| Value       | Meaning                                                                     |
|-------------|-----------------------------------------------------------------------------|
| end_bytes   | every entry that ends at or below this offset was synced                    |
| whole_bytes | so was what derives from the entries that end at or below this one          |
| is_clean    | 1: an ordered stop; nothing was written since                                |

It is written with every sync, and itself synced at most a second later: it may be old. Entries of
which a start could not tell without it that they are whole are not called synced before the mark
that covers them is (`batches.may_be_torn`). Before entries are cut it is lowered, and that synced.
"""

from __future__ import annotations

import attrs

from actors.env.protocols import Disk
from actors.errors import CorruptLog
from actors.storage.side_file import SideFile, SideFileDamaged

_VALUES = 3


@attrs.frozen
class MarkValues:
    """See the module's text."""

    end_bytes: int = 0
    whole_bytes: int = 0
    is_clean: bool = False


@attrs.define
class Mark:
    """The mark's file. One owner.

    Attributes:
        values: as last written; None: the store never had a mark of ours.
    """

    values: MarkValues | None
    _file: SideFile

    @classmethod
    def open(cls, disk: Disk, path: str) -> Mark:
        """Raises: CorruptLog: it cannot be read."""
        try:
            file, values = SideFile.open(disk, path, _VALUES)
        except SideFileDamaged:
            raise CorruptLog(
                f"{path}: the synced mark cannot be read; without it nobody knows what may be "
                "cut. Remove the file to have the log cut at its first bad entry"
            ) from None
        if values is None:
            return cls(None, file)
        return cls(MarkValues(values[0], values[1], values[2] == 1), file)

    @property
    def path(self) -> str:
        return self._file.path

    def write(self, values: MarkValues) -> None:
        """Not synced."""
        self._file.write((values.end_bytes, values.whole_bytes, int(values.is_clean)))
        self.values = values

    def lower(self, end_bytes: int) -> None:
        """Nothing behind `end_bytes` was ever synced; synced when this returns. Raises: OSError."""
        was = self.values or MarkValues()
        self.write(MarkValues(min(was.end_bytes, end_bytes), min(was.whole_bytes, end_bytes)))
        self.sync()

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
