"""MasterWatch follows the metadata of a Python master, which answers as soon as a table changes.

It sends one request at a time, which the master holds while there is nothing new (`watches`), and
keeps the master's state, to which it applies each answer. Each changed table is then adopted by the
same rules as any master's answer. A master that was started again sends its whole state.

Messages: only its own. It sends Adopt and AnotherMaster to the keeper. After a restart it has no
state of the master, and receives the whole one.

Upstream has nothing like it; `slave_sync` is for Java masters.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

import attrs

from actors.env.protocols import Address
from actors.metadata import keeper
from actors.metadata.core.increments import applied
from actors.metadata.core.tables import Tables, changed_kinds
from actors.metadata.view import MetadataView, not_answered
from actors.metadata.watches import HOLD_S
from actors.remoting import client
from actors.runtime import Actor, ActorRef, Backoff, MailboxSpec
from wire.broker.codes import ResponseCode
from wire.broker.increments import INCREMENT, WATCH_METADATA, Watch
from wire.errors import RemoteProtocolError
from wire.remoting.frame import Frame
from wire.remoting.header import write_fields

TIMEOUT_S: Final = HOLD_S + 5.0
RETRY_S: Final = 0.5
"""The seconds until the next request after one without an answer."""
UNREADABLE: Final = Backoff(first_s=RETRY_S, max_s=60.0)
"""The pauses after unreadable answers in a row, each of which has the master's whole state."""
_LOGGER = logging.getLogger("triolog.metadata")


@attrs.frozen
class _Ask:
    """Timer: send the next request."""


@attrs.frozen
class _Heard:
    """The answer, or the error without one."""

    outcome: Frame | Exception


_Inbox: TypeAlias = _Ask | _Heard


@attrs.define(kw_only=True)
class MasterWatch(Actor[_Inbox]):
    """See the module's text.

    Attributes:
        owner: the names of node and group, for people.
        master: the address of the master's broker.
    """

    mailbox = MailboxSpec(capacity=4)
    owner: str
    master: Address
    client: ActorRef[client.Call]
    keeper: ActorRef[keeper.Message]
    view: MetadataView
    _said: Tables = attrs.field(init=False, factory=Tables)
    _boot: int = attrs.field(init=False, default=0)
    _number: int = attrs.field(init=False, default=0)
    _is_failing: bool = attrs.field(init=False, default=False)
    _unreadable: int = attrs.field(init=False, default=0)  # answers in a row

    async def on_start(self) -> None:
        self._ask()

    async def handle(self, message: _Inbox) -> None:
        if isinstance(message, _Ask):
            self._ask()
            return
        reason = await self._take(message.outcome)
        self.view.heard("metadata", self.ctx.now_s(), reason)
        if reason and not self._is_failing:
            text = not_answered("metadata", self.master, reason)
            _LOGGER.warning("%s: %s", self.owner, text)
        self._is_failing = bool(reason)
        if reason:
            pause_s = UNREADABLE.delay_s(max(0, self._unreadable - 1), self.ctx.rng)
            self.ctx.timers.start("ask", pause_s, _Ask())
        else:
            self._ask()

    def _ask(self) -> None:
        fields = write_fields(Watch(boot=self._boot, number=self._number))
        self.ctx.ask_later(
            self.client,
            Frame,
            lambda reply_to: client.Call(
                address=self.master,
                code=WATCH_METADATA,
                ext_fields=fields,
                timeout_s=TIMEOUT_S,
                reply_to=reply_to,
            ),
            timeout_s=2 * TIMEOUT_S,
            on_reply=_Heard,
        )

    async def _take(self, outcome: Frame | Exception) -> str:
        """Adopt the tables in an answer, and return "" or why that is impossible, for people."""
        if isinstance(outcome, Exception):
            return str(outcome)
        if outcome.header.code != ResponseCode.SUCCESS:
            return f"code {outcome.header.code}: {outcome.header.remark}"
        try:
            told = INCREMENT.decode(outcome.body)
            said = applied(self._said, told)
        except RemoteProtocolError as error:
            self._boot = self._number = 0
            self._unreadable += 1
            return str(error)
        self._unreadable = 0
        if told.boot != self._boot:
            await self.keeper.tell(keeper.AnotherMaster())
        changed = changed_kinds(self._said, said)
        self._said, self._boot, self._number = said, told.boot, told.number
        for kind in changed:
            await self.keeper.tell(keeper.Adopt(kind=kind, answer=getattr(said, kind.name)))
        return ""
