"""What a follower's store was asked and has not done: a removal, and all behind it, may wait."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs
from core_disk import Disk

from actors.dledger.core.intake_effects import StoreChange
from wire.dledger.entry import Entry

if TYPE_CHECKING:
    from core_member import Member


@attrs.define
class Changes:
    """`core.intake_effects.LedgerView`: the disk as it will be.

    Attributes:
        held: in their order; the first one removes entries.
    """

    disk: Disk
    held: deque[StoreChange] = attrs.field(factory=deque)

    def holds(self, entry: Entry) -> bool | None:
        for change in reversed(self.held):
            for each in change.entries:
                if each.index == entry.index:
                    return each == entry
            leaves = self._leaves(change)
            if leaves is not None and entry.index >= leaves:
                return False
        return self.disk.holds(entry) if entry.index >= self.disk.begin else None

    @property
    def leaving(self) -> int | None:
        """The lowest entry that has yet to leave."""
        found = map(self._leaves, self.held)
        return min((each for each in found if each is not None), default=None)

    def _leaves(self, change: StoreChange) -> int | None:
        if change.restart:
            return self.disk.begin if self.disk.log else None
        return change.cut_from

    def carry_out(self, member: Member, change: StoreChange) -> None:
        """On the disk."""
        world, disk, first = member.world, self.disk, change.entries[0].index
        if change.cut_from is not None:
            kept = change.cut_from > member.committed or world.compat.cut_committed
            assert kept, "what is committed was cut"
            world.count("cuts")
            del disk.log[change.cut_from :]
            disk.synced = min(disk.synced, change.cut_from)
        if change.restart:
            world.count("restarts of a log")
            placeholder = change.entries[0]
            disk.log[:] = [placeholder] * first
            disk.begin = disk.synced = first
        assert first == len(disk.log), "a gap"
        for entry in change.entries:
            disk.log.append(entry)
            world.took(member, entry)
