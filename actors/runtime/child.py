"""A supervisor's record of one child, and of the incarnation that runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs
import trio

from actors.runtime.mailbox import MailboxStatistics, StopReason
from actors.runtime.spec import ChildSpec, Restart, Start
from actors.runtime.tree import State, TreeNode

if TYPE_CHECKING:
    from actors.runtime.ref import Registry


class Process(Protocol):
    """What runs inside an incarnation: an actor or a supervisor."""

    @property
    def kind(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def stopped_as(self) -> StopReason: ...
    def request_stop(self) -> None:
        """Ask the process to end in order. This may be called several times."""

    async def run(self, started: Callable[[], None]) -> None:
        """Run until the process ends; call `started` once it is ready."""

    def open_to_kill(self) -> None:
        """Lift every shield below, so that a cancellation passes, and remember being killed."""

    def shutdown_s(self, own_s: float) -> float:
        """Return how many seconds the stop may take; `own_s` is the specification's time."""

    def statistics(self) -> MailboxStatistics | None: ...
    def snapshot_children(self) -> tuple[TreeNode, ...]: ...
    def running_paths(self) -> list[str]:
        """Return the paths of the actors below that still run; empty for an actor."""

    def failure(self) -> Exception | None:
        """Return what this process is ending with, or why something below it is down, or None."""


Launch: TypeAlias = "Callable[[Registry, str, int, Start], Process]"
"""Makes a process from its path, its incarnation's number and the `start` of its ChildSpec."""


@attrs.define(eq=False)
class Incarnation:
    """One run of a child, from the start of its task to its end.

    Attributes:
        number: 1 for the first one at the child's path, then 2 and so on.
        scope: around everything the child does; shielded once it is ready, so only its supervisor
            cancels it.
        ready: whether it called started() and its task moved to the supervisor's nursery.
        ended: set when its task has left `scope`.
        error: the error that it ended with; None if there was none.
        asked: whether its supervisor asked it to stop before it ended.
        stop_deadline_s: the time by which it has to end once it was asked.
        renewed: whether that deadline was set anew, because the operating system had suspended the
            whole program.
    """

    number: int
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    process: Process | None = None
    ready: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None
    asked: bool = False
    started_s: float = 0.0
    stop_deadline_s: float = 0.0
    renewed: bool = False

    def request_stop(self, own_s: float) -> None:
        """Ask the process to end in order. Its time for that runs from the first request."""
        assert self.process is not None  # OnlyReadyChildrenAreAsked
        if not self.asked:
            self.asked = True
            self.stop_deadline_s = trio.current_time() + self.process.shutdown_s(own_s)
        self.process.request_stop()

    def renew_stop(self, own_s: float) -> None:
        """Start the time of a stop under way anew; this is done once at most."""
        if self.asked and not self.renewed and not self.ended.is_set():
            assert self.process is not None  # OnlyReadyChildrenAreAsked
            self.renewed = True
            self.stop_deadline_s = trio.current_time() + self.process.shutdown_s(own_s)

    def kill(self) -> None:
        """Cancel the whole subtree.

        A scope's cancellation cannot pass the shields below, so these are lifted first.
        """
        self.open_to_kill()
        self.scope.cancel()

    def open_to_kill(self) -> None:
        self.scope.shield = False
        if self.process is not None:
            self.process.open_to_kill()


@attrs.define(eq=False)
class Child:
    """One entry of a supervisor's list.

    Attributes:
        current: the incarnation that runs; None between two of them.
        due_s: when it has to be started again, while `state` is WAITING.
        restarts: how often it was restarted after its end.
        requested: how often it was restarted on request.
        attempt: how many restarts there were in a row, for the back-off.
        crash: the error of its last incarnation that ran and crashed, until another one runs.
    """

    spec: ChildSpec
    path: str
    current: Incarnation | None = None
    crash: Exception | None = None
    state: State = State.STOPPED
    incarnation: int = 0
    restarts: int = 0
    requested: int = 0
    attempt: int = 0
    due_s: float = 0.0
    kind: str = "actor"
    type: str = "-"

    @property
    def temporary(self) -> bool:
        return self.spec.restart is Restart.TEMPORARY

    def failure(self) -> Exception | None:
        """Return why the child is down, or in part; None if it is not."""
        process = self.current.process if self.current is not None else None
        return self.crash or (process.failure() if process is not None else None)

    def snapshot(self) -> TreeNode:
        process = self.current.process if self.current is not None else None
        return TreeNode(
            path=self.path,
            kind=self.kind,
            type=self.type,
            incarnation=self.incarnation,
            state=self.state,
            restarts=self.restarts,
            mailbox=process.statistics() if process is not None else None,
            children=process.snapshot_children() if process is not None else (),
        )


@attrs.frozen(kw_only=True)
class Exit:
    """The notice to a supervisor that a child has ended."""

    name: str
    incarnation: int
    error: Exception | None


class RestartWindow:
    """Counts restarts within a period, as OTP's add_restart does."""

    __slots__ = ("_intensity", "_period_s", "_times")

    def __init__(self, intensity: int, period_s: float) -> None:
        self._intensity = intensity
        self._period_s = period_s
        self._times: deque[float] = deque(maxlen=intensity + 1)

    def add(self, now_s: float) -> bool:
        """Count a restart. Returns: False if it is one too many within the period."""
        self._times.append(now_s)
        while self._times[0] < now_s - self._period_s:
            self._times.popleft()
        return len(self._times) <= self._intensity
