"""A simulated disk that knows which files are open for reading."""

from __future__ import annotations

import random

from actors.sim.disk import SimDisk, SimFile


class HandlesDisk(SimDisk):
    """Remembers every handle for reading that it gave."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._read_handles: list[SimFile] = []

    def open(self, path: str, mode: str) -> SimFile:
        file = super().open(path, mode)
        if mode == "r":
            self._read_handles.append(file)
        return file

    def readers(self) -> list[str]:
        """Paths of the handles that are open, sorted; a deleted file's too."""
        return sorted(file.path for file in self._read_handles if _is_open(file))


def _is_open(file: SimFile) -> bool:
    try:
        return file.size_bytes >= 0
    except OSError:
        return False
