"""Invariants of a DLedger group's elections; see `checkers`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.config import DLedgerGroup
from actors.events.dledger import RoleChanged
from actors.sim.dledger.ledger_bytes import LedgerBytes
from actors.sim.history import LOST_DISK, FaultInjected, NodeLooked, Observation
from actors.sim.survival import is_of
from actors.sim.world import SimEvent
from actors.storage.ledger.term_files import TermVote


@attrs.define(kw_only=True)
class ElectionSafety:
    """A term has at most one leader."""

    group: DLedgerGroup
    _leaders: dict[int, str] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case SimEvent(event=RoleChanged(role="LEADER", term=term)) if is_of(self.group, seen):
                first = self._leaders.setdefault(term, seen.node)
                if first != seen.node:
                    yield f"{first} and {seen.node} lead term {term}"


@attrs.define(kw_only=True)
class VoteOnce:
    """A member's term never falls, in one term it votes once, and it acts in no term before that:
    by what its disk says.
    """

    group: DLedgerGroup
    logs: LedgerBytes
    _votes: dict[str, tuple[int, str]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case FaultInjected(kind=kind, where=node) if kind in ("wiped", LOST_DISK):
                self._votes.pop(node, None)
            case SimEvent(event=RoleChanged(term=term)) if is_of(self.group, seen):
                yield from self._look(seen.node, term)
            case SimEvent() if is_of(self.group, seen):
                yield from self._look(seen.node)
            case NodeLooked():
                yield from self._look(seen.node)

    def _look(self, node: str, acts_in: int = -1) -> Iterator[str]:
        vote = self.logs.vote(node)
        if vote is None:
            return
        term, voted_for = self._votes.get(node, (-1, ""))
        if vote.term < term:
            yield f"{node} is in term {vote.term} after {term}"
        elif vote.term == term and voted_for not in ("", vote.voted_for):
            yield f"{node} votes for {vote.voted_for or 'nobody'} and {voted_for} in {term}"
        elif vote.term < acts_in:
            yield f"{node} acts in term {acts_in}, and its disk says {vote.term}"
        self._votes[node] = vote.term, vote.voted_for


@attrs.define(kw_only=True)
class LeaderIsElected:
    """Who leads a term has the votes of a majority: by what the members' disks say. One that is in
    a later term by then may have voted, and so may one without a disk.
    """

    group: DLedgerGroup
    logs: LedgerBytes

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case SimEvent(event=RoleChanged(role="LEADER", term=term)) if is_of(self.group, seen):
                yield from self._count(seen.node, term)

    def _count(self, leader: str, term: int) -> Iterator[str]:
        voters = []
        for member in self.group.members:
            vote = self.logs.vote(member)
            if vote is None or vote.term > term or vote == TermVote(term, leader):
                voters.append(member)
        if len(voters) < self.group.quorum:
            yield f"{leader} leads term {term} by the votes of {', '.join(voters) or 'nobody'}"
