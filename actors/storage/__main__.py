"""`python -m actors.storage check|dump|truncate|backup|seed`; `command_line` does it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        # Nothing runs yet that would need an order to stop in: Ctrl-C ends the imports, which
        # take a second on a busy machine, without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from actors.storage.command_line import run_command_line
    finally:
        signal.signal(signal.SIGINT, interrupt)
    return run_command_line(words)


if __name__ == "__main__":
    sys.exit(main())
