"""The command line of `python -m actors.cluster`, parsed into a frozen value."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import attrs

from actors.config.command_line import Parser
from actors.errors import ConfigError

Command: TypeAlias = Literal[
    "run", "check", "status", "stop", "promote", "resync", "repair", "transfer-leader"
]
OF_GROUP: tuple[str, ...] = ("promote", "transfer-leader")
"""The commands whose first argument is a group."""
OF_NODE: tuple[str, ...] = ("resync", "repair")
"""The commands whose first argument is a node."""
COMMANDS: tuple[str, ...] = get_args(Command)
DURATION_S_MAX = 366 * 86_400.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}

WHAT: Final[dict[str, tuple[str, ...]]] = {
    "run": ("start the nodes of FILE and, if the file has one, its feed",),
    "check": (
        "start nothing: print nodes, promises, ports, time-outs, memory",
        "and the tree",
    ),
    "status": (
        "ask the running nodes and print what they say: groups, roles,",
        "lags, and what is wrong; --trees for each node's supervision tree",
    ),
    "stop": ("stop the running nodes in order",),
    "promote": (
        "make NODE, or the furthest slave, the group's master: a master",
        "that answers hands over and nothing is lost; what might be lost",
        "is refused, unless by --force; an autoswitch group's controllers",
        "elect it, from those in sync that live",
    ),
    "resync": (
        "set aside what NODE's log has beyond its master's, and let it",
        "follow",
    ),
    "repair": (
        "mend what is damaged of NODE's log with another member's bytes",
        "(--from)",
    ),
    "transfer-leader": (
        "have NODE, or the furthest member, lead a dledger group;",
        "nothing is lost, and appends wait meanwhile",
    ),
}
"""The description of each command, for people."""


def _table() -> str:
    lines = []
    for command, what in WHAT.items():
        names = " GROUP [NODE]" * (command in OF_GROUP) + " NODE [GROUP]" * (command in OF_NODE)
        lines += [f"  {command}{names}", *(f"          {line}" for line in what)]
    return "\n".join(lines)


DESCRIPTION = f"""\
Run a cluster of replicated logs, or look at one. Without a COMMAND it runs.

{_table()}"""
EPILOG = """\
The first Ctrl-C or SIGTERM is an ordered stop, the second hurries.
Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration. Of
status, 0: each node answers, each group takes appends, and no member is
refused, damaged or without room; 1: one of these is not so, or cluster files
differ in what keeps nodes apart (members, mode, ports, file sizes)."""


@attrs.frozen(kw_only=True)
class Arguments:
    """A parsed command line.

    Attributes:
        file: the cluster file, as typed; "" with `broker_confs`.
        broker_confs: the properties files that stand for the cluster file, as typed; None in place
            of a name: the file that is searched for.
        toml: for check: whether to print the cluster file that means the same as `broker_confs`.
        command: the command.
        group: the group of promote, resync, repair or transfer-leader; None: all groups of the
            node.
        member: the node of these commands; None: the one with most of the log.
        source: the member from which `repair` takes bytes; None: any member that has them.
        force: whether to promote although something may be lost.
        nodes: the nodes that are meant; (): all.
        processes: whether each node runs in a supervised process of its own.
        for_s: how many seconds to run before an ordered stop; None: no limit.
        feed: the name of a file, or "-" for standard input; None: the cluster file's own feed.
        json: whether to print the result as JSON.
        plain: whether to print lines instead of the live view.
        trees: whether to show whole supervision trees, and not only parts that restarted or do not
            run.
        child_of: the parent's process id, which `--processes` sets for its children.
        report_end: also set for children: the descriptor to which the child writes how it ends.
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
    broker_confs: tuple[str | None, ...] = ()
    toml: bool = False


def duration_s(text: str) -> float:
    """Parse `30s`, `500ms`, `2m`, `1.5h`, `1d`, or plain seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|m|h|d|)", text)
    found = float(match[1]) * _UNITS_S[match[2]] if match else math.nan
    if not 0 < found <= DURATION_S_MAX:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30s or 5m, found {text!r}")
    return found


BROKER_CONF: Final = "--broker-conf"
_BROKER_CONF_HELP: Final = (
    "a RocketMQ broker's properties in FILE's place, repeatable: a node for each (default:"
    " broker.properties, else conf/broker.conf)"
)
_Option: TypeAlias = tuple[tuple[str, ...], dict[str, Any]]


def _option(commands: tuple[str, ...], text: str, **how: Any) -> _Option:
    """Return an option that has a meaning for `commands`; without more it is a switch."""
    return commands, {**(how or {"action": "store_true"}), "help": text}


_OPTIONS: Final[dict[str, _Option]] = {
    "--node": _option(
        ("run", "status", "stop"),
        "only this node; repeatable",
        dest="nodes",
        action="append",
        default=[],
        metavar="NAME",
    ),
    "--processes": _option(("run",), "one supervised process for each node"),
    "--for": _option(
        ("run",), "stop after TIME, e.g. 30s", dest="for_s", type=duration_s, metavar="TIME"
    ),
    "--feed": _option(
        ("run",), "append this file's lines, - for standard input, then stop", metavar="FILE"
    ),
    "--json": _option(COMMANDS, "print the result as JSON"),
    "--plain": _option(("run",), "lines instead of the live view"),
    "--from": _option(
        ("repair",), "repair: take the bytes of this node", dest="source", metavar="NODE"
    ),
    "--force": _option(("promote",), "promote although something may be lost"),
    "--trees": _option(("status",), "status: each node's supervision tree, whole"),
    "--toml": _option(("check",), "check: the cluster file that means what --broker-conf does"),
    "--child-of": _option(("run",), argparse.SUPPRESS, type=int),
    "--report-end": _option(("run",), argparse.SUPPRESS, type=int),
}
"""Every option: the commands for which it has a meaning, and its arguments for argparse."""


def parse(argv: Sequence[str], command: str = "") -> Arguments:
    """Read the command line.

    Args:
        command: the command of `triolog`, whose arguments are in `argv`; "": `argv` has FILE, then
            the command.

    Raises:
        ConfigError: the arguments are wrong; its text is one line.
        SystemExit: after --help.
    """
    words, broker_confs = _without_confs(argv, command)
    parser = _parser_of(command) if command else _parser()
    if broker_confs:  # they stand for FILE
        words = ["", *words]
    found = vars(parser.parse_intermixed_args(words))
    found["broker_confs"] = broker_confs  # argparse only knows it for --help
    del found["broker_conf"]
    if found.get("toml") and not broker_confs:
        raise ConfigError(f"--toml: expected {BROKER_CONF} beside it, found none (see --help)")
    found["nodes"] = tuple(dict.fromkeys(found.get("nodes", ())))
    if not command:
        found["group"], found["member"] = _names(found["command"], found.pop("names"))
        for option, (commands, how) in _OPTIONS.items():
            name = how.get("dest", option[2:].replace("-", "_"))
            if found[name] not in (None, False, ()) and found["command"] not in commands:
                raise ConfigError(f"{option} has no meaning for {found['command']} (see --help)")
    return Arguments(**{"command": command, **found})


def _without_confs(argv: Sequence[str], command: str) -> tuple[list[str], tuple[str | None, ...]]:
    """The words without BROKER_CONF, and the files that it names; None: it names none.

    Not by argparse, for which FILE would be required, and a command's name a file's.
    """
    words, files = list[str](), list[str | None]()
    rest = iter(argv)
    word = next(rest, None)
    while word is not None:
        following = None
        if word.startswith(f"{BROKER_CONF}="):
            files.append(word.partition("=")[2])
        elif word == BROKER_CONF:
            following = next(rest, None)
            is_file = following is not None and not following.startswith("-")
            is_file = is_file and (bool(command) or following not in COMMANDS)
            files.append(following if is_file else None)
            following = None if is_file else following
        else:
            words.append(word)
        word = next(rest, None) if following is None else following
    return words, tuple(files)


def _parser() -> Parser:
    """Make the parser of `python -m actors.cluster`: one for all commands."""
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
    add(BROKER_CONF, nargs="?", metavar="PROPERTIES", help=_BROKER_CONF_HELP)
    for option, (_, how) in _OPTIONS.items():
        add(option, **how)
    return parser


def _parser_of(command: str) -> Parser:
    """Make the parser of `triolog COMMAND`, with only the arguments and options that this command
    has.
    """
    parser = Parser.of("cluster", "\n".join(WHAT[command]), EPILOG, command=command)
    add = parser.add_argument
    add("file", metavar="FILE", help="the cluster file, such as examples/3node.toml")
    first, second = ("group", "member") if command in OF_GROUP else ("member", "group")
    if command in (*OF_GROUP, *OF_NODE):
        metavars = {"group": "GROUP", "member": "NODE"}
        add(first, metavar=metavars[first])
        add(second, metavar=metavars[second], nargs="?")
    add(BROKER_CONF, nargs="?", metavar="PROPERTIES", help=_BROKER_CONF_HELP)
    for option, (commands, how) in _OPTIONS.items():
        if command in commands:
            add(option, **how)
    return parser


def _names(command: str, names: list[str]) -> tuple[str | None, str | None]:
    """Return group and node of a command that takes them. Raises: ConfigError."""
    first, second = (*names, None, None)[:2]
    match command:
        case _ if command in (*OF_GROUP, *OF_NODE) and not 1 <= len(names) <= 2:
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
