"""Processes of the interoperability tests: each in a session of its own, none outlives the tests.

A process is started through `exec_bound_to_parent.py`, which asks the kernel to kill it when the
tests end, however they end. It is stopped by its own process id only.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import attrs

T = TypeVar("T")

LAUNCHER = Path(__file__).with_name("exec_bound_to_parent.py")
PORTS = range(20_000, 32_000)
"""Below Linux' range for outgoing connections, so that nobody takes a port between two starts."""
PORT_ATTEMPTS_MAX = 200
POLL_S = 0.05
KILL_TIMEOUT_S = 20.0
PEER_S = 180.0
"""For what a peer does, Java's above all: ten times what the slowest takes on a machine of its own,
a clean stop of a 5.3.3 master, 16 s. It bounds only those that fail.
"""
TEST_S = 1200.0
"""For a whole test with peers, so that the waits in it are what ends it, with words."""
OUTPUT_TAIL_BYTES = 4_000


class PeerFailed(AssertionError):
    """A process did not do what the test needs; the message ends with what it wrote last."""


@attrs.define
class Process:
    """One child process. `folder` holds its output in the file `out`, and what it writes itself."""

    name: str
    folder: Path
    popen: subprocess.Popen[bytes]

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """SIGKILL, a crash; returns when the process is gone. Harmless if it has ended."""
        self.popen.kill()
        self.popen.wait(KILL_TIMEOUT_S)

    def stop(self, timeout_s: float = PEER_S) -> int:
        """SIGTERM, an ordered stop. Returns the exit code."""
        self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failed(f"did not stop within {timeout_s} s") from None

    def pause(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.popen.send_signal(signal.SIGCONT)

    def failed(self, why: str) -> PeerFailed:
        """The error that says what went wrong and what the process said last."""
        parts = [f"{self.name} (pid {self.popen.pid}, {self.folder}) {why}"]
        for name in ("out", "log"):
            text = tail(self.folder / name)
            if text:
                parts.append(f"--- {name}\n{text}")
        return PeerFailed("\n".join(parts))


def tail(path: Path) -> str:
    """The last bytes of a text file, from a line's beginning; empty if there is no file."""
    try:
        data = path.read_bytes()[-OUTPUT_TAIL_BYTES:]
    except FileNotFoundError:
        return ""
    return data.decode(errors="replace")


@attrs.define
class Processes:
    """Starts processes and ends them all: the newest first, by SIGKILL, which nothing outlives."""

    started: list[Process] = attrs.field(factory=list)

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        folder: Path,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> Process:
        """Start `argv` in a session of its own; what it writes is appended to `folder`/out.

        Args:
            stdout: subprocess.PIPE to talk to the process; then only its errors go to the file.
        """
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-S", "-E", LAUNCHER, str(os.getpid()), *argv]
        with (folder / "out").open("ab") as out:
            popen = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=out if stdout is None else stdout,
                stderr=out,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        process = Process(name, folder, popen)
        self.started.append(process)
        return process

    def end(self) -> None:
        while self.started:
            process = self.started.pop()
            process.kill()
            for stream in (process.popen.stdin, process.popen.stdout):
                if stream is not None:
                    stream.close()


def wait_for(
    condition: Callable[[], T | None],
    what: str,
    *,
    timeout_s: float,
    alive: Sequence[Process] = (),
    poll_s: float = POLL_S,
) -> T:
    """Poll until `condition` gives something true, and return that.

    Args:
        what: ends the sentence "did not see ...".
        alive: processes without which the condition cannot come true; if one ends, so does this.
    Raises:
        PeerFailed: the time is over or one of `alive` has ended.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        for process in alive:
            if not process.running:
                raise process.failed(f"ended, so the test did not see {what}")
        if time.monotonic() > deadline:
            text = f"did not see {what} within {timeout_s} s"
            raise PeerFailed(
                "\n".join([text, *(str(process.failed("was there")) for process in alive)])
            )
        time.sleep(poll_s)


def port_answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def free_ports(*steps: int, hosts: Sequence[str] = ("127.0.0.1",)) -> int:
    """A port p such that p and every p + step is free on all `hosts`."""
    for _ in range(PORT_ATTEMPTS_MAX):
        port = random.choice(PORTS[10:-10])
        if all(_is_free(host, port + step) for step in (0, *steps) for host in hosts):
            return port
    raise PeerFailed(f"no free port found in {PORT_ATTEMPTS_MAX} attempts")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind((host, port))
        except OSError:
            return False
        return True
