"""The command line of `python -m actors.storage`, parsed into a frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from actors.config.command_line import Parser

OFFSET_MAX = 2**63 - 1

DESCRIPTION = """\
Look at the files of a store, copy them, or cut them. A node that runs is only
read from.

DIR is a node's data directory, a group's store root in it (groups/GROUP), the
store root of a RocketMQ broker or of a Java DLedger member, or a backup.

  check     is every record whole and in its place, and does what derives from
            the log agree?
  dump      records, or a DLedger group's entries, as JSON lines
  pending   what a broker on the store has yet to do: delayed messages to
            deliver, half messages that are undecided
  truncate  cut the log's end off; what is cut is kept beside it
  backup    copy the logs of a node, which may run, as far as nothing changes
            any more
  seed      make a node's data directory from a backup; it starts as a slave and
            catches up

Check, dump and backup take classic and DLedger groups, pending, truncate and
seed classic ones. A backup of a DLedger member is to be read, or to begin the
whole group anew on every member. It never brings one member back: that one
would have forgotten votes, and entries that it acknowledged."""
EPILOG = """\
`%(prog)s COMMAND --help` lists a command's options.
Exit codes: 0 done, 1 ran and failed (check: damage, also where a start goes on
without what was committed), 2 wrong usage or configuration, 3 check found
nothing but what a node on the store mends by itself: at its next start, or, if
queues or index do not agree with a good log, while it runs."""


@attrs.frozen(kw_only=True)
class Check:
    """The arguments of `check`; see `DESCRIPTION`."""

    folder: str
    group: str | None
    index_slots: int | None
    max_message_bytes: int | None
    json: bool


@attrs.frozen(kw_only=True)
class Dump:
    """The arguments of `dump`. None for `start`, `topic`, `queue_id`, `key` or `count`: any."""

    folder: str
    group: str | None
    start: int | None
    topic: str | None
    queue_id: int | None
    key: str | None
    count: int | None


@attrs.frozen(kw_only=True)
class Pending:
    """The arguments of `pending`; see `DESCRIPTION`."""

    folder: str
    group: str | None
    json: bool


@attrs.frozen(kw_only=True)
class Truncate:
    """The arguments of `truncate`.

    Attributes:
        force: whether to cut also what was safe once.
        yes: whether to cut without asking the user.
    """

    folder: str
    offset: int
    group: str | None
    index_slots: int | None
    force: bool
    yes: bool
    json: bool


@attrs.frozen(kw_only=True)
class Backup:
    """The arguments of `backup`.

    Attributes:
        target: the folder for the copy.
    """

    folder: str
    target: str
    group: str | None
    json: bool


@attrs.frozen(kw_only=True)
class Seed:
    """The arguments of `seed`.

    Attributes:
        target: a data directory, or CLUSTER.toml:NODE.
        node: the node's name; None: the name of the directory.
        group: a new name for the only group; None: the groups keep their names.
    """

    folder: str
    target: str
    node: str | None
    group: str | None
    json: bool


Command: TypeAlias = Check | Dump | Pending | Truncate | Backup | Seed


def parse(argv: Sequence[str]) -> Command:
    """Read the command line.

    Raises: ConfigError: the arguments are wrong; its text is one line. SystemExit: after --help.
    """
    parser = Parser.of("storage", DESCRIPTION, EPILOG)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for add in (_add_check, _add_dump, _add_pending, _add_truncate, _add_backup, _add_seed):
        add(commands)
    found = vars(parser.parse_args(list(argv)))
    make: Callable[..., Command] = found.pop("make")
    return make(**found)


_Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def _add(commands: _Commands, make: type, what: str, *, json: bool = True) -> Parser:
    name = make.__name__.lower()
    parser = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
    parser.set_defaults(make=make)
    if json:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_group(parser: Parser) -> None:
    parser.add_argument(
        "--group", metavar="NAME", help="only this group (default: all, or the one)"
    )


def _add_slots(parser: Parser) -> None:
    parser.add_argument(
        "--index-slots",
        type=_positive,
        metavar="N",
        help="hash slots of the index files of a broker (its maxHashSlotNum, if not the usual)",
    )


def _add_check(commands: _Commands) -> None:
    parser = _add(commands, Check, "look for damage; changes nothing; exit code 1 if there is any")
    parser.add_argument("folder", metavar="DIR", help="a node's directory, store root or backup")
    _add_group(parser)
    _add_slots(parser)
    parser.add_argument(
        "--max-message-bytes",
        type=_positive,
        metavar="N",
        help="largest body that a broker took (its maxMessageSize, if not the usual)",
    )


def _add_dump(commands: _Commands) -> None:
    parser = _add(commands, Dump, "print records as JSON lines; changes nothing", json=False)
    parser.add_argument("folder", metavar="DIR", help="a node's directory, store root or backup")
    _add_group(parser)
    add = parser.add_argument
    add(
        "--from",
        dest="start",
        type=_offset,
        metavar="OFFSET",
        help="the first offset to print (of a dledger group, the first index)",
    )
    add("--topic", help="only records of this topic")
    add("--queue", dest="queue_id", type=_offset, metavar="N", help="only records of this queue")
    add("--key", help="only records that have this key")
    add("--limit", dest="count", type=_positive, metavar="N", help="at most N of them")


def _add_pending(commands: _Commands) -> None:
    parser = _add(commands, Pending, "list delayed messages and undecided half messages")
    parser.add_argument("folder", metavar="DIR", help="a node's directory or a store root")
    _add_group(parser)


def _add_truncate(commands: _Commands) -> None:
    parser = _add(commands, Truncate, "cut the end off the log of a stopped store")
    parser.add_argument("folder", metavar="DIR", help="a node's directory or a store root")
    parser.add_argument("offset", type=_offset, metavar="OFFSET", help="the new end, in bytes")
    _add_group(parser)
    _add_slots(parser)
    parser.add_argument("--force", action="store_true", help="cut also what may be acknowledged")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_backup(commands: _Commands) -> None:
    parser = _add(commands, Backup, "copy the logs of a running or stopped node")
    parser.add_argument("folder", metavar="DIR", help="a node's directory or a store root")
    parser.add_argument(
        "target", metavar="DEST", help="a new folder, or one of a backup that was interrupted"
    )
    _add_group(parser)


def _add_seed(commands: _Commands) -> None:
    parser = _add(commands, Seed, "make a slave's data directory from a backup")
    parser.add_argument("folder", metavar="BACKUP", help="a whole backup")
    parser.add_argument(
        "target", metavar="TARGET", help="CLUSTER.toml:NODE, or the data directory to make"
    )
    parser.add_argument("--node", metavar="NAME", help="the node's name (default: its folder's)")
    parser.add_argument("--group", metavar="NAME", help="another name for the backup's only group")


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > OFFSET_MAX:
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, found {text!r}")
    return int(text)


def _positive(text: str) -> int:
    number = _offset(text)
    if not number:
        raise argparse.ArgumentTypeError("expected at least 1, found 0")
    return number
