"""TCP links between members that a test cuts, in either direction: a proxy for each.

What is sent into a cut link stays on its way, as it does in a network: the sender's window fills,
an end of the stream is not reported, a new connection is taken and comes nowhere. A link that is
healed hands all that over late, or resets its connections if it is to have been lost.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping

import attrs

CONNECT_TIMEOUT_S = 3.0
CHUNK_BYTES = 65_536
JOIN_TIMEOUT_S = 10.0
MEMBERS_MAX = 3
HOSTS = {(i, j): f"127.0.{10 + i}.{1 + j}" for i in range(MEMBERS_MAX) for j in range(MEMBERS_MAX)}
"""Where the member with the first number finds the one with the second."""


@attrs.define
class Gate:
    """One direction of a link: open, or shut."""

    _open: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self._open.set()

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self._open.wait()


@attrs.define
class Link:
    """Takes connections at one address and hands their bytes on to another, and back.

    Attributes:
        to: what goes to the target; connections are made only while both are open.
        back: what comes from it.
    """

    target: tuple[str, int]
    _listener: socket.socket
    to: Gate = attrs.field(factory=Gate)
    back: Gate = attrs.field(factory=Gate)
    _sockets: set[socket.socket] = attrs.field(factory=set)
    _threads: list[threading.Thread] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _closed: bool = False

    @property
    def place(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._listener.getsockname()
        return host, port

    @classmethod
    def open(cls, host: str, port: int, target: tuple[str, int]) -> Link:
        link = cls(target, socket.create_server((host, port)))
        link._start(link._accept)
        return link

    def cut(self) -> None:
        """Both directions."""
        self.to.cut()
        self.back.cut()

    def heal(self, *, lost: bool = False) -> None:
        """Args: lost: nothing that was sent meanwhile arrives; all connections are reset."""
        if lost:
            self._reset()
        self.to.heal()
        self.back.heal()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal(lost=True)
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
            assert not thread.is_alive()

    # ---- threads ----

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)  # type: ignore[arg-type]
        with self._lock:
            self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            self._start(self._serve, near)

    def _serve(self, near: socket.socket) -> None:
        if not self._add(near):
            return
        self.to.wait()
        self.back.wait()
        try:
            far = socket.create_connection(self.target, CONNECT_TIMEOUT_S)
        except OSError:
            self._remove(near)
            return
        far.settimeout(None)
        if not self._add(far):
            self._remove(near)
            return
        self._start(self._pump, far, near, self.back)
        self._pump(near, far, self.to)

    def _pump(self, source: socket.socket, sink: socket.socket, gate: Gate) -> None:
        """Until either end closes; then both are."""
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(CHUNK_BYTES)
                gate.wait()
                if not data:
                    break
                sink.sendall(data)
        self._remove(source)
        self._remove(sink)

    def _add(self, sock: socket.socket) -> bool:
        with self._lock:
            if not self._closed:
                self._sockets.add(sock)
                return True
        sock.close()
        return False

    def _remove(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(sock)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)  # wakes whoever reads it; a close would not
        sock.close()

    def _reset(self) -> None:
        with self._lock:
            there = tuple(self._sockets)
        for sock in there:
            self._remove(sock)


@attrs.define
class Links:
    """A link from each member of a group to each other one.

    Attributes:
        links: by who connects and to whom.
    """

    port: int
    links: dict[tuple[str, str], Link] = attrs.field(factory=dict)

    @classmethod
    def between(cls, targets: Mapping[str, tuple[str, int]], port: int) -> Links:
        """Args: port: at which each member finds each other one, at an address of its own."""
        links = cls(port)
        for i, source in enumerate(targets):
            for j, (name, target) in enumerate(targets.items()):
                if source != name:
                    links.links[source, name] = Link.open(HOSTS[i, j], port, target)
        return links

    def host(self, source: str, name: str) -> str:
        """Where `source` finds `name`."""
        return self.links[source, name].place[0]

    def cut(self, name: str) -> None:
        """Between one member and all others, both directions."""
        for link in self._of(name):
            link.cut()

    def cut_to(self, source: str, name: str) -> None:
        """Only what `source` sends to `name`: requests, and answers to those of `name`."""
        self.links[source, name].to.cut()
        self.links[name, source].back.cut()

    def heal(self, *, lost: bool = False) -> None:
        """All."""
        for link in self.links.values():
            link.heal(lost=lost)

    def close(self) -> None:
        for link in self.links.values():
            link.close()

    def _of(self, name: str) -> Iterator[Link]:
        return (link for pair, link in self.links.items() if name in pair)
