"""The simulated network: hosts with addresses, links between them, and what can go wrong there.

`SimNetwork` is the hardware and what the faults act on, named by host. `SimNetwork.open(host)` is
one process on one host, and implements `Network` (`sockets`). What one connection does is in
`stream`.

Not simulated: names (addresses only), the wildcard address, and socket files on the disk.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import math
import random
from collections.abc import Callable

import attrs
import trio

from actors.env.protocols import Address
from actors.runtime.parking import Parker
from actors.sim.pipe import Pipe
from actors.sim.scheduler import Alarm
from actors.sim.sockets import HostNetwork, SimListener, address_error
from actors.sim.stream import Endpoint

EPHEMERAL_PORTS = range(49152, 65536)


class Agenda:
    """Runs actions at their virtual times, those of equal time in the order they were entered: one
    heap, one task, no thread and no task per action.

    Actions are synchronous, and act on simulated hardware only.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._parker = Parker()
        self._running = False
        self._ended = False

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Run `action` at virtual time `when_s`, or as soon as possible after it; never, if `run`
        has ended: tasks of a world that breaks off end in any order, and some use it then.
        """
        if self._ended:
            return
        assert self._running, "the simulated network needs its run() in a nursery"
        heapq.heappush(self._heap, (when_s, next(self._order), action))
        if self._heap[0][2] is action:
            self._parker.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        self._running = True
        alarm = Alarm(self._parker.wake)  # rings for most of the actions
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
    """How fast and how bad the network is while no fault is injected.

    Attributes:
        latency_min_s: every packet takes at least this long.
        latency_mean_s: mean; what is above the minimum is exponentially distributed.
        loopback_s: latency within one host.
        window_bytes: how far a sender may be ahead of the other application.
        bandwidth_bytes_per_s: per link and direction; None: no limit.
        fragment_share: share of receives that return less than is there, to find code that
            takes a read for a message.
        clog_share: share of pieces that are followed by a clogged link.
        clog_mean_s: mean of how long it is clogged (exponential).
        retransmit_timeout_s: unacknowledged data breaks a connection after this long (Linux,
            tcp_retries2 15).
        hold_from_bytes: bodies of at least this size stay in the system until they are written.
        late_send_file: files are read when the bytes are delivered, not when they are sent.
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


@attrs.define(eq=False)
class Link:
    """One direction between two hosts, or within one."""

    net: SimNetwork
    source: Host
    target: Host
    cut: bool = attrs.field(init=False, default=False)
    clogged_until_s: float = attrs.field(init=False, default=0.0)
    _busy_until_s: float = attrs.field(init=False, default=0.0)

    @property
    def passes(self) -> bool:
        return self.target.up and not self.cut

    def arrival_s(self, size: int) -> float:
        """When something of `size` bytes that leaves now arrives, if the link lets it pass."""
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


@attrs.define(eq=False)
class Host:
    """A machine: its addresses, and what its kernel knows whatever process runs."""

    name: str
    addresses: tuple[str, ...]
    up: bool = attrs.field(init=False, default=True)
    refusing: bool = attrs.field(init=False, default=False)
    listeners: dict[Address, SimListener] = attrs.field(init=False, factory=dict)
    socket_files: dict[str, SimListener] = attrs.field(init=False, factory=dict)
    next_port: int = attrs.field(init=False, default=EPHEMERAL_PORTS.start)

    def free_port(self, host: str) -> int:
        for _ in EPHEMERAL_PORTS:
            port = self.next_port
            self.next_port = port + 1 if port + 1 in EPHEMERAL_PORTS else EPHEMERAL_PORTS.start
            if Address(host, port) not in self.listeners:
                return port
        raise address_error(errno.EADDRINUSE, host)


class SimNetwork:
    """All hosts and links, and the faults. `run` must be running in a nursery.

    Args:
        rng: source of latencies and fragment sizes.
        options: see there.

    Attributes:
        counts: how often each kind of fault took effect.
    """

    def __init__(self, rng: random.Random, options: NetworkOptions | None = None) -> None:
        self.rng = rng
        self.options = options or NetworkOptions()
        self.agenda = Agenda()
        self.counts: dict[str, int] = {}
        self._hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._ends: dict[Endpoint, None] = {}  # in the order they were made
        self._processes: list[HostNetwork] = []

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver packets until cancelled."""
        await self.agenda.run(task_status=task_status)

    def add_host(self, name: str, *addresses: str) -> None:
        assert addresses, "a host needs an address"
        assert name not in self._hosts, name
        host = self._hosts[name] = Host(name, addresses)
        for address in addresses:
            assert address not in self._by_address, f"{address} is taken"
            self._by_address[address] = host

    def is_up(self, name: str) -> bool:
        """Whether the machine has power."""
        return self._hosts[name].up

    def open(self, name: str) -> HostNetwork:
        """The network as a new process on this host sees it."""
        process = HostNetwork(self, self._hosts[name])
        self._processes.append(process)
        return process

    # Faults. Each takes effect at once; `source` and `target` are host names.

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from `source` to `target` any more; the other way is not touched."""
        self.link(source, target).cut = True
        self.count("cut")

    def cut_both(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def isolate(self, name: str) -> None:
        """Cut the host off from all others, both ways."""
        for other in self._hosts:
            if other != name:
                self.cut_both(name, other)

    def heal(self, source: str, target: str) -> None:
        """Undo `cut` in this direction: what was sent meanwhile arrives."""
        self.link(source, target).cut = False
        self.count("heal")
        self._resume()

    def heal_both(self, one: str, other: str) -> None:
        self.heal(one, other)
        self.heal(other, one)

    def heal_all(self) -> None:
        """Undo all cuts, clogs and refusals. Machines without power stay so."""
        for link in self._links.values():
            link.cut = False
            link.clogged_until_s = 0.0
        for host in self._hosts.values():
            host.refusing = False
        self.count("heal")
        self._resume()

    def clog(self, source: str, target: str, duration_s: float) -> None:
        """What is sent from now on arrives after `duration_s` at the earliest."""
        self.link(source, target).clogged_until_s = trio.current_time() + duration_s
        self.count("clog")

    def reset(self, one: str, other: str) -> int:
        """Break all connections between the two hosts on both sides. Returns how many."""
        names = {(one, other), (other, one)}
        hit = [
            end
            for end in list(self._ends)
            if (end.outward.link.source.name, end.outward.link.target.name) in names
        ]
        for end in hit:
            end.break_off(errno.ECONNRESET)
        self.count("reset", len(hit))
        return len(hit) // 2

    def forget(self, one: str, other: str) -> int:
        """Break the first host's ends of all connections to the other, which hears nothing of it.

        It stays half-open until it sends, and is answered with a reset. Returns how many.
        """
        hit = [
            end
            for end in list(self._ends)
            if (end.outward.link.source.name, end.outward.link.target.name) == (one, other)
        ]
        for end in hit:
            end.break_off(errno.ECONNRESET)
        self.count("forget", len(hit))
        return len(hit)

    def refuse(self, name: str) -> None:
        """Every connection to this host is refused from now on, though somebody listens."""
        self._hosts[name].refusing = True
        self.count("refuse")

    def allow(self, name: str) -> None:
        self._hosts[name].refusing = False

    def power_off(self, name: str) -> None:
        """The machine falls silent: its peers get neither FIN nor reset (half-open)."""
        host = self._hosts[name]
        host.up = False
        for process in [process for process in self._processes if process.host is host]:
            process.end(silently=True)
        host.listeners.clear()
        host.socket_files.clear()
        self.count("power_off")

    def power_on(self, name: str) -> None:
        """The machine is back and knows no connection: who still sends on one gets a reset."""
        self._hosts[name].up = True
        self._resume()

    @property
    def ends_count(self) -> int:
        """Ends of connections that are not closed yet; a connection has two."""
        return len(self._ends)

    # For links, endpoints and processes.

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def latency_s(self) -> float:
        options = self.options
        spread_s = options.latency_mean_s - options.latency_min_s
        return options.latency_min_s + (self.rng.expovariate(1 / spread_s) if spread_s > 0 else 0.0)

    def fragment(self, size: int) -> int:
        """How much of `size` available bytes one receive returns."""
        if size > 1 and self.rng.random() < self.options.fragment_share:
            return self.rng.randint(1, size)
        return size

    def link(self, source: str, target: str) -> Link:
        key = (source, target)
        if key not in self._links:
            self._links[key] = Link(self, self._hosts[source], self._hosts[target])
        return self._links[key]

    def find(self, address: str) -> Host | None:
        return self._by_address.get(address)

    def forget_end(self, end: Endpoint) -> None:
        self._ends.pop(end, None)

    def forget_process(self, process: HostNetwork) -> None:
        self._processes.remove(process)

    def connect_ends(
        self, client: HostNetwork, server: HostNetwork, local: Address, remote: Address
    ) -> tuple[Endpoint, Endpoint]:
        """Make both endpoints of a new connection."""
        there = self.link(client.host.name, server.host.name)
        back = self.link(server.host.name, client.host.name)
        forth, home = Pipe(self, there, back), Pipe(self, back, there)
        near = Endpoint(client, local, remote, outward=forth, inward=home)
        far = Endpoint(server, remote, local, outward=home, inward=forth)
        forth.source = home.target = near
        forth.target = home.source = far
        for end in (near, far):
            self._ends[end] = None
            end.host.ends[end] = None
        return near, far

    def _resume(self) -> None:
        for end in list(self._ends):
            end.outward.link_is_back()
            if end.outward.target.gone:  # then nobody else does it for the other direction
                end.inward.link_is_back()
