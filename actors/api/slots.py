"""The slots of one node's API, for its clients, for members, and for connections without a hello.

Each kind has slots of its own, so that many connections of one kind do not keep another kind out.
Idle clients could otherwise take all slots, and a member could not ask which node has a log. A
connection that has not sent a hello belongs to no kind yet. There are slots for a few of those; if
more come, the one that has been silent for the longest is closed. A client that was welcomed keeps
its slot for as long as it likes, unless all are taken. Then the client that has asked for nothing
for the longest time is closed for the next one, if it waits for nothing and that time is at least
QUIET_S.

A connection counts as a member's if it names itself one and comes over the socket file, or from
that member's address with a proof that it has the cluster's secret. If the node has no secret, the
address is sufficient. That is no proof if clients run on the members' machines, but it is enough
against connections that are idle or send junk, like the last slots of a DLedger port. At the HA
port the addresses alone decide, because no client connects there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from actors.api.credentials import Admission
from actors.api.limits import ApiLimits
from actors.env.protocols import Address
from actors.runtime.accepting import UNOWNED_MAX

MADE_WAY = "made way for another: it had said nothing for the longest"
QUIET = "made way for another client: it had asked for nothing for the longest"
QUIET_S = 60.0
CROWD = "too many connect at once"
"""The reason that a connection without a hello is given when it is closed to make room. It may try
again.
"""
_MEMBER = "member "


def member_name(node: str) -> str:
    """Return the name that a member gives in its hello."""
    return _MEMBER + node


@attrs.define(eq=False)
class Slot:
    """The slot of one connection.

    Attributes:
        end: closes the connection, for the given reason.
        waits: whether it has unanswered requests or subscriptions.
        asked_s: when its last request came.
        is_member: whether it is the connection of another node of the cluster.
    """

    end: Callable[[str], None]
    waits: Callable[[], bool] = lambda: False
    asked_s: float = 0.0
    is_member: bool = False


@attrs.define
class Slots:
    """The slots of one node's API.

    Attributes:
        limits: how many slots there are.
        members: by name, the addresses of the cluster's nodes.
        now_s: gives the time for `Slot.asked_s`.
    """

    limits: ApiLimits
    members: Mapping[str, str] = attrs.field(factory=dict)
    now_s: Callable[[], float] = lambda: 0.0
    _silent: dict[Slot, None] = attrs.field(factory=dict, init=False)  # the oldest first
    _greeted: dict[Slot, bool] = attrs.field(factory=dict, init=False)  # whether a member's

    def make_way(self) -> None:
        """Make room for one more connection, by ending the oldest without a hello.

        Half of the room is kept for connections that are just starting or ending.
        """
        while len(self._silent) >= max(self.limits.silent - UNOWNED_MAX, 1):
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.end(MADE_WAY)

    def come(self, end: Callable[[str], None], waits: Callable[[], bool] = lambda: False) -> Slot:
        """Note a new connection, which has not sent its hello.

        Args:
            end: closes the connection, for the given reason.
            waits: whether it has unanswered requests or subscriptions.

        Returns: its slot, for `greet` and `leave`.
        """
        slot = Slot(end, waits, self.now_s())
        self._silent[slot] = None
        return slot

    def taken(self) -> str:
        """Return the reason for a client that gets no slot."""
        count = self.limits.clients
        return (
            "its only client slot is taken"
            if count == 1
            else (f"all {count} client slots are taken")
        )

    def greet(self, slot: Slot, name: str, remote: Address, admission: Admission) -> bool:
        """Note the name in a connection's hello, and give it a slot of its kind.

        If all slots are taken, the quietest client makes room for it.

        Returns: whether there is a slot for it.
        """
        self._silent.pop(slot, None)
        is_member = not admission.no_member and self._is_member(name, remote)
        if self._is_full(is_member=is_member):
            self._end_quietest()
        if self._is_full(is_member=is_member):
            return False
        self._greeted[slot] = slot.is_member = is_member
        return True

    def _is_full(self, *, is_member: bool) -> bool:
        count, members = len(self._greeted), sum(self._greeted.values())
        if count >= self.limits.clients + self.limits.members:
            return True
        return not is_member and count - members >= self.limits.clients

    def _end_quietest(self) -> None:
        clients = [slot for slot, is_member in self._greeted.items() if not is_member]
        quiet = [slot for slot in clients if not slot.waits()]
        oldest = min(quiet, key=lambda slot: slot.asked_s, default=None)
        if oldest is not None and self.now_s() - oldest.asked_s >= QUIET_S:
            del self._greeted[oldest]
            oldest.end(QUIET)

    def leave(self, slot: Slot) -> None:
        """Free the slot of a connection that has ended; harmless if it is free already."""
        self._silent.pop(slot, None)
        self._greeted.pop(slot, None)

    def _is_member(self, name: str, remote: Address) -> bool:
        address = self.members.get(name.removeprefix(_MEMBER))
        return (
            name.startswith(_MEMBER)
            and address is not None
            and (remote.port == 0 or remote.host == address)
        )
