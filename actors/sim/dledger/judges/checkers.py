"""Invariants of a DLedger group, checked at every observation of a run; a test makes each of them
fail.

Events show what a member believes, and `LedgerBytes` what its disk really has. A check of
durability never relies on a member's word. Names and meanings: Ongaro, "Consensus", figure 3.2.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final

import attrs

from actors.config import DLedgerGroup
from actors.events import store
from actors.events.dledger import CommittedRose, LedgerTruncated, MembershipChanged, RoleChanged
from actors.sim.dledger.ledger_bytes import LedgerBytes, body_of, index_of, term_of
from actors.sim.history import (
    LOST,
    LOST_DISK,
    AppendAnswered,
    AppendAsked,
    FaultInjected,
    Invariant,
    NodeLooked,
    Observation,
    OffsetsSeen,
    RecordsRead,
    is_of,
)
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
    """By what its disk says, a member's term never falls, it votes once in a term, and it acts in
    no term later than the stored one.
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
    """The leader of a term has the votes of a majority, by what the members' disks say. A member
    that is in a later term by then may have voted, and so may one without a disk.
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


_POWER = ("power_loss", "power_loss_all", "power_loss_in_sync")
LOOKED_AT = ("kill", *_POWER, "lose_disk", "new_disk", "heal")
"""The faults after which every committed entry is counted again."""
WRITTEN_S: Final = 15.0
"""How long a follower may take to have an entry on its disk that it called committed: syncs take
some seconds at most."""


def ledger_invariants(chosen: Chosen) -> tuple[Invariant, ...]:
    """Make the invariants that hold for a DLedger group in every run, whatever is broken on
    purpose.
    """
    group, logs = chosen.group, chosen.logs
    return (
        ElectionSafety(group=group),
        VoteOnce(group=group, logs=logs),
        LeaderIsElected(group=group, logs=logs),
        CommittedIndexMonotonic(group=group),
        chosen,
        LeaderCompleteness(chosen=chosen),
        CommittedIsOnQuorum(chosen=chosen),
        CommittedByOwnTerm(group=group, logs=logs),
        CommittedNeverLost(chosen=chosen),
        LogMatching(group=group, logs=logs),
        AcknowledgedIsCommitted(chosen=chosen),
        ReadsOnlyCommitted(chosen=chosen),
    )


@attrs.define(kw_only=True)
class CommittedIndexMonotonic:
    """In one incarnation of a member the committed index rises. A handler that is started anew
    knows only what is stored, and may have known more before.
    """

    group: DLedgerGroup
    _known: dict[str, tuple[int, int]] = attrs.field(factory=dict, init=False)
    _incarnations: dict[str, tuple[int, int]] = attrs.field(factory=dict, init=False)  # by path

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case SimEvent(event=CommittedRose(index=index)) if is_of(self.group, seen):
                boot, before = self._known.get(seen.node, (seen.boot, -1))
                incarnation = seen.boot, seen.incarnation
                anew = self._incarnations.get(seen.path, (seen.boot, 1)) != incarnation
                if boot == seen.boot and index <= before and not anew:
                    yield f"{seen.node}#{seen.boot} says {index} is committed after {before}"
                self._known[seen.node] = seen.boot, index
                self._incarnations[seen.path] = incarnation


@attrs.frozen
class _Claim:
    """A claim of a follower that all entries up to `index` are committed."""

    index: int
    at_s: float
    boot: int


@attrs.define(kw_only=True)
class Chosen:
    """The committed entries: whatever any member calls committed is one log, and each index holds
    one entry for ever.

    A leader has what it calls committed. A follower may still have to write it, or to remove what
    differs, so its claim is judged when it has had time and room on its disk for that.

    Attributes:
        entries: the committed entries by index, from 0 on, as they lay where each was first called
            committed.
        terms: the term of the leader that first called each entry committed; terms never fall.
    """

    group: DLedgerGroup
    logs: LedgerBytes
    entries: list[bytes] = attrs.field(factory=list, init=False)
    terms: list[int] = attrs.field(factory=list, init=False)
    # the entries below this are compared
    _same: dict[str, int] = attrs.field(factory=dict, init=False)
    # the terms of members that lead
    _leads: dict[str, int] = attrs.field(factory=dict, init=False)
    _claims: dict[str, _Claim] = attrs.field(factory=dict, init=False)
    _full: set[str] = attrs.field(factory=set, init=False)  # the members that find no room

    def see(self, seen: Observation) -> Iterator[str]:
        if isinstance(seen, NodeLooked):
            yield from self._look(seen)
        if not isinstance(seen, SimEvent) or not is_of(self.group, seen):
            return
        match seen.event:
            case store.RecoveryFinished():
                self._same.pop(seen.node, None)
                self._claims.pop(seen.node, None)
                self._full.discard(seen.node)
            case store.DiskUsageChanged(is_full=True):
                self._full.add(seen.node)
            case store.DiskUsageChanged():
                self._full.discard(seen.node)
                if claim := self._claims.get(seen.node):
                    self._claims[seen.node] = attrs.evolve(claim, at_s=seen.at_s)
            case RoleChanged(role=role, term=term):
                self._leads.pop(seen.node, None)
                if role == "LEADER":
                    self._leads[seen.node] = term
                self._claims.pop(seen.node, None)
            case CommittedRose(index=index) if seen.node in self._leads:
                yield from self._learn(seen.node, index)
            case CommittedRose(index=index):
                if index >= self.end:
                    yield f"{seen.node} says that {index} is committed before any leader does"
                claim = _Claim(index, seen.at_s, seen.boot)
                self._claims.setdefault(seen.node, claim)

    @property
    def end(self) -> int:
        """The index after the last committed entry."""
        return len(self.entries)

    def _learn(self, node: str, index: int) -> Iterator[str]:
        for at in range(self._same.get(node, 0), index + 1):
            entry = self.logs.entry(node, at)
            if at < self.end:
                # An entry that has expired here was compared on another member.
                if entry and entry != self.entries[at]:
                    yield f"{node} says that {at} is committed, and it is another entry than before"
                    return
            elif entry:
                self.entries.append(entry)
                self.terms.append(self._leads[node])
            else:
                yield f"{node} says that {index} is committed, and does not have {at}"
                return
        self._same[node] = index + 1

    def _look(self, seen: NodeLooked) -> Iterator[str]:
        claim = self._claims.get(seen.node)
        if claim is None or claim.boot != seen.boot or seen.node in self._full:
            return
        if seen.at_s - claim.at_s < WRITTEN_S:
            return
        del self._claims[seen.node]
        for at in range(self._same.get(seen.node, 0), min(claim.index + 1, self.end)):
            if not self.logs.holds(seen.node, self.entries[at]):
                yield f"{seen.node} said that {at} is committed, and does not have that entry"
                return
        self._same[seen.node] = claim.index + 1


@attrs.define(kw_only=True)
class Holders:
    """Tracks how far each member holds the committed entries, by its disk.

    Attributes:
        chosen: the committed entries.
    """

    chosen: Chosen
    # the member holds all committed entries below
    _below: dict[str, int] = attrs.field(factory=dict, init=False)
    # members that have yet to get back what they held
    _lost: set[str] = attrs.field(factory=set, init=False)

    def learn(self, seen: Observation) -> None:
        """Forget what was known of a member whose log may have lost entries."""
        match seen:
            case SimEvent(event=store.RecoveryFinished() | LedgerTruncated()):
                self._below.pop(seen.node, None)
            case SimEvent(event=MembershipChanged(membership="full")):
                if is_of(self.chosen.group, seen):
                    self._lost.discard(seen.node)
            case FaultInjected(kind=kind, where=where) if kind not in ("felt", "start"):
                self._below.clear()
                self._lost |= {where} if kind in LOST else set()

    def held(self, node: str, end: int) -> bool:
        """Whether the member holds every committed entry below `end`."""
        at = self._below.get(node, 0)
        entries, holds = self.chosen.entries, self.chosen.logs.holds
        while at < end and holds(node, entries[at]):
            at += 1
        self._below[node] = at
        return at >= end

    def holding(self, end: int) -> list[str]:
        """Return the members that hold the committed entries below `end`, or held them: a member
        that lost its logs votes for no candidate until it holds them again.
        """
        members = self.chosen.group.members
        return [node for node in members if node in self._lost or self.held(node, end)]


@attrs.define(kw_only=True)
class LeaderCompleteness:
    """A leader has every entry that was committed in its term or before; its disk may be behind.

    Votes may take long. A member that is elected by late votes, in a term that the others have
    left, commits nothing any more, and need not have newer entries.
    """

    chosen: Chosen

    def see(self, seen: Observation) -> Iterator[str]:
        chosen = self.chosen
        match seen:
            case SimEvent(event=RoleChanged(role="LEADER", term=term)):
                if not is_of(chosen.group, seen):
                    return
                end = bisect.bisect_right(chosen.terms, term)
                for index, entry in enumerate(chosen.entries[:end]):
                    if chosen.logs.entry(seen.node, index) == entry:
                        continue
                    if not chosen.logs.holds(seen.node, entry):
                        yield f"{seen.node} leads term {term} without {index}, which is committed"
                        return


@attrs.define(kw_only=True)
class CommittedIsOnQuorum:
    """When a leader calls an entry committed, a majority has it and all entries before it."""

    chosen: Chosen
    _holders: Holders = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._holders = Holders(chosen=self.chosen)

    def see(self, seen: Observation) -> Iterator[str]:
        self._holders.learn(seen)
        match seen:
            case SimEvent(event=CommittedRose(index=index)) if is_of(self.chosen.group, seen):
                end = min(index + 1, self.chosen.end)
                holding = self._holders.holding(end)
                if len(holding) < self.chosen.group.quorum:
                    yield f"{index} is committed and lies on {', '.join(holding) or 'no disk'}"


@attrs.define(kw_only=True)
class CommittedByOwnTerm:
    """What a leader calls committed by counting copies ends with an entry of its own term: an older
    one may lie on a majority and be replaced all the same (Ongaro, figure 3.7).
    """

    group: DLedgerGroup
    logs: LedgerBytes
    _terms: dict[tuple[str, int, int], int] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        if not isinstance(seen, SimEvent) or not is_of(self.group, seen):
            return
        match seen.event:
            case RoleChanged(session=session, role="LEADER", term=term):
                self._terms[seen.node, seen.boot, session] = term
            case CommittedRose(session=session, index=index):
                term = self._terms.get((seen.node, seen.boot, session), -1)
                entry = self.logs.entry(seen.node, index)
                if term >= 0 and entry and term_of(entry) != term:
                    own = term_of(entry)
                    yield f"{seen.node} leads term {term} and commits {index}, of term {own}"


@attrs.define(kw_only=True)
class CommittedNeverLost:
    """At every moment a majority has each committed entry, so any elected leader has it. This is
    checked when a log was truncated or opened, and when a fault has taken something from members.
    """

    chosen: Chosen
    _holders: Holders = attrs.field(init=False)
    _reported: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._holders = Holders(chosen=self.chosen)

    def see(self, seen: Observation) -> Iterator[str]:
        self._holders.learn(seen)
        match seen:
            case SimEvent(event=store.RecoveryFinished() | LedgerTruncated()):
                if is_of(self.chosen.group, seen):
                    yield from self._count()
            case FaultInjected(kind=kind) if kind in LOOKED_AT:
                yield from self._count()

    def _count(self) -> Iterator[str]:
        if self._reported or self.chosen.group.store == "memory":
            return  # a memory group's log ends with its processes
        end = self.chosen.end
        holding = self._holders.holding(end)
        if len(holding) < self.chosen.group.quorum:
            self._reported = True
            yield f"all below {end} is committed, and lies on {', '.join(holding) or 'no disk'}"


@attrs.define(kw_only=True)
class LogMatching:
    """Entries of the same index and term are the same, and so are the entries before them. For a
    log that was begun anew, the entry before its first one is unknown.
    """

    group: DLedgerGroup
    logs: LedgerBytes
    _made: dict[tuple[int, int], tuple[bytes, int | None]] = attrs.field(factory=dict, init=False)
    _read: dict[str, tuple[int, list[bytes]]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        match seen:
            case SimEvent(event=CommittedRose() | RoleChanged() | LedgerTruncated()):
                if is_of(self.group, seen):  # entries that are about to be cut are still there
                    yield from self._look(seen.node)
            case NodeLooked():
                yield from self._look(seen.node)

    def _look(self, node: str) -> Iterator[str]:
        first, read = self._read.get(node, (0, []))
        entry_of = self.logs.entry
        while read and entry_of(node, first + len(read) - 1) != read[-1]:
            read.pop()  # it was cut
        if not read:
            first = max(self.logs.first(node), 0)
        while entry := entry_of(node, first + len(read)):
            yield from self._judge(node, entry, read)
            read.append(entry)
        self._read[node] = first, read

    def _judge(self, node: str, entry: bytes, behind: list[bytes]) -> Iterator[str]:
        index, term = index_of(entry), term_of(entry)
        before = term_of(behind[-1]) if behind else None if index else -1
        made, made_before = self._made.get((index, term), (entry, before))
        if made != entry:
            yield f"{node} has another entry of index {index} and term {term}"
        elif before is not None and made_before not in (before, None):
            yield f"{node} has term {before} before index {index} of term {term}"
        self._made[index, term] = made, before if made_before is None else made_before


@attrs.define(kw_only=True)
class AcknowledgedIsCommitted:
    """An answered append is committed: its bodies, in their order, at the answered indexes."""

    chosen: Chosen
    _asked: dict[int, tuple[bytes, ...]] = attrs.field(factory=dict, init=False)

    def see(self, seen: Observation) -> Iterator[str]:
        name = self.chosen.group.name
        match seen:
            case AppendAsked(operation=operation, bodies=bodies, group=group) if group == name:
                self._asked[operation] = bodies
            case AppendAnswered(operation=operation, receipt=receipt) if operation in self._asked:
                assert receipt is not None
                found = self.chosen.entries[receipt.first : receipt.next]
                if tuple(map(body_of, found)) != self._asked[operation]:
                    yield (
                        f"{seen.client} was answered {receipt.first} to {receipt.last}, which is"
                        f" not what is committed there (below {self.chosen.end})"
                    )


@attrs.define(kw_only=True)
class ReadsOnlyCommitted:
    """No member shows an entry, or an end, that is not committed."""

    chosen: Chosen

    def see(self, seen: Observation) -> Iterator[str]:
        name, chosen = self.chosen.group.name, self.chosen
        match seen:
            case OffsetsSeen(offsets=offsets, group=group) if group == name:
                if offsets.acknowledged > chosen.end:
                    yield f"{seen.node} shows up to {offsets.acknowledged}, of {chosen.end}"
            case RecordsRead(batch=batch, group=group) if group == name:
                if batch.acknowledged > chosen.end or batch.next > max(chosen.end, seen.start):
                    yield f"{seen.node} shows up to {batch.acknowledged}, of {chosen.end}"
                    return
                for record in batch.records:
                    if body_of(chosen.entries[record.position]) != record.body:
                        yield f"{seen.node} shows another entry at {record.position}"
