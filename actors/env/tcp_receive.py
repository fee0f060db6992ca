"""The receiving half of a real connection."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import trio

from actors.env.pipes import PipedBytes
from actors.env.protocols import Held

if TYPE_CHECKING:
    from actors.env.tcp import TcpStream

HOLD_FROM_BYTES = 64 << 10
"""Below it the two calls more that a pipe costs are as long as the copy they save."""
RECEIVE_MAX_BYTES = 256 << 10
"""Received at once into memory, when all pipes are taken."""
DRAINED_BYTES = 4096
"""A read below it, and below what was asked for, has left nothing behind: the next one waits."""


@attrs.define(eq=False)
class TcpReceiveHalf:
    """`ReceiveHalf` of the protocols."""

    _stream: TcpStream
    _closed: bool = attrs.field(init=False, default=False)
    _drained: bool = attrs.field(init=False, default=False)  # the last read took all there was

    hold_from_bytes = HOLD_FROM_BYTES

    async def receive_some(self, max_bytes: int) -> bytes:
        assert max_bytes > 0, max_bytes
        with self._receiving():
            data = await self._wait_and_read(max_bytes) if self._drained else None
            if data is None:
                data = await self._stream.socket.recv(max_bytes)
        self._drained = len(data) < min(max_bytes, DRAINED_BYTES)
        return data

    async def receive_held(self, max_bytes: int) -> bytes | Held:
        assert max_bytes > 0, max_bytes
        with self._receiving():
            self._drained = False
            held = self._stream.pipes.take()
            if held is None:
                return await self._stream.socket.recv(min(max_bytes, RECEIVE_MAX_BYTES))
            await trio.lowlevel.checkpoint()
            while not self._fill(held, max_bytes):
                await trio.lowlevel.wait_readable(self._stream.socket)
        return held if len(held) else b""

    def receive_now(self, max_bytes: int, *, held: bool = False) -> bytes | Held | None:
        assert max_bytes > 0, max_bytes
        with self._receiving():
            pipe = self._stream.pipes.take() if held else None
            if pipe is None:
                data = self._read_now(min(max_bytes, RECEIVE_MAX_BYTES))
                self._drained = data is None
                return data
            self._drained = not self._fill(pipe, max_bytes)
        if self._drained:
            pipe.give_back()
            return None
        return pipe if len(pipe) else b""

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._stream.end_receiving()
        await trio.lowlevel.checkpoint()

    @contextlib.contextmanager
    def _receiving(self) -> Iterator[None]:
        if self._closed or self._stream.closed:
            raise trio.ClosedResourceError("this half is closed")
        try:
            yield
        except OSError as error:
            raise trio.BrokenResourceError(f"{self._stream.remote}: {error}") from error
        if self._closed:  # by another task, which woke this one with an end of stream
            raise trio.ClosedResourceError("this half was closed")

    async def _wait_and_read(self, max_bytes: int) -> bytes | None:
        """Wait first: a third of the work of `recv`, which tries first. None: there was nothing."""
        await trio.lowlevel.wait_readable(self._stream.socket)
        return self._read_now(max_bytes)

    def _read_now(self, max_bytes: int) -> bytes | None:
        try:
            return os.read(self._stream.socket.fileno(), max_bytes)
        except BlockingIOError:
            return None

    def _fill(self, held: PipedBytes, max_bytes: int) -> bool:
        """Take what is there now. False if that is nothing; at the end of the stream it is True."""
        if self._stream.closed:
            raise trio.ClosedResourceError("this half was closed")
        size = 0
        while size < max_bytes:
            try:
                count = held.fill(self._stream.socket.fileno(), max_bytes - size)
            except BlockingIOError:
                return size > 0
            if count == 0:
                return True
            size += count
        return True
