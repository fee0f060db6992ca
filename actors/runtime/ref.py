"""Sends messages to actors: `ActorRef`, `ReplyTo`, and the `Registry` that a system's actors share.

An `ActorRef` is bound to a path rather than to one incarnation.

A `ReplyTo` is the right to answer a question once. It is bound to the incarnation that was asked:
it fails with `ActorDown` when that ends. Whoever passes a question on re-binds the reply with
`bound_to`, so that it follows the actor that now has to answer.
"""

from __future__ import annotations

import logging
import math
import random
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import trio
from trio.lowlevel import current_task

from actors.env.protocols import EventSink
from actors.events import runtime as events
from actors.runtime.crash_log import CrashLog
from actors.runtime.deadlines import Deadlines
from actors.runtime.errors import ActorDown, AskInsideHandle, AskTimeout, MailboxFull, Unread
from actors.runtime.lane import Lane, WaitingSender
from actors.runtime.mailbox import Mailbox
from actors.runtime.parking import Parker

if TYPE_CHECKING:
    from typing_extensions import TypeForm

M_contra = TypeVar("M_contra", contravariant=True)
T = TypeVar("T")
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")

_NOBODY = Lane(1)
_NOBODY.limit = 0  # the lane of an actor that is not running: every message takes the slow path


class _Sent(Coroutine[Any, Any, None]):
    """The awaitable of all tells that need not wait; it may be awaited any number of times.

    A coroutine object for each tell costs twice as much. `nursery.start_soon(ref.tell, m)` takes it
    too.
    """

    __slots__ = ()
    __await__ = iter(()).__iter__  # type: ignore[assignment]  # one empty iterator: no step at all

    def send(self, value: Any) -> NoReturn:
        raise StopIteration

    def throw(self, *error: Any) -> NoReturn:
        raise error[0]

    def close(self) -> None:
        """Do nothing, because this awaitable holds nothing."""


_SENT = _Sent()


class ActorRef(Generic[M_contra]):
    """A path to which messages of type M are sent; one object for each path in a system.

    A ref stays valid across restarts; a mailbox belongs to one incarnation. So a message that is
    sent while the actor is down (stopped, or between two incarnations) is a dead letter, and an
    ask fails with `ActorDown`.
    """

    __slots__ = ("__weakref__", "_lane", "mailbox", "path", "registry")

    def __init__(self, path: str, registry: Registry) -> None:
        self.path = path
        self.mailbox: Mailbox | None = None
        self._lane = _NOBODY
        self.registry = registry

    def __repr__(self) -> str:
        return f"<ActorRef {self.path}>"

    @property
    def alive(self) -> bool:
        """Whether an incarnation runs; it may still be starting."""
        return self.mailbox is not None

    def tell(self, message: M_contra) -> Coroutine[Any, Any, None]:
        """Send a message, as `await ref.tell(m)`; wait, in line, only while the mailbox is full.

        A message to a stopped actor is a counted dead letter, never an error. Callers must not
        rely on this not yielding, because the simulator makes it yield.

        Raises: MailboxFull: an actor would wait for room in its own mailbox.
        """
        lane = self._lane
        items = lane.items
        if 0 < len(items) < lane.limit and type(message) not in lane.special:
            items.append(message)
            return _SENT
        mailbox = self.mailbox
        if mailbox is not None and self.registry.tell_hook is None and mailbox.offer(message):
            return _SENT
        return self._tell(message)

    def offer(self, message: M_contra) -> bool:
        """Send a message without ever waiting.

        Returns: False if the message was not sent, because there is no room, another sender waits
            for room, or the actor is stopped.
        """
        mailbox = self.mailbox
        if mailbox is None:
            self.registry.dead_letter(self.path, message)
            return False
        if mailbox.offer(message):
            return True
        mailbox.refused += 1
        return False

    def post(self, message: M_contra) -> bool:
        """Send a message without waiting; if there is no room, the message itself waits in line.

        This is for a caller that bounds its own messages by other means.

        Returns: False if the actor is stopped, or its mailbox is full and refuses messages.
        """
        mailbox = self.mailbox
        if mailbox is None:
            self.registry.dead_letter(self.path, message)
            return False
        if mailbox.offer(message):
            return True
        if mailbox.waits:
            mailbox.enqueue(message)
            return True
        mailbox.refused += 1
        return False

    def defer(self, message: M_contra, *, within_s: float = math.inf) -> bool:
        """Queue the message without waking the actor for it; never wait.

        It is read before messages that come later. This is for news that matters only together
        with another message, or not at once.

        Args:
            within_s: maximum delay in seconds, which the actor may shorten (`limit_delay`); inf
                waits for the next message that wakes it.

        Returns: False if it was not queued, because the actor is stopped or there is no room.
            Conflated messages always find room.
        """
        return self.mailbox is not None and self.mailbox.defer(message, within_s)

    @overload
    async def ask(
        self, reply_type: type[R], make: Callable[[ReplyTo[R]], M_contra], *, timeout_s: float
    ) -> R: ...
    @overload
    async def ask(
        self,
        reply_type: tuple[type[R1], type[R2]],
        make: Callable[[ReplyTo[R1 | R2]], M_contra],
        *,
        timeout_s: float,
    ) -> R1 | R2: ...
    async def ask(
        self, reply_type: Any, make: Callable[[ReplyTo[Any]], M_contra], *, timeout_s: float
    ) -> Any:
        """Ask, and wait for the answer. An actor's receive loop uses `ctx.ask_later` instead.

        Args:
            reply_type: the class of the answer, or a pair of classes for a union of two; it is not
                checked.
            make: gets the reply and returns the message.
            timeout_s: how many seconds the answer may take, with the wait for room in the mailbox.

        Raises: AskTimeout. ActorDown: the actor is not running, or ends first. MailboxFull: its
            mailbox refuses the message. AskInsideHandle: an actor's receive loop called this. Any
            error with which the actor answers.
        """
        registry = self.registry
        if registry.tell_hook is not None:
            await registry.tell_hook()
        task = current_task()
        mailbox = self.mailbox
        if mailbox is None:
            await trio.lowlevel.checkpoint()
            raise ActorDown(f"{self.path} is not running")
        if task in registry.receivers or task is mailbox.receiver_task:
            raise AskInsideHandle(f"{self.path} was asked inside handle; use ctx.ask_later")
        reply = AskReply(self, mailbox, timeout_s)
        try:
            reply.put(make(reply), mailbox)
            if not reply.answered:
                await reply.parker.park()
        finally:
            if not reply.answered:  # cancelled, or `make` raised
                reply.abandon()
        if reply.error is not None:
            raise reply.error
        value = reply.value
        reply.value = None  # the deadlines hold on to the reply for a while
        return value

    def attach(self, mailbox: Mailbox) -> None:
        """Begin to send to a new incarnation; only the runtime calls it."""
        assert self.mailbox is None  # OneIncarnationPerPath
        self.mailbox = mailbox
        if self.registry.tell_hook is None:
            self._lane = mailbox.lane

    def detach(self) -> None:
        """Stop sending to the incarnation; only the runtime calls it."""
        self.mailbox = None
        self._lane = _NOBODY  # the ref may live long, the old lane need not

    def _tell(self, message: M_contra) -> Coroutine[Any, Any, None]:
        if self.registry.tell_hook is not None:
            return self._tell_later(message, self.registry.tell_hook)
        if self._put(message):
            return _SENT
        assert self.mailbox is not None
        return self.mailbox.wait(message)

    async def _tell_later(self, message: M_contra, hook: Callable[[], Awaitable[None]]) -> None:
        await hook()
        if not self._put(message):
            assert self.mailbox is not None
            await self.mailbox.wait(message)

    def _put(self, message: M_contra) -> bool:
        """Add the message or drop it. Returns: False if it has to wait for room."""
        mailbox = self.mailbox
        if mailbox is None:
            self.registry.dead_letter(self.path, message)
            return True
        if mailbox.offer(message):
            return True
        if mailbox.waits:
            return False
        mailbox.refused += 1
        self.registry.dead_letter(self.path, message, MailboxFull(f"{self.path} is full"))
        return True


R_contra = TypeVar("R_contra", contravariant=True)

_LOGGER = logging.getLogger("triolog.runtime")


class ReplyTo(Generic[R_contra]):
    """Takes one answer to a question; only the first counts.

    It is made by `ref.ask`, `ctx.ask_later` and `ReplyTo.local`.
    """

    __slots__ = ("_asked", "answered")

    def __init__(self) -> None:
        self.answered = False
        self._asked: Mailbox | None = None

    def send(self, value: R_contra) -> bool:
        """Answer; never raise or yield. Returns: False if it was answered or given up before."""
        if self.answered:
            return False
        self._close()
        self._settle(value, None)
        return True

    def fail(self, error: Exception) -> bool:
        """Answer with an error, which the asker's `ask` raises. Returns: the same as `send`."""
        if self.answered:
            return False
        self._close()
        self._settle(None, error)
        return True

    def bound_to(self, ref: ActorRef[Any]) -> ReplyTo[R_contra]:
        """Have this reply fail when `ref`'s actor stops, or now if it is down; return the reply."""
        if not self.answered:
            if self._asked is not None:
                self._asked.replies.pop(self, None)
            self._asked = ref.mailbox
            if self._asked is None:
                self.fail(ActorDown(f"{ref.path} is not running"))
            else:
                self._asked.replies[self] = None
        return self

    def abandon(self) -> None:
        """Note that the asker wants no answer any more."""
        if not self.answered:
            self._close()

    @staticmethod
    def local(
        callback: Callable[[R | Exception], None], *, asked: ActorRef[Any] | None = None
    ) -> ReplyTo[R]:
        """Return a reply that passes the answer or the error to `callback`; for callers outside.

        Args:
            callback: a short synchronous function, called in the answering actor's task. It must
                not raise.
            asked: the actor to be asked. Without it the reply fails only as the `reply_to` of a
                dead letter, and not when an actor that holds it stops, until `bound_to` is called.
        """
        reply: ReplyTo[R] = _LocalReply(callback)
        return reply if asked is None else reply.bound_to(asked)

    def _close(self) -> None:
        self.answered = True
        if self._asked is not None:
            self._asked.replies.pop(self, None)
            self._asked = None

    def _settle(self, value: Any, error: Exception | None) -> None:
        """Hand the answer, or the error in its place, to the asker.

        Subclasses override it; a bare ReplyTo has no asker that waits.
        """


class _LocalReply(ReplyTo[Any]):
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[Any], None]) -> None:
        super().__init__()
        self._callback = callback

    def _settle(self, value: Any, error: Exception | None) -> None:
        try:
            self._callback(value if error is None else error)
        except Exception:
            _LOGGER.exception("the callback of a local reply raised")


class Question(ReplyTo[Any]):
    """The reply of one ask, which also knows where the question waits, and for how long."""

    __slots__ = ("message_type", "ref", "timeout_s", "waiting")

    def __init__(self, ref: ActorRef[Any], asked: Mailbox | None, timeout_s: float) -> None:
        self.answered = False
        self._asked = asked
        if asked is not None:
            asked.replies[self] = None
        self.ref = ref
        self.timeout_s = timeout_s
        self.message_type: type = object
        self.waiting: WaitingSender | None = None

    def put(self, message: object, asked: Mailbox) -> None:
        """Add the question to the mailbox, or to the senders in line, and start its time."""
        self.message_type = type(message)
        self.ref.registry.deadlines.add(trio.current_time() + self.timeout_s, self)
        if asked.offer(message):
            return
        if asked.waits:
            self.waiting = asked.enqueue(message)
        else:
            asked.refused += 1
            self.fail(MailboxFull(f"{self.ref.path} is full"))

    def expire(self) -> None:
        """Fail, because the time is over; withdraw the question if it still waits for room."""
        if not self.answered:
            path, kind, timeout_s = self.ref.path, self.message_type.__name__, self.timeout_s
            event = events.AskTimedOut(message_type=kind, timeout_s=timeout_s)
            self.ref.registry.emit(path, 0, event)
            self._withdraw()
            self.fail(AskTimeout(f"{path} did not answer {kind} within {timeout_s} s"))

    def abandon(self) -> None:
        self._withdraw()
        super().abandon()

    def _withdraw(self) -> None:
        if self.waiting is not None:
            self.waiting.withdraw()


class AskReply(Question):
    """The question of one `ref.ask`, with the asker's parked task."""

    __slots__ = ("error", "parker", "value")

    def __init__(self, ref: ActorRef[Any], asked: Mailbox, timeout_s: float) -> None:
        super().__init__(ref, asked, timeout_s)
        self.parker = Parker()
        self.value: Any = None
        self.error: Exception | None = None

    def _settle(self, value: Any, error: Exception | None) -> None:
        self.value = value
        self.error = error
        self.parker.wake()


class LaterReply(Question):
    """The question of one `ctx.ask_later`."""

    __slots__ = ("_done",)

    def __init__(
        self,
        ref: ActorRef[Any],
        asked: Mailbox | None,
        timeout_s: float,
        done: Callable[[LaterReply, Any], None],
    ) -> None:
        super().__init__(ref, asked, timeout_s)
        self._done = done

    def _settle(self, value: Any, error: Exception | None) -> None:
        self._done(self, value if error is None else error)


DEAD_LETTER_PERIOD_S = 1.0  # the same kind of dead letter is reported at most so often
DEAD_LETTER_KINDS_MAX = 1024  # (path, message type) pairs counted apart; more are reported at once


def log_event(path: str, incarnation: int, event: Any) -> None:
    """Log an event as `triolog.runtime`; the event sink of a system that was given none."""
    _LOGGER.debug("%s#%d %r", path, incarnation, event)


class Registry:
    """What all actors of one system share. It has no globals, so systems in one program are apart.

    Attributes:
        receivers: the tasks of receive loops, which must not ask.
        deadlines: when questions expire and parked actors wake by themselves.
        crash_log: where crashes and restarts are logged.
        tell_hook: awaited before each tell, for simulation; None in production.
    """

    def __init__(
        self,
        *,
        rng: random.Random,
        event_sink: EventSink = log_event,
        tell_hook: Callable[[], Awaitable[None]] | None = None,
        log_crashes: bool = True,
    ) -> None:
        self.rng = rng
        self.crash_log = CrashLog(log_crashes)
        self.receivers: dict[trio.lowlevel.Task, str] = {}
        self.tell_hook = tell_hook
        self.deadlines = Deadlines()
        self._sink = event_sink
        self._refs: weakref.WeakValueDictionary[str, ActorRef[Any]] = weakref.WeakValueDictionary()
        self._incarnations: dict[str, int] = {}
        self._dead: dict[tuple[str, str], tuple[float, int]] = {}

    @overload
    def ref(self, path: str) -> ActorRef[Any]: ...
    @overload
    def ref(self, path: str, message: TypeForm[T]) -> ActorRef[T]: ...
    def ref(self, path: str, message: object = None) -> ActorRef[Any]:
        """Return the ref of a path, whether an actor runs there now, later or never.

        Args:
            path: a path such as "/n0/orders/store".
            message: the class of messages that the actor there takes, or a union of classes. It is
                for type checkers, and not checked here.
        """
        ref = self._refs.get(path)
        if ref is None:
            ref = self._refs[path] = ActorRef(path, self)
        return ref

    def lookup(self, path: str) -> ActorRef[Any] | None:
        """Return the ref of a running actor; None if none runs at this path."""
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
        """Forget a dynamic child that ended for good; its path's incarnations begin at 1 again."""
        below = path + "/"
        for known in [
            each for each in self._incarnations if each == path or each.startswith(below)
        ]:
            del self._incarnations[known]

    def dead_letter(self, path: str, message: object, error: Exception | None = None) -> None:
        """Count a message that nobody will read, and fail its `reply_to`."""
        self.dead_letters(path, [message], error)

    def dead_letters(
        self,
        path: str,
        messages: list[Any],
        error: Exception | None = None,
        crash: Exception | None = None,
    ) -> None:
        """Count messages that nobody will read, and fail their `reply_to`.

        Args:
            error: what the replies fail with; None: `Unread`, whose cause is `crash`.
        """
        for message in messages:
            self._count(path, type(message).__name__)
            reply = getattr(message, "reply_to", None)
            if isinstance(reply, ReplyTo):
                unread = Unread(f"{path} is not running")
                unread.__cause__ = crash
                reply.fail(error or unread)

    def flush(self) -> None:
        """Report dead letters that were counted and not yet reported, at the end of the system."""
        self.crash_log.flush()
        for (path, message_type), (_, count) in self._dead.items():
            self._report_dead(path, message_type, count)
        self._dead.clear()

    def _count(self, path: str, message_type: str) -> None:
        now_s = trio.current_time()
        key = (path, message_type)
        known = self._dead.get(key)
        if known is None and len(self._dead) >= DEAD_LETTER_KINDS_MAX:
            self._make_room(now_s)
        if known is None or now_s >= known[0] + DEAD_LETTER_PERIOD_S:
            self._report_dead(path, message_type, 1 + (known[1] if known else 0))
            if known is not None or len(self._dead) < DEAD_LETTER_KINDS_MAX:
                self._dead[key] = (now_s, 0)
        else:
            self._dead[key] = (known[0], known[1] + 1)

    def _make_room(self, now_s: float) -> None:
        old = [key for key, (at_s, _) in self._dead.items() if now_s >= at_s + DEAD_LETTER_PERIOD_S]
        for path, message_type in old:
            self._report_dead(path, message_type, self._dead.pop((path, message_type))[1])

    def _report_dead(self, path: str, message_type: str, count: int) -> None:
        if count:
            self.emit(path, 0, events.DeadLettered(message_type=message_type, count=count))
