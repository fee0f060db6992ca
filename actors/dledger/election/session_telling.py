"""Which session a member's parts act by, and what they were told of it.

Source: openmessaging/dledger, MemberState.java, which upstream's threads read under one lock
(0.3.1.2); here its owner tells the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from actors.dledger.core.election_effects import RoleChanged
from actors.dledger.core.member_state import LedgerEnd, Role
from actors.dledger.session_messages import Following, Leading, Resting, Told
from actors.runtime import ActorRef
from actors.storage.ledger.store_messages import LedgerGrew


@attrs.define(kw_only=True)
class SessionTelling:
    """See the module's text.

    Attributes:
        parts: all that are told, by path.
        synced: the log is stored when it is on the disk.
        role: of the session that parts were told last.
        log: the newest news of it.
    """

    parts: Mapping[str, ActorRef[Told]]
    synced: bool
    role: RoleChanged | None = attrs.field(default=None, init=False)
    log: LedgerGrew | None = attrs.field(default=None, init=False)
    _opened: LedgerEnd | None = attrs.field(default=None, init=False)  # in that session
    _working: bool = attrs.field(default=False, init=False)

    @property
    def leads(self) -> bool:
        """Parts were told to lead."""
        return self._working and self.role is not None and self.role.role is Role.LEADER

    @property
    def waits(self) -> bool:
        """Parts rest until more of the log is known to be stored."""
        return not self._working

    async def rest(self, role: RoleChanged) -> None:
        """A new session: what parts do next waits for the store, and for the whole log."""
        self.role, self._opened, self._working = role, None, False
        for ref in self.parts.values():
            await ref.tell(Resting(session=role.session, term=role.term))

    async def opened(self, end: LedgerEnd) -> None:
        """The store acts by the session; the log ended there when it began to."""
        self._opened = end
        await self._tell()

    async def grew(self, log: LedgerGrew) -> None:
        """News of the log."""
        self.log = log
        await self._tell()

    async def tell_again(self, part: str) -> None:
        """A part knows of no session."""
        if self.role is None:
            return
        told: Told = Resting(session=self.role.session, term=self.role.term)
        if self._working and self.log is not None and self.log.session == self.role.session:
            told = self._work_of(self.role, self.log)
        await self.parts[part].tell(told)

    async def _tell(self) -> None:
        """Once the log, as the session found it, is stored as a whole."""
        role, end, log = self.role, self._opened, self.log
        if role is None or end is None or log is None or self._working:
            return
        if role.role is Role.CANDIDATE or log.session != role.session:
            return
        if self.synced and log.synced_index < end.index:
            return
        self._working = True
        told = self._work_of(role, log)
        for ref in self.parts.values():
            await ref.tell(told)

    def _work_of(self, role: RoleChanged, log: LedgerGrew) -> Told:
        if role.role is Role.LEADER:
            return Leading(
                session=role.session,
                term=role.term,
                begin=log.begin_index,
                end=log.end_index,
                end_term=log.end_term,
                committed=log.committed_index,
            )
        return Following(
            session=role.session,
            term=role.term,
            leader=role.leader,
            begin=log.begin_index,
            end=log.end_index,
            end_term=log.end_term,
            committed=log.committed_index,
        )
