"""A process that is nothing but a command of ours: what it takes over, and its imports.

Imported before anything else of ours, so it needs next to nothing itself. A program that embeds
nodes has a process of its own.

Signal dispositions, the signal mask and resource limits pass from a process to its children,
through any number of programs. Each is somebody's choice for a program of his own: a shell with
`trap '' CHLD`, a thread that had its signals blocked. Ours needs to hear of its children's ends,
and to be stopped.
"""

from __future__ import annotations

import gc
import math
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


DESCRIPTORS_MAX: Final = 1 << 20
"""How many descriptors are asked for at most: what Linux gives as its usual hard limit. Some
programs that a child may become walk all numbers up to the limit.
"""


def reset_inherited() -> None:
    """Put back what would keep a command from its work; to be called before it does anything.

    - SIGCHLD is not ignored: where it is, the kernel forgets how a child ended.
    - No signal is blocked: a blocked SIGTERM neither stops a node nor ends an orphaned child.
    - Descriptors and sizes of files may be as many and as large as the hard limits allow.

    SIGHUP stays ignored where it is, for that is what `nohup` is for.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _raise_limit(resource.RLIMIT_NOFILE, DESCRIPTORS_MAX)
    _raise_limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)


def file_size_limit_bytes() -> int | None:
    """How large a file may become that this process writes (`ulimit -f`); None: any size."""
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if soft == resource.RLIM_INFINITY else soft


def _raise_limit(which: int, wanted: int) -> None:
    soft, hard = resource.getrlimit(which)
    target = min((wanted, hard), key=_unlimited_last)
    if _unlimited_last(target) > _unlimited_last(soft):
        with suppress(OSError, ValueError):  # a sandbox may forbid it: then it stays as it was
            resource.setrlimit(which, (target, hard))


def _unlimited_last(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit
