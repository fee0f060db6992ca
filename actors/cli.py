"""The one command: `triolog COMMAND ...` does what `python -m actors.ROOM` does, under one name.

A room is imported once one of its commands was typed, and not before: `triolog status` needs
neither Spark nor a simulator, and `--help` needs nothing at all.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from typing import Final

from actors.own_process import as_triolog, reset_inherited
from actors.version import VERSION

EXIT_OK: Final = 0
EXIT_USAGE: Final = 2
CLUSTER: Final = (
    ("run", "FILE", "start its nodes, and its feed if it has one"),
    ("check", "FILE", "start nothing, say what the file means"),
    ("status", "FILE", "ask the running nodes what they know"),
    ("stop", "FILE", "stop the running nodes in order"),
    ("promote", "FILE GROUP [NODE]", "make another node master (not dledger)"),
    ("transfer-leader", "FILE GROUP [NODE]", "have another member lead (dledger)"),
    ("resync", "FILE NODE [GROUP]", "set aside what no master has, and follow"),
    ("repair", "FILE NODE [GROUP]", "mend damage with another member's bytes"),
)
ROOMS: Final = (
    ("namesrv", "", "run a RocketMQ name server"),
    ("client", "TARGET COMMAND", "append, read, tail, status, bench"),
    ("storage", "COMMAND DIR", "check, dump, pending, truncate, backup, seed"),
    ("follow", "HOST:HA_PORT --into DIR", "copy a stock broker's log as it grows"),
    ("pipeline", "STEP DATA_DIR -o OUT", "tables, audits, report, alarms, with Spark"),
    ("sim", "COMMAND", "in simulation: run, replay, sweep, shrink"),
)
PARTS: Final = (
    ("A cluster; FILE is its cluster file, such as examples/3node.toml:", CLUSTER),
    ("Its records, its files, its events, and what stands beside it:", ROOMS),
)
COMMANDS: Final = tuple(name for _, part in PARTS for name, _, _ in part)


def run() -> int:
    """What the installed command does: `main` in a process that is nothing else."""
    reset_inherited()
    return main()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code.

    Args:
        argv: without the program's name; None: of this process, which then is nothing else.

    Raises: SystemExit, as a room's command line does after its --help.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    first = words[0] if words else ""
    if first in ("--help", "-h"):
        return _print(help_text())
    if first == "--version":
        return _print(f"triolog {VERSION}")
    with as_triolog():
        if first in COMMANDS:
            return _run(first, words, is_own=argv is None)
        return _refuse(first)


def _run(command: str, words: Sequence[str], *, is_own: bool) -> int:
    match command:
        case "client":
            from actors.client.__main__ import main as room
        case "namesrv":
            from actors.namesrv.__main__ import main as room
        case "storage":
            from actors.storage.__main__ import main as room
        case "follow":
            from actors.follow.__main__ import main as room
        case "pipeline":
            from actors.pipeline.__main__ import main as room
        case "sim":
            from actors.sim.__main__ import main as room
        case _:
            from actors.cluster.__main__ import main as cluster

            return cluster(None if is_own else words, command)
    return room(words[1:])


def help_text() -> str:
    """What `triolog --help` prints: at most 80 columns."""
    lines = ["usage: triolog COMMAND ...", "       triolog [--version | --help]"]
    for head, part in PARTS:
        lines += ["", head]
        for name, names, what in part:
            lines.append(f"  {f'{name} {names}':33} {what}".rstrip())
    return "\n".join(
        [
            *lines,
            "",
            "`triolog COMMAND --help` lists the options of a command.",
            "Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration.",
        ]
    )


def _refuse(word: str) -> int:
    """Print one line about a first word that is no command, with the nearest command, or all of
    them.
    """
    if not word:
        found = f"nothing: one of {', '.join(COMMANDS)}"
    elif word.endswith(".toml"):
        found = f"{word}: `triolog run {word}`, or another command before it"
    else:
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        found = f"{word}{f' (did you mean {near[0]}?)' if near else ''}"
    from actors.config.command_line import complain

    complain(f"triolog: expected a command, found {found} (see --help)")
    return EXIT_USAGE


def _print(text: str) -> int:
    """Returns the exit code."""
    from actors.config.command_line import say, with_output

    def run_it() -> int:
        say(text)
        return EXIT_OK

    return with_output(run_it)


if __name__ == "__main__":
    sys.exit(run())
