"""MetadataWatches sends changes of this node's metadata to Python slaves as soon as they happen.

Messages: Request from the broker port, with code WATCH_METADATA, and its own. A request is answered
with the rows that the slave does not have. While there are none it is held, for at most HOLD_S. For
each connection the actor keeps the state that it sent last, which shares all unchanged rows with
the newest one. A restart forgets these states, and the next answers have all tables.

Changes within GATHER_S of an answer are sent together in the next one. So a slave is behind by at
most this time and a message, and a master compares the tables for each slave at most twice a
second.

Upstream has nothing like it: a slave of 5.x is up to a minute behind, one of 4.x up to 10 s.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from actors.metadata.core.increments import increment
from actors.metadata.core.tables import Tables
from actors.metadata.view import MetadataView
from actors.remoting.requests import Answer, Channel, Refused, Request
from actors.runtime import Actor, MailboxSpec
from wire.broker.codes import ResponseCode
from wire.broker.increments import Watch
from wire.broker.java_json import encode

GATHER_S: Final = 0.5
HOLD_S: Final = 15.0
"""The most seconds that a request is held. It is less than the idle time of a connection, and than
the time that a slave waits for the answer."""


@attrs.frozen
class _Changed:
    """The tables have changed."""


@attrs.frozen
class _Due:
    """Timer: look at the request that is held for a connection."""

    connection: int


@attrs.frozen
class _Ended:
    """A connection has ended."""

    connection: int


_Inbox: TypeAlias = Request | _Changed | _Due | _Ended


@attrs.define(kw_only=True)
class _Watcher:
    """One connection.

    Attributes:
        told: the state that was sent last, or None if none was.
        number: the number of that state.
        told_s: when it was sent, in Trio time.
        request: the request that is held, if there is one.
        asked_s: when it came, in Trio time.
    """

    told: Tables | None = None
    number: int = 0
    told_s: float = -GATHER_S
    request: Request | None = None
    asked_s: float = 0.0


@attrs.define(kw_only=True)
class MetadataWatches(Actor[_Inbox]):
    """See the module's text."""

    mailbox = MailboxSpec(capacity=256, conflate={_Changed: lambda _: 0})
    view: MetadataView
    _watchers: dict[int, _Watcher] = attrs.field(init=False, factory=dict)

    async def on_start(self) -> None:
        self.ctx.spawn(self._watch)

    async def handle(self, message: _Inbox) -> None:
        match message:
            case _Changed():
                for connection in tuple(self._watchers):
                    self._look(connection)
            case _Due(connection=connection):
                self._look(connection)
            case _Ended(connection=connection):
                self._watchers.pop(connection, None)
                self.ctx.timers.cancel(connection)
            case _:
                self._asked(message)

    async def _watch(self) -> None:
        number = self.view.number
        while True:
            await self.view.wait_changed(number)
            number = self.view.number
            self.ctx.self_ref.offer(_Changed())

    def _asked(self, request: Request) -> None:
        try:
            asked = request.fields(Watch)
        except Refused as refused:
            request.fail(refused)
            return
        connection = request.channel.connection
        watcher = self._watchers.get(connection)
        if watcher is None:
            watcher = self._watchers[connection] = _Watcher()
            request.channel.on_end(self._ended)
        elif watcher.request is not None:
            watcher.request.fail(Refused(ResponseCode.SYSTEM_ERROR, "it asks again"))
        watcher.request, watcher.asked_s = request, self.ctx.now_s()
        if (asked.boot, asked.number) != (self.view.started_ms, watcher.number):
            watcher.told = None
        self._look(connection)

    def _ended(self, channel: Channel) -> None:
        self.ctx.self_ref.post(_Ended(channel.connection))

    def _look(self, connection: int) -> None:
        """Answer the request that is held, or set a timer for the next look."""
        watcher, view = self._watchers.get(connection), self.view
        if watcher is None or watcher.request is None:
            return
        has_news = watcher.told is None or watcher.number != view.number
        now_s = self.ctx.now_s()
        due_s = watcher.told_s + GATHER_S if has_news else watcher.asked_s + HOLD_S
        if now_s < due_s:
            self.ctx.timers.start_at(connection, due_s, _Due(connection))
            return
        request, watcher.request = watcher.request, None
        told = increment(watcher.told, view.tables, view.started_ms, view.number)
        watcher.told, watcher.number, watcher.told_s = view.tables, view.number, now_s
        request.send(Answer(body=encode(told)))
