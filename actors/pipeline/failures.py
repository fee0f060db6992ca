"""Describes what failed in Spark, in the one line that says why.

Spark wraps what went wrong into what was going on: the text of an error is that of its causes, each
with a traceback of Python's or Java's, and its first line may be a query's two numbers. The cause
that came first stands last, so the last line that names an exception is what people want.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from typing import Final

LINE_MAX: Final = 300
_NAMED: Final = re.compile(
    r"^(?:Caused by: |: )?(?:[A-Za-z_][\w$]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt): \S.*$", re.M
)
"""The end of a traceback of Python or Java: the exception's class, and its text."""
FULL_BYTES: Final = 1 << 20
"""A disk with fewer free bytes counts as full, because Spark writes larger pieces."""
_FULL: Final = re.compile("No space left on device|Disk quota exceeded")
_CLASS: Final = re.compile(r"^(?:Caused by: |: )?(?:[A-Za-z_][\w$]*\.)+(?=[A-Z])")
_QUERY: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_STATE: Final = re.compile(r"(?: SQLSTATE: \w{5})+$")


def line_of_failure(error: BaseException) -> str:
    """Describe an error in one line, even if Java has ended and cannot be asked for its text."""
    from py4j.protocol import Py4JError

    try:
        text = str(error).strip()
    except (Py4JError, OSError):  # a Py4JJavaError asks Java for its text
        return "Java has ended"
    if isinstance(error, ConnectionError):
        return f"{error.strerror or error}: has Java ended?"
    named = [_CLASS.sub("", each) for each in _NAMED.findall(text)]
    if not named:
        return _short(text.partition("\n")[0])
    line = named.pop()
    said = line.partition(": ")[2]
    while named and said in named[-1]:  # who wraps it says the same, and where
        line = named.pop()
    return _short(line)


def where_full(line: str, folders: Sequence[str]) -> str:
    """Return a suffix that names the full disk for a line that does not: ": FOLDER"; else "".

    Args:
        folders: the folders that were written to. Those on full disks are named; all if no disk is
            full any more, because half-written files were removed.
    """
    if _FULL.search(line) is None:
        return ""
    full = [
        each for each in folders if (left := left_bytes(each)) is not None and left < FULL_BYTES
    ]
    return f": {', or '.join(full or folders)}"


def left_bytes(folder: str) -> int | None:
    """Return how many bytes a user may still write there; None if it is not on this machine."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def quiet_py4j() -> None:
    """Keep py4j from logging calls that an interrupt or Java's end has cut off.

    It logs tracebacks, some to the root logger, which has the terminal, and some to its own; the
    callers report the errors in a line.

    Effects, on this process: the root logger has a filter, and what py4j's loggers log goes only to
    handlers of their own.
    """
    logging.getLogger().addFilter(_is_not_of_py4j)
    py4j = logging.getLogger("py4j")  # Loggers below pass by the root's filter, to its handlers.
    py4j.addHandler(logging.NullHandler())
    py4j.propagate = False


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "/py4j/" not in record.pathname


def _short(line: str) -> str:
    return _STATE.sub("", _QUERY.sub("", line))[:LINE_MAX] or "no reason given"
