"""A process that is nothing but a command of ours: what it takes over, its imports, and how it was
typed.

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
import re
import resource
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""What a shell gives a program that Ctrl-C ended before it could stop in order."""
_UNHANDLED: Final = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
"""The handlers that a program has if it has set none of its own."""

_BARE: Final = ("status", "check", "stop")
"""Commands over a cluster file that need no further word."""
_NAMED: Final = re.compile(
    r"`(?:(client|storage|follow|pipeline|sim)|(status|check|stop|run|promote|resync|repair|transfer-leader))"
    r"((?: [^`]*)?)`"
)


class _Typed:
    """How this program was started. Attributes: see `as_triolog` and `naming`; `file` is quoted for
    a shell.
    """

    is_triolog: bool = False
    file: str | None = None


_typed: Final = _Typed()


@contextmanager
def as_triolog() -> Iterator[None]:
    """Until the exit, this program is `triolog`, and not `python -m actors.ROOM`."""
    was, _typed.is_triolog = _typed.is_triolog, True
    try:
        yield
    finally:
        _typed.is_triolog = was


@contextmanager
def naming(file: str | None, *more: str) -> Iterator[None]:
    """Until the exit, `as_typed` has commands name this cluster file.

    Args:
        file: as the user typed it; "FILE" where it is not known; None: what this process prints is
            for another one of ours, which shows it.
        more: further words that belong to it: `--broker-conf` and files.
    """
    words = None if file is None else " ".join(map(shlex.quote, (file, *more)))
    was, _typed.file = _typed.file, words
    try:
        yield
    finally:
        _typed.file = was


def usage_of(room: str, command: str = "") -> str:
    """What was typed up to here, for usage lines: `triolog status` or `python -m actors.cluster`.

    Args:
        room: the folder of `actors` that has the command line.
        command: what `triolog` calls it, where that is another name.
    """
    return f"triolog {command or room}" if _typed.is_triolog else f"python -m actors.{room}"


def as_typed(text: str) -> str:
    """A text for people, in which each command can be pasted as it stands.

    Nodes do not know how anybody reached them, so texts name commands in backquotes and without
    program and cluster file: `promote GROUP`, `storage check DIR`. Here they get both, as they were
    typed for this program.
    """
    return text if _typed.file is None else _NAMED.sub(_whole, text)


def _whole(found: re.Match[str]) -> str:
    room, command, rest = found.groups()
    assert _typed.file is not None
    if room is not None and rest:
        return f"`{usage_of(room)}{rest}`"
    if room is not None or not (command in _BARE if not rest else rest[1] != "-"):
        return found[0]  # a word in a sentence, or an option that is spoken of
    if _typed.is_triolog:
        return f"`triolog {command} {_typed.file}{rest}`"
    return f"`python -m actors.cluster {_typed.file} {command}{rest}`"


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


def run_room(module: str, *arguments: Any) -> int:
    """Import the command line of a room and run it; returns the exit code.

    Args:
        module: the module with `run_command_line`.
        arguments: the arguments of that function; none: those of this process, which then does
            nothing else.
    """
    with quiet_imports():
        room = import_module(module)
    return int(room.run_command_line(*arguments))


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
