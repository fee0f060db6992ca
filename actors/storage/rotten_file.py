"""Where damage begins that was found in a log: the file `digests/rotten`, kept for later starts."""

from __future__ import annotations

from contextlib import suppress

import attrs

from actors.env.protocols import Disk
from actors.storage.log_check import ROTTEN_MAX
from actors.storage.side_file import SideFile, SideFileDamaged


@attrs.define
class RottenFile:
    """One store's. It helps, and nothing rests on it: what it does not keep is found again.

    Attributes:
        starts: the damaged ranges' first bytes, as an earlier start has left them.
    """

    starts: tuple[int, ...] = ()
    _side: SideFile | None = None

    @classmethod
    def open(cls, disk: Disk, path: str) -> RottenFile:
        """One that cannot be read says nothing."""
        try:
            side, values = SideFile.open(disk, path, ROTTEN_MAX + 1)
        except (OSError, SideFileDamaged):
            return cls()
        count, *starts = values or (0,)
        return cls(tuple(starts[:count]), side)

    def write(self, starts: tuple[int, ...]) -> None:
        """Keep at most ROTTEN_MAX of them."""
        if self._side is None:
            return
        with suppress(OSError):
            self._side.write((len(starts), *starts, *[0] * (ROTTEN_MAX - len(starts))))
            self._side.sync()

    def close(self) -> None:
        if self._side is not None:
            self._side.close()
