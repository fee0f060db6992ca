"""Runs `python -m actors.cluster FILE COMMAND`; see `command_line`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from actors.own_process import quiet_imports, reset_inherited


def main(argv: Sequence[str] | None = None, command: str = "") -> int:
    """Run the command line; returns the exit code.

    Args:
        argv: the arguments; None: those of this process, which does nothing else then.
        command: see `run_command_line`.
    """
    with quiet_imports():
        from actors.cluster.command_line import run_command_line
    return run_command_line(argv, command)


if __name__ == "__main__":
    reset_inherited()
    sys.exit(main())
