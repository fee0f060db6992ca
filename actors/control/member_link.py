"""MemberLink keeps a node's one connection to another member's API, beside replication.

A node has one link to every other node of ours that has a group with it, however many groups that
are. Over its connection the link

- asks questions (`Ask`) for promotions, fresh reads and repairs. Each has a number of its own and
  is answered as soon as the member has the answer, whatever was asked before it. It is sent at most
  once. While there is no connection, the link tries one at once, and its failure is the answer.
- watches what the member is in each classic group of both (`WatchedGroup`), and reports it to the
  group's role keeper (`MemberReported`). If that member is master there, the link also watches its
  offsets, and sends pull_service up to where readers may see (`Acknowledged`) and who is master
  (`MasterChanged`), but only while the own log is known to be a part of the master's.

None of them holds up another. The member works on each request by itself, and on a bounded number.
A link has fewer under way than that, and of each group only a few that merely read, so a claim and
the questions of other groups get through whatever is asked of one group. A question that its asker
has given up counts until the member answers it; a connection with many of those is replaced.

On the wire an answer waits for those before it, of which the longest is a range for a repair:
64 KiB, or one DLedger entry of at most 4 MiB. A repair asks for a range when it has the one before,
so of each group there is one at a time, and what was asked meanwhile is answered before the next. A
connection of its own would still share the wire.

The connection to a member that sends nothing at all, not even the answer to a ping, ends after
REFRESH_S and the time for an answer; to one that does not read, after SEND_TIMEOUT_S.

The secret is read anew for every question. Where it was added or replaced since the connection was
greeted, the link makes a new connection.

Messages: Ask, AskMember from role keepers, and its feeders'. Sends to role keepers and
pull_services. A restart fails the questions under way and forgets nothing else: the next connection
begins with the present state and offsets.

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
from actors.ha.role_messages import MemberReported
from actors.ha.role_status import RoleStatus
from actors.readable import counted
from actors.runtime import Actor, ActorRef, Backoff, ChildSpec, ReplyTo
from actors.storage.commitlog import pull_service
from actors.trees.group_setup import GroupPaths
from wire.api import frames

_LOGGER = logging.getLogger("triolog.api")

REFRESH_S: Final = 5.0
"""The age in seconds at which a member's state in a group is asked for again, whatever else the
member sends. So an actor that waits for it gets it within this time, even if the member sent it
before. It is upstream's heartbeat interval. After the same time without any byte the member is
pinged.
"""
RETRY_FIRST_S: Final = 0.2
"""The first pause before another attempt, short because the member may just start; no longer than
the longest pause of the groups.
"""
RETRY_MAX_S: Final = 5.0
"""The longest pause between two attempts where no group sets one."""
RETRY_ASKING_S: Final = 0.5
"""The longest pause while this node is a master that may not open before it has heard its members.
"""
SEND_TIMEOUT_S: Final = 5.0
QUESTIONS_MAX: Final = 128
"""How many questions may be under way on one link. A member of any version takes 256 requests of a
connection.
"""
GIVEN_UP_MAX: Final = 64
"""How many questions whose answers nobody awaits any more may be open beside QUESTIONS_MAX; with
that many the link makes a new connection.
"""
READS_PER_GROUP_MAX: Final = 16
"""How many questions of one group that change nothing may be under way. More would mean that
something is wrong, or that somebody asks for very many promotions at once.
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
    """Ask the member one question.

    It is answered with the member's answer, or fails with one of `LOST`: RequestRefused or another
    error that the member answered, or else it is unknown whether the member has received it.

    Attributes:
        question: the link chooses its number.
    """

    question: Question
    reply_to: ReplyTo[frames.Answer]


@attrs.frozen(kw_only=True)
class AskMember:
    """Ask the member what it is in a classic group now; the answer is MemberReported with `number`.

    It goes to the role keeper of the group. Without a connection, the next one carries the newest
    of these questions.
    """

    group: str
    number: int


@attrs.frozen(kw_only=True)
class WatchedGroup:
    """A classic group of which both nodes are members.

    Attributes:
        retry_s: the longest pause between two attempts to connect, in seconds.
        role_status: what this node itself is in the group.
    """

    name: str
    retry_s: float
    role_status: RoleStatus


@attrs.define(kw_only=True, eq=False)
class _Watch:
    """The state of one watched group.

    Attributes:
        offsets: the newest offsets of the master; None while the member is not the master, or has
            not sent any.
        state_id, offsets_id: the request numbers of the running subscriptions; 0 for none.
        waiting: the number of the role keeper's newest question that was not sent yet; 0 for none.
        unanswered: requests under way, subscriptions included.
        heard_s: when the member last sent its state in the group.
        asked_s: when it was asked for its state again since then; None if it was not.
        pause_s: how long to wait before the next attempt.
        lost: whether the last event of the group was MasterLinkLost.
        foreign: whether it was reported that another node answers at the member's address.
    """

    group: WatchedGroup
    reader: ActorRef[pull_service.Message]
    keeper: ActorRef[MemberReported]
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
        """Return when the member has to be asked for its state, or must have answered."""
        if self.asked_s is not None:
            return self.asked_s + answer_timeout_s
        return self.heard_s + REFRESH_S


@attrs.frozen(kw_only=True)
class _Watching:
    """A request under way for a watched group.

    Attributes:
        asked: the number of the role keeper's question that it carries; 0 for none.
    """

    watch: _Watch
    asked: int = 0


@attrs.frozen(kw_only=True)
class _Opened:
    """Feeder: a connection was opened and greeted."""


@attrs.frozen(kw_only=True)
class _Offsets:
    """Feeder: new offsets of a watched group's master."""

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
    """Timer or feeder: subscribe to what is not subscribed to, and send the questions that wait."""

    watch: _Watch


@attrs.frozen(kw_only=True)
class _Due:
    """Timer: the state of a watched group is to be asked for, or should have been answered."""


@attrs.frozen(kw_only=True)
class _Lost:
    """Feeder: the connection, or the attempt to connect, has ended.

    Attributes:
        foreign: whether another node than the member answered at its address.
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
        node: this node.
        member: the other node, which is at `address`.
        groups: the classic groups to watch.
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
                    self._report_loss(watch, message.error, foreign=message.foreign)
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
        """End a connection that was greeted with another secret, or has GIVEN_UP_MAX questions
        whose answers nobody awaits.
        """
        given_up = sum(each.reply_to.answered for each in self._asked.values())
        if given_up >= GIVEN_UP_MAX:
            self._end(f"{self._member} leaves {counted(given_up, 'question')} unanswered")
        elif self._secret_now() != self._secret:
            self._end("the cluster's secret has changed here")

    def _end(self, why: str) -> None:
        """End the connection, if there is one; the link makes a new one. `why` is for people."""
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
                return Overloaded(
                    f"{self._member} has {counted(reads, 'question')} of {group} to answer"
                )
        if len(live) >= QUESTIONS_MAX:
            return Overloaded(f"{self._member} has {counted(len(live), 'question')} to answer")
        return None

    async def _send(self, request: frames.Request) -> None:
        """Send a request; without a connection, or over a broken one, drop it."""
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
        """Ask for the member's state, or keep the number of the newest question for later.

        It waits while there is no connection, or while too many requests are under way.
        """
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
            self._report_opened(watch)
            await self._watch(watch)
        await self._refresh()
        waiting, self._waiting = self._waiting, []
        for _, ask in waiting:
            await self._ask(ask)

    async def _watch(self, watch: _Watch) -> None:
        """Subscribe to the group's state and offsets, and send the role keeper's question."""
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
        """Subscribe to the member's offsets if it is the master, and cancel that if it is not."""
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
        """Let readers see what the master has acknowledged, if this log is a part of its log."""
        offsets = watch.offsets
        if offsets is None or not self._is_master(watch):
            return
        if watch.group.role_status.view.state is RoleState.FOLLOWING:
            await watch.reader.tell(pull_service.Acknowledged(offset_bytes=offsets.acknowledged))
            await watch.reader.tell(pull_service.MasterChanged(master=offsets.master))

    async def _refresh(self) -> None:
        """Ask for each state that is older than REFRESH_S, and report each overdue answer as a
        loss: the member may hang in that group alone.
        """
        self._look_outdated()
        if self._session is None or not self._watches:
            return
        now_s, timeout_s = self.ctx.now_s(), self._address.answer_timeout_s
        for watch in self._watches.values():
            if now_s < watch.due_s(timeout_s):
                continue
            if watch.asked_s is not None:
                self._report_loss(watch, f"{self._member} fell silent", foreign=False)
            elif watch.unanswered < READS_PER_GROUP_MAX:
                await self._get_group(watch)
            watch.asked_s = now_s
        due_s = min(watch.due_s(timeout_s) for watch in self._watches.values())
        self.ctx.timers.start_at("due", due_s, _Due())

    def _failed(self, watching: _Watching, error: str) -> None:
        """Try a failed request again after a pause.

        The member's part in the group may just be changing, or the group be unknown there.
        """
        watch = watching.watch
        watch.waiting = max(watch.waiting, watching.asked)
        self._report_loss(watch, error, foreign=False)
        pause_s = min(watch.pause_s, RETRY_ASKING_S) if watch.is_asking else watch.pause_s
        self.ctx.timers.start(("again", watch.group.name), pause_s, _Again(watch=watch))
        watch.pause_s = min(2 * watch.pause_s, watch.group.retry_s)

    def _is_master(self, watch: _Watch) -> bool:
        """Return whether the member is the master by which this node acts."""
        return watch.group.role_status.view.master == self._member

    def _report_opened(self, watch: _Watch) -> None:
        watch.lost = watch.foreign = False
        if self._session is not None and self._is_master(watch):
            boot, name = self._session.welcome.boot, watch.group.name
            opened = events.MasterLinkOpened(group=name, master=self._member, master_boot=boot)
            self.ctx.emit(opened)

    def _report_loss(self, watch: _Watch, error: str, *, foreign: bool) -> None:
        name, error = watch.group.name, error[:ERROR_CHARS_MAX]
        found_out = foreign and not watch.foreign
        if found_out:
            watch.foreign = True
            _LOGGER.warning("%s: %s: %s", self._node, name, error)
        if (found_out or not watch.lost) and self._is_master(watch):
            watch.lost = True
            self.ctx.emit(events.MasterLinkLost(group=name, master=self._member, error=error))

    async def _watch_role_status(self, watch: _Watch) -> None:
        """Report each change of this node's own role in the group; a feeder."""
        known = watch.group.role_status.view
        while True:
            known = await watch.group.role_status.wait_changed(known)
            await self.ctx.self_ref.tell(_RoleChanged(watch=watch))

    # The connection.

    async def _keep(self) -> None:
        """Keep a connection, and make a new one after a pause when it ends; a feeder."""
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
        """Fail the questions that were sent, and those that waited for the failed attempt.

        Those that were asked since that attempt began wait for the next one.
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
        """Open one connection and serve it until it ends. Raises: one of LOST, always."""
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
        """Hand each answer of the member to whoever waits for it."""
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
                    self._report_opened(watch)
                watch.heard_s, watch.asked_s = self.ctx.now_s(), None
                watch.pause_s = watch.first_pause_s
                state = convert.to_group_state(answer)
                report = MemberReported(member=self._member, state=state, asked=watching.asked)
                await watch.keeper.tell(report)
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
        """Note that a request has ended, which may be one of the subscriptions."""
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
        """End the connection if nothing came for REFRESH_S and then no answer to a ping either."""
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
    """Return the group that the question is about; "" if it is about none."""
    return "" if isinstance(question, frames.GetStatus) else question.group


def link_path(node: str, member: str) -> str:
    """Return the path of the actor that is a node's link to another member."""
    return f"/{node}/api/links/{member}"


def link_child(
    *,
    node: str,
    member: str,
    address: MemberAddress,
    network: MemberNetwork,
    groups: tuple[WatchedGroup, ...] = (),
) -> ChildSpec:
    """Return the specification of the child that is the link to one member.

    Args:
        node: this node.
        member: the other node, which is at `address`.
        groups: the classic groups of which both are members.
    """
    return ChildSpec(
        name=member,
        start=lambda: MemberLink(
            node=node, member=member, address=address, network=network, groups=groups
        ),
        backoff=RESTART_BACKOFF,
    )
