"""`ReplyTo`: the right to answer a question once.

A reply is bound to the incarnation that was asked: it fails with `ActorDown` when that ends.
Whoever passes a question on re-binds the reply with `bound_to`, so that it follows the actor that
now has to answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from actors.events import runtime as events
from actors.runtime.errors import ActorDown, AskTimeout, MailboxFull
from actors.runtime.parking import Parker

if TYPE_CHECKING:
    from actors.runtime.lane import WaitingSender
    from actors.runtime.mailbox import Mailbox
    from actors.runtime.ref import ActorRef

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

_LOGGER = logging.getLogger("triolog.runtime")


class ReplyTo(Generic[R_contra]):
    """Answers once; the first answer counts.

    Made by `ref.ask`, `ctx.ask_later` and `ReplyTo.local`.
    """

    __slots__ = ("_asked", "answered")

    def __init__(self) -> None:
        self.answered = False
        self._asked: Mailbox | None = None

    def send(self, value: R_contra) -> bool:
        """Answer. Never raises and never yields. False if it was answered, or given up, before."""
        if self.answered:
            return False
        self._close()
        self._settle(value, None)
        return True

    def fail(self, error: Exception) -> bool:
        """Answer with an error, which the asker's `ask` raises. False as in `send`."""
        if self.answered:
            return False
        self._close()
        self._settle(None, error)
        return True

    def bound_to(self, ref: ActorRef[Any]) -> ReplyTo[R_contra]:
        """The same reply, which now fails when `ref`'s actor stops (at once if it is down)."""
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
        """The asker wants no answer any more."""
        if not self.answered:
            self._close()

    @staticmethod
    def local(
        callback: Callable[[R | Exception], None], *, asked: ActorRef[Any] | None = None
    ) -> ReplyTo[R]:
        """A reply for somebody who is no actor: `callback` gets the answer or the error.

        Args:
            callback: called in the answering actor's task; synchronous, short, must not raise.
            asked: the actor to be asked. Without it, the reply fails only as a dead letter's
                `reply_to` field, not when an actor that holds it stops, until somebody binds it
                with `bound_to`.
        """
        reply: ReplyTo[R] = _LocalReply(callback)
        return reply if asked is None else reply.bound_to(asked)

    def _close(self) -> None:
        self.answered = True
        if self._asked is not None:
            self._asked.replies.pop(self, None)
            self._asked = None

    def _settle(self, value: Any, error: Exception | None) -> None:
        """What the asker made of it; a bare ReplyTo has nobody to tell."""


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
    """The reply of one ask: it also knows where the question waits and when to give it up."""

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
        """Put the question into the mailbox, or in line for it, and let its time run."""
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
        """The time is over: take the question back if it still waits for room, and fail."""
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
