"""MemberLink: a node's one connection to another member's API, for what replication cannot say.

A node has one to every other node of ours that has a group with it, however many groups that are.
It keeps one greeted connection, and over it

- asks questions (`Ask`): of promotions, fresh reads and repairs. Each has a number of its own and
  is answered whenever the member has the answer, whatever was asked before it. It is sent at most
  once. While there is no connection one is tried at once, and its failure is the answer.
- watches what the member is in each classic group of both (`WatchedGroup`), and tells the group's
  role keeper (`MemberTold`). If that member is master there it also watches its offsets, and tells
  pull_service up to where readers may see (`Acknowledged`) and who is master (`MasterChanged`);
  but only while the own log is known to be a part of the master's.

None of them holds up another. The member works on each request by itself, and on a bounded number:
a link has fewer under way, and of each group few that only read, so whatever is asked of one group,
a claim and the questions of the others pass. A question that its asker has given up stays the
member's until that answers; a connection with many of those makes way for a new one.

On the wire an answer waits for those before it, of which the longest is a range for a repair:
64 KiB, or one DLedger entry of at most 4 MiB. A repair asks for a range when it has the one before,
so of each group there is one at a time, and what was asked meanwhile is answered before the next. A
connection of its own would still share the wire.

A member that says nothing at all, not even to a ping, is given up within REFRESH_S and the time for
an answer; one that does not read, within SEND_TIMEOUT_S.

The secret is read anew for every question: one that was put there, or replaced, since the
connection was greeted makes a new connection.

Messages: Ask, AskMember from role keepers, and its feeders'. Tells role keepers and pull_services.
A restart fails what is asked and forgets nothing else: the next connection begins with the present
state and offsets.

Differs from upstream: there slaves show whatever they have, also what a failover can take back.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Final, TypeAlias, assert_never

import attrs
import msgspec
import trio

from actors.api import convert
from actors.api.credentials import MemberNetwork
from actors.api.failures import to_error
from actors.control.member_session import (
    LOST,
    ForeignNode,
    MemberAddress,
    MemberSession,
    lost_text,
    member_session,
    unexpected,
)
from actors.errors import Overloaded
from actors.events import client as events
from actors.ha.core.role_effects import RoleState
from actors.ha.role_messages import MemberTold
from actors.ha.role_status import RoleStatus
from actors.runtime import Actor, ActorRef, Backoff, ChildSpec, ReplyTo
from actors.storage.commitlog import pull_service
from actors.trees.group_setup import GroupPaths
from wire.api import frames

_LOGGER = logging.getLogger("triolog.api")

REFRESH_S: Final = 5.0
"""So long after a member last said what it is in a group, it is asked, however much else it says:
who waits for that gets it within this time, also when it was said before anybody waited. Upstream's
heartbeat interval. After the same time without a byte of any kind it is pinged.
"""
RETRY_FIRST_S: Final = 0.2
"""A member that just starts is tried again soon; sooner where the longest pause is shorter."""
RETRY_MAX_S: Final = 5.0
"""The longest pause where no group names one."""
RETRY_ASKING_S: Final = 0.5
"""A master that may not open before it has heard its members looks for them more often."""
SEND_TIMEOUT_S: Final = 5.0
QUESTIONS_MAX: Final = 128
"""Under way on one link; a member takes 256 requests of a connection, in older versions too."""
GIVEN_UP_MAX: Final = 64
"""Beside them, those that nobody waits for any more: with so many a new connection is made."""
READS_PER_GROUP_MAX: Final = 16
"""Of these, those of one group that change nothing: they are many only if something is wrong, or
somebody asks for very many promotions at once.
"""
ERROR_CHARS_MAX: Final = 500
RESTART_BACKOFF: Final = Backoff(first_s=0.5, max_s=30.0)

Question: TypeAlias = (
    frames.GetGroup
    | frames.Read
    | frames.GetRange
    | frames.GetStatus
    | frames.Fence
    | frames.Record
)


@attrs.frozen(kw_only=True, eq=False)
class Ask:
    """Ask the member one question. Answered by its answer, or by one of `LOST`: with RequestRefused
    or what else it raised there, or because nobody knows whether it was heard.

    Attributes:
        question: its number is the link's to choose.
    """

    question: Question
    reply_to: ReplyTo[frames.Answer]


@attrs.frozen(kw_only=True)
class AskMember:
    """Ask the member what it is in a classic group at this moment, and tell its role keeper
    MemberTold with this number. Without a connection the next one carries the newest such question.
    """

    group: str
    number: int


@attrs.frozen(kw_only=True)
class WatchedGroup:
    """A classic group that both nodes have.

    Attributes:
        retry_s: the longest pause between two attempts.
        role_status: what this node itself is in the group.
    """

    name: str
    retry_s: float
    role_status: RoleStatus


@attrs.define(kw_only=True, eq=False)
class _Watch:
    """What the link knows of one watched group.

    Attributes:
        offsets: the newest of the master; None: it is not the master's, or has not said.
        state_id, offsets_id: the running subscriptions; 0: there is none.
        waiting: the newest of the role keeper's questions that no connection has carried.
        unanswered: requests under way, subscriptions among them.
        heard_s: when the member last said what it is.
        asked_s: when it was asked again since; None: it was not.
        pause_s: before the next attempt.
        lost: MasterLinkLost was told last. `foreign`: and that another node answers.
    """

    group: WatchedGroup
    reader: ActorRef[pull_service.Message]
    keeper: ActorRef[MemberTold]
    offsets: frames.Offsets | None = None
    state_id: int = 0
    offsets_id: int = 0
    waiting: int = 0
    unanswered: int = 0
    heard_s: float = 0.0
    asked_s: float | None = None
    pause_s: float = RETRY_FIRST_S
    lost: bool = False
    foreign: bool = False

    @property
    def first_pause_s(self) -> float:
        return min(RETRY_FIRST_S, self.group.retry_s)

    @property
    def is_asking(self) -> bool:
        return self.group.role_status.view.state is RoleState.ASKING

    def due_s(self, answer_timeout_s: float) -> float:
        """When it is to be asked, or to have answered."""
        if self.asked_s is not None:
            return self.asked_s + answer_timeout_s
        return self.heard_s + REFRESH_S


@attrs.frozen(kw_only=True)
class _Watching:
    """A request for a watched group. `asked`: the role keeper's number of it, or 0."""

    watch: _Watch
    asked: int = 0


@attrs.frozen(kw_only=True)
class _Opened:
    """Feeder: the member has said who it is."""


@attrs.frozen(kw_only=True)
class _Offsets:
    """Feeder: the offsets of a watched group's master."""

    watch: _Watch
    offsets: frames.Offsets


@attrs.frozen(kw_only=True)
class _Failed:
    """Feeder: a request for a watched group failed."""

    watching: _Watching
    error: str


@attrs.frozen(kw_only=True)
class _RoleChanged:
    """Feeder: this node's own part in a watched group has changed."""

    watch: _Watch


@attrs.frozen(kw_only=True)
class _Again:
    """Timer, or a feeder: see whether all of a group is watched, and its questions are asked."""

    watch: _Watch


@attrs.frozen(kw_only=True)
class _Due:
    """Timer: a watched group's state is to be asked for, or should have been answered."""


@attrs.frozen(kw_only=True)
class _Lost:
    """Feeder: the connection, or the attempt, ended.

    Attributes:
        foreign: another node answers there than ours.
    """

    error: str
    foreign: bool


_Inbox: TypeAlias = (
    Ask | AskMember | _Opened | _Offsets | _Failed | _RoleChanged | _Again | _Due | _Lost
)


@attrs.define
class MemberLink(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        node: this node. member: the other one, which is at `address`.
        groups: those to watch.
    """

    _node: str
    _member: str
    _address: MemberAddress
    _network: MemberNetwork
    _groups: tuple[WatchedGroup, ...]
    _watches: dict[str, _Watch] = attrs.field(factory=dict, init=False)
    _session: MemberSession | None = attrs.field(default=None, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _why: str = attrs.field(default="", init=False)
    _secret: bytes | None = attrs.field(default=None, init=False)
    _attempts: int = attrs.field(default=0, init=False)
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)
    _asked: dict[int, Ask] = attrs.field(factory=dict, init=False)
    _watching: dict[int, _Watching] = attrs.field(factory=dict, init=False)
    _waiting: list[tuple[int, Ask]] = attrs.field(factory=list, init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def on_start(self) -> None:
        for group in self._groups:
            paths = GroupPaths(f"/{self._node}/{group.name}")
            watch = self._watches[group.name] = _Watch(
                group=group,
                reader=self.ctx.ref(paths.pull_service),
                keeper=self.ctx.ref(paths.role),
            )
            self.ctx.spawn(self._watch_role_status, watch)
        self.ctx.spawn(self._keep)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case Ask():
                await self._ask(message)
            case AskMember():
                await self._ask_member(self._watches[message.group], message.number)
            case _Opened():
                await self._opened()
            case _Offsets():
                message.watch.offsets = message.offsets
                await self._show(message.watch)
            case _Failed():
                self._failed(message.watching, message.error)
            case _RoleChanged():
                await self._watch_offsets(message.watch)
                await self._show(message.watch)
            case _Again():
                await self._watch(message.watch)
            case _Due():
                await self._refresh()
            case _Lost():
                for watch in self._watches.values():
                    self._tell_loss(watch, message.error, foreign=message.foreign)
            case _:
                assert_never(message)

    # Questions.

    async def _ask(self, ask: Ask) -> None:
        if ask.reply_to.answered:
            return
        self._look_outdated()
        if error := self._is_full(ask):
            ask.reply_to.fail(error)
        elif self._session is None:
            self._waiting.append((self._attempts, ask))
            self._wanted.set()
        else:
            number = next(self._numbers)
            self._asked[number] = ask
            await self._send(msgspec.structs.replace(ask.question, id=number))

    def _look_outdated(self) -> None:
        """End a connection that was greeted with another secret, or has too much of what nobody
        waits for.
        """
        given_up = sum(each.reply_to.answered for each in self._asked.values())
        if given_up >= GIVEN_UP_MAX:
            self._end(f"{self._member} leaves {given_up} questions unanswered")
        elif self._secret_now() != self._secret:
            self._end("the cluster's secret has changed here")

    def _end(self, why: str) -> None:
        """The connection, if there is one, so that a new one is made."""
        if self._session is not None:
            self._why, self._session = why, None
            self._scope.cancel()

    def _secret_now(self) -> bytes | None:
        return self._network.credentials.secret() if self._address.address.port else None

    def _is_full(self, ask: Ask) -> Overloaded | None:
        asked = [*self._asked.values(), *(each for _, each in self._waiting)]
        live = [each.question for each in asked if not each.reply_to.answered]
        if isinstance(ask.question, frames.READS):
            group = _group(ask.question)
            reads = sum(_group(each) == group for each in live if isinstance(each, frames.READS))
            if reads >= READS_PER_GROUP_MAX:
                return Overloaded(f"{self._member} has {reads} questions of {group} to answer")
        if len(live) >= QUESTIONS_MAX:
            return Overloaded(f"{self._member} has {len(live)} questions to answer")
        return None

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

    # Watched groups.

    async def _ask_member(self, watch: _Watch, number: int) -> None:
        """What finds no connection, or too much under way, waits; the newest stands for all."""
        if self._session is None or watch.unanswered >= READS_PER_GROUP_MAX:
            watch.waiting = max(watch.waiting, number)
            self._wanted.set()
        else:
            await self._get_group(watch, number)

    async def _get_group(self, watch: _Watch, asked: int = 0) -> None:
        number = self._numbered(watch, asked)
        await self._send(frames.GetGroup(id=number, group=watch.group.name))

    def _numbered(self, watch: _Watch, asked: int = 0) -> int:
        number = next(self._numbers)
        self._watching[number] = _Watching(watch=watch, asked=asked)
        watch.unanswered += 1
        return number

    async def _opened(self) -> None:
        for watch in self._watches.values():
            self._tell_opened(watch)
            await self._watch(watch)
        await self._refresh()
        waiting, self._waiting = self._waiting, []
        for _, ask in waiting:
            await self._ask(ask)

    async def _watch(self, watch: _Watch) -> None:
        """Have what is missing: subscriptions, and answers to the role keeper's questions."""
        if self._session is None:
            return
        if not watch.state_id:
            watch.state_id = self._numbered(watch)
            watch.heard_s = self.ctx.now_s()
            await self._send(frames.WatchGroup(id=watch.state_id, group=watch.group.name))
        await self._watch_offsets(watch)
        number, watch.waiting = watch.waiting, 0
        if number:
            await self._ask_member(watch, number)

    async def _watch_offsets(self, watch: _Watch) -> None:
        """Only the master's matter, and there may be another one by now."""
        if self._session is None or bool(watch.offsets_id) == self._is_master(watch):
            return
        watch.offsets = None
        if watch.offsets_id:
            number, watch.offsets_id = watch.offsets_id, 0
            self._answered(number)
            await self._send(frames.Cancel(id=number))
        else:
            watch.offsets_id = self._numbered(watch)
            await self._send(frames.WatchOffsets(id=watch.offsets_id, group=watch.group.name))

    async def _show(self, watch: _Watch) -> None:
        """Readers see what the master has acknowledged, in a log that is a part of the master's."""
        offsets = watch.offsets
        if offsets is None or not self._is_master(watch):
            return
        if watch.group.role_status.view.state is RoleState.FOLLOWING:
            await watch.reader.tell(pull_service.Acknowledged(offset_bytes=offsets.acknowledged))
            await watch.reader.tell(pull_service.MasterChanged(master=offsets.master))

    async def _refresh(self) -> None:
        """Ask again from time to time what the member is; one that does not answer that may hang in
        this group alone.
        """
        self._look_outdated()
        if self._session is None or not self._watches:
            return
        now_s, timeout_s = self.ctx.now_s(), self._address.answer_timeout_s
        for watch in self._watches.values():
            if now_s < watch.due_s(timeout_s):
                continue
            if watch.asked_s is not None:
                self._tell_loss(watch, f"{self._member} fell silent", foreign=False)
            elif watch.unanswered < READS_PER_GROUP_MAX:
                await self._get_group(watch)
            watch.asked_s = now_s
        due_s = min(watch.due_s(timeout_s) for watch in self._watches.values())
        self.ctx.timers.start_at("due", due_s, _Due())

    def _failed(self, watching: _Watching, error: str) -> None:
        """The group may just take another part there, or be unknown."""
        watch = watching.watch
        watch.waiting = max(watch.waiting, watching.asked)
        self._tell_loss(watch, error, foreign=False)
        pause_s = min(watch.pause_s, RETRY_ASKING_S) if watch.is_asking else watch.pause_s
        self.ctx.timers.start(("again", watch.group.name), pause_s, _Again(watch=watch))
        watch.pause_s = min(2 * watch.pause_s, watch.group.retry_s)

    def _is_master(self, watch: _Watch) -> bool:
        """Whether the member is master, as far as this node acts."""
        return watch.group.role_status.view.master == self._member

    def _tell_opened(self, watch: _Watch) -> None:
        watch.lost = watch.foreign = False
        if self._session is not None and self._is_master(watch):
            boot, name = self._session.welcome.boot, watch.group.name
            opened = events.MasterLinkOpened(group=name, master=self._member, master_boot=boot)
            self.ctx.emit(opened)

    def _tell_loss(self, watch: _Watch, error: str, *, foreign: bool) -> None:
        name, error = watch.group.name, error[:ERROR_CHARS_MAX]
        found_out = foreign and not watch.foreign
        if found_out:
            watch.foreign = True
            _LOGGER.warning("%s: %s: %s", self._node, name, error)
        if (found_out or not watch.lost) and self._is_master(watch):
            watch.lost = True
            self.ctx.emit(events.MasterLinkLost(group=name, master=self._member, error=error))

    async def _watch_role_status(self, watch: _Watch) -> None:
        """Feeder: this node's own part."""
        known = watch.group.role_status.view
        while True:
            known = await watch.group.role_status.wait_changed(known)
            await self.ctx.self_ref.tell(_RoleChanged(watch=watch))

    # The connection.

    async def _keep(self) -> None:
        """Feeder: connect, again and again."""
        longest_s = min((group.retry_s for group in self._groups), default=RETRY_MAX_S)
        pause_s = min(RETRY_FIRST_S, longest_s)
        while True:
            began_s = self.ctx.now_s()
            self._attempts += 1
            try:
                await self._use_one_connection()
            except LOST as error:
                self._fail(error)
                foreign = isinstance(error, ForeignNode)
                await self.ctx.self_ref.tell(_Lost(error=lost_text(error), foreign=foreign))
            if self.ctx.now_s() - began_s > longest_s:
                pause_s = min(RETRY_FIRST_S, longest_s)
            asking = any(watch.is_asking for watch in self._watches.values())
            with trio.move_on_after(min(pause_s, RETRY_ASKING_S) if asking else pause_s):
                await self._wanted.wait()
            self._wanted = trio.Event()
            pause_s = min(2 * pause_s, longest_s)

    def _fail(self, error: Exception) -> None:
        """What was sent has no answer any more. What was asked since the attempt began waits for
        another one.
        """
        asked, self._asked = self._asked, {}
        waiting, self._waiting = self._waiting, []
        for ask in asked.values():
            ask.reply_to.fail(error)
        for attempt, ask in waiting:
            if attempt < self._attempts:
                ask.reply_to.fail(error)
            elif not ask.reply_to.answered:
                self._waiting.append((attempt, ask))
                self._wanted.set()

    async def _use_one_connection(self) -> None:
        """Raises: one of LOST, in the end."""
        self._secret, self._why = self._secret_now(), ""
        failure: Exception | None = None
        async with member_session(
            self._network, self._address, node=self._node, member=self._member
        ) as session:
            self._watching.clear()
            for watch in self._watches.values():
                watch.state_id = watch.offsets_id = watch.unanswered = 0
                watch.offsets = watch.asked_s = None
                watch.pause_s = watch.first_pause_s
            try:
                async with trio.open_nursery() as nursery:
                    self._session, self._scope = session, nursery.cancel_scope
                    nursery.start_soon(self._watch_silence, session)
                    try:
                        await self.ctx.self_ref.tell(_Opened())
                        await self._listen(session)
                    except LOST as error:
                        failure = error
                    nursery.cancel_scope.cancel()
            finally:
                self._session = None
        raise failure or trio.TooSlowError(self._why)

    async def _listen(self, session: MemberSession) -> None:
        """Hand on what the member says."""
        while True:
            answer = frames.decode_answer(await session.frames.receive())
            number = answer.id
            if number is None:
                raise unexpected(answer)
            if (ask := self._asked.pop(number, None)) is not None:
                if isinstance(answer, frames.Failed):
                    ask.reply_to.fail(to_error(answer))
                else:
                    ask.reply_to.send(answer)
            elif (watching := self._watching.get(number)) is not None:
                await self._heard(number, watching, answer)
            # Else it is of a subscription that was cancelled.

    async def _heard(self, number: int, watching: _Watching, answer: frames.Answer) -> None:
        watch = watching.watch
        if number not in (watch.state_id, watch.offsets_id):
            self._answered(number)
        match answer:
            case frames.Group():
                if watch.lost:
                    self._tell_opened(watch)
                watch.heard_s, watch.asked_s = self.ctx.now_s(), None
                watch.pause_s = watch.first_pause_s
                state = convert.to_group_state(answer)
                told = MemberTold(member=self._member, state=state, asked=watching.asked)
                await watch.keeper.tell(told)
                if watch.waiting:
                    await self.ctx.self_ref.tell(_Again(watch=watch))
            case frames.Offsets():
                await self.ctx.self_ref.tell(_Offsets(watch=watch, offsets=answer))
            case frames.Failed():
                self._ended(number, watch)
                watch.heard_s, watch.asked_s = self.ctx.now_s(), None
                await self.ctx.self_ref.tell(_Failed(watching=watching, error=answer.message))
            case _:
                raise unexpected(answer)

    def _ended(self, number: int, watch: _Watch) -> None:
        """One of the subscriptions has."""
        if number == watch.state_id:
            watch.state_id = 0
        elif number == watch.offsets_id:
            watch.offsets_id = 0
        self._answered(number)

    def _answered(self, number: int) -> None:
        watching = self._watching.pop(number, None)
        if watching is not None:
            watching.watch.unanswered -= 1

    async def _watch_silence(self, session: MemberSession) -> None:
        """End the connection when not a byte has come for REFRESH_S, nor for a ping."""
        while True:
            asked_s = session.frames.heard_s + REFRESH_S
            await trio.sleep_until(asked_s)
            if session.frames.heard_s + REFRESH_S > asked_s:
                continue
            with trio.move_on_after(self._address.answer_timeout_s) as waiting:
                try:
                    await session.frames.ping()
                except LOST:
                    return  # whoever listens learns why
            if waiting.cancelled_caught and session.frames.heard_s < asked_s:
                self._end(f"{self._member} fell silent")


def _group(question: Question) -> str:
    """Which group it is about; "" for none."""
    return "" if isinstance(question, frames.GetStatus) else question.group


def link_path(node: str, member: str) -> str:
    """Where a node's link to another member is."""
    return f"/{node}/api/links/{member}"


def link_child(
    *,
    node: str,
    member: str,
    address: MemberAddress,
    network: MemberNetwork,
    groups: tuple[WatchedGroup, ...] = (),
) -> ChildSpec:
    """One link.

    Args:
        node: this node.
        member: the other one, which is at `address`.
        groups: the classic groups that both have.
    """
    return ChildSpec(
        name=member,
        start=lambda: MemberLink(
            node=node, member=member, address=address, network=network, groups=groups
        ),
        backoff=RESTART_BACKOFF,
    )
