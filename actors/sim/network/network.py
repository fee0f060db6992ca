"""The simulated network: hosts with addresses, links between them, and the faults there.

`SimNetwork` is the hardware, with the faults, which name hosts. `SimNetwork.open(host)` is the
network of one process on one host, and implements `Network`. `connection` has the behaviour of one
connection.

Names have the addresses that a test gives them, everywhere at once. Not simulated: the wildcard
address, and socket files on the disk.
"""

from __future__ import annotations

import errno
import os
import random
from collections import deque
from ipaddress import ip_address

import attrs
import trio

from actors.env.protocols import Address, HostUnknown
from actors.sim.network.connection import Pipe, Side, SimStream
from actors.sim.network.links import Machine, Medium, NetworkOptions, NetworkPath

EPHEMERAL_PORTS = range(49152, 65536)


@attrs.define(eq=False)
class Host(Machine):
    """A machine: its addresses, and what its kernel knows, whatever process runs."""

    addresses: tuple[str, ...]
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


class SimNetwork(Medium):
    """All hosts and links, and the faults. `run` must be running in a nursery. The arguments and
    counts are those of `Medium`.

    Attributes:
        names: name -> IP address, as the resolver has it now.
    """

    def __init__(self, rng: random.Random, options: NetworkOptions | None = None) -> None:
        super().__init__(rng, options)
        self.names: dict[str, str] = {}
        self._hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self._links: dict[tuple[str, str], NetworkPath] = {}
        self._ends: dict[Side, None] = {}  # in the order in which they were made
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
        """Return the network as a new process on this host sees it."""
        process = HostNetwork(self, self._hosts[name])
        self._processes.append(process)
        return process

    # Faults. Each takes effect at once; `source` and `target` are host names.

    def cut(self, source: str, target: str) -> None:
        """Let nothing get from `source` to `target`; the other way is not touched."""
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
        """Have all that is sent from now on arrive after `duration_s` at the earliest."""
        self.link(source, target).clogged_until_s = trio.current_time() + duration_s
        self.count("clog")

    def reset(self, one: str, other: str) -> int:
        """Break all connections between the two hosts on both sides, and return how many there
        were.
        """
        return self._break_off("reset", (one, other), (other, one)) // 2

    def forget(self, one: str, other: str) -> int:
        """Break the first host's ends of all connections to the other host, which is not told.

        The other ends stay half-open until they send, and are answered with a reset. Returns: how
        many connections there were.
        """
        return self._break_off("forget", (one, other))

    def _break_off(self, what: str, *pairs: tuple[str, str]) -> int:
        """Break the ends of connections that lead from the first of a pair to the second."""
        links = [self._links.get(pair) for pair in pairs]
        hit = [end for end in self._ends if end.outward.link in links]
        for end in hit:
            end.break_off(errno.ECONNRESET)
        self.count(what, len(hit))
        return len(hit)

    def refuse(self, name: str) -> None:
        """Refuse every connection to this host from now on, although a program listens."""
        self._hosts[name].refusing = True
        self.count("refuse")

    def allow(self, name: str) -> None:
        self._hosts[name].refusing = False

    def power_off(self, name: str) -> None:
        """Switch the machine off: its peers get neither FIN nor reset (half-open)."""
        host = self._hosts[name]
        host.up = False
        for process in [process for process in self._processes if process.host is host]:
            process.end(silently=True)
        host.listeners.clear()
        host.socket_files.clear()
        self.count("power_off")

    def power_on(self, name: str) -> None:
        """Switch the machine on. It knows no connections: a peer that still sends on one gets a
        reset.
        """
        self._hosts[name].up = True
        self._resume()

    @property
    def ends_count(self) -> int:
        """How many ends of connections are not closed yet; a connection has two."""
        return len(self._ends)

    # For links, endpoints and processes.

    def link(self, source: str, target: str) -> NetworkPath:
        key = (source, target)
        if key not in self._links:
            self._links[key] = NetworkPath(self, self._hosts[source], self._hosts[target])
        return self._links[key]

    def resolve(self, host: str) -> str:
        """The address of a host. Raises: HostUnknown."""
        if host in self.names:
            return self.names[host]
        try:
            ip_address(host)
        except ValueError:
            raise HostUnknown(host, "Name or service not known", -2) from None
        return host

    def find(self, address: str) -> Host | None:
        return self._by_address.get(address)

    def forget_end(self, end: Side) -> None:
        self._ends.pop(end, None)

    def forget_process(self, process: HostNetwork) -> None:
        self._processes.remove(process)

    def connect_ends(
        self, client: HostNetwork, server: HostNetwork, local: Address, remote: Address
    ) -> tuple[Side, Side]:
        """Make both endpoints of a new connection."""
        there = self.link(client.host.name, server.host.name)
        back = self.link(server.host.name, client.host.name)
        forth, home = Pipe(self, there, back), Pipe(self, back, there)
        near = Side(client, local, remote, outward=forth, inward=home)
        far = Side(server, remote, local, outward=home, inward=forth)
        forth.source = home.target = near
        forth.target = home.source = far
        for end, process in ((near, client), (far, server)):
            self._ends[end] = process.ends[end] = None
        return near, far

    def _resume(self) -> None:
        for end in list(self._ends):
            end.outward.link_is_back()
            if end.outward.target.gone:  # then no other call does it for the other direction
                end.inward.link_is_back()


SYN_RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The pauses after which Linux sends a SYN again (tcp_syn_retries 6); it gives up after 127 s with
ETIMEDOUT."""
LISTEN_BACKLOG = 128
"""How many connections may wait to be accepted; a further one gets no answer, and is tried
again."""


def address_error(code: int, where: object) -> OSError:
    """Return the subclass of OSError for `code`, with the address in its text."""
    return OSError(code, f"{os.strerror(code)}: {where}")


@attrs.define(eq=False)
class SimListener:
    """A listening socket; implements `Listener`."""

    address: Address
    owner: HostNetwork
    _queue: deque[Side] = attrs.field(init=False, factory=deque)
    _closed: bool = attrs.field(init=False, default=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(init=False, factory=trio.lowlevel.ParkingLot)

    @property
    def answers(self) -> bool:
        return not self._closed

    @property
    def full(self) -> bool:
        return len(self._queue) >= LISTEN_BACKLOG

    def offer(self, end: Side) -> None:
        self._queue.append(end)
        self._lot.unpark()

    async def accept(self) -> SimStream:
        await trio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise trio.ClosedResourceError("the listener is closed")
            if self._queue:
                return SimStream(self._queue.popleft())
            await self._lot.park()

    async def aclose(self) -> None:
        if not self._closed:
            files = self.owner.host.socket_files
            if files.get(self.address.host) is self:
                del files[self.address.host]
            self.close(silently=False)
        await trio.lowlevel.checkpoint()

    def close(self, *, silently: bool) -> None:
        """Stop listening; a socket file stays, as it does when a process dies."""
        if self._closed:
            return
        self._closed = True
        self.owner.host.listeners.pop(self.address, None)
        self._lot.unpark_all()
        while self._queue:
            end = self._queue.popleft()
            end.vanish() if silently else end.abort()


@attrs.define(eq=False)
class HostNetwork:
    """The network as one process sees it; implements `Network`.

    After `end`, nothing that the process still does reaches the network.
    """

    net: SimNetwork
    host: Host
    ends: dict[Side, None] = attrs.field(init=False, factory=dict)
    _listeners: list[SimListener] = attrs.field(init=False, factory=list)
    _ended: bool = attrs.field(init=False, default=False)

    @property
    def up(self) -> bool:
        return self.host.up

    async def listen(self, host: str, port: int) -> SimListener:
        await trio.lowlevel.checkpoint()
        self._check(host, Address(host, port))
        address = Address(host, port or self.host.free_port(host))
        if address in self.host.listeners:
            raise address_error(errno.EADDRINUSE, address)
        listener = self.host.listeners[address] = SimListener(address, self)
        self._listeners.append(listener)
        return listener

    async def connect(self, host: str, port: int, *, local_host: str | None = None) -> SimStream:
        await trio.lowlevel.checkpoint()
        target = Address(self.net.resolve(host), port)
        near_host = local_host or self.host.addresses[0]
        self._check(near_host, target)
        remote = self.net.find(target.host)
        if remote is None:
            raise address_error(errno.EHOSTUNREACH, target)
        local = Address(near_host, self.host.free_port(near_host))
        for pause_s in SYN_RETRY_S:
            until_s = trio.current_time() + pause_s
            near = await self._ask(remote, local, target)
            if near is not None:
                return SimStream(near)
            await trio.sleep_until(until_s)
        self.net.count("connect_timeout")
        raise address_error(errno.ETIMEDOUT, target)

    async def _ask(self, remote: Host, local: Address, target: Address) -> Side | None:
        """Send a SYN and return the new end; None if the SYN or its answer was lost."""
        there = self.net.link(self.host.name, remote.name)
        back = self.net.link(remote.name, self.host.name)
        await trio.sleep_until(there.arrival_s(0))
        if not there.passes:
            return None
        listener = None if remote.refusing else remote.listeners.get(target)
        if listener is not None and listener.full:
            return None
        if not back.passes:
            return None
        if listener is None:
            await trio.sleep_until(back.arrival_s(0))
            raise address_error(errno.ECONNREFUSED, target)
        return await self._establish(listener, local, target, back.arrival_s(0))

    async def _establish(
        self, listener: SimListener, local: Address, target: Address, answer_s: float
    ) -> Side:
        self._check(None, target)
        near, far = self.net.connect_ends(self, listener.owner, local, target)
        listener.offer(far)
        established = False
        try:
            await trio.sleep_until(answer_s)
            self._check(None, target)
            if near.broken:
                raise address_error(errno.ECONNRESET, target)
            established = True
        finally:
            if not established:  # cancelled: the other side has accepted, and gets a reset
                near.abort()
        return near

    async def listen_unix(self, path: str) -> SimListener:
        await trio.lowlevel.checkpoint()
        self._check(None, path)
        known = self.host.socket_files.get(path)
        if known is not None and known.answers:
            raise address_error(errno.EADDRINUSE, path)
        listener = SimListener(Address(path, 0), self)
        self.host.socket_files[path] = listener
        self._listeners.append(listener)
        return listener

    async def connect_unix(self, path: str) -> SimStream:
        await trio.lowlevel.checkpoint()
        self._check(None, path)
        listener = self.host.socket_files.get(path)
        if listener is None:
            raise address_error(errno.ENOENT, path)
        if not listener.answers:
            raise address_error(errno.ECONNREFUSED, path)
        if listener.full:
            raise address_error(errno.EAGAIN, path)
        address = Address(path, 0)
        return SimStream(await self._establish(listener, address, address, trio.current_time()))

    def _check(self, own: str | None, where: object) -> None:
        if self._ended:
            raise address_error(errno.ENETDOWN, where)
        if own is not None and own not in self.host.addresses:
            raise address_error(errno.EADDRNOTAVAIL, f"{own} for {where}")

    def forget(self, end: Side) -> None:
        self.ends.pop(end, None)
        self.net.forget_end(end)

    def end(self, *, silently: bool = False) -> None:
        """End the process: its kernel closes what it had open, or, if `silently`, is gone as
        well.
        """
        if self._ended:
            return
        self._ended = True
        self.net.forget_process(self)
        for listener in self._listeners:
            listener.close(silently=silently)
        for end in list(self.ends):
            if silently:
                end.vanish()
            else:
                end.close_receiving()
                end.close_sending()
