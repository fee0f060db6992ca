"""Passes on what Java writes to the terminal's stderr, without lines that tell nothing.

Java has its starter's stderr, and passes on there what its Python workers print. Some of that is
said at every start and means nothing: no option of Spark's silences it, and no logger has a part in
it. So this file, run as a program, stands in between (`session.filtered_stderr`): what it reads on
stdin it writes to stderr, but for the lines that are listed here. It ends when Java has.
"""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Final

_WORKER: Final = rb"Streaming TransformWithStateInPandas Python worker"
_FUNCTION: Final = rb"<[^<>]*(?:<[^<>]*>[^<>]*)*>"
"""A function, as Python shows it: `<function f.<locals>.g at 0x7f0011>`."""
_TYPE: Final = rb"StructType\(\[.*\]\)"
SAID_BY_WORKERS: Final = re.compile(
    rb"Starting WORKER\.|"
    rb"WORKER finish init stage of Python runner\. Received UDF from JVM: FUNCTION, "
    rb"received return type of UDF: TYPE\.|"
    rb"WORKER received parameters for UDF\. State server port/path: \S+, key schema: TYPE\.|"
    rb"WORKER (?:Starting|Completed) execution of UDF: FUNCTION\.".replace(b"WORKER", _WORKER)
    .replace(b"FUNCTION", _FUNCTION)
    .replace(b"TYPE", _TYPE)
)
"""The lines of PySpark at the start of a stateful stream; each has an empty line behind it."""
SAID_BY_JAVA: Final = re.compile(
    rb"Warning: Java versions > Java 11 can only operate in restricted mode where no off-heap "
    rb"operations are allowed!"
)
"""The line of DataSketches at its first use; Spark uses it only on the heap."""


_TRACEBACK: Final = b"Traceback (most recent call last):\n"
_CHAINED: Final = (b"During handling of the above", b"The above exception was the direct")
_WAYS_IN: Final = (b"python_streaming_source_runner.py", b"<frozen runpy>", b"worker_util.py")
_READER: Final = b"python_streaming_source_runner.py"
_GONE: Final = (b"BrokenPipeError", b"ConnectionResetError", b"EOFError")


def telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that tell something; see `_chosen` and `_Orphan`."""
    orphan = _Orphan()
    for line in _chosen(lines):
        yield from orphan.passes(line)
    yield from orphan.ends()


class _Orphan:
    """Leaves out the last lines of the Python process of a stream's source whose Java has ended.

    At a Ctrl-C while it answers, it writes chained tracebacks that end with a lost connection. Only
    tracebacks that begin like these are held back, until the line behind them.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def passes(self, line: bytes) -> Iterator[bytes]:
        """Take a line, and yield the lines that are passed on now."""
        held = self._held
        if held and self._goes_on(line):
            held.append(line)
            return
        yield from self.ends()
        if line == _TRACEBACK:
            self._held = [line]
        else:
            yield line

    def ends(self) -> Iterator[bytes]:
        """Yield the lines that were held back and tell something."""
        held, self._held = self._held, []
        said = [line for line in held if not line.startswith(b" ")]
        last = next((line for line in reversed(said) if line != b"\n"), b"")
        if not (last.startswith(_GONE) and any(_READER in line for line in held)):
            yield from held

    def _goes_on(self, line: bytes) -> bool:
        before = self._held[-1]
        if before == _TRACEBACK:
            return line.startswith(b"  File ") and any(way in line for way in _WAYS_IN)
        if before.startswith(b" "):
            return True  # its frames, and what it says
        if before == b"\n":
            return line.startswith(_CHAINED) or line == _TRACEBACK
        return line == b"\n"


def _chosen(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines without those of the two lists, and without the empty line behind a worker's.

    Only whole lines are left out: a longer line that begins like one of them is a user's.
    """
    is_empty_next = False
    for line in lines:
        said = line.removesuffix(b"\n")
        if SAID_BY_WORKERS.fullmatch(said):
            is_empty_next = True
            continue
        if not (is_empty_next and line == b"\n") and not SAID_BY_JAVA.fullmatch(said):
            yield line
        is_empty_next = False


def main() -> None:
    """Pass on the lines that tell something, each as it comes."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a terminal may stop who is in no foreground
    for line in telling(sys.stdin.buffer):
        with contextlib.suppress(OSError):  # nobody reads it, and Java must not wait for that
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()


if __name__ == "__main__":
    main()
