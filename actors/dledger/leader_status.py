"""What a member has published, by its state maintainer, its quorum_ack_checker and its port's
server: read by its node, its dispatchers and in refusals.

Like a log's published range it is a value that others may look at without a message: an append
costs one attribute check more. It outlives the group's tree.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.dledger.core.election_effects import RoleChanged

LATELY_S: Final = 60.0
"""An address that stays away for so long is forgotten: a member tries again each second."""
NON_MEMBERS_MAX: Final = 8
"""That are remembered: whoever can reach the port can come from many addresses."""


@attrs.define
class NonMembers:
    """Addresses of no member that connected to a DLedger port lately, and were turned away.

    Written by the port's server; others look, as at a `LeaderStatus`.
    """

    _came_s: dict[str, float] = attrs.field(factory=dict, init=False)  # address -> last

    def came(self, address: str, now_s: float) -> bool:
        """Note one. Returns: whether that is news; never while NON_MEMBERS_MAX others are known."""
        known = self.lately(now_s)
        self._came_s = {each: self._came_s[each] for each in known}
        is_news = address not in known
        if is_news and len(known) >= NON_MEMBERS_MAX:
            return False
        self._came_s[address] = now_s
        return is_news

    def lately(self, now_s: float) -> tuple[str, ...]:
        """The addresses of those who came within LATELY_S, at most NON_MEMBERS_MAX."""
        return tuple(each for each, at_s in self._came_s.items() if now_s - at_s <= LATELY_S)


@attrs.define(eq=False)
class LeaderStatus:
    """The newest role of one member, and who came to its port.

    Attributes:
        role: None before the first, and after the member's end.
        is_open: this member leads, and its parts take appends; they have the last word.
        committed: while it leads, the committed index, by its quorum_ack_checker; what its peers
            hold at or below it is no news that anybody waits for.
        non_members: whom the port's server has turned away.
        weaker: members that acknowledge what is not on their disks, where it should be, by which
            settings; as they said last. Replaced as a whole, by their watches.
    """

    role: RoleChanged | None = None
    is_open: bool = False
    committed: int = attrs.field(init=False, default=-1)
    non_members: NonMembers = attrs.field(init=False, factory=NonMembers)
    weaker: dict[str, str] = attrs.field(init=False, factory=dict)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    @property
    def leader(self) -> str:
        """The leader of the present term, "" if none is known."""
        return "" if self.role is None else self.role.leader

    def publish(self, role: RoleChanged | None, *, is_open: bool = False) -> None:
        """Called by the state maintainer: the newest role."""
        if (role, is_open) == (self.role, self.is_open):
            return
        self.role, self.is_open = role, is_open
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_changed(self) -> None:
        """Return once something else is published than now."""
        await self._changed.wait()
