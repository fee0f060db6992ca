"""WebSocket messages over any stream of the environment, for the server and for clients.

trio-websocket does the protocol; this adds what it leaves open (seen with 0.12.2): a handshake
whose peer goes away would wait for ever, errors of its reader task end whoever shares its nursery,
and `close` waits for a peer that may never answer.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeAlias

import trio
import trio_websocket
import wsproto.events

from actors.api.credentials import LOCAL_HOST, ConnectionGate
from actors.env.protocols import Address, Stream
from wire.api.frames import FRAME_BYTES_MAX
from wire.api.proof import CHALLENGE_HEADER, challenge_of

QUEUED_MESSAGES = 1
"""How many whole messages the library may hold beside the one that it assembles; none where
messages are counted before they are read.
"""
STREAM_BYTES = 256 << 10
"""The size in bytes of one read of a connection's stream, the usual socket buffer. With the
library's 4 KiB a frame would take 1,500 reads.
"""
CLOSE_TIMEOUT_S = 1.0
"""The seconds that the peer has for its half of the closing handshake; then the stream is closed.
"""
GOODBYE_S = 0.05
"""The seconds for sending a close frame while everything is being cancelled."""
REFUSAL_BYTES_SHOWN = 300
"""How many bytes are shown of a node's reason to refuse the handshake, which is a sentence."""
RESOURCE = "/triolog"
SUBPROTOCOL = "triolog.1"

NODE_GONE = (
    "the peer went away in the opening handshake; a node does so when too many connect at once"
)
"""The error of a client whose opening handshake never ended."""
LOST = "connection lost"

NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
ABNORMAL = 1006
TRY_AGAIN_LATER = 1013

_Handshake: TypeAlias = Callable[
    [Any, trio.abc.Stream], Awaitable[trio_websocket.WebSocketConnection]
]

BeforeRead: TypeAlias = Callable[[int], Awaitable[float]]
"""Called with the bytes of an unfinished message; returns when the stream may be read on, and the
time until which.
"""

_LOGGER = logging.getLogger("triolog.api")


class SocketClosed(Exception):
    """The connection has ended.

    Attributes:
        reason: why, for people.
        code: the code of the close frame, the peer's or ours; ABNORMAL if there was none.
        said: the reason in the close frame.
        unopened: whether the peer ended its stream in order before the opening handshake was over.
    """

    def __init__(
        self, reason: str, *, code: int = ABNORMAL, said: str = "", unopened: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.said = said
        self.unopened = unopened

    @property
    def orderly(self) -> bool:
        """Whether either side has sent a close frame."""
        return self.code != ABNORMAL


class FrameSocket:
    """An open WebSocket. One task at a time may call `receive`; any may call `send`.

    Attributes:
        challenge: the bytes that the node sent with its half of the handshake; empty if none.
        goodbye: the code and the reason for the peer if it ends without `close`.
    """

    def __init__(
        self,
        connection: trio_websocket.WebSocketConnection,
        stream: Stream,
        watched: _Watched,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._watched = watched
        self._pings_count = 0
        self.goodbye: tuple[int, str] = (GOING_AWAY, "")
        self.challenge = challenge_of(connection.handshake_headers)

    @property
    def heard_s(self) -> float:
        """The Trio time at which the last bytes of any message came."""
        return self._watched.heard_s

    async def receive(self) -> bytes | str:
        """Return the next message. Raises: SocketClosed."""
        try:
            return await self._connection.get_message()
        except trio_websocket.ConnectionClosed as error:
            raise _closed(error.reason) from None

    async def send(self, data: bytes | str) -> None:
        """Send one message. A send that is cancelled ends the connection. Raises: SocketClosed."""
        sent = False
        try:
            await self._connection.send_message(data)
            sent = True
        except trio_websocket.ConnectionClosed as error:
            sent = True  # nothing of it is half on its way
            raise _closed(error.reason) from None
        finally:
            if not sent:
                self._stream.abort()

    async def ping(self) -> None:
        """Send a ping, and wait for the peer's library to answer. Raises: SocketClosed."""
        self._pings_count += 1  # the library's own choice of a payload would be random
        try:
            await self._connection.ping(self._pings_count.to_bytes(8, "big"))
        except trio_websocket.ConnectionClosed as error:
            raise _closed(error.reason) from None

    async def close(
        self, code: int = NORMAL, reason: str = "", *, timeout_s: float = CLOSE_TIMEOUT_S
    ) -> None:
        """Send a close frame, wait `timeout_s` for the peer's, and close the stream."""
        with trio.move_on_after(timeout_s):
            await self._connection.aclose(code, _short(reason))
        self._stream.abort()


def host_of(request: object) -> str:
    """Return the Host of an opening handshake, for which trio-websocket 0.12.2 has no public name.

    Raises: SocketClosed: another version keeps it elsewhere. No connection may skip the check.
    """
    event = getattr(request, "_event", None)
    if not isinstance(event, wsproto.events.Request):
        found = trio_websocket.__version__
        raise SocketClosed(f"expected trio-websocket 0.12, found {found}: install that one")
    return event.host


@asynccontextmanager
async def accept(
    stream: Stream, before_read: BeforeRead | None = None, gate: ConnectionGate | None = None
) -> AsyncIterator[FrameSocket]:
    """Serve one WebSocket on an accepted stream; the stream is closed at the end.

    Args:
        before_read: holds the reading of the stream back; None: nothing does.
        gate: checks the handshake; None: nothing does.

    Raises: SocketClosed if the peer speaks anything else, or goes away.
    """

    async def handshake(nursery: Any, raw: trio.abc.Stream) -> trio_websocket.WebSocketConnection:
        request = await trio_websocket.wrap_server_stream(
            nursery,
            raw,
            message_queue_size=QUEUED_MESSAGES if before_read is None else 0,
            max_message_size=FRAME_BYTES_MAX,
            receive_buffer_size=STREAM_BYTES,
        )
        headers: list[tuple[bytes, bytes]] = []
        if gate is not None:
            objection = gate.objection(host_of(request), request.headers)
            if objection:
                await request.reject(HTTPStatus.FORBIDDEN, body=objection.encode())
                raise SocketClosed(objection)
            headers.append((CHALLENGE_HEADER, gate.challenge.hex().encode()))
        offered = SUBPROTOCOL in request.proposed_subprotocols
        subprotocol = SUBPROTOCOL if offered else None
        return await request.accept(subprotocol=subprotocol, extra_headers=headers)

    async with _session(stream, handshake, LOST, before_read) as connection:
        yield connection


@asynccontextmanager
async def connect(stream: Stream) -> AsyncIterator[FrameSocket]:
    """Open a WebSocket on a connected stream; the stream is closed at the end.

    Raises: SocketClosed if the peer speaks anything else, or goes away.
    """

    async def handshake(nursery: Any, raw: trio.abc.Stream) -> trio_websocket.WebSocketConnection:
        return await trio_websocket.wrap_client_stream(
            nursery,
            raw,  # type: ignore[arg-type] # any stream will do
            _host(stream.remote),
            RESOURCE,
            subprotocols=[SUBPROTOCOL],
            message_queue_size=QUEUED_MESSAGES,
            max_message_size=FRAME_BYTES_MAX,
            receive_buffer_size=STREAM_BYTES,
        )

    async with _session(stream, handshake, NODE_GONE) as connection:
        yield connection


def _host(remote: Address) -> str:
    """Return the Host header for requests to this address."""
    return str(remote) if remote.port else LOCAL_HOST


@asynccontextmanager
async def _session(
    stream: Stream, handshake: _Handshake, gone: str, before_read: BeforeRead | None = None
) -> AsyncIterator[FrameSocket]:
    """Run the library's reader task around the caller's block, so that neither cancels the other.

    Args:
        gone: the error's text if the peer goes away before the handshake is over.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        raw = stream.trio_stream()
        connection: trio_websocket.WebSocketConnection | None = None
        frames: FrameSocket | None = None
        try:
            with trio.CancelScope() as waiting:
                watched = _Watched(raw, waiting.cancel)
                guard = _Guard(nursery, waiting.cancel)
                try:
                    connection = await handshake(guard, watched)
                except (trio_websocket.ConnectionClosed, trio_websocket.HandshakeError) as error:
                    guard.error = f"the opening handshake failed: {type(error).__name__}"
            if connection is None:
                raise SocketClosed(guard.error or gone, unopened=not guard.error and watched.at_end)
            watched.on_end = None
            if before_read is not None:
                watched.gate = _gate(connection, before_read)
            frames = FrameSocket(connection, stream, watched)
            yield frames
        except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
            failure = error
        finally:
            with trio.CancelScope(shield=True):
                await _end(connection, raw, (GOING_AWAY, "") if frames is None else frames.goodbye)
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _text_of(error: Exception) -> str:
    if isinstance(error, trio_websocket.ConnectionRejected) and error.body:
        said = error.body[:REFUSAL_BYTES_SHOWN].decode("utf-8", "replace")
        return f"refused: {said}"
    return f"{type(error).__name__}: {error}"


def _gate(
    connection: trio_websocket.WebSocketConnection, before_read: BeforeRead
) -> Callable[[], Awaitable[float]]:
    async def gate() -> float:
        # The library has no public name for it (0.12.2).
        return await before_read(connection._message_size)

    return gate


async def _end(
    connection: trio_websocket.WebSocketConnection | None,
    raw: trio.abc.Stream,
    goodbye: tuple[int, str],
) -> None:
    """Send a close frame if neither side has, and close the stream without resetting it."""
    with trio.move_on_after(GOODBYE_S):
        if connection is not None:
            code, reason = goodbye
            await connection.aclose(code, _short(reason))
    with trio.move_on_after(GOODBYE_S):
        await raw.aclose()


def _closed(reason: trio_websocket.CloseReason | None) -> SocketClosed:
    if reason is None or reason.code == ABNORMAL:
        return SocketClosed(LOST)
    said = reason.reason or ""
    text = f": {said}" if said else ""
    return SocketClosed(f"closed with code {reason.code}{text}", code=reason.code, said=said)


def _short(reason: str) -> str | None:
    """Return the reason, cut to what fits into a close frame of 125 bytes; None if it is empty."""
    return reason[:120] or None


class _Guard:
    """Stands in for the nursery in which the library starts its reader task."""

    def __init__(self, nursery: trio.Nursery, on_end: Callable[[], None]) -> None:
        self._nursery = nursery
        self._on_end = on_end
        self.error = ""

    def start_soon(self, reader: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(self._run, reader, name="websocket reader")

    async def _run(self, reader: Callable[[], Awaitable[None]]) -> None:
        try:
            await reader()
        except Exception as error:  # whatever a peer's bytes provoke in libraries
            self.error = _text_of(error)
            _LOGGER.debug("a connection's reader failed", exc_info=True)
        self._on_end()


class _Watched(trio.abc.Stream):
    """Passes a stream through, and calls `on_end` when it has ended for any reason."""

    def __init__(self, inner: trio.abc.Stream, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self.on_end: Callable[[], None] | None = on_end
        self.gate: Callable[[], Awaitable[float]] | None = None
        self.at_end = False
        self.heard_s = trio.current_time()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data: bytes | bytearray = b""  # as if it had ended, if it takes too long
        try:
            deadline_s = float("inf") if self.gate is None else await self.gate()
            with trio.CancelScope(deadline=deadline_s):
                data = await self._inner.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._ended()
            raise
        self.heard_s = trio.current_time()
        if not data:
            self.at_end = True
            self._ended()
        return data

    async def aclose(self) -> None:
        self._ended()
        await self._inner.aclose()

    def _ended(self) -> None:
        if self.on_end is not None:
            self.on_end()
