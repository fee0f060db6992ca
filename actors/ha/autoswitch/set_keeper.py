"""A master's sync state set, as group_transfer keeps it: by the names of connections.

The decisions are in `core.sync_state_set`, by the ids that the controllers gave. A connection is of
the replica that had its name when it began, and counts as long as that replica has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from actors.ha.autoswitch.messages import AlterSyncStateSet, LookNow, SetAdopted, SetRefused
from actors.ha.core.extent import LogExtent
from actors.ha.core.sync_state_set import Effects, SyncStateSet
from actors.runtime import ActorRef

ALTER_TIMEOUT_S: Final = 10.0
"""How long the controllers may take to alter a set before it counts as not known what became of it.
"""


@attrs.define(kw_only=True, eq=False)
class SetKeeper:
    """See the module's text. Times are Trio's.

    Attributes:
        epoch: the master's.
        synced: whether only what is on the disk counts here.
        id_of: gives the id of a replica by the name of its connections; None: it is none any more.
        lease_until_s: gives the time up to which this master may confirm.
        adopted: is told each set that the controllers have.
        manager: the replicas manager, which speaks with the controllers.
    """

    members: SyncStateSet
    epoch: int
    synced: bool
    id_of: Callable[[str], int | None]
    lease_until_s: Callable[[], float]
    adopted: Callable[[frozenset[int], int], None]
    manager: ActorRef[AlterSyncStateSet | LookNow]
    _joined: dict[int, int] = attrs.field(factory=dict, init=False)  # connection -> id
    _wish: frozenset[int] | None = attrs.field(default=None, init=False)
    _looked: bool = attrs.field(default=False, init=False)  # since the set is stale

    def joined(self, slave: str, connection: int, now_s: float, *, async_learner: bool) -> None:
        """Note a connection whose first report was accepted."""
        if (replica := self.id_of(slave)) is not None:
            self._renew()
            self._joined[connection] = replica
            self.members.joined(replica, connection, now_s, async_learner=async_learner)

    def acked(self, slave: str, connection: int, offset_bytes: int, now_s: float) -> None:
        """Note a report that was believed."""
        replica = self._joined.get(connection)
        if replica is not None and replica == self.id_of(slave):
            self._renew()
            self._take(self.members.acked(replica, connection, offset_bytes, now_s))

    def gone(self, connection: int, now_s: float) -> None:
        """Note that a connection has ended."""
        if (replica := self._joined.pop(connection, None)) is not None:
            self._renew()
            self._take(self.members.gone(replica, connection, now_s))

    def grew(self, extent: LogExtent, now_s: float) -> None:
        """Note the range of the own log."""
        self._renew()
        self._take(self.members.grew(extent.durable_bytes(synced=self.synced), now_s))

    def tick(self, now_s: float) -> None:
        """Look at the time, every TICK_S."""
        self._renew()
        self._take(self.members.tick(now_s))
        if not self.members.is_stale:
            self._looked = False
        elif not self._looked:
            self._looked = True
            self.manager.post(LookNow())

    def told(self, members: frozenset[int], set_epoch: int, now_s: float) -> None:
        """Take the set that the controllers have."""
        self._renew()
        self._take(self.members.adopted(members, set_epoch, now_s))
        self.adopted(members, set_epoch)

    def answered(self, outcome: SetAdopted | SetRefused | Exception, now_s: float) -> None:
        """Take the answer to the last wish."""
        self._renew()
        match outcome:
            case SetAdopted():
                self.told(outcome.members, outcome.set_epoch, now_s)
            case SetRefused():
                self._take(self.members.refused(outcome.refusal, now_s))
            case _:
                self.members.unanswered(now_s)

    def take_wish(self) -> frozenset[int] | None:
        """Return the set that the controllers have to be asked for, once; None: there is none."""
        wish, self._wish = self._wish, None
        return wish

    def _renew(self) -> None:
        self.members.lease_until_s = self.lease_until_s()

    def _take(self, effects: Effects) -> None:
        if effects.alter is not None:
            self._wish = effects.alter
