"""Opening a connection to a node: where it is, who answers, which version both speak."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.api import frame_socket
from actors.api.failures import to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.client.connection import Client
from actors.env.protocols import Address, Network, Stream
from actors.env.tcp import TcpNetwork
from wire import api
from wire.errors import RemoteProtocolError

OPEN_TIMEOUT_S = 10.0


@asynccontextmanager
async def connect(
    target: Target,
    *,
    name: str = "client",
    network: Network | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> AsyncIterator[Client]:
    """Connect to a node for the length of an `async with` block.

    Args:
        target: the path of its Unix socket, or (host, port) of its API port.
        name: who this is, for the node's events.
        network: this machine's by default; `actors.sim`'s in simulation.
        timeout_s: for connecting, up to the node's welcome.

    Raises (on entry): OSError if the node cannot be reached or speaks something else;
        RequestRefused if it does not speak this version.

    Error handling: when the connection ends, the block goes on and its next request raises. At the
        end of the block, unanswered appends have the unknown outcome.
    """
    where = _address(target)
    failure: Exception | None = None
    with trio.CancelScope(deadline=trio.current_time() + timeout_s) as opening:
        try:
            stream = await _dial(network or TcpNetwork(), where)
            async with frame_socket.connect(stream, "localhost") as socket:
                client = await _greet(socket, name, where)
                opening.deadline = float("inf")
                await trio.lowlevel.checkpoint_if_cancelled()  # the deadline may have passed
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.run, name=f"client of {where}")
                    try:
                        yield client
                    except Exception as error:  # noqa: BLE001 - raised below, outside the nursery
                        failure = error
                    finally:
                        client.end("it was closed on this side")
                        nursery.cancel_scope.cancel()
        except (SocketClosed, RemoteProtocolError, trio.BrokenResourceError) as error:
            raise ConnectionError(f"{where}: not a node's API socket: {error}") from error
    if failure is not None:
        raise failure
    if opening.cancelled_caught:
        raise TimeoutError(f"{where}: no answer within {timeout_s:g} s")


def _address(target: Target) -> Address:
    match target:
        case Address():
            return target
        case str():
            return Address(target, 0)
        case _:
            return Address(*target)


async def _dial(network: Network, where: Address) -> Stream:
    if where.port:
        return await network.connect(where.host, where.port)
    return await network.connect_unix(where.host)


async def _greet(socket: FrameSocket, name: str, where: Address) -> Client:
    """Say hello. Raises: RequestRefused, SocketClosed, RemoteProtocolError."""
    await socket.send(_checked(api.Hello(id=0, version=api.PROTOCOL_VERSION, name=name)))
    answer = api.decode_answer(await socket.receive())
    match answer:
        case api.Welcome() if api.VERSION_MIN <= answer.version <= api.PROTOCOL_VERSION:
            return Client(socket, answer, where)
        case api.Welcome():
            spoken = f"the node chose version {answer.version}"
            raise RequestRefused(api.ERROR_VERSION, spoken)
        case api.Failed():
            raise to_error(answer)
        case _:
            raise RemoteProtocolError(f"{type(answer).__name__} where a welcome was due")


def _encoded(frame: api.Request) -> bytes:
    """Raises: TooLarge for an append above the frame limit."""
    try:
        data = api.encode(frame)
    except LocalProtocolError as error:
        raise TooLarge(str(error)) from error
    assert isinstance(data, bytes)
    return data


def _checked(frame: api.Request) -> bytes:
    """Encode what may hold values out of range: the node would end the connection for them.

    Raises: RequestRefused, as a node does for what it can read and not do.
    """
    try:
        data = _encoded(frame)
        api.decode_request(data)
    except (RemoteProtocolError, TypeError, AttributeError) as error:
        raise RequestRefused(api.ERROR_BAD_REQUEST, str(error)) from error
    return data
