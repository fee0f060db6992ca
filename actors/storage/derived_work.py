"""What a flush of derived files makes durable, and what became of records that were put there."""

from __future__ import annotations

import attrs

from actors.storage.dispatch_state import DispatchState
from wire.files.commit_log import Checkpoint, RecordHead


@attrs.frozen(kw_only=True)
class Flush:
    """What one flush makes durable.

    Attributes:
        paths: files to sync.
        state: true once they are.
        checkpoint: the same for Java.
    """

    paths: tuple[str, ...]
    state: DispatchState
    checkpoint: Checkpoint

    def with_later(self, later: Flush | None) -> Flush:
        """Both, where the sync of the first may not have begun."""
        if later is None:
            return self
        return attrs.evolve(later, paths=(*self.paths, *later.paths))


@attrs.define
class Put:
    """What became of records that were put.

    Attributes:
        refused: no queue can take them.
        repeated: an older record has their queue offset, so no unit leads to them.
        begun: records that their queue began anew with.
        units_count: units of older records that were dropped for these.
    """

    refused: list[RecordHead] = attrs.field(factory=list)
    repeated: list[RecordHead] = attrs.field(factory=list)
    begun: list[RecordHead] = attrs.field(factory=list)
    units_count: int = 0
