"""A simulated disk on which something happens in the middle of a look at its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.sim.disk import SimDisk


class MeddlingDisk:
    """Passes everything on; before the call of this number that looks at names, something else
    happens: as a node does it while a tool looks at its files.
    """

    def __init__(self, inner: SimDisk, before: int, meddle: Callable[[], None]) -> None:
        self._inner = inner
        self._left = before
        self._meddle = meddle

    @property
    def met(self) -> bool:
        """It has happened."""
        return self._left < 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("open", "stat", "listdir", "names", "exists"):
            return method

        def looking(*args: Any) -> Any:
            self._left -= 1
            if self._left == -1:
                self._meddle()
            return method(*args)

        return looking
