"""The command line of `triolog follow`, parsed into a frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import attrs

from actors.config import bounds
from actors.config.bounds import Mismatch, Rule
from actors.config.command_line import Parser, absolute, seconds
from actors.env.protocols import Address
from actors.errors import ConfigError
from actors.follow.folder import Shape
from actors.ha.client_feeder import RATE_BYTES_PER_S_MIN
from actors.metadata.slave_sync import VIP_BELOW
from actors.readable import counted

COPIES_MAX = 16
"""The most copies in one process. For more, run several processes."""
WAIT_S = 60.0
DESCRIPTION = """\
Copy the commit log of a RocketMQ broker as it grows: byte for byte, each record
checked, into a folder that is laid out as the broker's own store.

HOST:HA_PORT is where the broker takes its slaves (haListenPort, 10912). To the
broker the copy is a slave, and its reports can satisfy a SYNC_MASTER; with
--passive they say no more than keeps the connection. The same command again
goes on where it ended, whatever ended it; no byte of DIR's log is ever
overwritten. With --metadata, DIR/config has the tables of the broker that is
named there, once its log was found to be the one that is copied."""
EPILOG = """\
A stock master sends an empty slave its last file only. To have all, put a copy
of its store into DIR first. Several masters at once:
  %(prog)s A:PORT B:PORT --into DIR_A --into DIR_B
Exit codes: 0 done, 1 ran and failed, 2 wrong usage or configuration."""


@attrs.frozen(kw_only=True)
class Follow:
    """The command line, parsed.

    Attributes:
        copies: the HA addresses of the masters, each with the absolute path of its copy's folder.
        metadata: for each master the address of its broker, or None not to copy the metadata.
        shape: the sizes of the copies' files.
        passive: whether the copies report no progress that could satisfy a SYNC_MASTER.
        once: whether to end when a copy has all that its master had at the start.
        wait_s: with `once`, for how many seconds a master may be unreachable.
        bytes_per_s: the most bytes per second for each copy, or None for no limit.
        json: whether to print JSON.
    """

    copies: tuple[tuple[Address, str], ...]
    metadata: tuple[Address | None, ...]
    shape: Shape
    passive: bool
    once: bool
    wait_s: float
    bytes_per_s: int | None
    json: bool


def parse(argv: Sequence[str]) -> Follow:
    """Read the command line.

    Raises:
        ConfigError: the command line has a mistake.
        SystemExit: after --help.
    """
    parser = Parser.of("follow", DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("masters", nargs="+", metavar="HOST:HA_PORT", help="where brokers take their slaves")
    add("--into", action="append", required=True, metavar="DIR", help="the copy; once per master")
    add(
        "--metadata",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="copy topics, groups and offsets too, from the broker's listenPort; once per master",
    )
    add("--once", action="store_true", help="end when the copy has what the master had")
    add(
        "--wait",
        dest="wait_s",
        type=seconds,
        default=WAIT_S,
        metavar="S",
        help="with --once, fail where the master is away for so long; default: 60",
    )
    add("--passive", action="store_true", help="report no more than keeps the connection")
    rate = bounds.Within(RATE_BYTES_PER_S_MIN, bounds.RATE.high)
    add("--bytes-per-s", type=_of(rate), metavar="N", help="receive no faster; default: no limit")
    add("--json", action="store_true", help="one JSON object per line, for machines")
    shape = parser.add_argument_group("where the broker's configuration is not the default")
    for option, rule, upstream in (
        ("--segment-bytes", bounds.SEGMENT, "mappedFileSizeCommitLog"),
        ("--consume-queue-bytes", bounds.CONSUME_QUEUE, "mappedFileSizeConsumeQueue"),
        ("--index-slots", bounds.INDEX_COUNT, "maxHashSlotNum"),
        ("--index-units", bounds.INDEX_COUNT, "maxIndexNum"),
        ("--max-message-bytes", bounds.MESSAGE, "maxMessageSize"),
    ):
        shape.add_argument(option, type=_of(rule), metavar="N", help=f"its {upstream}")
    for option, text, name, what in (
        ("--message-delay-level", bounds.DELAY_LEVELS, "DELAYS", "its messageDelayLevel"),
        ("--store-version", bounds.STORE_VERSION, "V", "its version, as 5.3.3"),
    ):
        shape.add_argument(option, type=_text_of(text), metavar=name, help=what)
    found = vars(parser.parse_intermixed_args(list(argv)))
    return Follow(
        copies=_copies(found["masters"], found["into"]),
        metadata=_metadata(found["metadata"], len(found["masters"])),
        shape=Shape(
            segment_bytes=found["segment_bytes"],
            consume_queue_bytes=found["consume_queue_bytes"],
            index_slots_count=found["index_slots"],
            index_units_count=found["index_units"],
            store_version=found["store_version"],
            max_message_bytes=found["max_message_bytes"],
            message_delay_level=found["message_delay_level"],
        ),
        passive=found["passive"],
        once=found["once"],
        wait_s=found["wait_s"],
        bytes_per_s=found["bytes_per_s"],
        json=found["json"],
    )


def _copies(masters: Sequence[str], folders: Sequence[str]) -> tuple[tuple[Address, str], ...]:
    """Return the masters, each with the absolute path of its copy's folder.

    Raises:
        ConfigError: an address or a folder is wrong, or there are too many or too few.
    """
    if len(masters) != len(folders):
        raise ConfigError(
            f"--into: expected one for each of {counted(len(masters), 'master')}, found"
            f" {len(folders)}"
        )
    if len(masters) > COPIES_MAX:
        raise ConfigError(f"HOST:HA_PORT: expected at most {COPIES_MAX}, found {len(masters)}")
    paths = [absolute(folder, "--into") for folder in folders]
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise ConfigError(f"--into: expected a folder for each master, found {path} twice")
        seen.add(path)
    for path in paths:
        if outer := next((each for each in paths if path.startswith(f"{each}/")), None):
            raise ConfigError(f"--into: expected separate folders, found {path} within {outer}")
    expected = "HOST:HA_PORT: expected a broker's host and its haListenPort"
    return tuple(
        (_address(text, expected), path) for text, path in zip(masters, paths, strict=True)
    )


def _metadata(texts: Sequence[str], count: int) -> tuple[Address | None, ...]:
    """Return the address of each master's broker, or None for all of them.

    Raises:
        ConfigError: an address is wrong, or there are too many or too few.
    """
    if not texts:
        return (None,) * count
    if len(texts) != count:
        raise ConfigError(
            f"--metadata: expected one for each of {counted(count, 'master')}, found {len(texts)}"
        )
    expected = "--metadata: expected a broker's host and its listenPort"
    return tuple(_address(text, expected, port_min=VIP_BELOW + 1) for text in texts)


def _address(text: str, expected: str, *, port_min: int = 1) -> Address:
    host, port = bounds.split_endpoint(text) or ("", 0)
    if not host.isprintable() or " " in host or port < port_min:
        raise ConfigError(f"{expected}, found {text!r}")
    return Address(host, port)


def _of(rule: Rule) -> Callable[[str], int]:
    def read(text: str) -> int:
        plain = text.replace("_", "")
        try:
            value = int(plain[:25]) if plain.isascii() and plain.isdigit() else -1
            rule(None, None, value)
        except Mismatch as error:
            raise argparse.ArgumentTypeError(f"expected {error.expected}, found {text!r}") from None
        return value

    return read


def _text_of(rule: Rule) -> Callable[[str], str]:
    def read(text: str) -> str:
        try:
            rule(None, None, text)
        except Mismatch as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return read
