"""MemberLink: a slave's connection to its master's API, for what the HA wire cannot say.

It watches the master's offsets of one group and tells the group's pull_service up to where readers
may see (`Acknowledged`) and who is master (`MasterChanged`).

Messages: its feeder's only. Tells pull_service; all of it is conflated there. A restart forgets
nothing: the next connection begins with the present offsets.

Differs from upstream: there slaves show whatever they have, also what a failover can take back.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import attrs
import trio

from actors.api import frame_socket
from actors.api.failures import to_error
from actors.api.frame_socket import FrameSocket, SocketClosed
from actors.env.protocols import Address, Network, Stream
from actors.errors import TriologError
from actors.events import client as events
from actors.runtime import Actor, ActorRef, Backoff, ChildSpec
from actors.storage import pull_service
from actors.trees.classic import GroupPaths
from wire import api
from wire.errors import RemoteProtocolError

ANSWER_TIMEOUT_S = 10.0
"""For the connection, for the greeting, and for an answer when the master was quiet."""
QUIET_S = 5.0
"""Without news for so long, the master is asked: upstream's heartbeat interval."""
RETRY_FIRST_S = 0.2
"""A master that just starts is tried again soon."""
RESTART_BACKOFF = Backoff(first_s=0.5, max_s=30.0)

_LOST = (
    OSError,
    SocketClosed,
    RemoteProtocolError,
    TriologError,
    trio.BrokenResourceError,
    trio.TooSlowError,
)


@attrs.frozen(kw_only=True)
class MasterDoor:
    """Where a master's API is.

    Attributes:
        address: host and port, or path and 0.
        local_host: the own address to come from, so that the master knows a member.
    """

    address: Address
    local_host: str | None = None


@attrs.frozen(kw_only=True)
class _Opened:
    """Feeder: the master has said who it is."""

    welcome: api.Welcome


@attrs.frozen(kw_only=True)
class _Told:
    """Feeder: the master's offsets."""

    offsets: api.Offsets


@attrs.frozen(kw_only=True)
class _Lost:
    """Feeder: the connection, or the attempt, ended."""

    error: str


_Inbox: TypeAlias = _Opened | _Told | _Lost


@attrs.define
class MemberLink(Actor[_Inbox]):
    """See the module's text."""

    _node: str
    _group: str
    _master: str
    _door: MasterDoor
    _network: Network
    _retry_s: float
    _reader: ActorRef[pull_service.Message] = attrs.field(init=False)
    _lost: bool = False

    async def on_start(self) -> None:
        self._reader = self.ctx.ref(GroupPaths(f"/{self._node}/{self._group}").pull_service)
        self.ctx.spawn(self._keep)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case _Opened():
                self._lost = False
                self.ctx.emit(
                    events.MasterLinkOpened(
                        group=self._group,
                        master=message.welcome.node,
                        master_boot=message.welcome.boot,
                    )
                )
            case _Told():
                offsets = message.offsets
                await self._reader.tell(
                    pull_service.Acknowledged(offset_bytes=offsets.acknowledged)
                )
                await self._reader.tell(pull_service.MasterChanged(master=offsets.master))
            case _Lost():
                if not self._lost:
                    self._lost = True
                    self.ctx.emit(
                        events.MasterLinkLost(
                            group=self._group, master=self._master, error=message.error
                        )
                    )
            case _:
                assert_never(message)

    async def _keep(self) -> None:
        """Feeder: connect, again and again."""
        pause_s = RETRY_FIRST_S
        while True:
            began_s = self.ctx.now_s()
            try:
                await self._use_one_connection()
            except _LOST as error:
                text = str(error) or type(error).__name__
                await self.ctx.self_ref.tell(_Lost(error=text[:500]))
            if self.ctx.now_s() - began_s > self._retry_s:
                pause_s = RETRY_FIRST_S
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._retry_s)

    async def _use_one_connection(self) -> None:
        """Raises: one of _LOST, in the end."""
        with trio.fail_after(ANSWER_TIMEOUT_S):
            stream = await self._connect()
        with trio.CancelScope(deadline=self.ctx.now_s() + ANSWER_TIMEOUT_S) as opening:
            async with frame_socket.connect(stream) as frames:
                await frames.send(api.encode(self._hello()))
                welcome = _checked(await frames.receive())
                if not isinstance(welcome, api.Welcome) or welcome.node != self._master:
                    raise SocketClosed(f"{self._door.address} is not {self._master}: {welcome!r}")
                opening.deadline = float("inf")
                await self.ctx.self_ref.tell(_Opened(welcome=welcome))
                await frames.send(api.encode(api.WatchOffsets(id=1, group=self._group)))
                await self._listen(frames)
        raise trio.TooSlowError(f"{self._master} did not answer in {ANSWER_TIMEOUT_S} s")

    async def _listen(self, frames: FrameSocket) -> None:
        """Pass on what the master says. When it is quiet, ask, for it may be gone silently."""
        asked = False
        while True:
            answer: api.Answer | None = None
            with trio.move_on_after(ANSWER_TIMEOUT_S if asked else QUIET_S):
                answer = _checked(await frames.receive())
            if isinstance(answer, api.Offsets):
                asked = False
                await self.ctx.self_ref.tell(_Told(offsets=answer))
            elif answer is not None:
                raise SocketClosed(f"unexpected answer: {answer!r}")
            elif asked:
                raise trio.TooSlowError(f"{self._master} fell silent")
            else:
                asked = True
                await frames.send(api.encode(api.GetOffsets(id=2, group=self._group)))

    def _hello(self) -> api.Hello:
        return api.Hello(id=0, version=api.PROTOCOL_VERSION, name=f"member {self._node}")

    async def _connect(self) -> Stream:
        address = self._door.address
        if address.port == 0:
            return await self._network.connect_unix(address.host)
        return await self._network.connect(
            address.host, address.port, local_host=self._door.local_host
        )


def _checked(data: bytes | str) -> api.Answer:
    answer = api.decode_answer(data)
    if isinstance(answer, api.Failed):
        raise to_error(answer)
    return answer


def link_child(
    *, node: str, group: str, master: str, door: MasterDoor, network: Network, retry_s: float
) -> ChildSpec:
    """One link.

    Args:
        node: this node.
        master: the group's master, by the configuration.
        door: how to reach it.
        retry_s: the longest pause between two attempts.
    """
    return ChildSpec(
        name=group,
        start=lambda: MemberLink(
            node=node, group=group, master=master, door=door, network=network, retry_s=retry_s
        ),
        backoff=RESTART_BACKOFF,
    )
