"""What a replica publishes of its log's history: read by whoever answers or reports, without a
message.
"""

from __future__ import annotations

import attrs

from actors.epochs import History
from actors.storage.commitlog.epoch_store import EpochStore
from actors.storage.commitlog.pull_service import AcknowledgedMark


@attrs.define(eq=False)
class EpochsView:
    """The history of one replica's log, and where the log and what readers see of it end.

    Each tree of the group has its own store and mark, and sets them here as it starts.

    Attributes:
        store: the history's store; None before the first tree has opened it.
        end_bytes: the end of the log, at most a second late.
        opened_bytes: where the log ended as the tree started: all below may have been acknowledged.
        mark: up to where readers see the log.
        doubts: the last epoch of a log that may lack bytes that it had, as this process found it;
            None: it lacks none.
    """

    store: EpochStore | None = None
    end_bytes: int = 0
    opened_bytes: int = 0
    mark: AcknowledgedMark = attrs.field(factory=AcknowledgedMark)
    doubts: int | None = None

    @property
    def history(self) -> History:
        """The epochs of the log, oldest first; () before it is open."""
        return () if self.store is None else self.store.history

    @property
    def last_epoch(self) -> int:
        """The number of the last one; -1: there is none."""
        history = self.history
        return history[-1].number if history and history[-1].number > 0 else -1

    @property
    def problem(self) -> str:
        """Why not all of the history is believed, for people; "" if it is."""
        return "" if self.store is None else self.store.problem
