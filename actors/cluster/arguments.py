"""The command line of `python -m actors.cluster`, parsed into a frozen value."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import attrs

from actors.config.command_line import Parser
from actors.errors import ConfigError

Command: TypeAlias = Literal[
    "run", "check", "status", "stop", "promote", "resync", "repair", "transfer-leader"
]
OF_NODE: tuple[Command, ...] = ("resync", "repair")
"""What names a node first."""
COMMANDS: tuple[Command, ...] = get_args(Command)
DURATION_S_MAX = 366 * 86_400.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}

DESCRIPTION = """\
Run a cluster of replicated logs, or look at one.

  run     start the nodes of FILE and, if the file has one, its feed (default)
  check   start nothing: print nodes, promises, ports, time-outs, memory and the tree
  status  ask the running nodes and print what they say: groups, roles, lags, and what is wrong;
          --trees for each node's supervision tree
  stop    stop the running nodes in order
  promote GROUP [NODE]   make NODE, or the furthest slave, the group's master: a master that answers
          hands over and nothing is lost; what might be lost is refused, unless by --force
  resync NODE [GROUP]    set aside what NODE's log has beyond its master's, and let it follow
  repair NODE [GROUP]    mend what is damaged of NODE's log with another member's bytes (--from)
  transfer-leader GROUP [NODE]   have NODE, or who has most of the log, lead a dledger group;
          nothing is lost, and appends wait meanwhile"""
EPILOG = """\
The first Ctrl-C or SIGTERM is an ordered stop, the second hurries.
Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration. Of status, 1: a node does not
answer, or cluster files differ in what keeps nodes apart (members, mode, ports, file sizes)."""


@attrs.frozen(kw_only=True)
class Arguments:
    """What the user asked for.

    Attributes:
        file: the cluster file, as typed.
        command: what to do.
        group: of promote, resync, repair and transfer-leader; None: all groups of the node.
        member: the node of these; None: the furthest.
        source: the member that `repair` takes bytes from; None: whoever has them.
        force: promote although something may be lost.
        nodes: only these; () = all.
        processes: one supervised process for each node.
        for_s: stop in order after so many seconds of running; None = not by time.
        feed: a file's name, or "-" for standard input; None = the file's own feed.
        json: the result for machines, on standard output.
        plain: lines instead of the live view.
        trees: show each node's supervision tree, not only what restarted or does not run.
        child_of: set by `--processes` for its children: the parent's process id.
        report_end: as child_of: the descriptor to say there how the child ends.
    """

    file: str
    command: Command = "run"
    nodes: tuple[str, ...] = ()
    processes: bool = False
    for_s: float | None = None
    feed: str | None = None
    json: bool = False
    plain: bool = False
    child_of: int | None = None
    report_end: int | None = None
    group: str | None = None
    member: str | None = None
    source: str | None = None
    force: bool = False
    trees: bool = False


def duration_s(text: str) -> float:
    """`30s`, `500ms`, `2m`, `1.5h`, `1d`, or plain seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h|d|)", text)
    found = float(match[1]) * _UNITS_S[match[2]] if match else math.nan
    if not 0 < found <= DURATION_S_MAX:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30s or 5m, found {text!r}")
    return found


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line.

    Raises:
        ConfigError: one line; the user's fault.
        SystemExit: after --help.
    """
    parser = Parser.of("cluster", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("file", metavar="FILE", help="the cluster file, such as examples/3node.toml")
    add("command", nargs="?", choices=COMMANDS, default="run", help="what to do (default: run)")
    add(
        "names",
        nargs="*",
        default=[],
        metavar="NAME",
        help="GROUP [NODE] of promote and transfer-leader, NODE [GROUP] of resync and repair",
    )
    add("--node", action="append", default=[], metavar="NAME", help="only this node; repeatable")
    add("--processes", action="store_true", help="one supervised process for each node")
    add("--for", dest="for_s", type=duration_s, metavar="TIME", help="stop after TIME, e.g. 30s")
    add("--feed", metavar="FILE", help="append this file's lines, - for standard input, then stop")
    add("--json", action="store_true", help="print the result as JSON")
    add("--plain", action="store_true", help="lines instead of the live view")
    add("--from", dest="source", metavar="NODE", help="repair: take the bytes of this node")
    add("--force", action="store_true", help="promote although something may be lost")
    add("--trees", action="store_true", help="status: each node's supervision tree, whole")
    add("--child-of", type=int, help=argparse.SUPPRESS)
    add("--report-end", type=int, help=argparse.SUPPRESS)
    found = vars(parser.parse_intermixed_args(list(argv)))
    group, member = _names(found["command"], found.pop("names"))
    nodes = tuple(dict.fromkeys(found.pop("node")))
    arguments = Arguments(**found, nodes=nodes, group=group, member=member)
    _refuse_what_has_no_meaning(arguments)
    return arguments


def _names(command: str, names: list[str]) -> tuple[str | None, str | None]:
    """Group and node of a command that takes them. Raises: ConfigError."""
    first, second = (*names, None, None)[:2]
    match command:
        case "promote" | "resync" | "repair" | "transfer-leader" if not 1 <= len(names) <= 2:
            expected = "NODE [GROUP]" if command in OF_NODE else "GROUP [NODE]"
            found = " ".join(names) or "nothing"
            raise ConfigError(f"{command}: expected {expected}, found {found} (see --help)")
        case "promote" | "transfer-leader":
            return first, second
        case "resync" | "repair":
            return second, first
        case _:
            if names:
                raise ConfigError(f"unrecognized arguments: {' '.join(names)} (see --help)")
            return None, None


def _refuse_what_has_no_meaning(arguments: Arguments) -> None:
    given: dict[str, tuple[bool, tuple[Command, ...]]] = {
        "--force": (arguments.force, ("promote",)),
        "--from": (arguments.source is not None, ("repair",)),
        "--trees": (arguments.trees, ("status",)),
        "--processes": (arguments.processes, ("run",)),
        "--for": (arguments.for_s is not None, ("run",)),
        "--feed": (arguments.feed is not None, ("run",)),
        "--plain": (arguments.plain, ("run",)),
        "--node": (bool(arguments.nodes), ("run", "status", "stop")),
    }
    for option, (is_given, commands) in given.items():
        if is_given and arguments.command not in commands:
            raise ConfigError(f"{option} has no meaning for {arguments.command} (see --help)")
