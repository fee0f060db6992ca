"""`ActorRef`: the way to send to an actor, bound to its path rather than to one incarnation."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import trio
from trio.lowlevel import current_task

from actors.runtime.errors import ActorDown, AskInsideHandle, MailboxFull
from actors.runtime.lane import Lane
from actors.runtime.mailbox import Mailbox
from actors.runtime.reply import AskReply, ReplyTo

if TYPE_CHECKING:
    from actors.runtime.registry import Registry

M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")

_NOBODY = Lane(1)
_NOBODY.limit = 0  # the lane of an actor that is not running: every message takes the slow path


class _Sent(Coroutine[Any, Any, None]):
    """The awaitable of all tells that need not wait: awaiting it is nearly free, again and again.

    A coroutine object per tell costs twice as much. `nursery.start_soon(ref.tell, m)` takes it too.
    """

    __slots__ = ()
    __await__ = iter(()).__iter__  # type: ignore[assignment]  # one empty iterator: no step at all

    def send(self, value: Any) -> NoReturn:
        raise StopIteration

    def throw(self, *error: Any) -> NoReturn:
        raise error[0]

    def close(self) -> None:
        """Nothing is open."""


_SENT = _Sent()


class ActorRef(Generic[M_contra]):
    """Where to send messages of type M. The same object for the same path in one system.

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
        """True if an incarnation runs (it may still be starting)."""
        return self.mailbox is not None

    def tell(self, message: M_contra) -> Coroutine[Any, Any, None]:
        """Send: `await ref.tell(m)`; waits, in order, only while the mailbox is full.

        To a stopped actor the message is a counted dead letter, never an error. Callers must not
        rely on its not yielding: the simulator makes it yield.
        Raises: MailboxFull if an actor would wait for room in its own mailbox.
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
        """Send without ever waiting.

        False if there is no room, if somebody waits for room, or nobody is there.
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
        """Send without waiting: what finds no room waits for it in line, in this sender's place.

        For a caller that bounds by other means what it has under way. False if nobody is there, or
        if the mailbox refuses what finds no room.
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
        """Queue the message without waking the actor for it. Never waits.

        It is read before whatever comes later. This is for news that matters only when something
        else is asked, or not at once.

        Args:
            within_s: maximum delay in seconds, which the actor may shorten (`limit_delay`); inf
                waits for the next message that wakes it.

        Returns: False if it went nowhere: the actor is stopped, or there is no room, which
            conflated messages always have.
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
        """Ask and wait for the answer. Not for an actor's receive loop: that has `ctx.ask_later`.

        Args:
            reply_type: what the answer is (a pair of classes for a union of two); it is not
                checked.
            make: gets the reply and returns the message.
            timeout_s: seconds, the wait for room in the mailbox included.

        Raises: AskTimeout; ActorDown if the actor is not running or ends first; MailboxFull if it
            refuses; AskInsideHandle; whatever error the actor answered with.
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
        """A new incarnation takes the path over. Only for the runtime."""
        assert self.mailbox is None  # OneIncarnationPerPath
        self.mailbox = mailbox
        if self.registry.tell_hook is None:
            self._lane = mailbox.lane

    def detach(self) -> None:
        """The incarnation takes no more messages. Only for the runtime."""
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
        """True if the message is dealt with; False if it has to wait for room."""
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
