"""Ctrl-C while a command is still importing: it ends without a word.

Imported before anything else of ours, so it needs next to nothing itself.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_imports() -> Iterator[None]:
    """For the imports of a command, which take a second on a busy machine.

    Nothing runs yet that would need an order to stop in. An interrupt that is ignored, or handled
    by whoever calls the command, stays so.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
