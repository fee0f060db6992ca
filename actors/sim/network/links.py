"""What packets travel on: links between machines, and the agenda of arrivals."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable

import attrs
import trio

from actors.runtime.parking import Parker
from actors.sim.scheduler import VirtualAlarm


class Agenda:
    """Runs actions at their virtual times, those of the same time in the order in which they were
    added.

    It has one heap and one task, no threads, and no task for each action. Actions are synchronous,
    and act on simulated hardware only.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._parker = Parker()
        self._running = False
        self._ended = False

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Run `action` at virtual time `when_s`, or as soon as possible after it.

        If `run` has ended, the action never runs: the tasks of a world that breaks off end in any
        order, and some call this then.
        """
        if self._ended:
            return
        assert self._running, "the simulated network needs its run() in a nursery"
        heapq.heappush(self._heap, (when_s, next(self._order), action))
        if self._heap[0][2] is action:
            self._parker.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run actions until cancelled."""
        self._running = True
        alarm = VirtualAlarm(self._parker.wake)  # rings for most of the actions
        try:
            task_status.started()
            while True:
                now_s = trio.current_time()
                while self._heap and self._heap[0][0] <= now_s:
                    heapq.heappop(self._heap)[2]()
                alarm.set(self._heap[0][0] if self._heap else math.inf)
                await self._parker.park()
        finally:
            alarm.set(math.inf)
            self._running, self._ended = False, True


@attrs.frozen(kw_only=True)
class NetworkOptions:
    """How fast and how unreliable the network is while no fault is injected.

    Attributes:
        latency_min_s: the least latency of a packet.
        latency_mean_s: the mean latency; the part above the minimum is exponentially distributed.
        loopback_s: the latency within one host.
        window_bytes: how far a sender may be ahead of the other application.
        bandwidth_bytes_per_s: the bandwidth of each link and direction; None: no limit.
        fragment_share: the share of receives that return less than is available, to find code that
            takes a read for a message.
        clog_share: the share of pieces after which the link is clogged.
        clog_mean_s: the mean time for which it is clogged (exponential).
        retransmit_timeout_s: how long data may be unacknowledged before the connection breaks
            (Linux, tcp_retries2 15).
        hold_from_bytes: the size from which on bodies stay in the system until they are written.
        late_send_file: whether files are read when the bytes are delivered, and not when they are
            sent.
    """

    latency_min_s: float = 0.0002
    latency_mean_s: float = 0.0005
    loopback_s: float = 0.00002
    window_bytes: int = 256 * 1024
    bandwidth_bytes_per_s: float | None = None
    fragment_share: float = 0.1
    clog_share: float = 0.0
    clog_mean_s: float = 0.1
    retransmit_timeout_s: float = 924.6
    hold_from_bytes: int = 1024
    late_send_file: bool = False


class Medium:
    """What all links share: time, chance, and counts of faults.

    Args:
        rng: the source of latencies and fragment sizes.
        options: how fast and unreliable the network is; None: the defaults.

    Attributes:
        counts: how often each kind of fault took effect.
    """

    def __init__(self, rng: random.Random, options: NetworkOptions | None = None) -> None:
        self.rng = rng
        self.options = options or NetworkOptions()
        self.agenda = Agenda()
        self.counts: dict[str, int] = {}

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def latency_s(self) -> float:
        options = self.options
        spread_s = options.latency_mean_s - options.latency_min_s
        return options.latency_min_s + (self.rng.expovariate(1 / spread_s) if spread_s > 0 else 0.0)

    def fragment(self, size: int) -> int:
        """Return how many of `size` available bytes one receive returns."""
        if size > 1 and self.rng.random() < self.options.fragment_share:
            return self.rng.randint(1, size)
        return size


@attrs.define(eq=False)
class Machine:
    """A machine at the end of links. `up`: whether it has power."""

    name: str
    up: bool = attrs.field(init=False, default=True)


@attrs.define(eq=False)
class NetworkPath:
    """One direction between two machines, or within one."""

    net: Medium
    source: Machine
    target: Machine
    cut: bool = attrs.field(init=False, default=False)
    clogged_until_s: float = attrs.field(init=False, default=0.0)
    _busy_until_s: float = attrs.field(init=False, default=0.0)

    @property
    def passes(self) -> bool:
        return self.target.up and not self.cut

    def arrival_s(self, size: int) -> float:
        """Return when a packet of `size` bytes that leaves now arrives, if the link lets it
        pass.
        """
        options, now_s = self.net.options, trio.current_time()
        if self.source is self.target:
            return now_s + options.loopback_s
        leave_s = max(now_s, self.clogged_until_s)
        if options.bandwidth_bytes_per_s is not None and size:
            leave_s = max(leave_s, self._busy_until_s) + size / options.bandwidth_bytes_per_s
            self._busy_until_s = leave_s
        if size and options.clog_share and self.net.rng.random() < options.clog_share:
            self.net.count("clog")
            pause_s = self.net.rng.expovariate(1 / options.clog_mean_s)
            self.clogged_until_s = leave_s + pause_s
        return leave_s + self.net.latency_s()
