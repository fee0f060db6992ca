"""One supervised child process for each node: `--processes`.

The parent is an ordinary actor system: a NodeProcess actor for each node under a one_for_one
supervisor with back-off, so that a killed node restarts by the same rules as a crashed actor.
Children stop in the reverse order of their start, so the masters are started last.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.cluster.child import Child, StillRuns, ended_how, start_child
from actors.cluster.explain import EXIT_DAMAGED, EXIT_NO_ROOM, EXIT_OK, EXIT_USAGE
from actors.errors import TriologError
from actors.runtime import (
    Actor,
    AutoShutdown,
    Backoff,
    ChildSpec,
    Restart,
    StopReason,
    SupervisorSpec,
)

RESTART_BACKOFF = Backoff(first_s=0.2, max_s=10.0)
RESTARTS_MAX = 100
RESTARTS_PERIOD_S = 60.0
"""The limit of restarts for all nodes together, if their processes are killed from outside. With
the back-off above a single one cannot restart so often."""
FAILURES_MAX = 5
FAILURES_PERIOD_S = 60.0
"""A node whose own process gives up so many times within this period is not started again."""
KILL_EXTRA_S = 5.0
"""How much longer than its own stop budget a child may need to leave the interpreter."""
OUTPUT_LINES_MAX = 20
REASON_PREFIX = "triolog: "
"""A command's lines that say why it ended begin with this."""
BY_OUR_SIGTERM = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""The return codes of a child that was stopped before it began: it obeys SIGTERM in order as soon
as there is anything to stop."""


class NodeProcessDied(TriologError):
    """A node's process ended by itself, and not in order. Its supervisor starts it again."""


@attrs.frozen(kw_only=True)
class _Exited:
    """From its task: the process has ended."""


@attrs.frozen(kw_only=True)
class _Printed:
    """From its task: the process has written a line."""

    line: str


_Inbox: TypeAlias = _Exited | _Printed


@attrs.define
class Watcher:
    """What the processes' actors report to the run, and the run's wish to hurry. The run owns it.

    Attributes:
        note: called with a line for people.
        refused: the lines of children that ended with a user's mistake.
        failed: the nodes that are not started again, with the reasons.
        one_failed: set when a node is added to `failed`, and replaced by a new event.
        hurry: set at the second signal.
        pids: the process id of each child that runs.
    """

    note: Callable[[str], None]
    refused: list[str] = attrs.field(factory=list)
    something_refused: trio.Event = attrs.field(factory=trio.Event)
    failed: dict[str, str] = attrs.field(factory=dict)
    one_failed: trio.Event = attrs.field(factory=trio.Event)
    hurry: trio.Event = attrs.field(factory=trio.Event)
    pids: dict[str, int] = attrs.field(factory=dict)
    _ended_s: dict[str, deque[float]] = attrs.field(factory=dict)

    def give_up(self, node: str, why: str) -> None:
        """Note that a node is not started again."""
        self.failed[node] = why
        one_failed, self.one_failed = self.one_failed, trio.Event()
        one_failed.set()

    def fails_too_often(self, node: str, now_s: float) -> bool:
        """Count a failure of a node's own process. Returns: whether there were too many within the
        period.
        """
        ends = self._ended_s.setdefault(node, deque(maxlen=FAILURES_MAX))
        ends.append(now_s)
        return len(ends) == FAILURES_MAX and now_s - ends[0] <= FAILURES_PERIOD_S


@attrs.define
class NodeProcess(Actor[_Inbox]):
    """The process of one node. It takes no messages from other actors.

    The actor crashes when the process dies, and its restart starts a new process. A restart forgets
    nothing, because all state is in the node's data directory.
    """

    _node: str
    _command: tuple[str, ...]
    _watcher: Watcher
    _child: Child | None = None
    _judged: bool = False
    _last_lines: deque[str] = attrs.field(factory=lambda: deque(maxlen=OUTPUT_LINES_MAX))

    async def on_start(self) -> None:
        """Start the process. Ready means that it is started, and not that the node serves."""
        self._child = child = start_child(self._command)
        self._watcher.pids[self._node] = child.pid
        if self.ctx.incarnation > 1:
            self._watcher.note(f"{self._node}: started again as process {child.pid}")
        self.ctx.spawn(self._watch, child)

    async def _watch(self, child: Child) -> None:
        """Pass on the child's lines until it closes its output, then its end."""
        while lines := await child.read_lines():
            for line in lines:
                await self.ctx.self_ref.tell(_Printed(line=line))
        await child.wait()
        await self.ctx.self_ref.tell(_Exited())

    async def handle(self, message: _Inbox) -> None:
        """Pass on a line; end with the process."""
        match message:
            case _Printed(line=line):
                self._heed_line(line)
            case _Exited():
                await self._ended()
            case _:
                assert_never(message)

    def _heed_line(self, line: str) -> None:
        # The reason for its end is reported once: by the run, if the node refuses its
        # configuration.
        if line.startswith(REASON_PREFIX):
            self._last_lines.append(line)
        else:
            self._watcher.note(f"{self._node}: {line}")

    async def _ended(self) -> None:
        """Handle the end of a process that was not stopped from here."""
        assert self._child is not None
        self._judged = True
        returncode = await self._child.reap()
        said = self._child.said()
        gave_up = said is not None or (returncode is not None and returncode >= 0)
        if said == EXIT_OK:  # it was asked to stop, over its API
            self._watcher.note(f"{self._node}: stopped in order")
            self.ctx.stop()
        elif said == EXIT_USAGE:  # to start it again would not help
            refusals = self._last_lines or [f"{self._node}: refused its configuration"]
            self._watcher.refused += refusals
            self._watcher.something_refused.set()
            self.ctx.stop()
        elif said == EXIT_DAMAGED or (
            gave_up
            and said != EXIT_NO_ROOM
            and self._watcher.fails_too_often(self._node, self.ctx.now_s())
        ):
            self._watcher.give_up(self._node, self._why(returncode))
            self.ctx.stop()
        else:
            for line in self._last_lines:
                self._watcher.note(f"{self._node}: {line.removeprefix(REASON_PREFIX)}")
            how = ended_how(returncode)
            again = "trying again" if said == EXIT_NO_ROOM else "starting it again"
            self._watcher.note(f"{self._node}: {how}, {again}")
            raise NodeProcessDied(f"the process of node {self._node} {how}")

    def _why(self, returncode: int | None) -> str:
        lines = [line.removeprefix(REASON_PREFIX) for line in self._last_lines]
        return "; ".join(lines) or ended_how(returncode)

    async def on_stop(self, reason: StopReason) -> None:
        """Stop the process in order, and kill it if that takes too long.

        It has ended then, unless SIGKILL does not end it in time: it is left alone in that case,
        and a note says so.
        """
        child = self._child
        assert child is not None
        in_time = False
        try:
            child.signal(signal.SIGTERM)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_hurry_on, child)
                while lines := await child.read_lines():  # otherwise a full pipe would hold it up
                    for line in lines:
                        self._heed_line(line)
                await child.wait()
                nursery.cancel_scope.cancel()
            in_time = True
        finally:
            if not in_time:
                child.signal(signal.SIGKILL)
            try:
                returncode = await child.reap()
            except StillRuns as error:
                how = f"{error}: it waits for its disk perhaps; end it before the next start"
                self._watcher.give_up(self._node, f"not stopped in order: {how}")
            else:
                self._judge_end(child.said(), returncode, in_time=in_time)
            child.close()
            self._watcher.pids.pop(self._node, None)

    def _judge_end(self, said: int | None, returncode: int | None, *, in_time: bool) -> None:
        if not self._judged and said != EXIT_OK and returncode not in BY_OUR_SIGTERM:
            how = self._why(returncode) if in_time else "did not stop in time, was killed"
            self._watcher.give_up(self._node, f"not stopped in order: {how}")

    async def _pass_hurry_on(self, child: Child) -> None:
        await self._watcher.hurry.wait()
        child.signal(signal.SIGTERM)


def tree(
    nodes: Sequence[str],
    command_of: Callable[[str], tuple[str, ...]],
    watcher: Watcher,
    stop_timeout_s: float,
) -> SupervisorSpec:
    """Make the parent's tree.

    Args:
        nodes: the nodes in the order of their start; they stop in the reverse order.
        command_of: returns a node's command line.
        stop_timeout_s: how long a node's own ordered stop may take, in seconds.
    """
    return SupervisorSpec(
        intensity=RESTARTS_MAX,
        period_s=RESTARTS_PERIOD_S,
        auto_shutdown=AutoShutdown.ALL_SIGNIFICANT,
        children=tuple(_child(node, command_of(node), watcher, stop_timeout_s) for node in nodes),
    )


def _child(
    node: str, command: tuple[str, ...], watcher: Watcher, stop_timeout_s: float
) -> ChildSpec:
    return ChildSpec(
        name=node,
        start=lambda: NodeProcess(node, command, watcher),
        restart=Restart.TRANSIENT,
        significant=True,
        shutdown_s=stop_timeout_s + KILL_EXTRA_S,
        backoff=RESTART_BACKOFF,
    )
