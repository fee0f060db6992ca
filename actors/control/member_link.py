"""MemberLink: a connection to another member's API, for what the HA wire cannot say.

Every node has one to every other member of ours, for each group. It watches what that member is in
the group, and tells the own role keeper (`MemberTold`). If that member is master it also watches
its offsets, and tells the own pull_service up to where readers may see (`Acknowledged`) and who is
master (`MasterChanged`); but only while the own log is known to be a part of the master's.

Messages: AskMember from the role keeper, and its feeders'. Tells the role keeper and pull_service.
A restart forgets nothing: the next connection begins with the present state and offsets.

Differs from upstream: there slaves show whatever they have, also what a failover can take back.
"""

from __future__ import annotations

import logging
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.api import convert_group
from actors.api.credentials import MemberNetwork
from actors.api.frame_socket import SocketClosed
from actors.control.member_session import (
    LOST,
    ForeignNode,
    MasterDoor,
    MemberSession,
    member_session,
)
from actors.events import client as events
from actors.ha.core.role_effects import RoleState
from actors.ha.role_board import RoleBoard
from actors.ha.role_messages import AskMember, MemberTold
from actors.runtime import Actor, ActorRef, Backoff, ChildSpec
from actors.storage.commitlog import pull_service
from actors.trees.classic import GroupPaths
from wire.api import frames

_LOGGER = logging.getLogger("triolog.api")

REFRESH_S = 5.0
"""So long after a member last said what it is, it is asked, however much else it says: who waits
for that gets it within this time, also when it was said before anybody waited. Upstream's
heartbeat interval.
"""
RETRY_FIRST_S = 0.2
"""A master that just starts is tried again soon; sooner where the longest pause is shorter."""
RETRY_ASKING_S = 0.5
"""A master that may not open before it has heard its members looks for them more often."""
SEND_TIMEOUT_S = 5.0
RESTART_BACKOFF = Backoff(first_s=0.5, max_s=30.0)
_OFFSETS_ID, _PING_ID, _GROUP_ID, _ASKED_ID = 1, 2, 3, 1000
"""Request numbers; questions of the role keeper are numbered from the last one on."""


@attrs.frozen(kw_only=True)
class _Opened:
    """Feeder: the master has said who it is."""

    welcome: frames.Welcome


@attrs.frozen(kw_only=True)
class _Told:
    """Feeder: the master's offsets."""

    offsets: frames.Offsets


@attrs.frozen(kw_only=True)
class _RoleChanged:
    """Feeder: this node's own part has changed."""


@attrs.frozen(kw_only=True)
class _Lost:
    """Feeder: the connection, or the attempt, ended.

    Attributes:
        foreign: another node answers there than ours.
    """

    error: str
    foreign: bool


_Inbox: TypeAlias = AskMember | _Opened | _Told | _RoleChanged | _Lost


@attrs.define
class MemberLink(Actor[_Inbox]):
    """See the module's text."""

    _node: str
    _group: str
    _member: str
    _door: MasterDoor
    _network: MemberNetwork
    _retry_s: float
    _board: RoleBoard
    _reader: ActorRef[pull_service.Message] = attrs.field(init=False)
    _keeper: ActorRef[MemberTold] = attrs.field(init=False)
    _session: MemberSession | None = None
    _watches_offsets: bool = False
    _offsets: frames.Offsets | None = None
    _waiting: int = 0  # the newest question that no connection has carried
    _wanted: trio.Event = attrs.field(factory=trio.Event)
    _lost: bool = False
    _foreign: bool = False

    async def on_start(self) -> None:
        paths = GroupPaths(f"/{self._node}/{self._group}")
        self._reader, self._keeper = self.ctx.ref(paths.pull_service), self.ctx.ref(paths.role)
        self.ctx.spawn(self._keep)
        self.ctx.spawn(self._watch_board)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case AskMember():
                await self._ask(_ASKED_ID + message.number)
            case _Opened():
                await self._opened(message.welcome)
            case _Told():
                self._offsets = message.offsets
                await self._show()
            case _RoleChanged():
                await self._watch_offsets()
                await self._show()
            case _Lost():
                self._tell_loss(message)
            case _:
                assert_never(message)

    @property
    def _is_master(self) -> bool:
        """Whether that member is master, as far as this node acts."""
        return self._board.view.master == self._member

    async def _opened(self, welcome: frames.Welcome) -> None:
        self._lost = self._foreign = False
        self._offsets = None
        if self._is_master:
            self.ctx.emit(
                events.MasterLinkOpened(
                    group=self._group, master=welcome.node, master_boot=welcome.boot
                )
            )
        await self._watch_offsets()
        number, self._waiting = self._waiting, 0
        if number:
            await self._ask(number)

    async def _watch_offsets(self) -> None:
        """Only the master's matter, and there may be another one by now."""
        if self._session is None or self._watches_offsets == self._is_master:
            return
        self._watches_offsets = self._is_master
        self._offsets = None
        if self._is_master:
            await self._send(frames.WatchOffsets(id=_OFFSETS_ID, group=self._group))
        else:
            await self._send(frames.Cancel(id=_OFFSETS_ID))

    async def _show(self) -> None:
        """Readers see what the master has acknowledged, in a log that is a part of the master's."""
        offsets = self._offsets
        if offsets is None or not self._is_master:
            return
        if self._board.view.state is RoleState.FOLLOWING:
            await self._reader.tell(pull_service.Acknowledged(offset_bytes=offsets.acknowledged))
            await self._reader.tell(pull_service.MasterChanged(master=offsets.master))

    def _tell_loss(self, message: _Lost) -> None:
        found_out = message.foreign and not self._foreign
        if found_out:
            self._foreign = True
            _LOGGER.warning("%s: %s: %s", self._node, self._group, message.error)
        if (found_out or not self._lost) and self._is_master:
            self._lost = True
            self.ctx.emit(
                events.MasterLinkLost(group=self._group, master=self._member, error=message.error)
            )

    async def _ask(self, number: int) -> None:
        """Without a connection the question waits for one, which is tried at once then."""
        if self._session is None:
            self._waiting = max(self._waiting, number)
            self._wanted.set()
        else:
            await self._send(frames.GetGroup(id=number, group=self._group))

    async def _send(self, request: frames.Request) -> None:
        """Without a connection, or over a broken one, nothing comes of it."""
        session = self._session
        if session is None:
            return
        try:
            with trio.move_on_after(SEND_TIMEOUT_S):
                await session.frames.send(frames.encode(request))
        except LOST:
            return  # the feeder learns it too

    async def _watch_board(self) -> None:
        """Feeder: this node's own part."""
        known = self._board.view
        while True:
            known = await self._board.wait_changed(known)
            await self.ctx.self_ref.tell(_RoleChanged())

    async def _keep(self) -> None:
        """Feeder: connect, again and again."""
        first_s = pause_s = min(RETRY_FIRST_S, self._retry_s)
        while True:
            began_s = self.ctx.now_s()
            try:
                await self._use_one_connection()
            except LOST as error:
                text = str(error) or type(error).__name__
                foreign = isinstance(error, ForeignNode)
                await self.ctx.self_ref.tell(_Lost(error=text[:500], foreign=foreign))
            if self.ctx.now_s() - began_s > self._retry_s:
                pause_s = first_s
            waits_for_it = self._board.view.state is RoleState.ASKING
            await trio.sleep(first_s)
            rest_s = (min(pause_s, RETRY_ASKING_S) if waits_for_it else pause_s) - first_s
            with trio.move_on_after(rest_s):
                await self._wanted.wait()
            self._wanted = trio.Event()
            pause_s = min(2 * pause_s, self._retry_s)

    async def _use_one_connection(self) -> None:
        """Raises: one of LOST, in the end."""
        async with member_session(
            self._network, self._door, node=self._node, master=self._member
        ) as session:
            self._session, self._watches_offsets = session, False
            try:
                watch = frames.WatchGroup(id=_GROUP_ID, group=self._group)
                await session.frames.send(frames.encode(watch))
                await self.ctx.self_ref.tell(_Opened(welcome=session.welcome))
                await self._listen(session)
            finally:
                self._session = None

    async def _listen(self, session: MemberSession) -> None:
        """Pass on what the member says. Ask it again from time to time what it is; one that does
        not answer that may be gone silently.
        """
        asked, due_s = False, self.ctx.now_s() + REFRESH_S
        while True:
            answer: frames.Answer | None = None
            with trio.move_on_at(due_s):
                answer = await session.answer()
            if answer is not None:
                await self._heard(answer)
                if isinstance(answer, frames.Group):
                    asked, due_s = False, self.ctx.now_s() + REFRESH_S
            elif asked:
                raise trio.TooSlowError(f"{self._member} fell silent")
            else:
                asked, due_s = True, self.ctx.now_s() + self._door.answer_timeout_s
                await session.frames.send(
                    frames.encode(frames.GetGroup(id=_PING_ID, group=self._group))
                )

    async def _heard(self, answer: frames.Answer) -> None:
        match answer:
            case frames.Group():
                state = convert_group.to_group_state(answer)
                asked = max(0, answer.id - _ASKED_ID)
                told = MemberTold(member=self._member, state=state, asked=asked)
                await self._keeper.tell(told)
            case frames.Offsets():
                await self.ctx.self_ref.tell(_Told(offsets=answer))
            case frames.Ended() if answer.id == _OFFSETS_ID:
                pass
            case _:
                raise SocketClosed(f"unexpected answer: {answer!r}")


def link_child(
    *,
    node: str,
    group: str,
    member: str,
    door: MasterDoor,
    network: MemberNetwork,
    retry_s: float,
    board: RoleBoard,
) -> ChildSpec:
    """One link.

    Args:
        node: this node.
        member: the other one.
        door: how to reach it.
        retry_s: the longest pause between two attempts.
        board: what this node itself is in the group.
    """
    return ChildSpec(
        name=f"{group}-{member}",
        start=lambda: MemberLink(
            node=node,
            group=group,
            member=member,
            door=door,
            network=network,
            retry_s=retry_s,
            board=board,
        ),
        backoff=RESTART_BACKOFF,
    )
