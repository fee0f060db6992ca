"""Runs `python -m actors.sim run|replay|sweep|shrink`; see `command_line`."""

from __future__ import annotations

import sys
from functools import partial

from actors.own_process import reset_inherited, run_room

main = partial(run_room, "actors.sim.commands.command_line")

if __name__ == "__main__":
    reset_inherited()
    sys.exit(main())
