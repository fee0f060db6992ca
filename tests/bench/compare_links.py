"""A node's network, watched: what a member is sent more than once is counted, links can be cut.

It stands between a node and its real (or simulated) network, and concerns the replication port
only. What is counted survives the process: it is in a few bytes that the caller keeps.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs
import trio

from actors.env.protocols import (
    Address,
    File,
    Held,
    Listener,
    Network,
    ReceiveHalf,
    SendHalf,
    Stream,
)
from wire import buffer
from wire.dledger.codes import RequestCode
from wire.errors import RemoteProtocolError
from wire.ha.classic import FRAME_HEADER_BYTES
from wire.remoting import frame as remoting

METER_BYTES: Final = 16
_METER = struct.Struct(">qq")
_FRAME_HEADER = struct.Struct(">qi")
_PUSH_TAIL: Final = re.compile(
    rb'"firstEntryIndex":(\d+),.*"lastEntryIndex":(\d+),.*"totalSize":(\d+),"type":"APPEND"', re.S
)
_ENTRY_SIZE: Final = re.compile(rb'"size":(\d+)')
_TAIL_BYTES: Final = 1000
"""The end of a push's body, in which all but the entries stands."""


@attrs.define
class Meter:
    """How much of a log one member was sent again: bytes that it received at positions up to which
    it had received something before, from whomever.

    Args:
        state: METER_BYTES of zeros at first; a map of a file outlives the process.
    """

    state: Any

    @property
    def again_bytes(self) -> int:
        return int(_METER.unpack(self.state[:METER_BYTES])[1])

    def received(self, first: int, end: int, size_bytes: int) -> None:
        """Positions from `first` to before `end` came, `size_bytes` in all."""
        if end <= first:
            return
        highest, again_bytes = _METER.unpack(self.state[:METER_BYTES])
        twice = max(0, min(end, highest) - first)
        again_bytes += size_bytes * twice // (end - first)
        self.state[:METER_BYTES] = _METER.pack(max(highest, end), again_bytes)


class Scanner(Protocol):
    def passed(self, data: bytes) -> None:
        """These bytes came."""


@attrs.define
class FrameScanner:
    """Of what a classic slave receives of its master."""

    meter: Meter
    _head: bytes = b""
    _offset: int = 0
    _rest: int = 0

    def passed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._rest:
                size = min(self._rest, len(data) - at)
                self.meter.received(self._offset, self._offset + size, size)
                self._offset += size
                self._rest -= size
            else:
                size = min(FRAME_HEADER_BYTES - len(self._head), len(data) - at)
                self._head += data[at : at + size]
                if len(self._head) == FRAME_HEADER_BYTES:
                    self._offset, self._rest = _FRAME_HEADER.unpack(self._head)
                    self._head = b""
            at += size


@attrs.define
class PushScanner:
    """Of what a DLedger member is asked by others."""

    meter: Meter
    _decoder: remoting.Decoder = attrs.field(factory=remoting.Decoder)
    _broken: bool = False

    def passed(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            self._decoder.receive_data(data)
            while (frame := self._decoder.next_frame()) is not buffer.NEED_DATA:
                if frame.header.code == RequestCode.PUSH:
                    self._pushed(frame.body)
        except RemoteProtocolError:
            self._broken = True  # the node's own decoder ends the connection

    def _pushed(self, body: bytes) -> None:
        found = _PUSH_TAIL.search(body, max(0, len(body) - _TAIL_BYTES))
        if found is None:
            return  # a COMPARE, a TRUNCATE, a COMMIT
        first, last, size_bytes = map(int, found.groups())
        if not size_bytes:  # a single entry
            size = _ENTRY_SIZE.search(body)
            size_bytes = int(size[1]) if size else 0
        self.meter.received(first, last + 1, size_bytes)


@attrs.define
class Gate:
    """Which peers nothing passes to or from."""

    _shut: dict[str, trio.Event] = attrs.field(factory=dict)

    def shut(self, host: str) -> None:
        self._shut.setdefault(host, trio.Event())

    def open(self, host: str) -> None:
        """Harmless if it is."""
        if host in self._shut:
            self._shut.pop(host).set()

    def is_shut(self, host: str) -> bool:
        return host in self._shut

    async def passes(self, host: str) -> None:
        """Return when it is open."""
        while (shut := self._shut.get(host)) is not None:
            await shut.wait()


@attrs.define
class _Receive:
    """`ReceiveHalf`. What comes while the link is cut waits until it is not."""

    _inner: ReceiveHalf
    _gate: Gate
    _host: str
    _scanner: Scanner | None
    _kept: bytes | None = None

    @property
    def hold_from_bytes(self) -> int:
        return sys.maxsize  # all is looked at

    async def receive_some(self, max_bytes: int) -> bytes:
        if self._kept is None:
            self._kept = await self._inner.receive_some(max_bytes)
        await self._gate.passes(self._host)
        return self._take(max_bytes)

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        return await self.receive_some(max_bytes)

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        if self._gate.is_shut(self._host):
            return None
        if self._kept is None:
            data = self._inner.receive_now(max_bytes)
            assert data is None or isinstance(data, bytes)
            self._kept = data
        return None if self._kept is None else self._take(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _take(self, max_bytes: int) -> bytes:
        assert self._kept is not None
        data, rest = self._kept[:max_bytes], self._kept[max_bytes:]
        self._kept = rest or None
        if self._scanner is not None:
            self._scanner.passed(data)
        return data


@attrs.define
class _Send:
    """`SendHalf`."""

    _inner: SendHalf
    _gate: Gate
    _host: str

    def send_now(self, data: bytes) -> int:
        return 0 if self._gate.is_shut(self._host) else self._inner.send_now(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._gate.passes(self._host)
        await self._inner.send_all(data)

    async def send_file(self, file: File, offset: int, size: int) -> None:
        await self._gate.passes(self._host)
        await self._inner.send_file(file, offset, size)

    async def aclose(self) -> None:
        await self._inner.aclose()


@attrs.define(eq=False)
class _Stream:
    """`Stream`, of replication."""

    _inner: Stream
    _gate: Gate
    _scanner: Scanner | None

    @property
    def local(self) -> Address:
        return self._inner.local

    @property
    def remote(self) -> Address:
        return self._inner.remote

    def halves(self) -> tuple[ReceiveHalf, SendHalf]:
        receive, send = self._inner.halves()
        host = self.remote.host
        return (
            _Receive(receive, self._gate, host, self._scanner),
            _Send(send, self._gate, host),
        )

    def trio_stream(self) -> trio.abc.Stream:
        raise NotImplementedError("replication takes halves")

    def abort(self) -> None:
        self._inner.abort()


@attrs.define(eq=False)
class _Listener:
    """`Listener`, of replication."""

    _inner: Listener
    _wrap: Callable[[Stream], Stream]

    @property
    def address(self) -> Address:
        return self._inner.address

    async def accept(self) -> Stream:
        return self._wrap(await self._inner.accept())

    async def aclose(self) -> None:
        await self._inner.aclose()


@attrs.define(eq=False)
class WatchedNetwork:
    """`Network`, watched at one port.

    Attributes:
        inner: what is watched.
        port: of replication.
        elects: a DLedger group, whose followers are asked; a classic slave asks its master.
    """

    inner: Network
    port: int
    elects: bool
    meter: Meter
    gate: Gate = attrs.field(factory=Gate)

    async def listen(self, host: str, port: int) -> Listener:
        listener = await self.inner.listen(host, port)
        return _Listener(listener, self._accepted) if port == self.port else listener

    async def connect(self, host: str, port: int, *, local_host: str | None = None) -> Stream:
        if port != self.port:
            return await self.inner.connect(host, port, local_host=local_host)
        await self.gate.passes(host)
        stream = await self.inner.connect(host, port, local_host=local_host)
        return _Stream(stream, self.gate, None if self.elects else FrameScanner(self.meter))

    async def listen_unix(self, path: str) -> Listener:
        return await self.inner.listen_unix(path)

    async def connect_unix(self, path: str) -> Stream:
        return await self.inner.connect_unix(path)

    def _accepted(self, stream: Stream) -> Stream:
        return _Stream(stream, self.gate, PushScanner(self.meter) if self.elects else None)
