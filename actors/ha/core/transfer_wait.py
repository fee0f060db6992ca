"""Which appends are replicated far enough, and what readers may see.

Source: apache/rocketmq store/ha/GroupTransferService.java (4.9.8, 5.3.3); specification section 3
and traps T7, T11, T12.

Differs from upstream:
- Copies are counted by node, not by socket, from the newest live connection of each, and fall when
  a slave leaves. An older connection that outlives a newer one has to prove itself (`joined`).
- One ordered map of waits instead of a serial loop: one dead slave delays nobody else's answer.
- The offset is tested before the deadline: what is held is acknowledged, however late it is looked
  at.
- Only a slave that holds the master's whole range counts, unless `whole_range` is off (`compat`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import attrs

from actors.ha.core.extent import LogExtent

_STALE_DEADLINES_MAX = 1024
"""Deadlines of answered waits that may stay in the heap before it is rebuilt."""


class Wait(Protocol):
    """What the core needs to know of a pending append."""

    @property
    def next_bytes(self) -> int:
        """End of its last record: the offset that must be held."""

    @property
    def deadline_s(self) -> float: ...


W = TypeVar("W", bound=Wait)


@attrs.frozen(kw_only=True)
class Effects(Generic[W]):
    """What one look at the state asks for.

    Attributes:
        done: waits that have their copies, in offset order, each with the number of nodes that hold
            it.
        timed_out: waits whose deadline passed without, in deadline order.
        acknowledged_bytes: the new read limit if it rose.
        deadline_s: when to look again; None while nothing waits.
    """

    done: tuple[tuple[W, int], ...]
    timed_out: tuple[W, ...]
    acknowledged_bytes: int | None
    deadline_s: float | None


@attrs.define
class _Connection:
    """One live connection of a slave.

    Attributes:
        proven: its reports are no older than the end of every newer connection.
        offset_bytes: None: no report that counts.
    """

    holds_from_bytes: int
    proven: bool
    offset_bytes: int | None = None


@attrs.define
class _Slave:
    """One node's connections, of which the newest live one is heard.

    Attributes:
        newest: the highest number that ever joined.
        live: joined and not gone, by number; as many as the master accepts at most.
        proof_bytes: a report above this proves an older connection.
    """

    newest: int = -1
    live: dict[int, _Connection] = attrs.field(factory=dict)
    proof_bytes: int = 0

    @property
    def heard(self) -> int | None:
        return max(self.live, default=None)

    @property
    def counted(self) -> _Connection | None:
        """The connection whose offset counts, if one does."""
        return self.live[max(self.live)] if self.live else None


@attrs.define(kw_only=True)
class TransferWait(Generic[W]):
    """Pending appends of one group on its master. Inputs change the state; `settle` says what
    follows.

    Attributes:
        copies: nodes that must hold a record, the master included.
        synced: the master's own copy counts only once it is synced.
        counted: names of the slaves whose reports count. In a `synced` group Java slaves are left
            out by the
            caller: they report bytes that they have not synced.
        whole_range: a slave counts only if it holds everything that the master holds.
    """

    copies: int
    synced: bool
    counted: tuple[str, ...]
    whole_range: bool = True
    _slaves: dict[str, _Slave] = attrs.field(factory=dict, init=False)
    _extent: LogExtent = attrs.field(default=LogExtent(0, 0, 0), init=False)
    _acknowledged_bytes: int = attrs.field(default=0, init=False)
    _pending: deque[tuple[int, W]] = attrs.field(factory=deque, init=False)
    _open: dict[int, W] = attrs.field(factory=dict, init=False)  # by number, those not answered
    _deadlines: list[tuple[float, int]] = attrs.field(factory=list, init=False)
    _number: int = attrs.field(default=0, init=False)
    _next_bytes_max: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        assert self.copies >= 1
        assert len(set(self.counted)) == len(self.counted)  # CopiesAreDistinctNodes

    @property
    def acknowledged_bytes(self) -> int:
        """Highest offset that `copies` nodes ever held together: readers see up to here. Never
        falls.
        """
        return self._acknowledged_bytes

    @property
    def waiting_count(self) -> int:
        return len(self._open)

    def wait(self, waits: Iterable[W]) -> None:
        """Records were written; the answers are due when they are held."""
        for wait in waits:
            assert wait.next_bytes >= self._next_bytes_max  # WaitsInOffsetOrder
            self._next_bytes_max = wait.next_bytes
            self._number += 1
            self._pending.append((self._number, wait))
            self._open[self._number] = wait
            heapq.heappush(self._deadlines, (wait.deadline_s, self._number))

    def grew(self, extent: LogExtent) -> None:
        """The master's own log."""
        self._extent = extent

    def joined(self, slave: str, connection: int, holds_from_bytes: int) -> None:
        """A connection of the slave gave its first report. The newest live one is heard (T12).

        An older one than the newest that ever joined has to prove itself: its reports may have
        been under way since before the newer one, and the slave may have lost records since. So
        it counts from its first report on that names bytes which the master wrote after that.
        """
        known = self._slaves.setdefault(slave, _Slave())
        newest = connection > known.newest
        if newest:
            known.newest = connection
        elif known.heard is None or connection > known.heard:
            self._ask_for_proof(known)
        known.live.setdefault(connection, _Connection(holds_from_bytes, proven=newest))

    def acked(self, slave: str, connection: int, offset_bytes: int) -> None:
        """The slave holds everything below `offset_bytes`. Other connections than its newest live
        one are not heard.
        """
        known = self._slaves.get(slave)
        if known is None or known.heard != connection:
            return
        heard = known.live[connection]
        heard.proven = heard.proven or offset_bytes > known.proof_bytes
        if heard.proven:
            heard.offset_bytes = offset_bytes

    def gone(self, slave: str, connection: int) -> None:
        """The connection ended: what it acknowledged does not count any more (T7)."""
        known = self._slaves.get(slave)
        if known is None:
            return
        was_heard = known.heard == connection
        known.live.pop(connection, None)  # nothing late from it counts without a proof
        if was_heard:
            self._ask_for_proof(known)

    def _ask_for_proof(self, slave: _Slave) -> None:
        """What an older connection said before it became the newest live one counts for nothing."""
        for connection in slave.live.values():
            connection.proven = False
            connection.offset_bytes = None
        slave.proof_bytes = max(self._extent.written_bytes, self._next_bytes_max)

    def held_bytes(self) -> int:
        """The offset that `copies` nodes hold now. Falls when a slave leaves."""
        own_bytes = self._extent.durable_bytes(synced=self.synced)
        others = self._counted_offsets()
        if self.copies == 1:
            return own_bytes
        if len(others) < self.copies - 1:
            return 0
        return min(own_bytes, others[self.copies - 2])

    def settle(self, now_s: float) -> Effects[W]:
        """Answer what can be answered: first by offset, then by deadline."""
        held_bytes = self.held_bytes()
        done = self._take_done(held_bytes)
        timed_out = self._take_timed_out(now_s)
        rose = held_bytes > self._acknowledged_bytes
        if rose:
            self._acknowledged_bytes = held_bytes  # AcknowledgedMonotonic
        return Effects(
            done=done,
            timed_out=timed_out,
            acknowledged_bytes=held_bytes if rose else None,
            deadline_s=self._deadlines[0][0] if self._deadlines else None,
        )

    def close(self) -> tuple[W, ...]:
        """Give up: what still waits, in offset order. The caller answers each."""
        left = tuple(self._open.values())
        self._open.clear()
        self._pending.clear()
        self._deadlines.clear()
        return left

    def _take_done(self, held_bytes: int) -> tuple[tuple[W, int], ...]:
        offsets = self._counted_offsets()
        done: list[tuple[W, int]] = []
        while self._pending and self._pending[0][1].next_bytes <= held_bytes:
            number, wait = self._pending.popleft()
            if self._open.pop(number, None) is not None:
                done.append((wait, 1 + sum(offset >= wait.next_bytes for offset in offsets)))
        return tuple(done)

    def _take_timed_out(self, now_s: float) -> tuple[W, ...]:
        timed_out: list[W] = []
        while self._deadlines and (
            self._deadlines[0][1] not in self._open or self._deadlines[0][0] <= now_s
        ):
            _, number = heapq.heappop(self._deadlines)
            wait = self._open.pop(number, None)
            if wait is not None:
                timed_out.append(wait)
        while self._pending and self._pending[0][0] not in self._open:
            self._pending.popleft()  # else a dead slave would let answered waits pile up
        if len(self._deadlines) > 2 * len(self._open) + _STALE_DEADLINES_MAX:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._open]
            heapq.heapify(self._deadlines)
        return tuple(timed_out)

    def _counted_offsets(self) -> list[int]:
        """Offsets of the slaves that count, highest first."""
        offsets = [
            heard.offset_bytes
            for slave, known in self._slaves.items()
            if slave in self.counted
            and (heard := known.counted) is not None
            and heard.offset_bytes is not None
            and (not self.whole_range or heard.holds_from_bytes <= self._extent.min_bytes)
        ]
        return sorted(offsets, reverse=True)
