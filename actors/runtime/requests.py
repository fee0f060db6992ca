"""The requests that a running supervisor takes, and their mailbox.

A supervisor takes requests if its specification says `takes_requests`; a dynamic one always does.
They are carried out one by one, between exits and restarts.

    await registry.ref("/n0").tell(requests.RestartChild(name="orders"))

Source: erlang/otp, lib/stdlib/src/supervisor.erl, terminate_child/2 followed by restart_child/2.
Differs:
- the two are one request, so that nobody can be left in between;
- a start that fails is a failed incarnation, which the child's `restart` decides about (OTP leaves
  the child stopped).
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeAlias

import attrs

from actors.runtime.errors import ActorDown
from actors.runtime.mailbox import Mailbox, MailboxSpec, MailboxStatistics
from actors.runtime.parking import Parker
from actors.runtime.ref import Registry, ReplyTo


@attrs.frozen(kw_only=True)
class Restarted:
    """The child is ready again, in a new incarnation."""

    name: str
    incarnation: int


@attrs.frozen(kw_only=True)
class Refused:
    """Nothing was done, or the start failed.

    Attributes:
        reason: why, for people: the name is taken or unknown, there is no room, or the start
            failed.
        error: what the start raised, if it failed; else None.
    """

    reason: str
    error: Exception | None = None


@attrs.frozen(kw_only=True)
class RestartChild:
    """Stop a child in order and start it afresh, without its siblings.

    The strategy does not apply, and the restart is not counted. A child that ended for good is
    started again. If a child waits for its restart anyway, the request is refused.
    """

    name: str
    reply_to: ReplyTo[Restarted | Refused] | None = None


Message: TypeAlias = RestartChild


class RequestBox:
    """The mailbox of a supervisor."""

    def __init__(self, registry: Registry, path: str, parker: Parker) -> None:
        self._registry = registry
        self._ref = registry.ref(path)
        self._mailbox = Mailbox(MailboxSpec(), path)
        self._mailbox.receiver = parker
        self._taken: deque[Any] = deque()  # bounded by the mailbox, whose batch it holds

    def open(self) -> None:
        self._ref.attach(self._mailbox)

    def next(self) -> Any | None:
        """Remove and return the next request; None if there is none."""
        if not self._taken:
            self._taken.extend(self._mailbox.take())
        return self._taken.popleft() if self._taken else None

    def close(self) -> None:
        """Take no further requests; harmless if it is closed."""
        if self._mailbox.open:
            self._ref.detach()
            self._registry.dead_letters(self._ref.path, [*self._taken, *self._mailbox.close()])

    def end(self) -> None:
        """Close, and fail the requests that were taken and not answered."""
        self.close()
        for reply in list(self._mailbox.replies):
            reply.fail(ActorDown(f"{self._ref.path} ended before it answered"))

    def statistics(self) -> MailboxStatistics:
        return self._mailbox.statistics()


def answer(reply_to: ReplyTo[Any] | None, outcome: object) -> None:
    """Send the outcome, if an answer is wanted."""
    if reply_to is not None:
        reply_to.send(outcome)
