"""`python -m actors.follow HOST:HA_PORT --into DIR`; `command_line` does it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from actors.own_process import quiet_imports, reset_inherited


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    with quiet_imports():
        from actors.follow.command_line import run_command_line
    return run_command_line(argv)


if __name__ == "__main__":
    reset_inherited()
    sys.exit(main())
