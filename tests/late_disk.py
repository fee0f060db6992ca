"""A simulated disk that tells a syncer of a sync's end later than it comes, as a busy loop does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import trio

from actors.env.protocols import Syncer
from actors.sim.disk import SimDisk


class LateDisk(SimDisk):
    """See the module's text.

    Attributes:
        late_s: how much later.
        path_part: of syncs of such paths only.
    """

    def __init__(self, path_part: str, seed: int = 2) -> None:
        super().__init__(random.Random(seed))
        self.path_part = path_part
        self.late_s = 0.0

    def syncer(self) -> Syncer:  # type: ignore[override]
        return LateSyncer(self, super().syncer())


@attrs.define
class LateSyncer:
    _disk: LateDisk
    _inner: Syncer

    async def sync(self, paths: Sequence[str]) -> None:
        try:
            await self._inner.sync(paths)
        finally:
            if any(self._disk.path_part in path for path in paths):
                with trio.CancelScope(shield=True):
                    await trio.sleep(self._disk.late_s)

    def forget(self, paths: Sequence[str]) -> None:
        self._inner.forget(paths)

    def close(self) -> None:
        self._inner.close()
