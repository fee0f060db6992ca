"""The limits above which something is an alarm, as options of the command."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import attrs

_US = 1_000_000
SECONDS_MAX = 1e9
"""The largest limit in seconds, thirty years, so that no sum of times overflows."""


@attrs.frozen(kw_only=True)
class Limits:
    """The limits, all above zero.

    Attributes:
        failover_s: how long a node may know no leader or master, or a master may have fewer
            replicas in sync than an append needs, by its own clock.
        start_s: the same from its start on, as a first election waits for a majority of started
            members.
        lag_bytes: how much a slave may lack of its master's log.
        lag_entries: how much lower than the highest a member's committed index may be.
        stall_s: how long a follower that lags may stand still.
        silent_s: after how long without events a node is not waited for while others have some;
            longer than the nodes' `events.roll_interval_s`.
    """

    failover_s: float = 5.0
    start_s: float = 60.0
    lag_bytes: int = 64 << 20
    lag_entries: int = 10_000
    stall_s: float = 10.0
    silent_s: float = 15.0

    @property
    def failover_us(self) -> int:
        return round(self.failover_s * _US)

    @property
    def start_us(self) -> int:
        return round(self.start_s * _US)

    @property
    def stall_us(self) -> int:
        return round(self.stall_s * _US)

    @property
    def silent_us(self) -> int:
        return round(self.silent_s * _US)


_HELP = {
    "failover_s": "without a leader or master, having had one, or without enough replicas in sync: "
    "from when a node missed it, 6 s after a DLedger leader's end (heartbeat_interval_s * "
    "heartbeat_leaks)",
    "start_s": "without one since it started",
    "lag_bytes": "behind the master",
    "lag_entries": "behind the highest committed index",
    "stall_s": "behind and not moving",
    "silent_s": "a node silent for so long is not waited for; has to be above the nodes' "
    "events.roll_interval_s, or failovers are reported that are none",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `watch`, with one for each limit, such as --failover-s."""
    group = parser.add_argument_group("watch")
    group.add_argument(
        "--seconds",
        type=_seconds_or_zero,
        metavar="N",
        help="end after so long; 0: when all that is there now is read (default: Ctrl-C)",
    )
    for field in attrs.fields(Limits):
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=_whole if isinstance(field.default, int) else _seconds,
            metavar="N",
            help=f"{_HELP[field.name]} ({field.default:,})",
        )


def limits_of(asked: argparse.Namespace) -> Limits:
    """Return the limits that were given as options, with defaults for the others."""
    given = {name: getattr(asked, name) for name in _HELP}
    return Limits(**{name: limit for name, limit in given.items() if limit is not None})


def given_options(asked: argparse.Namespace) -> list[str]:
    """Return the options of `add_options` that were given, as they are written."""
    names = ("seconds", *_HELP)
    return [f"--{name.replace('_', '-')}" for name in names if getattr(asked, name) is not None]


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return number


def _seconds(text: str) -> float:
    return _seconds_of(text, "above 0", lambda number: number > 0)


def _seconds_or_zero(text: str) -> float:
    return _seconds_of(text, "0 or above", lambda number: number >= 0)


def _seconds_of(text: str, expected: str, fits: Callable[[float], bool]) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not fits(number) or not number <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"expected seconds, {expected}, found {text!r}")
    return number
