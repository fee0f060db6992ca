"""Sends each session of a member to its actors, once the store and the log are ready for it.

Source: openmessaging/dledger, MemberState.java, which upstream's threads read under one lock
(0.3.1.2); here its owner sends it to the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import LedgerEnd, Role
from actors.dledger.session_messages import Following, Leading, Resting, SessionChange
from actors.runtime import ActorRef
from actors.storage.ledger.store_messages import LedgerGrew


@attrs.define(kw_only=True)
class SessionBroadcast:
    """The session by which a member's actors act. See the module's text.

    Attributes:
        actors: the actors that act by sessions, by path.
        synced: whether an entry is stored only once it is on the disk.
        role: the role of the session that the actors were sent last.
        log: the newest report of the log.
    """

    actors: Mapping[str, ActorRef[SessionChange]]
    synced: bool
    role: RoleChanged | None = attrs.field(default=None, init=False)
    log: LedgerGrew | None = attrs.field(default=None, init=False)
    _opened: LedgerEnd | None = attrs.field(default=None, init=False)  # in that session
    _working: bool = attrs.field(default=False, init=False)

    @property
    def leads(self) -> bool:
        """Whether the actors were sent Leading."""
        return self._working and self.role is not None and self.role.role is Role.LEADER

    @property
    def waits(self) -> bool:
        """Whether the actors rest until more of the log is known to be stored."""
        return not self._working

    async def rest(self, role: RoleChanged) -> None:
        """Begin a new session: the actors rest until the store acts by it and the log is stored."""
        self.role, self._opened, self._working = role, None, False
        for ref in self.actors.values():
            await ref.tell(Resting(session=role.session, term=role.term))

    async def opened(self, end: LedgerEnd) -> None:
        """Note that the store acts by the session, and where the log ended when it began to."""
        self._opened = end
        await self._send()

    async def grew(self, log: LedgerGrew) -> None:
        """Note a report of the log."""
        self.log = log
        await self._send()

    async def repeat(self, actor: str) -> None:
        """Send the present session once more to an actor that was restarted."""
        if self.role is None:
            return
        change: SessionChange = Resting(session=self.role.session, term=self.role.term)
        if self._working and self.log is not None and self.log.session == self.role.session:
            change = self._change_of(self.role, self.log)
        await self.actors[actor].tell(change)

    async def _send(self) -> None:
        """Send Leading or Following once the whole log that the session began with is stored."""
        role, end, log = self.role, self._opened, self.log
        if role is None or end is None or log is None or self._working:
            return
        if role.role is Role.CANDIDATE or log.session != role.session:
            return
        if self.synced and log.synced_index < end.index:
            return
        self._working = True
        change = self._change_of(role, log)
        for ref in self.actors.values():
            await ref.tell(change)

    def _change_of(self, role: RoleChanged, log: LedgerGrew) -> SessionChange:
        work = {
            "session": role.session,
            "term": role.term,
            "begin": log.begin_index,
            "end": log.end_index,
            "end_term": log.end_term,
            "committed": log.committed_index,
        }
        if role.role is Role.LEADER:
            return Leading(**work)
        return Following(leader=role.leader, **work)
