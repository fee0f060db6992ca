"""One group on a running node, of whichever kind: what the node hands its calls to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import attrs
import trio

from actors.api.handle import AppendOutcome
from actors.errors import Closed
from actors.log_types import Chain, Found, NewRecord, Offsets, Receipt
from actors.runtime import ActorError, ActorRef, ReplyTo

M = TypeVar("M")
R = TypeVar("R")

STATUS_TIMEOUT_S: Final = 5.0
STATE_LOOK_S: Final = 0.02
"""A tree that is being restarted has nobody to ask; whoever asks for its state waits for it."""


@attrs.define
class GroupCounts:
    """What this node did for one group since its start, in records."""

    appended: int = 0
    acknowledged: int = 0
    outcome_unknown: int = 0
    refused: int = 0

    @property
    def unanswered(self) -> int:
        return self.appended - self.acknowledged - self.outcome_unknown - self.refused


class Part(Protocol):
    """See the module's text. The methods are those of `actors.api.handle.NodeHandle`."""

    @property
    def counts(self) -> GroupCounts: ...
    @property
    def is_open(self) -> bool:
        """Whether appends are taken here."""

    async def submit(
        self,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None: ...
    async def append(self, records: tuple[NewRecord, ...]) -> Receipt: ...
    async def read(self, start: int, max_bytes: int, fresh: bool) -> Found: ...
    async def wait_acknowledged(self, above: int) -> Offsets: ...
    async def wait_offsets(self, known: Offsets | None) -> Offsets: ...
    async def status(self) -> dict[str, Any]: ...
    async def unsent(self) -> str:
        """Whom an ordered stop waits for in this group, for people; "": for nobody."""

    def end_appends(self) -> None:
        """The node is stopping: further appends are refused as Closed."""


async def asked(node: str, ref: ActorRef[M], make: Callable[[ReplyTo[R]], M], kind: type[R]) -> R:
    """Ask one of a node's actors without a deadline: the caller's cancel scope bounds it.

    Raises: Closed if there is no such actor; what it answers with.
    """
    answered = trio.Event()
    answers: list[R | Exception] = []

    def settle(answer: R | Exception) -> None:
        answers.append(answer)
        answered.set()

    reply: ReplyTo[R] = ReplyTo.local(settle, asked=ref)
    try:
        await ref.tell(make(reply))
        await answered.wait()
    finally:
        reply.abandon()
    (answer,) = answers
    if isinstance(answer, ActorError):
        raise Closed(f"{node}: {answer}") from answer
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, kind)
    return answer
