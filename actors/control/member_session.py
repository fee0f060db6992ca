"""A member's connection to another member's API: how to reach it, the greeting, one question.

Raises everywhere: one of `LOST`, whatever goes wrong between the two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from actors.api import frame_socket
from actors.api.convert_group import to_group_state
from actors.api.credentials import Identity, MemberNetwork, greet
from actors.api.failures import to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.api.slots import member_name
from actors.api.socket_file import api_socket_path
from actors.config import ClusterConfig
from actors.env.protocols import Address, Network, Stream
from actors.errors import TriologError
from actors.log_types import GroupState
from actors.storage.scrub.mending import GoodRange
from wire.api import frames as api
from wire.crc import crc32
from wire.errors import RemoteProtocolError

ANSWER_CHARS_MAX = 500
"""Characters of an unexpected answer that an error shows."""
LOST = (
    OSError,
    SocketClosed,
    RemoteProtocolError,
    TriologError,
    trio.BrokenResourceError,
    trio.TooSlowError,
)


def lost_text(error: Exception) -> str:
    """Why there is no answer, for people: a time that is over has no words of its own."""
    if isinstance(error, trio.TooSlowError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__


class ForeignNode(TriologError):
    """Another node answers there than the configuration says, or one of another cluster."""


@attrs.frozen(kw_only=True)
class MasterDoor:
    """Where a master's API is.

    Attributes:
        address: host and port, or path and 0.
        cluster: whose node must answer there.
        local_host: the own address to come from, so that the master knows a member.
        answer_timeout_s: for the connection, for the greeting, and for an answer when the other was
            quiet: the configuration's.
    """

    address: Address
    cluster: str
    local_host: str | None = None
    answer_timeout_s: float = 10.0


@attrs.frozen(kw_only=True)
class MemberSession:
    """A greeted connection."""

    frames: FrameSocket
    welcome: api.Welcome

    async def answer(self) -> api.Answer:
        """The next frame. Raises: as the module says; the error that a `failed` frame tells."""
        return _checked(await self.frames.receive())


@asynccontextmanager
async def member_session(
    network: MemberNetwork, door: MasterDoor, *, node: str, master: str
) -> AsyncIterator[MemberSession]:
    """Connect, greet and check who answers, within the door's time; then for as long as the block.

    Args:
        node: who asks.
        master: who is expected there.
    """
    with trio.fail_after(door.answer_timeout_s):
        stream = await _connect(network.network, door)
    with trio.CancelScope(deadline=trio.current_time() + door.answer_timeout_s) as opening:
        async with frame_socket.connect(stream) as frames:
            hello = api.Hello(id=0, version=api.VERSION_MIN, name=member_name(node))
            greeting = None
            if door.address.port:
                greeting = greet(hello, Identity(master, network.credentials), frames.challenge)
            await frames.send(api.encode(hello if greeting is None else greeting.hello))
            welcome = _checked(await frames.receive())
            if not isinstance(welcome, api.Welcome):
                raise SocketClosed(f"unexpected answer: {welcome!r}")
            if (welcome.cluster, welcome.node) != (door.cluster, master):
                raise ForeignNode(
                    f"expected node {master} of cluster {door.cluster} at {door.address}, found"
                    f" node {welcome.node} of cluster {welcome.cluster}"
                )
            if greeting is not None:
                greeting.check(welcome)
            opening.deadline = float("inf")
            yield MemberSession(frames=frames, welcome=welcome)
            return
    raise trio.TooSlowError(f"{master} did not answer in {door.answer_timeout_s:g} s")


async def ask_fresh(
    network: MemberNetwork, door: MasterDoor, *, node: str, master: str, group: str
) -> int:
    """What a leader has committed at this moment, by a read that it proves its leadership for."""
    with trio.fail_after(door.answer_timeout_s):
        async with member_session(network, door, node=node, master=master) as session:
            nothing = api.Read(id=1, group=group, start=api.POSITION_MAX, max_bytes=1, fresh=True)
            await session.frames.send(api.encode(nothing))
            answer = await session.answer()
            if not isinstance(answer, api.Batch):
                raise SocketClosed(f"unexpected answer: {answer!r}")
            return answer.acknowledged


async def ask_group(
    network: MemberNetwork, door: MasterDoor, *, node: str, master: str, group: str
) -> GroupState:
    """What another member is in the group at this moment."""
    with trio.fail_after(door.answer_timeout_s):
        async with member_session(network, door, node=node, master=master) as session:
            await session.frames.send(api.encode(api.GetGroup(id=1, group=group)))
            answer = await session.answer()
            if not isinstance(answer, api.Group):
                raise SocketClosed(f"unexpected answer: {answer!r}")
            return to_group_state(answer)


async def ask_range(
    network: MemberNetwork, door: MasterDoor, *, node: str, master: str, group: str, start: int
) -> GoodRange:
    """A good range of another member's log, by what that one says: nothing of it was checked but
    its length and its digest.
    """
    with trio.fail_after(door.answer_timeout_s):
        async with member_session(network, door, node=node, master=master) as session:
            await session.frames.send(api.encode(api.GetRange(id=1, group=group, start=start)))
            answer = await session.answer()
    if not isinstance(answer, api.Range):
        raise SocketClosed(f"unexpected answer: {answer!r}"[:ANSWER_CHARS_MAX])
    if crc32(answer.data) != answer.digest:
        raise SocketClosed("the bytes that came are not those that were sent")
    return GoodRange(start=answer.start, data=answer.data, digest=answer.digest)


async def _connect(network: Network, door: MasterDoor) -> Stream:
    address = door.address
    if address.port == 0:
        return await network.connect_unix(address.host)
    return await network.connect(address.host, address.port, local_host=door.local_host)


def _checked(data: bytes | str) -> api.Answer:
    answer = api.decode_answer(data)
    if isinstance(answer, api.Failed):
        raise to_error(answer)
    return answer


def master_door(config: ClusterConfig, master: str, own_address: str) -> MasterDoor:
    """How to reach a master: by its port, or by its socket file if the cluster has no port."""
    if config.api_port is not None:
        return MasterDoor(
            address=Address(config.nodes[master], config.api_port),
            cluster=config.name,
            local_host=own_address,
            answer_timeout_s=config.answer_timeout_s,
        )
    socket = Address(api_socket_path(config.node_dir(master)), 0)
    return MasterDoor(address=socket, cluster=config.name, answer_timeout_s=config.answer_timeout_s)
