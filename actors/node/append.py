"""The reply to one append on a running node, which counts the outcome and wakes the appender."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import trio

from actors.api.handle import AppendOutcome
from actors.errors import Closed, NodeStopped, OutcomeUnknown, TriologError
from actors.log_types import Receipt
from actors.node.part import GroupCounts
from actors.runtime import ActorRef, ReplyTo, Unread
from actors.runtime.parking import Parker

A = TypeVar("A")

_LOGGER = logging.getLogger("triolog.node")


class AppendReply(ReplyTo[A], Generic[A]):
    """Settles one append of `count` records, in the task of the actor that answers.

    It is made for every append, so it holds the waiting task itself: a closure and a `trio.Event`
    cost a tenth of what an append costs. Each mode has a subclass.

    Attributes:
        count: how many records the append has.
        outcome: the outcome for the appender; None until it is known.
    """

    __slots__ = ("_counts", "_node", "_on_done", "_parker", "count", "outcome")

    def __init__(
        self,
        counts: GroupCounts,
        asked: ActorRef[Any],
        count: int,
        node: str,
        on_done: Callable[[AppendOutcome], None] | None = None,
    ) -> None:
        """Make the reply of one append.

        Args:
            on_done: called with the outcome; None if a task waits for it instead.
        """
        super().__init__()
        self._counts = counts
        self.count = count
        self._node = node
        self._on_done = on_done
        self._parker = Parker()
        self.outcome: AppendOutcome | None = None
        if asked.alive:
            self.bound_to(asked)
        else:  # nobody has received it yet
            self.fail(Unread(f"{asked.path} is not running"))

    @abstractmethod
    def receipt(self, answer: A) -> Receipt:
        """Return the appender's receipt for the actor's answer."""

    async def wait(self) -> AppendOutcome:
        """Return the outcome; a checkpoint."""
        if self.outcome is None:
            await self._parker.park()
        else:
            await trio.lowlevel.checkpoint()
        assert self.outcome is not None
        return self.outcome

    async def carried_by(self, sending: Awaitable[object]) -> Receipt:
        """Return the receipt once `sending` has handed the append over and it is answered.

        Raises: the error with which the append ended. For a caller that is cancelled here its
            outcome is unknown.
        """
        try:
            await sending
            outcome = await self.wait()
        finally:
            self._give_up()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def handed_over(self, sending: Awaitable[object]) -> None:
        """Return once `sending` has handed the append over; `on_done` gets its outcome later.

        A caller that is cancelled here gets no outcome. Otherwise a reply that no actor has
        received would count as one that is waited for, and no hand-over of the group would end.
        """
        handed_over = False
        try:
            await sending
            handed_over = True
        finally:
            if not handed_over:
                self._give_up()

    def _give_up(self) -> None:
        """Settle the reply for a caller that was cancelled: unknown, unless it was answered."""
        if not self.answered:
            self.abandon()
            self._counts.outcome_unknown += self.count

    def _settle(self, value: Any, error: Exception | None) -> None:
        if error is None:
            self._counts.acknowledged += self.count
            self.outcome = self.receipt(value)
        else:
            self.outcome = self._failed(error)
        if self._on_done is None:
            self._parker.wake()
            return
        try:
            self._on_done(self.outcome)
        except Exception:
            _LOGGER.exception("the callback of an append raised")

    def _failed(self, error: Exception) -> TriologError:
        if isinstance(error, Unread):
            closed = Closed(f"{self._node} ended before it had begun to append")
            closed.__cause__ = error
            error = closed
        elif not isinstance(error, TriologError):
            stopped = NodeStopped(f"{self._node} stopped while the records were in flight")
            stopped.__cause__ = error
            error = stopped
        if isinstance(error, OutcomeUnknown):
            self._counts.outcome_unknown += self.count
        else:
            self._counts.refused += self.count
        return error
