"""Ctrl-C while a command is still importing: it ends without a word.

Imported before anything else of ours, so it needs next to nothing itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""What a shell gives a program that Ctrl-C ended before it could stop in order."""


@contextmanager
def quiet_imports() -> Iterator[None]:
    """For the imports of a command, which take a second on a busy machine.

    Nothing runs yet that would need an order to stop in, and nothing was written. It ends at once:
    an exception would have to get through whatever is being imported. An interrupt that is ignored,
    or handled by whoever calls the command, stays so.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
