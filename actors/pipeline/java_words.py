"""What Java writes to the terminal's stderr, without the lines that tell nobody anything.

Java has its starter's stderr, and passes on there what its Python workers print. Some of that is
said at every start and means nothing: no option of Spark's silences it, and no logger has a part in
it. So this file, run as a program, stands in between (`session.plain_words`): what it reads on
stdin it writes to stderr, but for the lines that are listed here. It ends when Java has.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Final

_WORKER: Final = b"Streaming TransformWithStateInPandas Python worker"
SAID_BY_WORKERS: Final = (
    b"Starting " + _WORKER + b".",
    _WORKER + b" finish init stage of Python runner. Received UDF from JVM: ",
    _WORKER + b" received parameters for UDF. State server port/path: ",
    _WORKER + b" Starting execution of UDF: ",
    _WORKER + b" Completed execution of UDF: ",
)
"""PySpark's words at the start of a stateful stream; each has an empty line behind it."""
SAID_BY_JAVA: Final = (
    b"Warning: Java versions > Java 11 can only operate in restricted mode where no off-heap ",
)
"""DataSketches' word at its first use; what Spark does with it is on the heap."""


def telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without those of the two lists, and without the empty line behind a worker's."""
    is_empty_next = False
    for line in lines:
        if line.startswith(SAID_BY_WORKERS):
            is_empty_next = True
            continue
        if not (is_empty_next and line == b"\n") and not line.startswith(SAID_BY_JAVA):
            yield line
        is_empty_next = False


def main() -> None:
    """Pass on what tells something, each line as it comes."""
    for line in telling(sys.stdin.buffer):
        with contextlib.suppress(OSError):  # nobody reads it, and Java must not wait for that
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()


if __name__ == "__main__":
    main()
