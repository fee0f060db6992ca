"""Opens a node's connection to another member's API: its address, and the greeting.

Everything here raises one of `LOST`, whatever goes wrong between the two nodes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors.api import frame_socket
from actors.api.credentials import ExpectedNode, MemberNetwork, greet
from actors.api.failures import to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.api.slots import member_name
from actors.api.socket_file import api_socket_path
from actors.config import ClusterConfig
from actors.env.protocols import Address, Network, Stream
from actors.errors import TriologError
from wire.api import frames as api
from wire.errors import RemoteProtocolError

ANSWER_CHARS_MAX = 500
"""How many characters of an unexpected answer an error shows."""
LOST = (
    OSError,
    SocketClosed,
    RemoteProtocolError,
    TriologError,
    trio.BrokenResourceError,
    trio.TooSlowError,
)


def lost_text(error: Exception) -> str:
    """Describe, for people, why there is no answer. A time-out of Trio has no text of its own."""
    if isinstance(error, trio.TooSlowError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__


def unexpected(answer: api.Answer) -> SocketClosed:
    """Return the error for an answer that does not fit the question."""
    return SocketClosed(f"unexpected answer: {answer!r}"[:ANSWER_CHARS_MAX])


class ForeignNode(TriologError):
    """Another node than the configured one answers at an address, or one of another cluster."""


@attrs.frozen(kw_only=True)
class MemberAddress:
    """Where a member's API is, and how to reach it.

    Attributes:
        address: host and port; or the path of a Unix socket, and port 0.
        cluster: the name of the cluster to which the node that answers must belong.
        local_host: the own address to connect from, by which the other side knows a member; None
            for a Unix socket.
        answer_timeout_s: the configured time for connecting, for the greeting, and for an answer.
    """

    address: Address
    cluster: str
    local_host: str | None = None
    answer_timeout_s: float = 10.0

    @classmethod
    def of(cls, config: ClusterConfig, member: str, node: str) -> MemberAddress:
        """Return where `node` reaches `member`: its API port or, without one, its Unix socket."""
        timeout_s = config.answer_timeout_s
        if config.api_port is None:
            socket = Address(api_socket_path(config.node_dir(member)), 0)
            return cls(address=socket, cluster=config.name, answer_timeout_s=timeout_s)
        return cls(
            address=Address(config.nodes[member], config.api_port),
            cluster=config.name,
            local_host=config.nodes[node],
            answer_timeout_s=timeout_s,
        )


@attrs.frozen(kw_only=True)
class MemberSession:
    """An open connection on which the greeting is done.

    Attributes:
        welcome: what the other node answered to the greeting.
    """

    frames: FrameSocket
    welcome: api.Welcome


@asynccontextmanager
async def member_session(
    network: MemberNetwork, address: MemberAddress, *, node: str, member: str
) -> AsyncIterator[MemberSession]:
    """Connect, greet and check who answers; the session is open for as long as the block.

    Args:
        node: the node that connects.
        member: the node that has to answer.

    Raises (on entry): ForeignNode: another node answers. Else another one of LOST, TooSlowError
        after `answer_timeout_s`.
    """
    with trio.fail_after(address.answer_timeout_s):
        stream = await _connect(network.network, address)
    with trio.CancelScope(deadline=trio.current_time() + address.answer_timeout_s) as opening:
        async with frame_socket.connect(stream) as frames:
            hello = api.Hello(id=0, version=api.VERSION_MIN, name=member_name(node))
            greeting = None
            if address.address.port:
                greeting = greet(hello, ExpectedNode(member, network.credentials), frames.challenge)
            await frames.send(api.encode(hello if greeting is None else greeting.hello))
            welcome = api.decode_answer(await frames.receive())
            if isinstance(welcome, api.Failed):
                raise to_error(welcome)
            if not isinstance(welcome, api.Welcome):
                raise unexpected(welcome)
            if (welcome.cluster, welcome.node) != (address.cluster, member):
                raise ForeignNode(
                    f"expected node {member} of cluster {address.cluster} at {address.address},"
                    f" found node {welcome.node} of cluster {welcome.cluster}"
                )
            if greeting is not None:
                greeting.check(welcome)
            opening.deadline = float("inf")
            yield MemberSession(frames=frames, welcome=welcome)
            return
    raise trio.TooSlowError(f"{member} did not answer in {address.answer_timeout_s:g} s")


async def _connect(network: Network, found: MemberAddress) -> Stream:
    address = found.address
    if address.port == 0:
        return await network.connect_unix(address.host)
    return await network.connect(address.host, address.port, local_host=found.local_host)
