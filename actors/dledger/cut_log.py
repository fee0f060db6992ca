"""What a follower says of entries that its leader has it cut though they were synced here.

Usual after a leader's end: it had them, no majority did, and the next leader has others. They count
for nothing, but an operator who looks for what a client was told OutcomeUnknown of finds them so.
"""

from __future__ import annotations

import logging
from typing import Final

import attrs

from actors.dledger.base_fields import Sender
from actors.events.dledger import LedgerTruncated
from actors.storage.dledger.store_messages import LedgerGrew

_LOGGER: Final = logging.getLogger("triolog.dledger")


@attrs.define
class CutLog:
    """What the store said is synced, less what was cut since."""

    _sender: Sender
    _synced: int = attrs.field(default=-1, init=False)
    _cuts: int = attrs.field(default=0, init=False)
    _cut_at: int = attrs.field(default=-1, init=False)  # `_cuts` then; the store says one more

    def grew(self, log: LedgerGrew) -> None:
        """The store's log now, or before the last cut."""
        self._cuts = log.cuts
        if log.cuts != self._cut_at:
            self._synced, self._cut_at = log.synced_index, -1

    def noted(self, event: object, leader: str, term: int) -> object:
        """The event as it is to be emitted. A cut gets how far it was synced, and a warning if it
        was; not where the whole log leaves, to begin anew at an entry that is not its next.
        """
        if not isinstance(event, LedgerTruncated):
            return event
        synced = min(event.end, self._synced)
        self._synced, self._cut_at = min(self._synced, event.index - 1), self._cuts
        if synced < event.index:
            return event
        if event.next == event.index:
            _LOGGER.warning(
                "%s: %s cuts entries %d to %d, synced to %d: %s, leader of term %d, has others",
                self._sender.group,
                self._sender.self_id,
                event.index,
                event.end,
                synced,
                leader,
                term,
            )
        return attrs.evolve(event, synced=synced)
