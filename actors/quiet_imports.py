"""Ctrl-C or SIGTERM while a command is still importing: it ends without a word.

Imported before anything else of ours, so it needs next to nothing itself.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""What a shell gives a program that Ctrl-C ended before it could stop in order."""
_UNHANDLED: Final = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
"""How a program has them that nobody has told otherwise."""


@contextmanager
def quiet_imports() -> Iterator[None]:
    """For the imports of a command, which take a second on a busy machine.

    Nothing runs yet that would need an order to stop in, and nothing was written. It ends at once,
    with the exit code that a shell gives for the signal (130 for Ctrl-C, 143 for SIGTERM, 129 for
    the end of the terminal): an exception would have to get through whatever is being imported. A
    signal that is ignored, or handled by whoever calls the command, stays so.

    What is imported stays, so the garbage collector need not look for what has gone (measured: a
    sixteenth of the time).
    """
    was_collecting = gc.isenabled()
    gc.disable()
    unhandled = {
        number: was for number, was in _UNHANDLED.items() if signal.getsignal(number) is was
    }
    for number in unhandled:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()
        for number, was in unhandled.items():
            signal.signal(number, was)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)
