"""Which entries a leader may commit, and which appends it answers.

Source: openmessaging/dledger, DLedgerEntryPusher.java (QuorumAckChecker, waitAck), 0.3.1.2;
dledger.md 8; Raft sections 5.3 and 5.4.2; etcd-io/raft quorum/majority.go for the idea
of the sorted indexes.

Inputs: `lead`, `rest`, `stored`, `matched`, `waiting`, `applied`, `tick`. Each gives QuorumEffects.

Differs from upstream:
- An entry is committed by counting only from the first entry of the leader's session on
  (bug B1, Figure 8); `count_older` (`compat`, or `term_entry = "none"`) is upstream's rule.
- All appends that wait are answered when the leadership ends (bug V11), and at their deadlines, and
  are not counted against `waiting_max` any more. With `CompatSettings.deposed_waits` they wait for
  the next leadership of this member, and one that timed out is counted until it is committed.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, Protocol, TypeVar

import attrs

from actors.dledger.core.member_state import INDEX_NONE
from actors.dledger.core.settings import STRICT, AckSettings, CompatSettings
from actors.events import dledger as events


class Wait(Protocol):
    """An append that waits for its entries to be committed."""

    @property
    def last(self) -> int:
        """The index of its last entry."""

    @property
    def deadline_s(self) -> float: ...

    @property
    def appends(self) -> int:
        """The number of requests that this append was made of."""


W = TypeVar("W", bound=Wait)


@attrs.frozen(kw_only=True)
class QuorumEffects(Generic[W]):
    """What the actor has to do after one input.

    Attributes:
        committed: the committed index, if it rose; else None.
        done: appends that are committed, or applied where there is a state machine, in index order.
        timed_out: appends whose deadline passed, in deadline order.
        lost: appends whose outcome is unknown, because the leadership ended.
        events: the events to emit.
        deadline_s: when to call `tick`; None if that is not needed.
    """

    committed: int | None = None
    done: tuple[W, ...] = ()
    timed_out: tuple[W, ...] = ()
    lost: tuple[W, ...] = ()
    events: tuple[object, ...] = ()
    deadline_s: float | None = None


def quorum_index(indexes: tuple[int, ...]) -> int:
    """Return the highest index that a majority of the members has reached."""
    return sorted(indexes, reverse=True)[len(indexes) // 2]


@attrs.define(kw_only=True)
class Quorum(Generic[W]):
    """See the module's text.

    Attributes:
        compat: upstream's looser rules.
        count_older: whether entries of older terms are committed by counting.
        by_applied: whether appends are answered when they are applied, not when they are committed.
        committed: the committed index as far as known; it is kept from session to session.
    """

    self_id: str
    peers: tuple[str, ...]
    settings: AckSettings
    compat: CompatSettings = STRICT
    count_older: bool = attrs.field(
        default=attrs.Factory(lambda quorum: quorum.compat.count_older, takes_self=True)
    )
    by_applied: bool = False
    committed: int = INDEX_NONE
    leading: bool = attrs.field(default=False, init=False)
    _session: int = attrs.field(default=0, init=False)
    _first: int = attrs.field(default=0, init=False)  # the first to commit by counting
    _led_from: int = attrs.field(default=INDEX_NONE, init=False)  # the log's end when it began
    _indexes: dict[str, int] = attrs.field(factory=dict, init=False)
    _applied: int = attrs.field(default=INDEX_NONE, init=False)
    _open: dict[int, W] = attrs.field(factory=dict, init=False)  # by number
    _open_appends: int = attrs.field(default=0, init=False)
    _queue: deque[tuple[int, W]] = attrs.field(factory=deque, init=False)  # in index order
    _deadlines: list[tuple[float, int]] = attrs.field(factory=list, init=False)  # a heap
    _number: int = attrs.field(default=0, init=False)
    _late: set[int] = attrs.field(factory=set, init=False)  # timed out, and counted

    @property
    def open_count(self) -> int:
        """The number of appends that wait, or are counted as if they did."""
        return self._open_appends + len(self._late)

    @property
    def room(self) -> int:
        """The number of further appends that may wait; none at 0 or below (LEADER_PENDING_FULL)."""
        return self.settings.waiting_max + 1 - self.open_count

    def copies(self, index: int) -> int:
        """Return how many members are known to hold all entries up to `index`."""
        return sum(held >= index for held in self._indexes.values())

    @property
    def waits_for_own(self) -> bool:
        """Whether storing more of the own log may commit entries: enough peers are ahead."""
        if not self.leading:
            return False
        needed = len(self._indexes) // 2
        for peer in self.peers:
            needed -= self._indexes[peer] > self.committed
        return needed <= 0

    @property
    def watermarks(self) -> dict[str, int]:
        """The highest index that each peer has acknowledged in this session."""
        return {peer: self._indexes.get(peer, INDEX_NONE) for peer in self.peers}

    @property
    def read_index(self) -> int | None:
        """The index at or below which all acknowledged entries are; None while it is not known.

        What older leaders acknowledged is below this leader's first entry or, where older entries
        are counted, in the log with which it began to lead.
        """
        known = self.committed >= (self._led_from if self.count_older else self._first)
        return self.committed if self.leading and known else None

    # ---- inputs ----

    def lead(self, *, session: int, term: int, end: int, end_term: int) -> QuorumEffects[W]:
        """Begin a session: this member leads, and its whole log, which ends at `end`, is stored."""
        lost = self._drop_all()  # appends of an earlier leadership, with `deposed_waits`
        self.leading, self._session = True, session
        self._indexes = {self.self_id: end, **dict.fromkeys(self.peers, INDEX_NONE)}
        self._first, self._led_from = end if end_term == term else end + 1, end
        return attrs.evolve(self._settle(), lost=lost)

    def rest(self) -> QuorumEffects[W]:
        """End the session: this member does not lead any more."""
        self.leading = False
        if self.compat.deposed_waits:
            return QuorumEffects()
        return QuorumEffects(lost=self._drop_all())

    def stored(self, session: int, end: int) -> QuorumEffects[W]:
        """Note up to which entry the leader's own log is stored; in a synced group, is synced."""
        return self._reached(session, self.self_id, end)

    def matched(self, session: int, peer: str, index: int) -> QuorumEffects[W]:
        """Note that a peer holds the log up to `index` and no further.

        The index may be lower than before, because the peer has lost entries.
        """
        assert peer in self.peers
        return self._reached(session, peer, index)

    def waiting(self, *waits: W) -> QuorumEffects[W]:
        """Add appends, whose entries follow those of all earlier ones in the store."""
        assert self.leading
        last = self._queue[-1][1].last if self._queue else INDEX_NONE
        for wait in waits:
            assert wait.last >= last
            last = wait.last
            self._number += 1
            self._open[self._number] = wait
            self._open_appends += wait.appends
            self._queue.append((self._number, wait))
            heapq.heappush(self._deadlines, (wait.deadline_s, self._number))
        return self._settle()

    def applied(self, index: int) -> QuorumEffects[W]:
        """Note that the state machine has applied all up to `index`."""
        self._applied = max(self._applied, index)
        return self._settle()

    def followed(self, index: int) -> None:
        """Note a committed index that this member learned as a follower."""
        self.committed = max(self.committed, index)

    def tick(self, now_s: float) -> QuorumEffects[W]:
        """Answer the committed appends, and time out those whose deadline has passed."""
        if not self.leading:
            return QuorumEffects()
        timed_out = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, number = heapq.heappop(self._deadlines)
            wait = self._open.pop(number, None)
            if wait is not None:
                self._open_appends -= wait.appends
                timed_out.append(wait)
                if self.compat.deposed_waits:
                    self._late.add(number)
        return attrs.evolve(self._settle(), timed_out=tuple(timed_out))

    # ---- rules ----

    def _drop_all(self) -> tuple[W, ...]:
        """Remove and return all appends that wait, in index order."""
        lost = tuple(wait for number, wait in self._queue if number in self._open)
        self._open.clear()
        self._open_appends = 0
        self._late.clear()
        self._queue.clear()
        self._deadlines.clear()
        return lost

    def _reached(self, session: int, member: str, index: int) -> QuorumEffects[W]:
        if self.leading and session == self._session:
            self._indexes[member] = index
        return self._settle()

    def _commit(self) -> int | None:
        if not self.leading:
            return None
        index = quorum_index(tuple(self._indexes.values()))
        if index <= self.committed or (index < self._first and not self.count_older):
            return None
        self.committed = index
        return index

    def _is_gone(self, number: int) -> bool:
        return number not in self._open and number not in self._late

    def _settle(self) -> QuorumEffects[W]:
        if not self.leading:
            return QuorumEffects()  # no append waits, or no peer has answered
        committed = self._commit()
        held = min(self.committed, self._applied) if self.by_applied else self.committed
        done = []
        while self._queue and (self._queue[0][1].last <= held or self._is_gone(self._queue[0][0])):
            number, wait = self._queue.popleft()
            self._late.discard(number)
            if self._open.pop(number, None) is not None:
                self._open_appends -= wait.appends
                done.append(wait)
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heapq.heappop(self._deadlines)
        said: tuple[object, ...] = ()
        if committed is not None:
            holders = tuple(name for name, held in self._indexes.items() if held >= committed)
            said = (events.CommittedRose(session=self._session, index=committed, holders=holders),)
        return QuorumEffects(
            committed=committed,
            done=tuple(done),
            events=said,
            deadline_s=self._deadlines[0][0] if self._deadlines else None,
        )
