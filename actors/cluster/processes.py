"""One supervised child process for each node: `--processes`.

The parent is an ordinary actor system: a NodeProcess actor per node under a one_for_one supervisor
with back-off, so that a killed node comes back by the same rules as a crashed actor. Children stop
in reverse order of their start, so whoever orders them puts the masters last.

A child must not outlive its parent, however that ends: the kernel sends it SIGTERM when the thread
that started it dies (PR_SET_PDEATHSIG). That thread is therefore the parent's main thread, never a
worker of Trio's cache, which would end after ten idle seconds and take the children along.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

import attrs
import trio

from actors.cluster.explain import EXIT_DAMAGED, EXIT_USAGE
from actors.errors import ConfigError, TriologError
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
"""For all nodes together, killed from outside. With the back-off above a single one cannot come
back so often.
"""
FAILURES_MAX = 5
FAILURES_PERIOD_S = 60.0
"""A node whose process itself gives up so often in so long is not started again."""
KILL_EXTRA_S = 5.0
"""What a child may need beyond its own stop budget to leave the interpreter."""
OUTPUT_LINES_MAX = 20
LAST_WORDS = "triolog: "
"""How a command begins the lines that say why it ended."""
OUTPUT_LINE_BYTES_MAX = 4096
REAP_S = 5.0
PR_SET_PDEATHSIG = 1


class NodeProcessDied(TriologError):
    """A node's process ended by itself, and not in order. Its supervisor starts it again."""


@attrs.frozen(kw_only=True)
class _Exited:
    """The process has ended."""

    returncode: int


@attrs.frozen(kw_only=True)
class _Printed:
    """The process has written a line."""

    line: str


_Inbox: TypeAlias = _Exited | _Printed


@attrs.define
class Watcher:
    """What the actors tell the run, and the run's wish to hurry. Owned by the run.

    Attributes:
        note: takes one line for people.
        refused: the lines of children that ended with a user's mistake.
        failed: nodes that are not started again, and why.
        one_failed: set when one more has; another event follows.
        hurry: set by the second signal.
        pids: of the living children.
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
        """A node is not started again."""
        self.failed[node] = why
        one_failed, self.one_failed = self.one_failed, trio.Event()
        one_failed.set()

    def fails_too_often(self, node: str, now_s: float) -> bool:
        """Count an end that the node's process chose itself."""
        ends = self._ended_s.setdefault(node, deque(maxlen=FAILURES_MAX))
        ends.append(now_s)
        return len(ends) == FAILURES_MAX and now_s - ends[0] <= FAILURES_PERIOD_S


@attrs.define
class NodeProcess(Actor[_Inbox]):
    """One node's process. No messages from others.

    A crash of this actor is a death of the process; its restart starts a new one. A restart forgets
    nothing, as all state is in the node's data directory.
    """

    _node: str
    _command: tuple[str, ...]
    _watcher: Watcher
    _process: subprocess.Popen[bytes] | None = None
    _pidfd: int = -1
    _last_words: deque[str] = attrs.field(factory=lambda: deque(maxlen=OUTPUT_LINES_MAX))

    async def on_start(self) -> None:
        """Start the process. Ready means started, not that the node serves already."""
        process, self._pidfd = start_child(self._command)
        self._process = process
        self._watcher.pids[self._node] = process.pid
        if self.ctx.incarnation > 1:
            self._watcher.note(f"{self._node}: started again as process {process.pid}")
        self.ctx.spawn(self._watch)

    async def _watch(self) -> None:
        """Feeder: the child's lines until it closes its output, then its end."""
        assert self._process is not None
        assert self._process.stdout is not None
        rest = b""
        async with trio.lowlevel.FdStream(os.dup(self._process.stdout.fileno())) as stream:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    await self._print(line)
                if len(rest) > OUTPUT_LINE_BYTES_MAX:
                    await self._print(rest)
                    rest = b""
        if rest:
            await self._print(rest)
        await trio.lowlevel.wait_readable(self._pidfd)
        await self.ctx.self_ref.tell(_Exited(returncode=self._process.wait()))

    async def _print(self, line: bytes) -> None:
        text = line[:OUTPUT_LINE_BYTES_MAX].decode("utf-8", "replace").rstrip()
        await self.ctx.self_ref.tell(_Printed(line=text))

    async def handle(self, message: _Inbox) -> None:
        """A line is passed on; the end of the process is the end of this actor."""
        match message:
            case _Printed(line=line):
                # Why it ends is said once: by the run if that refuses its configuration.
                if line.startswith(LAST_WORDS):
                    self._last_words.append(line)
                else:
                    self._watcher.note(f"{self._node}: {line}")
            case _Exited(returncode=returncode):
                self._ended(returncode)
            case _:
                assert_never(message)

    def _ended(self, returncode: int) -> None:
        if returncode == 0:  # it was asked to stop, over its API
            self._watcher.note(f"{self._node}: stopped in order")
            self.ctx.stop()
        elif returncode == EXIT_USAGE:  # starting it again would not help
            words = self._last_words or [f"{self._node}: refused its configuration"]
            self._watcher.refused += words
            self._watcher.something_refused.set()
            self.ctx.stop()
        elif returncode == EXIT_DAMAGED or (
            returncode > 0 and self._watcher.fails_too_often(self._node, self.ctx.now_s())
        ):
            words = [line.removeprefix(LAST_WORDS) for line in self._last_words]
            self._watcher.give_up(self._node, "; ".join(words) or ended_how(returncode))
            self.ctx.stop()
        else:
            for line in self._last_words:
                self._watcher.note(f"{self._node}: {line.removeprefix(LAST_WORDS)}")
            how = ended_how(returncode)
            self._watcher.note(f"{self._node}: {how}, starting it again")
            raise NodeProcessDied(f"the process of node {self._node} {how}")

    async def on_stop(self, reason: StopReason) -> None:
        """End the process in order; whatever happens, it has ended afterwards."""
        process = self._process
        assert process is not None
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_hurry_on, process)
                    await trio.lowlevel.wait_readable(self._pidfd)
                    nursery.cancel_scope.cancel()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(REAP_S)
            assert process.stdout is not None
            process.stdout.close()
            os.close(self._pidfd)
            self._watcher.pids.pop(self._node, None)

    async def _pass_hurry_on(self, process: subprocess.Popen[bytes]) -> None:
        await self._watcher.hurry.wait()
        process.send_signal(signal.SIGTERM)


def start_child(command: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process from this thread; returns it and a descriptor that is readable at its end.

    Raises: OSError; no process is left then.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,  # Ctrl-C reaches the parent only, which stops its children in order
    )
    try:
        return process, os.pidfd_open(process.pid)
    except OSError:
        with process:  # closes its pipe and waits for it
            process.kill()
        raise


def ended_how(returncode: int) -> str:
    """`was killed by SIGKILL`, `ended with exit code 1`."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was killed by {name}"


def tree(
    nodes: Sequence[str],
    command_of: Callable[[str], tuple[str, ...]],
    watcher: Watcher,
    stop_timeout_s: float,
) -> SupervisorSpec:
    """The parent's tree.

    Args:
        nodes: in the order of their start; they stop in the reverse order.
        command_of: a node's command line.
        stop_timeout_s: a node's own budget for an ordered stop.
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


def child_command(file: str, node: str) -> tuple[str, ...]:
    """How this program runs one node as its child."""
    words = (file, "run", "--node", node, "--child-of", str(os.getpid()))
    return (sys.executable, "-m", "actors.cluster", *words)


def die_with_parent(parent_pid: int) -> None:
    """In a child, before anything else: have SIGTERM sent when the parent ends.

    Raises:
        ConfigError: the parent has ended already, or is another process.
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if os.getppid() != parent_pid:
        raise ConfigError(f"--child-of: expected the parent's process id, found {parent_pid}")
