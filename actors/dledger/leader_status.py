"""What a member's state maintainer, quorum_ack_checker and its port's server publish.

Its node and its dispatchers read it, and so do refusals.

Like a log's published range it is a value that others may read without a message: an append costs
one attribute check more. It outlives the group's tree.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from actors.dledger.core.election_effects import RoleChanged

LATELY_S: Final = 60.0
"""How many seconds an address is kept after it connected. A member connects again each second."""
NON_MEMBERS_MAX: Final = 8
"""How many addresses are kept, as a program that reaches the port may use many of them."""


@attrs.define
class NonMembers:
    """Addresses that are no member's, connected to a DLedger port lately, and were turned away.

    The port's server writes it; others read it, like a `LeaderStatus`.
    """

    _came_s: dict[str, float] = attrs.field(factory=dict, init=False)  # address -> last

    def came(self, address: str, now_s: float) -> bool:
        """Note an address that connected.

        Returns: whether it is new. False, too, if NON_MEMBERS_MAX others are kept, so it is not.
        """
        known = self.lately(now_s)
        self._came_s = {each: self._came_s[each] for each in known}
        is_news = address not in known
        if is_news and len(known) >= NON_MEMBERS_MAX:
            return False
        self._came_s[address] = now_s
        return is_news

    def lately(self, now_s: float) -> tuple[str, ...]:
        """Return the addresses that connected within LATELY_S, at most NON_MEMBERS_MAX."""
        return tuple(each for each, at_s in self._came_s.items() if now_s - at_s <= LATELY_S)


@attrs.define(eq=False)
class LeaderStatus:
    """The newest role of one member, and what came to its port.

    Attributes:
        role: the newest role; None before the first, and after the member's end.
        is_open: whether this member leads and its actors were sent that; an append may still be
            refused by them.
        committed: while this member leads, the committed index, by its quorum_ack_checker. That a
            peer holds entries up to it is no news for the checker.
        lost: what may be lost of what was committed, as this member was elected by members that
            had lost their logs, for people; "": nothing, or it does not lead.
        non_members: the addresses that the port's server has turned away.
        weaker: by member, the settings by which it acknowledges what is not on its disk although
            the group is synced. Replaced as a whole, by the watches.
    """

    role: RoleChanged | None = None
    is_open: bool = False
    committed: int = attrs.field(init=False, default=-1)
    lost: str = attrs.field(init=False, default="")
    non_members: NonMembers = attrs.field(init=False, factory=NonMembers)
    weaker: dict[str, str] = attrs.field(init=False, factory=dict)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    @property
    def leader(self) -> str:
        """The leader of the present term; "" if none is known."""
        return "" if self.role is None else self.role.leader

    def publish(self, role: RoleChanged | None, *, is_open: bool = False) -> None:
        """Publish the newest role; the state maintainer calls it."""
        if (role, is_open) == (self.role, self.is_open):
            return
        self.role, self.is_open = role, is_open
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_changed(self) -> None:
        """Return once something new is published."""
        await self._changed.wait()
