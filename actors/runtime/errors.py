"""Errors of the runtime."""

from __future__ import annotations

from collections.abc import Sequence


class ActorError(Exception):
    """Base of the runtime's own errors."""


class AskTimeout(ActorError):
    """No answer came in time. The actor may still act on the message."""


class ActorDown(ActorError):
    """The asked actor is not there, or ended before it answered.

    It may have acted on the message. `__cause__` is what the actor crashed with, if it crashed
    while it had the question.
    """


class Unread(ActorDown):
    """The asked actor is not there, or ended before it read the message: it has not acted on it."""


class MailboxFull(ActorError):
    """The mailbox refuses the message (Overflow.REFUSE), or the actor itself would wait for room in
    it.
    """


class AskInsideHandle(ActorError):
    """`ref.ask` was called by an actor's receive loop.

    Use `ctx.ask_later`, so that the mailbox is still served.
    """


class SpecError(ActorError, ValueError):
    """A specification contradicts itself."""


class RestartIntensityExceeded(ActorError):
    """A supervisor gave up: its children needed more than `intensity` restarts in `period_s`
    seconds.

    `__cause__` is the error of the child that ended last.
    """


class SignificantChildFailed(ExceptionGroup[Exception]):
    """A supervisor shut itself down because a significant child failed; holds that child's error.

    For the decision to restart it counts as a shutdown, as in OTP: a transient supervisor is not
    restarted.
    """

    def derive(self, excs: Sequence[Exception]) -> SignificantChildFailed:  # type: ignore[override]
        return SignificantChildFailed(self.message, excs)


class StopFailed(ExceptionGroup[Exception]):
    """The errors that `on_stop` raised in an ordered stop, of one actor or of a whole subtree.

    It reaches the host, because data may not be where it should be. A crash during a stop is only
    reported as an event, because without the stop its supervisor would have handled it.
    """

    def derive(self, excs: Sequence[Exception]) -> StopFailed:  # type: ignore[override]
        return StopFailed(self.message, excs)


def describe(error: BaseException) -> str:
    """Describe an error, or the leaf errors of a group: "Type: text; Type: text".

    The crash behind an ActorDown is left out, because it is reported by itself.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(each) for each in error.exceptions)
    behind = None if isinstance(error, ActorDown) else error.__cause__
    cause = f" (after {describe(behind)})" if behind is not None else ""
    text = str(error)
    return f"{type(error).__name__}: {text}{cause}" if text else f"{type(error).__name__}{cause}"
