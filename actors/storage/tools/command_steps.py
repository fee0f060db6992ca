"""What the storage commands share: driving work, printing answers, reading folders of a user."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

import trio

from actors.client.lines import write_out
from actors.client.report import as_json
from actors.config.command_line import OUTPUT
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.readable import readable, readable_lines
from actors.storage.files.stepping import Work
from actors.storage.tools import report
from actors.storage.tools.target import InUse, Target, take_locks

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_MENDS = 3
"""Only of a check: all that it found the next start mends by itself."""
PROGRESS_INTERVAL_S = 0.2
T = TypeVar("T")


async def drive(work: Work[T], output: list[bytes] | None = None) -> T:
    """Run work to its end; a terminal's stderr shows how far it is.

    Args:
        output: what the work has to say, written and emptied at each step.
    """
    shows = sys.stderr.isatty() and (output is None or not os.isatty(OUTPUT))
    begin = drawn = trio.current_time()
    seen: dict[str, int] = {}
    try:
        while True:
            try:
                step = next(work)
            except StopIteration as done:
                await _write_all(output)
                result: T = done.value
                return result
            await _write_all(output)
            now = trio.current_time()
            first = seen.setdefault(step.what, step.done_bytes)
            if len(seen) > 1:
                seen, begin = {step.what: first}, now
            if shows and now - drawn > PROGRESS_INTERVAL_S:
                drawn = now
                line = report.step_line(step, now - begin, step.done_bytes - first)
                sys.stderr.write(f"\r{readable(line)}\x1b[K")
                sys.stderr.flush()
            await trio.lowlevel.checkpoint()
    finally:
        work.close()
        if shows and drawn != begin:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


async def _write_all(output: list[bytes] | None) -> None:
    if output:
        data = b"".join(output)
        output.clear()
        await write_out(OUTPUT, data)


async def answer(as_object: Any, lines: Sequence[str], *, json: bool) -> None:
    """Print what a command found, for machines or for people."""
    text = as_json(as_object) + "\n" if json else report.words(lines)
    await write_out(OUTPUT, readable_lines(text).encode())


def held(disk: Disk, target: Target) -> tuple[ExitStack, bool]:
    """The locks of a target that is only read from, and whether a node runs on it.

    Raises: InUse: another program runs on it, which does not say what is safe to read.
    """
    try:
        return take_locks(disk, target, may_write=False), False
    except InUse:
        if target.node_dir is None:
            raise
        return ExitStack(), True


def absolute(path: str) -> str:
    """The absolute path of the user's words. Raises: ConfigError: no path."""
    if not path or "\0" in path:
        raise ConfigError(f"DIR: expected a folder, found {path!r}")
    return os.path.abspath(path)
