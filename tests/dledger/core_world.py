"""A group of members made of the pure classes alone: no Trio, no bytes, no disk but a list.

Everything happens in one heap of events, drawn from a seed: messages are late, lost or come twice,
members stop and start again with what was synced. What must hold is asserted as it happens.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

import attrs
from core_disk import Append, Disk
from core_member import Member

from actors.dledger.core.election_effects import RoleChanged, TransferAnswer
from actors.dledger.core.member_state import Role
from actors.dledger.core.push_effects import Push
from actors.dledger.core.settings import (
    STRICT,
    CompatSettings,
    ElectionSettings,
    PushSettings,
)
from wire.dledger.codes import ResponseCode
from wire.dledger.entry import Entry

Step = Callable[[], None]


@attrs.frozen(kw_only=True)
class Faults:
    """What the network and the members do; chances are per message.

    Attributes:
        change_max_s: a follower's store removes entries so much later at most.
    """

    lost: float = 0.05
    twice: float = 0.02
    delay_max_s: float = 0.05
    sync_max_s: float = 0.02
    change_max_s: float = 0.0


@attrs.define(eq=False)
class World:
    """See the module's text.

    Attributes:
        raft_votes: the members with `ElectionSettings.raft_votes`.
        foreign: the members that speak another dialect (`core_dialect`), a minority.
        broken: what did not hold is written down here; None: it is raised.
        steps: events so far.
    """

    seed: int
    size: int = 3
    faults: Faults = Faults()
    election: ElectionSettings = attrs.field(factory=ElectionSettings)
    push: PushSettings = attrs.field(factory=PushSettings)
    compat: CompatSettings = STRICT
    raft_votes: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    broken: list[str] | None = None
    now_s: float = 0.0
    steps: int = attrs.field(default=0, init=False)
    rng: Random = attrs.field(init=False)
    names: tuple[str, ...] = attrs.field(init=False)
    members: dict[str, Member] = attrs.field(factory=dict, init=False)
    cut: set[tuple[str, str]] = attrs.field(factory=set, init=False)
    leaders: dict[int, str] = attrs.field(factory=dict, init=False)
    chosen: list[Entry] = attrs.field(factory=list, init=False)  # all that is committed anywhere
    outcomes: dict[str, str] = attrs.field(factory=dict, init=False)
    entries: dict[tuple[int, int], tuple[Entry, int]] = attrs.field(factory=dict, init=False)
    tokens: dict[int, tuple[str, int, Push]] = attrs.field(factory=dict, init=False)
    takers: dict[int, tuple[str, int]] = attrs.field(factory=dict, init=False)
    transfers: dict[int, ResponseCode] = attrs.field(factory=dict, init=False)
    counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _heap: list[tuple[float, int, Step]] = attrs.field(factory=list, init=False)
    _order: itertools.count[int] = attrs.field(factory=itertools.count, init=False)
    _token: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def __attrs_post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.names = tuple(f"n{i}" for i in range(self.size))
        for name in self.names:
            self.members[name] = Member(self, name, Disk())

    def at(self, time_s: float, step: Step) -> None:
        heapq.heappush(self._heap, (time_s, next(self._order), step))

    def run(self, until_s: float) -> None:
        while self._heap and self._heap[0][0] <= until_s:
            time_s, _, step = heapq.heappop(self._heap)
            self.now_s = max(self.now_s, time_s)
            self.steps += 1
            step()
        self.now_s = until_s

    # ---- network ----

    def open(self, source: str, target: str) -> bool:
        return (source, target) not in self.cut

    def copies_of_a_message(self, source: str, target: str) -> int:
        if not self.open(source, target) or self.rng.random() < self.faults.lost:
            return 0
        return 2 if self.rng.random() < self.faults.twice else 1

    def removal_delay_s(self) -> float:
        """How long a follower's store holds a removal, and all behind it."""
        if not self.faults.change_max_s:
            return 0.0
        self.count("removals held")
        return self.rng.uniform(0.0, self.faults.change_max_s)

    # ---- tokens ----

    def push_token(self, leader: str, session: int, push: Push) -> int:
        token = next(self._token)
        self.tokens[token] = (leader, session, push)
        return token

    def take_over_token(self, leader: str, number: int) -> int:
        token = next(self._token)
        self.takers[token] = (leader, number)
        return token

    def transfer_answered(self, member: str, answer: TransferAnswer) -> None:
        token, code = answer.token, answer.code
        taker = self.takers.pop(token, None)
        if taker is None:
            self.transfers[token] = code
            self.count(f"transfer {code.name}")
            return
        leader, number = taker
        self.members[member].send(
            leader,
            lambda here: here.role_effects(
                here.election.transfer_answered(self.now_s, number, code, answer.term)
            ),
        )

    # ---- what must hold ----

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def promise(self, holds: bool, what: str) -> None:
        """Raises: AssertionError, unless `broken` takes it down."""
        if holds:
            return
        if self.broken is None:
            raise AssertionError(what)
        self.broken.append(what)

    def saw_role(self, name: str, role: RoleChanged) -> None:
        self.count(role.role.name)
        if role.role is Role.LEADER:
            first = self.leaders.setdefault(role.term, name)
            self.promise(first == name, f"ElectionSafety: {first} and {name} lead {role.term}")
            disk = self.members[name].disk
            known, chosen = disk.log[disk.begin :], self.chosen[disk.begin :]
            holds = known[: len(chosen)] == chosen
            self.promise(holds, f"LeaderCompleteness: {name} in {role.term}")

    def made(self, leader: Member, entry: Entry) -> None:
        """A leader appends it. One that forgot that it had led the term may be elected in it once
        more, by all; then nobody has what it made before, or they would not.
        """
        key = entry.index, entry.term
        again = leader.disk.forgot and not any(m.disk.has(*key) for m in self.members.values())
        self.promise(again or key not in self.entries, f"LogMatching: two entries {key}")
        log = leader.disk.log
        self.entries[key] = entry, log[-1].term if log else -1

    def took(self, member: Member, entry: Entry) -> None:
        """A follower writes it: what is before it is what was before it where it was made."""
        made, before_term = self.entries[entry.index, entry.term]
        self.promise(made == entry, "LogMatching: another entry of the same index and term")
        if entry.index > member.disk.begin:
            before = member.disk.log[entry.index - 1]
            self.promise(before.term == before_term, f"LogMatching: before {entry.index}")

    def committed(self, member: Member, index: int) -> None:
        disk, old = member.disk, member.committed
        assert index < len(disk.log), "committed beyond the end"
        assert index > old, "CommittedIndexMonotonic"
        first = max(old + 1, disk.begin)
        known, chosen = disk.log[first : index + 1], self.chosen[first : index + 1]
        holds = known[: len(chosen)] == chosen
        self.promise(holds, f"StateMachineSafety: {member.name} at {index}")
        member.committed = index
        self.chosen.extend(disk.log[len(self.chosen) : index + 1])
        if member.election.state.role is Role.LEADER:
            self.count("commits")
            entry = disk.log[index]
            held = sum(
                m.disk.begin <= index < m.disk.synced and m.disk.log[index] == entry
                for m in self.members.values()
                if not m.disk.lost
            )
            held += sum(m.disk.lost for m in self.members.values())  # they may have had it
            self.promise(held > self.size // 2, f"CommittedIsOnQuorum: {index} on {held}")

    def answered(self, wait: Append, outcome: str) -> None:
        assert wait.name not in self.outcomes, "answered twice"
        self.outcomes[wait.name] = outcome
        self.count(outcome)
        if outcome == "done":
            body = self.chosen[wait.last].body
            self.promise(body.startswith(f"{wait.name}.".encode()), "done and not committed")

    # ---- what a test says ----

    @property
    def leader(self) -> Member | None:
        leading = [
            m for m in self.members.values() if m.up and m.election.state.role is Role.LEADER
        ]
        return max(leading, key=lambda m: m.election.state.term, default=None)

    def may_lose(self, member: Member) -> bool:
        """Whether fewer than a quorum lack what they have vouched for, when that one does. Who
        never held anything is none of them.
        """
        lacking = {each.name for each in self.members.values() if each.disk.lost}
        return len(lacking | {member.name}) <= (self.size - 1) // 2

    def start_all(self) -> None:
        for member in self.members.values():
            member.start()

    def heal(self) -> None:
        self.cut.clear()
        self.faults = Faults(lost=0.0, twice=0.0)
        for member in self.members.values():
            if not member.up:
                member.start()
