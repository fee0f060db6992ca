"""The thread that writes to the terminal, so that a stopped terminal (Ctrl-S) blocks no node.

It holds the newest picture only: what a slow terminal could not show in time is never shown. It is
a plain thread with a one-place box; nothing of it touches Trio.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

ENTER = "\x1b[?1049h\x1b[?25l"
"""The alternate screen, without the cursor."""
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
CLEAR_LINE = "\x1b[K"
CLEAR_BELOW = "\x1b[J"
WRITE_BYTES_MAX = 1 << 16
LINES_WAITING_MAX = 100
"""Without `live`: what a reader that stopped may miss the oldest of."""


class Painter:
    """Writes what `show` was given last. `close` restores the screen and lets the thread end.

    Args:
        descriptor: where to write; it is not closed.
        live: pictures in place, on the alternate screen; otherwise everything is appended.
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
        """Hand over a picture; `make` is called on the painter's thread, as rich takes a while.

        Never waits for the terminal. Of what waits, the newest stays.
        """
        with self._condition:
            self._waiting.append(make)
            self._condition.notify()

    def close(self) -> None:
        """Write what waits, restore the screen; return when the terminal has taken it.

        Only after the nodes have stopped: a stopped terminal makes its program wait here, as it
        would in any write, until somebody lets it go on. Ctrl-C ends the wait.
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
            return  # the terminal is gone: nobody is left to show anything to

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
