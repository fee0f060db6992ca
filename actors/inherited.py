"""What a program of ours does not take over from whoever started it.

Signal dispositions, the signal mask and resource limits pass from a process to its children,
through any number of programs. Each is somebody's choice for a program of his own: a shell with
`trap '' CHLD`, a thread that had its signals blocked. Ours needs to hear of its children's ends,
and to be stopped.

Only for a process that is nothing but a command of ours; a program that embeds nodes has its own.
"""

from __future__ import annotations

import math
import resource
import signal
from contextlib import suppress
from typing import Final

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
