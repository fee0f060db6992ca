"""The registry of one system: refs by path, incarnation numbers, dead letters, and the way out
for events.
"""

from __future__ import annotations

import logging
import random
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from actors.env.protocols import EventSink
from actors.events import runtime as events
from actors.runtime.deadlines import Deadlines
from actors.runtime.errors import Unread
from actors.runtime.ref import ActorRef
from actors.runtime.reply import ReplyTo

DEAD_LETTER_PERIOD_S = 1.0  # the same kind of dead letter is told at most this often
DEAD_LETTER_KINDS_MAX = 1024  # (path, message type) pairs counted apart; more are told at once

_LOGGER = logging.getLogger("triolog.runtime")


def log_event(path: str, incarnation: int, event: Any) -> None:
    """The event sink of a system that was given none: the logger `triolog.runtime`."""
    _LOGGER.debug("%s#%d %r", path, incarnation, event)


class Registry:
    """What all actors of one system share. No globals: two systems in one program do not meet.

    Attributes:
        receivers: the tasks of receive loops, which must not ask.
        deadlines: when questions expire and parked actors wake by themselves.
        tell_hook: awaited before each tell, for simulation; None in production.
    """

    def __init__(
        self,
        *,
        rng: random.Random,
        event_sink: EventSink = log_event,
        tell_hook: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.rng = rng
        self.receivers: dict[trio.lowlevel.Task, str] = {}
        self.tell_hook = tell_hook
        self.deadlines = Deadlines()
        self._sink = event_sink
        self._refs: weakref.WeakValueDictionary[str, ActorRef[Any]] = weakref.WeakValueDictionary()
        self._incarnations: dict[str, int] = {}
        self._dead: dict[tuple[str, str], tuple[float, int]] = {}

    def ref(self, path: str) -> ActorRef[Any]:
        """The ref of a path, whether an actor runs there now, later or never."""
        ref = self._refs.get(path)
        if ref is None:
            ref = self._refs[path] = ActorRef(path, self)
        return ref

    def lookup(self, path: str) -> ActorRef[Any] | None:
        """The ref of a running actor, or None."""
        ref = self._refs.get(path)
        return ref if ref is not None and ref.alive else None

    def emit(self, path: str, incarnation: int, event: object) -> None:
        """Hand an event of the catalogue to the sink. Synchronous."""
        self._sink(path, incarnation, event)

    def next_incarnation(self, path: str) -> int:
        number = self._incarnations.get(path, 0) + 1
        self._incarnations[path] = number
        return number

    def forget(self, path: str) -> None:
        """A dynamic child is gone for good: its name, and the names below it, begin again at #1."""
        below = path + "/"
        for known in [
            each for each in self._incarnations if each == path or each.startswith(below)
        ]:
            del self._incarnations[known]

    def dead_letter(self, path: str, message: object, error: Exception | None = None) -> None:
        """Count a message that nobody will read, and fail its `reply_to`."""
        self.dead_letters(path, [message], error)

    def dead_letters(self, path: str, messages: list[Any], error: Exception | None = None) -> None:
        for message in messages:
            self._count(path, type(message).__name__)
            reply = getattr(message, "reply_to", None)
            if isinstance(reply, ReplyTo):
                reply.fail(error or Unread(f"{path} is not running"))

    def flush_dead_letters(self) -> None:
        """Report dead letters that were counted and not yet reported, at the end of the system."""
        for (path, message_type), (_, count) in self._dead.items():
            self._tell_dead(path, message_type, count)
        self._dead.clear()

    def _count(self, path: str, message_type: str) -> None:
        now_s = trio.current_time()
        key = (path, message_type)
        known = self._dead.get(key)
        if known is None and len(self._dead) >= DEAD_LETTER_KINDS_MAX:
            self._make_room(now_s)
        if known is None or now_s >= known[0] + DEAD_LETTER_PERIOD_S:
            self._tell_dead(path, message_type, 1 + (known[1] if known else 0))
            if known is not None or len(self._dead) < DEAD_LETTER_KINDS_MAX:
                self._dead[key] = (now_s, 0)
        else:
            self._dead[key] = (known[0], known[1] + 1)

    def _make_room(self, now_s: float) -> None:
        old = [k for k, (told_s, _) in self._dead.items() if now_s >= told_s + DEAD_LETTER_PERIOD_S]
        for path, message_type in old:
            self._tell_dead(path, message_type, self._dead.pop((path, message_type))[1])

    def _tell_dead(self, path: str, message_type: str, count: int) -> None:
        if count:
            self.emit(path, 0, events.DeadLettered(message_type=message_type, count=count))
