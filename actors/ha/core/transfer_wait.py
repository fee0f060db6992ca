"""Decides which appends are replicated far enough, and what readers may see.

Source: apache/rocketmq store/ha/GroupTransferService.java (4.9.8, 5.3.3);
classic-ha.md 3 and T7, T11, T12.

Differs from upstream:
- Copies are counted by node, not by socket, by the newest open connection of each, and fall when a
  slave disconnects. An older connection that outlives a newer one has to prove itself (`joined`).
- There is one ordered map of waits instead of a serial loop: one dead slave does not delay the
  answers to other appends.
- The offset is tested before the deadline: what is held is acknowledged, however late it is tested.
- Only a slave that holds the master's whole range counts, unless `whole_range` is off (`compat`).
- With `upstream` (`compat`) each connection is a copy, the deadline comes before the offset, and a
  policy that upstream judges by push2SlaveMaxOffset does not forget the furthest report.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import attrs

from actors.ha.core.ack_policy import AckPolicy, Copies, Replica
from actors.ha.core.extent import LogExtent

_STALE_DEADLINES_MAX = 1024
"""How many deadlines of answered waits may stay in the heap before it is rebuilt."""


class Wait(Protocol):
    """A pending append, as this core sees it."""

    @property
    def next_bytes(self) -> int:
        """The end of its last record: the offset that must be held."""

    @property
    def deadline_s(self) -> float: ...


W = TypeVar("W", bound=Wait)


@attrs.frozen(kw_only=True)
class Effects(Generic[W]):
    """What one look at the state asks for.

    Attributes:
        done: appends that have their copies, in offset order, each with the number of nodes that
            hold it.
        timed_out: appends whose deadline passed without them, in deadline order.
        unavailable: appends that the policy does not let wait, each with the reason.
        acknowledged_bytes: the new read limit, if it rose.
        deadline_s: when to look again; None while no append waits.
    """

    done: tuple[tuple[W, int], ...]
    timed_out: tuple[W, ...]
    unavailable: tuple[tuple[W, str], ...] = ()
    acknowledged_bytes: int | None
    deadline_s: float | None


@attrs.define
class _Connection:
    """One open connection of a slave.

    Attributes:
        proven: whether its reports are no older than the end of every newer connection.
        held: its newest report; None if there is none that counts.
    """

    holds_from_bytes: int
    proven: bool
    held: Replica | None = None


@attrs.define
class _Slave:
    """One node's connections, of which the reports of the newest open one count.

    Attributes:
        newest: the highest number of a connection that ever joined.
        live: the open connections, by number; as many as the master accepts at most.
        proof_bytes: a report above this proves an older connection.
    """

    newest: int = -1
    live: dict[int, _Connection] = attrs.field(factory=dict)
    proof_bytes: int = 0

    @property
    def heard(self) -> int | None:
        return max(self.live, default=None)

    @property
    def counted(self) -> tuple[_Connection, ...]:
        """The connection whose reports count, if one does."""
        return (self.live[max(self.live)],) if self.live else ()


@attrs.define(kw_only=True)
class TransferWait(Generic[W]):
    """The pending appends of one group on its master. Inputs change the state, and `settle` returns
    what follows from it.

    Attributes:
        copies: how many nodes must hold a record, the master included; with another `policy`, how
            many at least.
        synced: whether the master's own copy counts only once it is synced.
        counted: names of the slaves whose reports count. In a `synced` group Java slaves are left
            out by the caller: they report bytes that they have not synced. None: all that join.
        whole_range: whether a slave counts only if it holds everything that the master holds.
        upstream: whether to judge as upstream (`compat`), see above.
        policy: what an append needs; `Copies` with `copies` if not given.
    """

    copies: int
    synced: bool
    counted: tuple[str, ...] | None
    whole_range: bool = True
    upstream: bool = False
    policy: AckPolicy = attrs.field(
        default=attrs.Factory(lambda self: Copies(self.copies), takes_self=True)
    )
    _slaves: dict[str, _Slave] = attrs.field(factory=dict, init=False)
    _extent: LogExtent = attrs.field(default=LogExtent(0, 0, 0), init=False)
    _acknowledged_bytes: int = attrs.field(default=0, init=False)
    _pending: dict[int, deque[tuple[int, W]]] = attrs.field(factory=dict, init=False)  # by need
    _unavailable: list[tuple[W, str]] = attrs.field(factory=list, init=False)
    _furthest: Replica = attrs.field(default=Replica("", 0, 0.0), init=False)
    _replicas: list[Replica] | None = attrs.field(default=None, init=False)  # until a slave reports
    _open: dict[int, W] = attrs.field(factory=dict, init=False)  # unanswered, by number
    _deadlines: list[tuple[float, int]] = attrs.field(factory=list, init=False)
    _number: int = attrs.field(default=0, init=False)
    _next_bytes_max: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        assert self.copies >= 1
        counted = self.counted or ()
        assert len(set(counted)) == len(counted)  # CopiesAreDistinctNodes

    @property
    def acknowledged_bytes(self) -> int:
        """The offset up to which readers see: the highest that as many nodes as an append needed
        ever held together, and never below an append that was answered as done.

        It never falls.
        """
        return self._acknowledged_bytes

    @property
    def waiting_count(self) -> int:
        return len(self._open)

    def wait(self, waits: Iterable[W]) -> None:
        """Add appends whose records were written; each is answered when its copies are held."""
        replicas = self._counted_replicas()
        connected = sum(len(known.live) for known in self._slaves.values())
        end_bytes = max(self._next_bytes_max, self._extent.written_bytes)
        pending = self._pending.setdefault(self.policy.need(end_bytes, replicas), deque())
        for wait in waits:
            assert wait.next_bytes >= self._next_bytes_max  # WaitsInOffsetOrder
            self._next_bytes_max = wait.next_bytes
            reason = self.policy.unavailable(wait.next_bytes, replicas, connected)
            if reason:
                self._unavailable.append((wait, reason))
                continue
            self._number += 1
            pending.append((self._number, wait))
            self._open[self._number] = wait
            heapq.heappush(self._deadlines, (wait.deadline_s, self._number))

    def grew(self, extent: LogExtent) -> None:
        """Note the range of the master's own log."""
        if extent.min_bytes != self._extent.min_bytes:
            self._replicas = None
        self._extent = extent

    def joined(self, slave: str, connection: int, holds_from_bytes: int) -> None:
        """Note a connection that gave its first report. Reports of the newest open one count (T12).

        A connection that is older than the newest that ever joined has to prove itself: its reports
        may have been under way since before the newer one, and the slave may have lost records
        since. So it counts from its first report on of bytes that the master wrote after that.
        """
        self._replicas = None
        known = self._slaves.setdefault(slave, _Slave())
        newest = connection > known.newest
        if newest:
            known.newest = connection
        elif known.heard is None or connection > known.heard:
            self._ask_for_proof(known)
        known.live.setdefault(connection, _Connection(holds_from_bytes, proven=newest))

    def acked(self, slave: str, connection: int, offset_bytes: int, now_s: float) -> None:
        """Note that the slave holds everything below `offset_bytes`.

        Reports of other connections than its newest open one are ignored.
        """
        known = self._slaves.get(slave)
        if known is None or connection not in known.live:
            return
        self._replicas = None
        held = Replica(slave, offset_bytes, now_s)
        if self.upstream:
            known.live[connection].held = held
            if offset_bytes > self._furthest.end_bytes:
                self._furthest = held
            return
        if known.heard != connection:
            return
        heard = known.live[connection]
        heard.proven = heard.proven or offset_bytes > known.proof_bytes
        if heard.proven:
            heard.held = held

    def gone(self, slave: str, connection: int) -> None:
        """Note that a connection ended: what it acknowledged does not count any more (T7)."""
        self._replicas = None
        known = self._slaves.get(slave)
        if known is None:
            return
        was_heard = known.heard == connection
        known.live.pop(connection, None)  # a late report of it needs a proof
        if was_heard and not self.upstream:
            self._ask_for_proof(known)

    def _ask_for_proof(self, slave: _Slave) -> None:
        """Discount an older connection's reports from before it became the newest open one."""
        for connection in slave.live.values():
            connection.proven = False
            connection.held = None
        slave.proof_bytes = max(self._extent.written_bytes, self._next_bytes_max)

    def held_bytes(self) -> int:
        """The offset up to which as many nodes hold the log now as an append needs.

        It falls when a slave disconnects.
        """
        replicas = self._counted_replicas()
        return self._held_bytes(self._need(replicas), replicas)

    def copied_bytes(self) -> int:
        """As `held_bytes`, whether the master has synced it or not."""
        replicas = self._counted_replicas()
        return self._copied_bytes(self._need(replicas), replicas)

    def known_bytes(self) -> int:
        """As `held_bytes`; -1 if fewer nodes are connected than an append needs, because it is
        unknown what the others hold.
        """
        replicas = self._counted_replicas()
        return self.held_bytes() if len(replicas) >= self._others(replicas) else -1

    def shortage(self, next_bytes: int, now_s: float) -> str:
        """For people: what an append up to `next_bytes` lacks now, and which nodes are behind."""
        replicas, held_bytes = self._counted_replicas(), self.known_bytes()
        others = self._others(replicas)
        if held_bytes >= 0:
            behind = (
                f"; {each.node} up to {each.end_bytes}, heard {now_s - each.heard_s:.1f} s ago"
                for each in replicas
                if each.node and each.end_bytes < next_bytes
            )
            return f"they hold up to {held_bytes}, {next_bytes} is needed{''.join(behind)}"
        if not any(known.live for known in self._slaves.values()):
            return "no other node is connected"
        return f"other nodes that count: {len(replicas)} connected, {others} needed"

    def refusal(self) -> str:
        """Why nothing may be written now; "" if it may."""
        return self.policy.refusal(self._extent.written_bytes, self._counted_replicas())

    def _need(self, replicas: list[Replica]) -> int:
        return self.policy.need(self._extent.written_bytes, replicas)

    def _others(self, replicas: list[Replica]) -> int:
        """How many nodes beside the master an append needs now."""
        return self.policy.needed(self._need(replicas), self._extent.written_bytes, replicas) - 1

    def _held_bytes(self, need: int, replicas: list[Replica]) -> int:
        own_bytes = self._extent.durable_bytes(synced=self.synced)
        return min(own_bytes, self._copied_bytes(need, replicas))

    def _copied_bytes(self, need: int, replicas: list[Replica]) -> int:
        return self.policy.copied_bytes(need, self._extent.written_bytes, replicas)

    def settle(self, now_s: float) -> Effects[W]:
        """Answer the appends that can be answered, first by offset, then by deadline."""
        held_bytes = self.held_bytes()
        late = self._take_timed_out(now_s) if self.upstream else ()
        done = self._take_done(held_bytes)
        timed_out = (*late, *self._take_timed_out(now_s))
        unavailable, self._unavailable = tuple(self._unavailable), []
        # An append that needed fewer nodes than one needs now is acknowledged by its own need.
        shown_bytes = max(held_bytes, done[-1][0].next_bytes if done else 0)
        rose = shown_bytes > self._acknowledged_bytes
        if rose:
            self._acknowledged_bytes = shown_bytes  # AcknowledgedMonotonic
        return Effects(
            done=done,
            timed_out=timed_out,
            unavailable=unavailable,
            acknowledged_bytes=shown_bytes if rose else None,
            deadline_s=self._deadlines[0][0] if self._deadlines else None,
        )

    def close(self) -> tuple[W, ...]:
        """Remove and return the appends that wait, in offset order. The caller answers them."""
        left = tuple(self._open.values())
        self._open.clear()
        self._pending.clear()
        self._deadlines.clear()
        return left

    def _take_done(self, held_bytes: int) -> tuple[tuple[W, int], ...]:
        """Remove and return the appends that have their copies.

        Args:
            held_bytes: the offset for appends that need what an append needs now, nearly always
                all.
        """
        replicas = self._counted_replicas()
        need_now = self._need(replicas)
        done: list[tuple[int, W]] = []
        for need, pending in self._pending.items():
            limit_bytes = held_bytes if need == need_now else self._held_bytes(need, replicas)
            while pending and pending[0][1].next_bytes <= limit_bytes:
                number, wait = pending.popleft()
                if self._open.pop(number, None) is not None:
                    done.append((number, wait))
        if len(self._pending) > 1:
            done.sort(key=lambda entry: entry[0])  # OneAnswerOrder
        if replicas and done and replicas[-1].end_bytes >= done[-1][1].next_bytes:  # all have all
            nodes = 1 + len(replicas)
            return tuple((wait, nodes) for _, wait in done)
        return tuple(
            (wait, 1 + sum(each.end_bytes >= wait.next_bytes for each in replicas))
            for _, wait in done
        )

    def _take_timed_out(self, now_s: float) -> tuple[W, ...]:
        timed_out: list[W] = []
        while self._deadlines and (
            self._deadlines[0][1] not in self._open or self._deadlines[0][0] <= now_s
        ):
            _, number = heapq.heappop(self._deadlines)
            wait = self._open.pop(number, None)
            if wait is not None:
                timed_out.append(wait)
        for pending in self._pending.values():
            while pending and pending[0][0] not in self._open:
                pending.popleft()  # else answered ones would pile up behind a dead slave
        if len(self._deadlines) > 2 * len(self._open) + _STALE_DEADLINES_MAX:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._open]
            heapq.heapify(self._deadlines)
        return tuple(timed_out)

    def _counted_replicas(self) -> list[Replica]:
        """The slaves that count, the furthest first. The list must not be changed."""
        if self._replicas is None:
            self._replicas = self._count_replicas()
        return self._replicas

    def _count_replicas(self) -> list[Replica]:
        if self.upstream and self.policy.remembers_furthest:
            return [self._furthest]
        replicas = [
            heard.held
            for slave, known in self._slaves.items()
            if self.counted is None or slave in self.counted
            for heard in (known.live.values() if self.upstream else known.counted)
            if heard.held is not None
            and (not self.whole_range or heard.holds_from_bytes <= self._extent.min_bytes)
        ]
        return sorted(replicas, key=lambda each: each.end_bytes, reverse=True)
