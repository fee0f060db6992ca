"""A WebSocket whose peer goes away at an awkward moment."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from actors.api import frame_socket
from actors.api.frame_socket import SocketClosed
from actors.env.protocols import Stream

REQUEST = (
    b"GET /api HTTP/1.1\r\nHost: n0\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class GoneBeforeTheAnswer(trio.abc.Stream):
    """Says the request and hears nothing any more, as a peer that was reset meanwhile."""

    def __init__(self) -> None:
        self._unread = REQUEST

    def trio_stream(self) -> trio.abc.Stream:
        return self

    def abort(self) -> None:
        """There is nothing left to abort."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        data, self._unread = self._unread, b""
        if not data:
            await trio.sleep_forever()
        return data

    async def send_all(self, data: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_peer_that_leaves_before_it_is_welcomed_is_gone(autojump_clock: object) -> None:
    """Found by seed 1030: a node that had been paused crashed the connection's actor."""
    with pytest.raises(SocketClosed, match="handshake"):
        async with frame_socket.accept(cast(Stream, GoneBeforeTheAnswer())):
            raise AssertionError("nobody is there")


async def test_a_request_whose_host_cannot_be_read_is_refused() -> None:
    """Of a version of the library that keeps it elsewhere."""
    with pytest.raises(SocketClosed, match=r"expected trio-websocket 0\.12, found"):
        frame_socket.host_of(object())
