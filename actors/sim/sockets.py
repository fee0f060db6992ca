"""The simulated network as one process sees it: listening, connecting, accepting."""

from __future__ import annotations

import errno
import os
from collections import deque
from typing import TYPE_CHECKING

import attrs
import trio

from actors.env.protocols import Address
from actors.sim.stream import Endpoint, SimStream

if TYPE_CHECKING:
    from actors.sim.network import Host, SimNetwork

SYN_RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Linux asks again after these pauses (tcp_syn_retries 6) and gives up after 127 s: ETIMEDOUT."""
LISTEN_BACKLOG = 128
"""Connections that wait to be accepted; a further one gets no answer and asks again."""


def address_error(code: int, where: object) -> OSError:
    """The OSError subclass that fits `code`, naming the address."""
    return OSError(code, f"{os.strerror(code)}: {where}")


@attrs.define(eq=False)
class SimListener:
    """`Listener` of the protocols."""

    address: Address
    owner: HostNetwork
    _queue: deque[Endpoint] = attrs.field(init=False, factory=deque)
    _closed: bool = attrs.field(init=False, default=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(init=False, factory=trio.lowlevel.ParkingLot)

    @property
    def answers(self) -> bool:
        return not self._closed

    @property
    def full(self) -> bool:
        return len(self._queue) >= LISTEN_BACKLOG

    def offer(self, end: Endpoint) -> None:
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
    """The network as one process sees it; `Network` of the protocols.

    After `end` nothing that the process still does reaches the network.
    """

    net: SimNetwork
    host: Host
    ends: dict[Endpoint, None] = attrs.field(init=False, factory=dict)
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
        target = Address(host, port)
        near_host = local_host or self.host.addresses[0]
        self._check(near_host, target)
        remote = self.net.find(host)
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

    async def _ask(self, remote: Host, local: Address, target: Address) -> Endpoint | None:
        """One SYN and its answer; None if either was lost."""
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
    ) -> Endpoint:
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

    def forget(self, end: Endpoint) -> None:
        self.ends.pop(end, None)
        self.net.forget_end(end)

    def end(self, *, silently: bool = False) -> None:
        """The process is gone, and its kernel closes what it had open; `silently`: so is that."""
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
