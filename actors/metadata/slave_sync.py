"""SlaveSync copies a master's metadata to a slave, by the requests of upstream's slaves.

Upstream: apache/rocketmq, broker/.../slave/SlaveSynchronize.java and BrokerController.java, 4.9.7
and 5.3.3; classic-ha.md 5.1 and 5.2.

A round asks for each kind, one after the other. The timer's checkpoint is asked for between rounds
as well. A kind that fails is logged once and asked for again in the next round, and the others are
adopted all the same. A round begins and ends with the question when the master was started
(GET_BROKER_RUNTIME_INFO). The offsets of consumers are adopted at its end, and may only go back if
the answer was the same at both ends of this round and of the one before.

With `may_ask`, each round waits until it returns "": a copy knows its master only by addresses, and
adopts nothing from a broker before its log was found to be that broker's. A broker that was found
to be another one is not asked again.

Messages: SetMaster from registrar. It sends Adopt and AnotherMaster to the keeper. A restart begins
with a round, like the first start.

Differs: the first round begins at once, and the next ones every ROUND_S, whatever the master's
version is; 4.x waits 3 s and then has the same pace, 5.x has 60 s. A kind that a master does not
know is not asked for again during the same run of the master. If there is no answer at the port for
topics, which is listenPort - 2, the next question for them is sent to listenPort. Each run of the
master is asked for its configuration once (GET_BROKER_CONFIG). If its delay levels are not the
group's, there is a warning, as the slave's queues of delayed messages would have other delivery
times.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, assert_never

import attrs

from actors.env.protocols import Address
from actors.errors import TriologError
from actors.metadata import keeper
from actors.metadata.core import kinds
from actors.metadata.core.kinds import Kind
from actors.metadata.view import BOOT_KEY, MetadataView, not_answered
from actors.readable import readable
from actors.remoting import client
from actors.runtime import Actor, ActorError, ActorRef, MailboxSpec
from wire.broker.codes import RequestCode, ResponseCode
from wire.broker.routes import decode_kv_table
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Frame

ROUND_S: Final = 10.0
"""The seconds from the begin of a round to the next one. Upstream: 10 s (4.x), 60 s (5.x)."""
CHECKPOINT_S: Final = 3.0
"""The seconds between two questions for the timer's checkpoint. Upstream: 3 s (5.x)."""
TIMEOUT_S: Final = 3.0
"""The seconds that an answer may take. Upstream: a constant in BrokerOuterAPI, 3000 ms."""
MAY_ASK_S: Final = 0.5
"""The seconds until `may_ask` is called again."""
ROUND_QUESTION: Final = "runtime_info"
"""The name of the question with which a round begins and ends."""
DELAY_LEVELS_KEY: Final = "messageDelayLevel"
SHOWN_MAX: Final = 200
"""The most characters of a master's delay levels in a warning."""
BROKER_QUESTION: Final = "broker"
"""The name under which the view has whether the broker may be asked."""
VIP_BELOW: Final = 2
"""By how much the port for topics is below listenPort. Upstream: MixAll.brokerVIPChannel."""
_OFTEN_MISSING: Final = (kinds.REQUEST_MODES, kinds.TIMER_METRICS, kinds.TIMER_CHECKPOINT)
"""The kinds that a 4.x master does not know. One without a timer wheel lacks the last two."""
_ASKED: Final = tuple(kind for kind in kinds.KINDS if kind.code is not None)
_LOGGER = logging.getLogger("triolog.metadata")


class AnotherBroker(TriologError):
    """A broker is not the one whose log a copy has. The text is one line for people."""


@attrs.frozen
class SetMaster:
    """Follow the master at another address. An answer of the old one is ignored."""

    address: Address


@attrs.frozen
class _Round:
    """Timer: begin a round."""


@attrs.frozen
class _MayAsk:
    """The result of `may_ask`.

    Attributes:
        reason: why the round may not begin, for people; "" if it may.
        is_another: whether no round may begin, as the broker is not the master.
    """

    reason: str
    is_another: bool = False


@attrs.frozen
class _Checkpoint:
    """Timer: ask for the timer's checkpoint."""


@attrs.frozen
class _Heard:
    """The answer to the question under way, or the error without one."""

    outcome: Frame | Exception


_Inbox: TypeAlias = SetMaster | _Round | _MayAsk | _Checkpoint | _Heard


@attrs.frozen
class _Boot:
    """The question when the master was started.

    Attributes:
        ends: whether it ends a round.
    """

    ends: bool
    name = ROUND_QUESTION
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    is_vip = False


@attrs.frozen
class _Levels:
    """The question for the master's delay levels."""

    name = "delay_levels"
    code = RequestCode.GET_BROKER_CONFIG
    is_vip = False


_Question: TypeAlias = Kind | _Boot | _Levels


@attrs.define(kw_only=True)
class SlaveSync(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        owner: the names of node and group, for people.
        master: the address of the master's broker.
        delay_levels: the group's delay levels, in the form of messageDelayLevel.
        may_ask: returns why a round may not begin yet, for people, or "" if it may, and raises
            AnotherBroker if none ever may. None: a round may always begin.
    """

    mailbox = MailboxSpec(capacity=16)
    owner: str
    master: Address
    delay_levels: str
    client: ActorRef[client.Call]
    keeper: ActorRef[keeper.Message]
    view: MetadataView
    may_ask: Callable[[], Awaitable[str]] | None = None
    _may: bool = attrs.field(init=False, default=False)  # the last round might begin
    _waiting: deque[_Question] = attrs.field(init=False, factory=deque)
    _asked: _Question | None = attrs.field(init=False, default=None)
    _unknown: set[_Question] = attrs.field(init=False, factory=set)  # to the master that runs
    _failed: set[str] = attrs.field(init=False, factory=set)  # questions of which that was said
    _is_vip_silent: bool = attrs.field(init=False, default=False)
    _boot: str = attrs.field(init=False, default="")  # of the last round; "": it is not known
    _first_boot: str = attrs.field(init=False, default="")  # at the beginning of this round
    _offsets: Any = attrs.field(init=False, default=None)  # answered in this round
    _bodies: dict[Kind, bytes] = attrs.field(init=False, factory=dict)  # that were taken
    _other_levels: str = attrs.field(init=False, default="")  # of which that was said
    _is_of_old: bool = attrs.field(init=False, default=False)  # whom the question under way is to

    async def on_start(self) -> None:
        self._begin()
        self.ctx.timers.start("checkpoint", CHECKPOINT_S, _Checkpoint())

    async def handle(self, message: _Inbox) -> None:
        match message:
            case SetMaster(address=address):
                await self._set_master(address)
            case _Round():
                self._begin()
            case _MayAsk(reason=reason):
                self._may = not reason
                self.view.heard(BROKER_QUESTION, self.ctx.now_s(), reason)
                if message.is_another:
                    self.view.another = reason
                elif reason:
                    self.ctx.timers.start("round", MAY_ASK_S, _Round())
                else:
                    self._begin_round()
            case _Checkpoint():
                self.ctx.timers.start("checkpoint", CHECKPOINT_S, message)
                if self._may and kinds.TIMER_CHECKPOINT not in self._waiting:
                    self._waiting.appendleft(kinds.TIMER_CHECKPOINT)
                    self._ask_next()
            case _Heard(outcome=outcome):
                asked, self._asked = self._asked, None
                assert asked is not None  # OneQuestionAtATime
                if self._is_of_old:
                    self._is_of_old = False
                else:
                    await self._take(asked, outcome)
                self._ask_next()
            case _:
                assert_never(message)

    async def _set_master(self, address: Address) -> None:
        if address == self.master:
            return
        self.master, self._boot, self._first_boot, self._offsets = address, "", "", None
        self._waiting.clear()
        self._bodies.clear()
        self._unknown.clear()
        self._is_of_old, self._is_vip_silent = self._asked is not None, False
        await self.keeper.tell(keeper.AnotherMaster())
        self._begin()

    def _begin(self) -> None:
        """Begin a round, once `may_ask` allows it."""
        if self.may_ask is None:
            self._may = True
            self._begin_round()
        else:
            self.ctx.spawn(self._find_out, self.may_ask)

    async def _find_out(self, may_ask: Callable[[], Awaitable[str]]) -> None:
        try:
            found = _MayAsk(await may_ask())
        except AnotherBroker as error:
            found = _MayAsk(str(error), is_another=True)
        await self.ctx.self_ref.tell(found)

    def _begin_round(self) -> None:
        """Begin a round, unless one is still under way, which then goes on instead."""
        self.ctx.timers.start("round", ROUND_S, _Round())
        if not any(isinstance(question, _Boot) for question in self._waiting):
            self._waiting.extend((_Boot(ends=False), *_ASKED, _Boot(ends=True)))
        self._ask_next()

    def _ask_next(self) -> None:
        if self._asked is not None:
            return
        while self._waiting:
            question = self._waiting.popleft()
            if question not in self._unknown:
                self._ask(question)
                return

    def _ask(self, question: _Question) -> None:
        self._asked = question
        is_vip = question.is_vip and not self._is_vip_silent
        port = self.master.port - VIP_BELOW if is_vip else self.master.port
        code = question.code
        assert code is not None  # OnlyWhatHasACode
        self.ctx.ask_later(
            self.client,
            Frame,
            lambda reply_to: client.Call(
                address=Address(self.master.host, port),
                code=code,
                timeout_s=TIMEOUT_S,
                reply_to=reply_to,
            ),
            timeout_s=2 * TIMEOUT_S,
            on_reply=_Heard,
        )

    async def _take(self, question: _Question, outcome: Frame | Exception) -> None:
        if isinstance(question, _Levels):
            self._compare_levels(outcome)
            return
        reason, boot = self._why_not(question, outcome), ""
        try:
            if not reason and isinstance(question, Kind):
                await self._take_kind(question, _body(outcome))
            elif not reason:
                boot = _boot_of(_body(outcome))
        except RemoteProtocolError as error:
            reason = str(error)
        if isinstance(question, _Boot):
            await self._take_boot(question, boot)
        self.view.heard(question.name, self.ctx.now_s(), reason)
        if not reason:
            self._failed.discard(question.name)
        elif question.name not in self._failed and question not in _OFTEN_MISSING:
            self._failed.add(question.name)
            text = not_answered(question.name, self.master, reason)
            _LOGGER.warning("%s: %s", self.owner, text)

    def _why_not(self, question: _Question, outcome: Frame | Exception) -> str:
        if isinstance(outcome, ActorError):
            return str(outcome)
        if isinstance(outcome, Exception):
            self._is_vip_silent = question.is_vip and not self._is_vip_silent
            return str(outcome)
        code = outcome.header.code
        if code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and isinstance(question, Kind):
            self._unknown.add(question)
        return "" if code == ResponseCode.SUCCESS else f"code {code}: {outcome.header.remark}"

    async def _take_boot(self, question: _Boot, boot: str) -> None:
        if not question.ends:
            self._first_boot = boot
            if boot != self._boot:
                self._bodies.clear()
                self._unknown.clear()
                self._waiting.append(_Levels())
            return
        if not boot or boot != self._boot:
            self._boot = boot if boot == self._first_boot else ""
            await self.keeper.tell(keeper.AnotherMaster())
        if self._offsets is not None:
            await self.keeper.tell(keeper.Adopt(kind=kinds.CONSUMER_OFFSETS, answer=self._offsets))
            self._offsets = None

    def _compare_levels(self, outcome: Frame | Exception) -> None:
        """Warn of delay levels that are not the group's. A master that does not tell them may."""
        if isinstance(outcome, Exception) or outcome.header.code != ResponseCode.SUCCESS:
            return
        theirs = _setting(outcome.body, DELAY_LEVELS_KEY)
        if theirs not in ("", self.delay_levels, self._other_levels):
            self._other_levels = theirs
            text = "%s: master %s has %s=%s, this group message_delay_level=%s: delayed messages"
            text += " get other delivery times here"
            shown = readable(theirs, SHOWN_MAX)
            mine = self.delay_levels
            _LOGGER.warning(text, self.owner, self.master, DELAY_LEVELS_KEY, shown, mine)

    async def _take_kind(self, kind: Kind, body: bytes) -> None:
        if self._bodies.get(kind) == body:
            return
        answer = kind.decode(body)
        if kind is kinds.CONSUMER_OFFSETS:
            self._offsets = answer
        else:
            await self.keeper.tell(keeper.Adopt(kind=kind, answer=answer))
        self._bodies[kind] = body


def _body(outcome: Frame | Exception) -> bytes:
    assert isinstance(outcome, Frame)
    return outcome.body


def _setting(body: bytes, key: str) -> str:
    """Return a value in a broker's configuration, which has lines `key=value`, or "" without it."""
    lines = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return next((value.strip() for name, _, value in lines if name == key), "")


def _boot_of(body: bytes) -> str:
    """Return when the master was started, by its answer, or "" if it does not tell.

    Raises:
        RemoteProtocolError: the body cannot be decoded.
    """
    return decode_kv_table(body).get(BOOT_KEY, "")
