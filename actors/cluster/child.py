"""A node's process as its parent sees it: its start, its output, its end; and the child's side.

A child must not outlive its parent, however that ends: the kernel sends it SIGTERM when the thread
that started it dies (PR_SET_PDEATHSIG). That thread is therefore the parent's main thread, never a
worker of Trio's cache, which would end after ten idle seconds and take the children along.

As its last step a child reports how it ends, through a pipe that belongs to this incarnation alone
(`report_end`). An exit code is no proof: if SIGCHLD is ignored, the kernel forgets the child and
Python takes its exit code for 0; and with PYTHONINSPECT a process ends with 0 after an error, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import attrs
import trio

from actors.cluster.explain import EXIT_OK
from actors.errors import ConfigError, TriologError

OUTPUT_LINE_BYTES_MAX = 4096
OUTPUT_READ_BYTES = 64 << 10
REAP_S = 5.0
PR_SET_PDEATHSIG = 1
REPORT_END = "--report-end"
"""The option that a child gets in addition: the descriptor to which it writes how it ends."""
ENDED = b"ended"
END_BYTES_MAX = 16
"""The size of the longest report, `ended 0`, with room to spare."""


class StillRuns(TriologError):
    """A process has not ended in time."""


@attrs.define
class Child:
    """A started process, and the parent's ends of its pipes.

    Attributes:
        pid: its process id.
    """

    _process: subprocess.Popen[bytes]
    _pidfd: int
    _end: int
    _rest: bytes = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_lines(self) -> list[str]:
        """Return the next lines of its output, at least one; [] once it has closed its output."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        lines: list[bytes] = []
        data = b"\n"
        while data and not lines:
            await trio.lowlevel.wait_readable(descriptor)
            data = os.read(descriptor, OUTPUT_READ_BYTES)
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > OUTPUT_LINE_BYTES_MAX or (self._rest and not data):
                lines.append(self._rest)
                self._rest = b""
        return [line[:OUTPUT_LINE_BYTES_MAX].decode("utf-8", "replace").rstrip() for line in lines]

    async def wait(self) -> None:
        """Return when the process has ended."""
        await trio.lowlevel.wait_readable(self._pidfd)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal. SIGTERM stops it in order, a second one hurries. Does nothing if it has
        ended.
        """
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def said(self) -> int | None:
        """Return the exit code that the child has reported; None: it has reported none.

        It may be called once, when the process has ended. It never waits: a process that still
        runs, or that gave the pipe to others, has reported nothing.
        """
        try:
            said = os.read(self._end, END_BYTES_MAX)
        except BlockingIOError:
            return None
        word, _, code = said.partition(b" ")
        whole = word == ENDED and code.endswith(b"\n") and code.strip().isdigit()
        return int(code) if whole else None

    async def reap(self) -> int | None:
        """Wait at most REAP_S for the end of the process, also if the caller is cancelled.

        SIGKILL does not end a process at once that waits for a disk.

        Returns: its return code, as of Popen; None: the system has forgotten the process.
        Raises: StillRuns: it has not ended in that time.
        """
        with trio.move_on_after(REAP_S, shield=True) as scope:
            await self.wait()
        if scope.cancelled_caught:
            raise StillRuns(f"process {self.pid} still runs {REAP_S} s after SIGKILL")
        return self._collect()

    def _collect(self) -> int | None:
        try:
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return self._process.returncode  # an earlier call has it
        return self._process.wait()

    def close(self) -> None:
        """Close the parent's ends of the pipes. The process has ended, or is left alone."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        for descriptor in (self._pidfd, self._end):
            os.close(descriptor)
        self._process.poll()  # a process that the system has forgotten then counts as waited for


def start_child(command: Sequence[str]) -> Child:
    """Start a process from this thread, with the option REPORT_END in addition.

    Raises: OSError; there is no process then.
    """
    end, write_end = os.pipe()
    os.set_blocking(end, False)
    try:
        process = subprocess.Popen(
            (*command, REPORT_END, str(write_end)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(write_end,),
            env=_environment(),
            process_group=0,  # Ctrl-C reaches the parent only, which stops its children in order
        )
    except OSError:
        os.close(end)
        raise
    finally:
        os.close(write_end)
    try:
        return Child(process, os.pidfd_open(process.pid), end)
    except OSError:
        os.close(end)
        with process:  # closes its pipe and waits for it
            process.kill()
        raise


def _environment() -> dict[str, str]:
    """Return the environment of a child, so that its output can be read and it leaves the
    interpreter.
    """
    found = {**os.environ, "PYTHONIOENCODING": "utf-8:replace"}
    found.pop("PYTHONINSPECT", None)
    return found


def report_end(descriptor: int, exit_code: int) -> None:
    """In a child, as its last step: report its exit code to its parent, which may be gone."""
    with suppress(OSError):
        os.write(descriptor, b"%s %d\n" % (ENDED, exit_code))


def ended_how(returncode: int | None) -> str:
    """Describe how a process ended, for people: `was killed by SIGKILL`, `ended with exit code 1`.

    Args:
        returncode: as of Popen; None: the system has forgotten the process.
    """
    if returncode is None:
        return "ended without a report"
    if returncode == EXIT_OK:
        return "ended with exit code 0, but has not reported that it stopped"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was killed by {name}"


def child_command(files: Sequence[str], node: str) -> tuple[str, ...]:
    """Return the command line that runs one node as a child of this process.

    Args:
        files: the words that name the configuration, `ClusterConfig.named_by`.
    """
    words = (*files, "run", "--node", node, "--child-of", str(os.getpid()))
    return (sys.executable, "-m", "actors.cluster", *words)


def die_with_parent(parent_pid: int) -> None:
    """In a child, as its first step: have the kernel send SIGTERM when the parent ends.

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
