"""A follower's log as it will be: what is written, and the changes that the store has yet to make.

Source: `core.intake_effects.LedgerView`; the decisions run ahead of the disk.
"""

from __future__ import annotations

from collections import deque

import attrs

from actors.dledger.core.intake_effects import StoreChange
from actors.dledger.core.member_state import INDEX_NONE
from actors.storage.ledger.entry_window import EntryWindow
from actors.storage.ledger.ledger import IndexGone, is_equal
from wire.dledger.entry import Entry


@attrs.define
class PendingLedger:
    """The log with its pending changes. `Intake` asks only within the range that it has decided on.

    Attributes:
        window: reads the entries that are written and will stay. The store may already have cut
            others.
    """

    window: EntryWindow
    _asked: deque[StoreChange] = attrs.field(factory=deque, init=False)
    _entries: dict[int, Entry] = attrs.field(factory=dict, init=False)
    _cuts: deque[tuple[int, int]] = attrs.field(factory=deque, init=False)  # number, last kept

    @property
    def pending(self) -> bool:
        """Whether the store has not answered all changes."""
        return bool(self._asked)

    def holds(self, entry: Entry) -> bool | None:
        """See `LedgerView.holds`."""
        held = self._entries.get(entry.index)
        if held is None:
            if entry.index > self.window.end:
                return False
            try:
                held = self.window.entry(entry.index)
            except IndexGone:
                return None
        return is_equal(held, entry)

    def asked(self, change: StoreChange) -> None:
        """Add a change that the store is asked for, after all earlier ones."""
        self._asked.append(change)
        if change.restart or change.cut_from is not None:
            stays = INDEX_NONE if change.cut_from is None else change.cut_from - 1
            self._cuts.append((change.number, stays))
            self.window.end = min(self.window.end, stays)
        for entry in change.entries:
            self._entries[entry.index] = entry

    def done(self, number: int, end: int) -> None:
        """Note that the store has done all up to that change, and where the log ended then."""
        while self._asked and self._asked[0].number <= number:
            for entry in self._asked.popleft().entries:
                if self._entries.get(entry.index) is entry:
                    del self._entries[entry.index]
        while self._cuts and self._cuts[0][0] <= number:
            self._cuts.popleft()
            self.window.forget()
        self.window.end = min([end, *(stays for _, stays in self._cuts)])

    def reset(self, end: int) -> None:
        """Forget all changes; the log ends at `end`."""
        self._asked.clear()
        self._entries.clear()
        self._cuts.clear()
        self.window.forget()
        self.window.end = end
