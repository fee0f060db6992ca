"""The thread that writes to the terminal, so that a stopped terminal (Ctrl-S) blocks no node.

It keeps only the newest picture: a picture that a slow terminal could not show in time is never
shown. It is a plain thread with a queue of length one, and does not use Trio.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

ENTER = "\x1b[?1049h\x1b[?25l"
"""Switches to the alternate screen, and hides the cursor."""
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
CLEAR_LINE = "\x1b[K"
CLEAR_BELOW = "\x1b[J"
WRITE_BYTES_MAX = 1 << 16
LINES_WAITING_MAX = 100
"""How many texts wait without `live`; a reader that is too slow misses the oldest."""


class Painter:
    """Writes what was last given to `show`. `close` restores the screen and ends the thread.

    Args:
        descriptor: the file to which it writes, and which it does not close.
        live: whether pictures replace each other on the alternate screen; otherwise texts are
            appended.
    """

    def __init__(self, descriptor: int, *, live: bool) -> None:
        self._descriptor = descriptor
        self._live = live
        self._condition = threading.Condition()
        self._waiting: deque[Callable[[], str]] = deque(maxlen=1 if live else LINES_WAITING_MAX)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
        self._thread.start()

    def show(self, make: Callable[[], str]) -> None:
        """Show a picture; `make` is called on the painter's thread, because rich takes a while.

        It never waits for the terminal. The newest waiting pictures replace older ones.
        """
        with self._condition:
            self._waiting.append(make)
            self._condition.notify()

    def close(self) -> None:
        """Write what waits, and restore the screen; return when the terminal has taken it.

        Call it only after the nodes have stopped: a stopped terminal makes the program wait here,
        as in any write, until it goes on. Ctrl-C ends the wait.
        """
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write(ENTER if self._live else "")
            try:
                while (make := self._next()) is not None:
                    self._write(self._placed(make()))
            finally:
                self._write(LEAVE if self._live else "")
        except OSError:
            return  # the terminal is gone, so nothing can be shown

    def _next(self) -> Callable[[], str] | None:
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None

    def _placed(self, text: str) -> str:
        if not self._live:
            return text + "\n"
        lines = [line + CLEAR_LINE for line in text.split("\n")]
        return HOME + "\r\n".join(lines) + CLEAR_BELOW

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._descriptor, data[:WRITE_BYTES_MAX]) :]
