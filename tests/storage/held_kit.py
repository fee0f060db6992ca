"""A simulated disk that knows which paths its syncers keep open, as the real one does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs

from actors.env.protocols import Syncer
from actors.sim.disk import SimDisk


class HeldDisk(SimDisk):
    """See the module's text."""

    def __init__(self, seed: int = 2) -> None:
        super().__init__(random.Random(seed))
        self.held: list[set[str]] = []  # of each syncer that was made

    def syncer(self) -> Syncer:  # type: ignore[override]
        self.held.append(set())
        return HoldingSyncer(super().syncer(), self.held[-1])

    def deleted(self) -> set[str]:
        """What is gone and takes room all the same."""
        return {path for held in self.held for path in held if not self.exists(path)}


@attrs.define
class HoldingSyncer:
    _inner: Syncer
    _held: set[str]

    async def sync(self, paths: Sequence[str]) -> None:
        self._held.update(paths)
        await self._inner.sync(paths)

    def forget(self, paths: Sequence[str]) -> None:
        self._held.difference_update(paths)
        self._inner.forget(paths)

    def close(self) -> None:
        self._held.clear()
        self._inner.close()
