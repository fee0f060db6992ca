"""MemberLink: a slave's connection to its master's API, for what the HA wire cannot say.

It watches the master's offsets of one group and tells the group's pull_service up to where readers
may see (`Acknowledged`) and who is master (`MasterChanged`).

Messages: its feeder's only. Tells pull_service; all of it is conflated there. A restart forgets
nothing: the next connection begins with the present offsets.

Differs from upstream: there slaves show whatever they have, also what a failover can take back.
"""

from __future__ import annotations

import logging
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.api.frame_socket import SocketClosed
from actors.api.member_session import (
    ANSWER_TIMEOUT_S,
    LOST,
    ForeignNode,
    MasterDoor,
    MemberSession,
    member_session,
)
from actors.env.protocols import Network
from actors.events import client as events
from actors.runtime import Actor, ActorRef, Backoff, ChildSpec
from actors.storage import pull_service
from actors.trees.classic import GroupPaths
from wire import api

_LOGGER = logging.getLogger("triolog.api")

QUIET_S = 5.0
"""Without news for so long, the master is asked: upstream's heartbeat interval."""
RETRY_FIRST_S = 0.2
"""A master that just starts is tried again soon."""
RESTART_BACKOFF = Backoff(first_s=0.5, max_s=30.0)


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
    """Feeder: the connection, or the attempt, ended.

    Attributes:
        foreign: another node answers there than ours.
    """

    error: str
    foreign: bool


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
    _foreign: bool = False

    async def on_start(self) -> None:
        self._reader = self.ctx.ref(GroupPaths(f"/{self._node}/{self._group}").pull_service)
        self.ctx.spawn(self._keep)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case _Opened():
                self._lost = self._foreign = False
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
                found_out = message.foreign and not self._foreign
                if found_out:
                    self._foreign = True
                    _LOGGER.warning("%s: %s: %s", self._node, self._group, message.error)
                if found_out or not self._lost:
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
            except LOST as error:
                text = str(error) or type(error).__name__
                foreign = isinstance(error, ForeignNode)
                await self.ctx.self_ref.tell(_Lost(error=text[:500], foreign=foreign))
            if self.ctx.now_s() - began_s > self._retry_s:
                pause_s = RETRY_FIRST_S
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, self._retry_s)

    async def _use_one_connection(self) -> None:
        """Raises: one of LOST, in the end."""
        async with member_session(
            self._network, self._door, node=self._node, master=self._master
        ) as session:
            await self.ctx.self_ref.tell(_Opened(welcome=session.welcome))
            await session.frames.send(api.encode(api.WatchOffsets(id=1, group=self._group)))
            await self._listen(session)

    async def _listen(self, session: MemberSession) -> None:
        """Pass on what the master says. When it is quiet, ask, for it may be gone silently."""
        asked = False
        while True:
            answer: api.Answer | None = None
            with trio.move_on_after(ANSWER_TIMEOUT_S if asked else QUIET_S):
                answer = await session.answer()
            if isinstance(answer, api.Offsets):
                asked = False
                await self.ctx.self_ref.tell(_Told(offsets=answer))
            elif answer is not None:
                raise SocketClosed(f"unexpected answer: {answer!r}")
            elif asked:
                raise trio.TooSlowError(f"{self._master} fell silent")
            else:
                asked = True
                await session.frames.send(api.encode(api.GetOffsets(id=2, group=self._group)))


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
