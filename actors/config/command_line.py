"""What every command line of ours does alike: its words, its tables, the end of its output."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from actors.errors import ConfigError, TriologError
from actors.own_process import as_typed, usage_of
from actors.readable import readable, readable_lines
from actors.version import VERSION

EXIT_FAILED = 1
OUTPUT, ERRORS = 1, 2
SECONDS_MAX = 86_400.0
FOLD_INDENT = 4
"""Further in than a line began, what it goes on with on the next row of a terminal."""
FOLD_CHARS_MIN = 20
"""A narrower terminal breaks lines as it likes."""
_WORDS = re.compile(r"\s*(?:`[^`]*`\S*|\S+)")


class Parser(argparse.ArgumentParser):
    """argparse prints its usage above each error; a mistake is one line here.

    Raises: ConfigError from every method that parses; SystemExit after --help and --version.
    """

    def error(self, message: str) -> NoReturn:
        """Never returns."""
        raise ConfigError(f"{' '.join(message.split())} (see --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse ignores here that nothing can be written; all that is printed is for output."""
        say(message.rstrip("\n"))

    @classmethod
    def of(cls, room: str, description: str, epilog: str = "", *, command: str = "") -> Parser:
        """The parser of `python -m actors.ROOM`, or of `triolog` (see `usage_of`); it has
        --version.
        """
        parser = cls(
            prog=usage_of(room, command),
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        version, text = f"triolog {VERSION}", "print it and exit"
        parser.add_argument("--version", action="version", version=version, help=text)
        return parser


def seconds(text: str, *, or_none: bool = False) -> float:
    """Parse a time in seconds, for argparse.

    Args:
        or_none: whether 0 is allowed.
    """
    try:
        found = float(text.removesuffix("s"))
    except ValueError:
        found = -1.0
    if not 0 <= found <= SECONDS_MAX or not (found or or_none):
        expected = ", 0 or more" if or_none else " above 0"
        raise argparse.ArgumentTypeError(f"expected seconds{expected}, found {text!r}")
    return found


def absolute(text: str, where: str = "DIR") -> str:
    """Return the absolute path of a folder that was named.

    Args:
        where: the argument or option that names it.

    Raises: ConfigError: it is no path.
    """
    if not text or "\0" in text:
        raise ConfigError(f"{where}: expected a folder, found {text!r}")
    return os.path.abspath(text)


def stop_signals() -> tuple[signal.Signals, ...]:
    """What an ordered stop is asked for with: Ctrl-C, SIGTERM, and the end of the terminal.

    SIGHUP stays ignored where it is by inheritance (nohup). SIGQUIT keeps its meaning: at once,
    with a core, for a program that heeds nothing else.
    """
    found = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return found
    return (*found, signal.SIGHUP)


class OutputFailed(TriologError):
    """Standard output takes no more.

    Attributes:
        reader_gone: it was a pipe that nobody reads any more, which needs no words.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror or error}")
        self.reader_gone = isinstance(error, BrokenPipeError)


def say(text: str) -> None:
    """Write readable lines to standard output, now. Raises: OutputFailed."""
    try:
        sys.stdout.write(readable_lines(text) + "\n")
        sys.stdout.flush()
    except OSError as error:
        raise OutputFailed(error) from error


def tell(text: str) -> None:
    """Write lines for people to standard output: its commands can be pasted, and a terminal breaks
    no word. Raises: OutputFailed.
    """
    say(folded(as_typed(text), width_of(OUTPUT)))


def complain(line: str) -> None:
    """Write a readable line to standard error, if it takes that: there is no other place to."""
    try:
        sys.stderr.write(folded(readable(as_typed(line)), width_of(ERRORS)) + "\n")
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr.fileno())


class NoteHandler(logging.Handler):
    """Hands the library's warnings on, a line each; the logger `triolog` takes it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note(" ".join(record.getMessage().split()))


def width_of(descriptor: int) -> int:
    """The columns of the terminal there; 0: there is none, and lines may have any length."""
    try:
        return os.get_terminal_size(descriptor).columns
    except OSError:
        return 0


def folded(text: str, width: int) -> str:
    """Lines of at most `width` columns, broken between words; a command in backquotes is one word,
    for half of it would do something else.

    Args:
        width: 0: lines stay as they are.
    """
    if width < FOLD_CHARS_MIN:
        return text
    return "\n".join(row for line in text.split("\n") for row in _rows(line, width))


def _rows(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + FOLD_INDENT)
    rows = [""]
    for word in _WORDS.findall(line):
        if rows[-1].strip() and len(rows[-1]) + len(word) > width:
            rows.append(indent + word.lstrip())
        else:
            rows[-1] += word
    return rows


def with_output(run: Callable[[], int]) -> int:
    """Run a command and see its output taken; returns the exit code.

    Raises: SystemExit, as `run` does after --help.
    """
    try:
        try:
            return run()
        finally:
            _flush()
    except OutputFailed as error:
        # Nothing more can be said there, nor at exit.
        _give_up(OUTPUT)
        if not error.reader_gone:
            complain(f"triolog: {error}")
        return EXIT_FAILED


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OutputFailed(error) from error


def _give_up(descriptor: int) -> None:
    """Drop all that is written to this descriptor from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def columns(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Aligned columns: the first `left` to the left, the others to the right."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
