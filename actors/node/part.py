"""The base class of a node's part in one group, to which the node hands its calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

import attrs
import trio

from actors.api.failures import RequestRefused
from actors.api.handle import AppendOutcome
from actors.config import Group
from actors.errors import Closed
from actors.group_status import GroupStatus
from actors.log_types import Chain, Claim, Found, GoodRange, GroupState, NewRecord, Offsets, Receipt
from actors.readable import with_article
from actors.runtime import ActorError, ActorRef, ReplyTo
from wire.api import frames

M = TypeVar("M")
R = TypeVar("R")

STATUS_TIMEOUT_S: Final = 5.0
STATE_LOOK_S: Final = 0.02
"""The seconds after which a group whose tree is being restarted is asked for its state again."""


@attrs.define
class GroupCounts:
    """The outcomes of the records that were appended to one group here since the node's start."""

    appended: int = 0
    acknowledged: int = 0
    outcome_unknown: int = 0
    refused: int = 0

    @property
    def unanswered(self) -> int:
        return self.appended - self.acknowledged - self.outcome_unknown - self.refused


class Part(ABC):
    """This node's part in one group; each mode has a subclass.

    The methods are those of `actors.api.handle.NodeHandle`. Those that only some modes have are
    refused here, with a text that says what to do instead.

    Attributes:
        counts: the outcomes of the appends that were made here.
        repairing: how far a repair of its log is, for people; "": none is under way.
    """

    counts: GroupCounts
    repairing: str

    how_it_is_led: ClassVar[str]
    """The end of a refusal: how the mode chooses its master or leader, and with which command."""

    @property
    @abstractmethod
    def node(self) -> str:
        """This node's name."""

    @property
    @abstractmethod
    def file_group(self) -> Group:
        """The group as the cluster file has it."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether appends are taken here."""

    @property
    @abstractmethod
    def leader(self) -> str:
        """The node that takes appends, as far as this node knows; "" if it knows none."""

    @abstractmethod
    async def submit(
        self,
        records: tuple[NewRecord, ...],
        on_done: Callable[[AppendOutcome], None],
        chain: Chain | None = None,
    ) -> None: ...

    @abstractmethod
    async def append(self, records: tuple[NewRecord, ...]) -> Receipt: ...

    @abstractmethod
    async def read(self, start: int, max_bytes: int, fresh: bool) -> Found: ...

    @abstractmethod
    async def _watch(self, *, known: Offsets | None = None, above: int = -1) -> Offsets:
        """Wait until the offsets differ from `known` and the acknowledged end is above `above`.

        Returns: the offsets.
        """

    async def wait_acknowledged(self, above: int) -> Offsets:
        """Implements `NodeHandle.wait_acknowledged`."""
        return await self._watch(above=above)

    async def wait_offsets(self, known: Offsets | None) -> Offsets:
        """Implements `NodeHandle.wait_offsets`."""
        return await self._watch(known=known)

    @abstractmethod
    async def status(self) -> GroupStatus: ...

    @abstractmethod
    async def unsent(self) -> str:
        """Describe, for people, what an ordered stop waits for in this group; "" for nothing."""

    @abstractmethod
    def end_appends(self) -> None:
        """Refuse further appends as Closed, because the node is stopping."""

    # ---- mending ----

    @abstractmethod
    async def log_range(self, start: int) -> GoodRange: ...

    @abstractmethod
    async def repair_from(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Mend damage of the log with bytes of these members, which are asked in this order."""

    async def repair(self, source: str | None) -> dict[str, Any]:
        """See `NodeHandle.repair`.

        Returns: the group and the node; `unit`, in which ranges are given; `looked`, the range that
            was read; `mended`, the mended ranges with their sources; `left`, the ranges that are
            still damaged, with the reason.
        """
        group = self.file_group
        members = tuple(each for each in group.members if each != self.node)
        if source is not None and source not in members:
            expected = ", ".join(members) or "there is none"
            text = f"expected another member of {group.name} ({expected}), found {source}"
            raise RequestRefused(frames.ERROR_BAD_REQUEST, text)
        if self.repairing:
            text = f"{self.node}: {group.name} is being repaired already"
            raise RequestRefused(frames.ERROR_NOT_AVAILABLE, text)
        leader = self.leader
        names = sorted(members if source is None else (source,), key=lambda each: each != leader)
        self.repairing = "begins"
        try:
            return await self.repair_from(tuple(names))
        finally:
            self.repairing = ""

    # ---- who takes appends: each kind has some of these ----

    async def promote(self, node: str | None, force: bool) -> dict[str, Any]:
        raise self._refused()

    async def resync(self) -> dict[str, Any]:
        raise self._refused()

    async def transfer_leader(self, node: str | None) -> dict[str, Any]:
        raise self._refused()

    async def group_state(self) -> GroupState:
        raise self._refused()

    async def wait_group_state(self, known: GroupState | None) -> GroupState:
        raise self._refused()

    async def fence(self, claim: Claim, on: bool) -> GroupState:
        raise self._refused()

    async def record(self, number: int, master: str, token: int, force: bool) -> GroupState:
        raise self._refused()

    def _refused(self) -> RequestRefused:
        group = self.file_group
        text = f"{group.name} is {with_article(group.mode)} group: {self.how_it_is_led}"
        return RequestRefused(frames.ERROR_BAD_REQUEST, text)


async def asked(node: str, ref: ActorRef[M], make: Callable[[ReplyTo[R]], M], kind: type[R]) -> R:
    """Ask one of a node's actors without a deadline; the caller's cancel scope bounds it.

    Raises: Closed: there is no such actor. Any error with which the actor answers.
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
