"""The reply of one append on a running node: counts its outcome and wakes who waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from actors.api.handle import AppendOutcome
from actors.errors import NodeStopped, OutcomeUnknown, TriologError
from actors.log_types import Receipt
from actors.node_part import GroupPart
from actors.runtime import ReplyTo
from actors.runtime.parking import Parker
from actors.storage import store

_LOGGER = logging.getLogger("triolog.node")


class AppendReply(ReplyTo[store.Appended]):
    """Settles one append of `count` records, in the task of the actor that answers.

    There is one for each append, so it is one object with the waiting task in it: a closure and a
    `trio.Event` for each cost a tenth of what an append costs.

    Attributes:
        outcome: what the appender learns; None until then.
    """

    __slots__ = ("_count", "_node", "_on_done", "_parker", "_part", "outcome")

    def __init__(
        self,
        part: GroupPart,
        count: int,
        node: str,
        on_done: Callable[[AppendOutcome], None] | None = None,
    ) -> None:
        """`on_done`: called with the outcome; without it somebody waits."""
        super().__init__()
        self._part = part
        self._count = count
        self._node = node
        self._on_done = on_done
        self._parker = Parker()
        self.outcome: AppendOutcome | None = None
        self.bound_to(part.store)

    async def wait(self) -> AppendOutcome:
        """Return the outcome; a checkpoint."""
        if self.outcome is None:
            await self._parker.park()
        else:
            await trio.lowlevel.checkpoint()
        assert self.outcome is not None
        return self.outcome

    def _settle(self, value: Any, error: Exception | None) -> None:
        self.outcome = self._failed(error) if error is not None else self._receipt(value)
        if self._on_done is None:
            self._parker.wake()
            return
        try:
            self._on_done(self.outcome)
        except Exception:
            _LOGGER.exception("the callback of an append raised")

    def _receipt(self, answer: store.Appended) -> Receipt:
        self._part.counts.acknowledged += self._count
        return Receipt(
            first=answer.first_bytes,
            last=answer.last_bytes,
            next=answer.next_bytes,
            count=self._count,
            copies=answer.copies,
            durability=answer.durability,
        )

    def _failed(self, error: Exception) -> TriologError:
        counts = self._part.counts
        if not isinstance(error, TriologError):
            stopped = NodeStopped(f"{self._node} stopped while the records were in flight")
            stopped.__cause__ = error
            error = stopped
        if isinstance(error, OutcomeUnknown):
            counts.outcome_unknown += self._count
        else:
            counts.refused += self._count
        return error
