"""The command line of `python -m actors.client`, parsed into a frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import attrs

from actors.client.lines import STDIN
from actors.config.command_line import Parser, seconds
from actors.errors import ConfigError
from wire.api import frames

WINDOW_MAX = 16_384
WINDOWS_DEFAULT = (1, 16, 128, 1024)
SIZE_BYTES_MAX = 4 << 20
"""Upstream's largest message; a group may allow less."""

AT = "the offset of a record's first byte; of a DLedger group the index of an entry"
TARGETS = "CLUSTER.toml[:NODE], a socket's path or HOST:PORT"
DESCRIPTION = """\
Talk to a running node.

TARGET is CLUSTER.toml (the leader of the group, or any node that answers, and
the next one after it), CLUSTER.toml:NODE, the path of a node's socket, or
HOST:PORT (that node alone), where PORT is the cluster file's api_port, not a
group's port."""
EPILOG = """\
`%(prog)s TARGET COMMAND --help` lists a command's options.
Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration."""


@attrs.frozen(kw_only=True)
class Append:
    """The arguments of `append`: lines of a file or standard input become one record each.

    Attributes:
        again: whether to send lines in doubt once more.
        wait_s: how long to search for a leader, here and in the other commands; None:
            `members.wait_s_of`.
    """

    group: str | None
    file: str
    again: bool
    wait_s: float | None
    json: bool


@attrs.frozen(kw_only=True)
class Read:
    """The arguments of `read`.

    Attributes:
        start: the position of the first record.
        count: how many records at most; None: all that are acknowledged.
        fresh: whether to miss nothing that was acknowledged before, or fail.
    """

    group: str | None
    start: int
    count: int | None
    fresh: bool
    wait_s: float | None
    json: bool


@attrs.frozen(kw_only=True)
class Tail:
    """The arguments of `tail`.

    Attributes:
        start: the position of the first record; None: only records from now on.
    """

    group: str | None
    start: int | None
    wait_s: float | None
    json: bool


@attrs.frozen(kw_only=True)
class Status:
    json: bool


@attrs.frozen(kw_only=True)
class Bench:
    """The arguments of `bench`: one measurement for each of `windows`.

    Attributes:
        windows: how many appends are unanswered at a time.
        size_bytes: the size of a record.
        batch_count: how many records an append has.
        seconds: how long each measurement takes.
    """

    group: str | None
    windows: tuple[int, ...]
    size_bytes: int
    batch_count: int
    seconds: float
    wait_s: float | None
    json: bool


Command: TypeAlias = Append | Read | Tail | Status | Bench


@attrs.frozen
class Arguments:
    """A whole command line: the target and the command's arguments."""

    target: str
    command: Command


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        plain = text.replace("_", "")
        if not (plain.isascii() and plain.isdigit()) or not least <= int(plain[:25]) <= most:
            expected = f"a number of {least} to {most}"
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")
        return int(plain)

    return read


def _windows(text: str) -> tuple[int, ...]:
    return tuple(_whole(1, WINDOW_MAX)(part) for part in text.replace("/", ",").split(","))


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line.

    Raises:
        ConfigError: the arguments are wrong; its text is one line.
        SystemExit: after --help.
    """
    parser = Parser.of("client", DESCRIPTION, EPILOG)
    parser.add_argument("target", metavar="TARGET", help="the cluster's file or a node's address")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (_add_append, _add_read, _add_tail, _add_status, _add_bench):
        add(commands)
    _refuse_missing_target(argv, tuple(commands.choices))
    found = parser.parse_args(list(argv))
    values = vars(found)
    target, make = values.pop("target"), values.pop("make")
    del values["command"]
    return Arguments(target, make(**values))


def _refuse_missing_target(argv: Sequence[str], known: tuple[str, ...]) -> None:
    """Refuse a command without a target, which would be taken for the target itself.

    Raises: ConfigError: there is no target.
    """
    first, second = (*argv, "", "")[:2]
    if first in known and second not in (*known, "-h", "--help"):
        raise ConfigError(f"expected TARGET before {first}: {TARGETS} (see --help)")


def _add(
    commands: argparse._SubParsersAction[Parser],
    make: Callable[..., Command],
    text: str,
    *,
    json_help: str,
    group: bool = True,
) -> Parser:
    parser = commands.add_parser(
        make.__name__.lower(), help=text, description=text, allow_abbrev=False
    )
    parser.set_defaults(make=make)
    if group:
        parser.add_argument("--group", metavar="NAME", help="needed if the node has several")
        parser.add_argument(
            "--wait",
            dest="wait_s",
            type=partial(seconds, or_none=True),
            metavar="S",
            help="with CLUSTER.toml, look so long for the next leader when a node is lost;"
            " default: answer_timeout_s, for DLedger and until members miss their leader. With a"
            " node, wait so long for its answer, and try again while all its client slots are"
            " taken; default: 5",
        )
    parser.add_argument("--json", action="store_true", help=json_help)
    return parser


def _add_append(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = _add(
        commands,
        Append,
        "append lines of standard input, each one record",
        json_help="the summary as JSON",
    )
    parser.add_argument(
        "file", nargs="?", default=STDIN, metavar="FILE", help="a file to read instead"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="send lines that a lost node leaves in doubt once more: none is missing then, and"
        " some may be stored twice; if a time is over without enough copies, the command ends",
    )


def _add_read(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = _add(
        commands, Read, "print acknowledged records", json_help="one JSON object per record"
    )
    add = parser.add_argument
    position = _whole(0, frames.POSITION_MAX)
    add(
        "--start",
        type=position,
        default=0,
        metavar="POSITION",
        help=f"{AT}; default: 0, the oldest",
    )
    add("--count", type=_whole(0, 2**63), metavar="N", help="default: all there are")
    add("--fresh", action="store_true", help="miss nothing acknowledged before, or fail")


def _add_tail(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = _add(
        commands,
        Tail,
        "print records as they are acknowledged, until Ctrl-C",
        json_help="one JSON object per record",
    )
    position = _whole(0, frames.POSITION_MAX)
    parser.add_argument(
        "--start",
        type=position,
        metavar="POSITION",
        help=f"{AT}; default: from now on; 0: the oldest",
    )


def _add_status(commands: argparse._SubParsersAction[Parser]) -> None:
    _add(
        commands,
        Status,
        "print what the node knows of its groups",
        json_help="all of it as JSON",
        group=False,
    )


def _add_bench(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = _add(
        commands,
        Bench,
        "measure appends, closed loop; it really appends to the group",
        json_help="the figures as JSON",
    )
    add = parser.add_argument
    add(
        "--window",
        dest="windows",
        type=_windows,
        default=WINDOWS_DEFAULT,
        metavar="N[,N...]",
        help="unanswered appends at a time; default: 1,16,128,1024, one after the other",
    )
    size = _whole(0, SIZE_BYTES_MAX)
    add("--size", dest="size_bytes", type=size, default=256, metavar="BYTES", help="default: 256")
    batch = _whole(1, frames.RECORDS_PER_APPEND_MAX)
    add(
        "--batch",
        dest="batch_count",
        type=batch,
        default=1,
        metavar="N",
        help="records of each append; default: 1",
    )
    add("--seconds", type=seconds, default=3.0, metavar="S", help="how long each takes; default: 3")
