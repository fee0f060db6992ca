"""The processes of one Java as a group, which can be ended together at any time.

Spark starts Java through two shell scripts and another Java, which says with what. None of their
numbers is known before Java runs, and who is interrupted until then cannot say whom to end: a Java
that finds its starter's folder gone runs for ever. So they all join a group that is there before
them, the listener's (`session.filtered_stderr`). A process that joins after its end is refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

import attrs

from actors.pipeline.clock import pause, stopwatch_s

logger = logging.getLogger("triolog.pipeline")

END_S: Final = 10.0
"""The seconds that Java has to end in order: it stops Spark and removes its folders."""
KILL_S: Final = 10.0
"""The seconds that a killed group has to end. A process that waits for a disk or another machine
(state D) does not end before that, which may be never."""
_PAUSE_S: Final = 0.01
_PAUSES: Final = 5
"""How many looks have to find no process, as one may just be starting."""


@attrs.define
class JavaGroup:
    """A group of processes.

    Attributes:
        listener: its first process; None if there is no group.
        java: Java's process; None if it is not started, or not known yet.
        starter: the number of the process whose children they are; its forks leave them alone.
    """

    listener: subprocess.Popen[bytes] | None
    java: subprocess.Popen[bytes] | None = None
    starter: int = attrs.field(factory=os.getpid)

    def end(self) -> None:
        """Ask Java to end at once, and make sure of it. No process is left after this."""
        java, listener = self.java, self.listener
        if listener is None:
            return
        listener.kill()
        if java is not None:
            if java.stdin is not None:
                java.stdin.close()
            java.terminate()
            _wait(java)
        self.kill()

    def wait(self) -> None:
        """Wait for the end of a Java whose Spark is stopped, which may write its last lines."""
        java, listener = self.java, self.listener
        if java is None or listener is None or self.starter != os.getpid():
            return
        if java.stdin is not None:
            java.stdin.close()  # at which it ends
        _wait(java)
        _wait(listener)
        self.kill()

    def kill(self) -> None:
        """Kill all processes of the group, also those that join meanwhile.

        None is left after this, unless it does not end within KILL_S; then a warning names it.
        """
        if self.listener is None:
            return
        group = self.listener.pid
        quiet, until_s = 0, stopwatch_s() + KILL_S
        while quiet < _PAUSES:
            alive = _alive(group)
            quiet = 0 if alive else quiet + 1
            if alive and stopwatch_s() >= until_s:
                logger.warning(
                    "pipeline: killed, not gone after %g s, left to the system: Java's process %s",
                    KILL_S,
                    ", ".join(map(str, alive)),
                )
                break
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-group, os.WNOHANG)[0]:
                    pass
            try:
                os.killpg(group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                break  # nobody can join it any more
            pause(_PAUSE_S)
        self.listener.poll()
        self.listener = None


def _alive(group: int) -> list[int]:
    """Return the processes of the group that have not ended.

    Ended ones may stay in it until their parents collect them.
    """
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = each.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it has gone
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(each.parent.name))
    return sorted(found)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
