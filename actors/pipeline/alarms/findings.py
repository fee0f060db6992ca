"""A finding of a rule, as a row, a line of JSON and a sentence."""

from __future__ import annotations

import datetime
import typing
from collections.abc import Callable
from typing import Any, Final

import attrs
import msgspec

from actors.pipeline.alarms.facts import Fact
from actors.readable import readable

_US = 1_000_000


@attrs.frozen(kw_only=True)
class Finding:
    """One alarm.

    Attributes:
        alarm: two_leaders, failover, leaderless, lag, stalled, below_minimum, begun_anew or rotten;
            with _over behind it, the end of a failover, leaderless, lag, stalled or below_minimum
            that was reported while it lasted.
        group: the group that it is about.
        subject: for two_leaders, the node that led already; for failover, the lost leader; for
            leaderless ""; for begun_anew, the node; for rotten, how the damage is known; for
            below_minimum, how many replicas an append needs; else the follower.
        node, boot, seq: the event that shows it, or with which it began; for an end, the event that
            shows the end.
        at_us: when it happened, by that node's clock.
        value: for two_leaders, the term, promotion or epoch; for failover and leaderless, the
            microseconds so far; for begun_anew, the boot's number; for rotten, the first damaged
            byte; for below_minimum, how many replicas are in sync; for lag_over, the largest lag;
            else the follower's present lag.
        unit: the unit of `value`: "term", "promotion", "epoch", "us", "boot", "replicas", "bytes",
            "entries".
        is_over: for failover and leaderless, whether the group has a leader again; for
            below_minimum, whether the set is large enough again, or of no master.
        lacked: for failover and leaderless, what the node had not: "leader", or "master" in a
            classic group.
        lasted_us: for an end, how long it lasted; for below_minimum, so far; in microseconds.
        doubt: which missing events could deny it, or which clock was set, for people; see
            `doubts`.
    """

    alarm: str
    group: str
    subject: str
    node: str
    boot: int
    seq: int
    at_us: int
    value: int
    unit: str
    is_over: bool = False
    lacked: str = "leader"
    lasted_us: int = 0
    doubt: str = ""


def by_fact(fact: Fact, alarm: str, subject: str, value: int, unit: str, **more: Any) -> Finding:
    """Return a finding that the event of a fact shows."""
    return Finding(
        alarm=alarm,
        group=fact.group,
        subject=subject,
        node=fact.node,
        boot=fact.boot,
        seq=fact.seq,
        at_us=fact.ts_us,
        value=value,
        unit=unit,
        **more,
    )


_TYPES: Final = {str: "string", int: "bigint", bool: "boolean"}
_HINTS = typing.get_type_hints(Finding)
NAMES: Final = tuple(field.name for field in attrs.fields(Finding))
SCHEMA: Final = ", ".join(f"`{name}` {_TYPES[_HINTS[name]]}" for name in NAMES)
"""The columns of findings, as Spark declares them."""


def _failover(it: Finding) -> str:
    took = seconds(it.value)
    if it.is_over:
        return f"{it.node} had no {it.lacked} for {took} after {it.subject}"
    return f"{it.node} has had no {it.lacked} for {took}, since it lost {it.subject}"


def _leaderless(it: Finding) -> str:
    took = seconds(it.value)
    if it.is_over:
        return f"{it.node} had no {it.lacked} for {took} after it started"
    return f"{it.node} has had no {it.lacked} since it started, for {took}"


def _leads_again(it: Finding) -> str:
    return f"{it.node} has a {it.lacked} again, after {_seconds(it)} without"


def _seconds(it: Finding) -> str:
    return seconds(it.lasted_us)


def seconds(us: int) -> str:
    """Describe a duration in microseconds for people, such as `1.5 s`."""
    return f"{us / _US:.1f} s"


_SAYS: Final[dict[str, Callable[[Finding], str]]] = {
    "two_leaders": lambda it: f"{it.node} leads in {it.unit} {it.value}, and so does {it.subject}",
    "failover": _failover,
    "leaderless": _leaderless,
    "lag": lambda it: f"{it.subject} is {it.value:,} {it.unit} behind",
    "stalled": lambda it: f"{it.subject} does not move, {it.value:,} {it.unit} behind",
    "failover_over": _leads_again,
    "leaderless_over": _leads_again,
    "lag_over": lambda it: (
        f"{it.subject} is no longer behind, after {_seconds(it)} and up to {it.value:,} {it.unit}"
    ),
    "stalled_over": lambda it: (
        f"{it.subject} moves again after {_seconds(it)}, {it.value:,} {it.unit} behind"
    ),
    "below_minimum": lambda it: (
        f"{it.node} {'had' if it.is_over else 'has had'} {it.value} of {it.subject} replicas in"
        f" sync for {_seconds(it)}, and {'took' if it.is_over else 'takes'} no appends"
    ),
    "below_minimum_over": lambda it: (
        f"{it.node} lacks no replicas in sync any more, after {_seconds(it)}"
    ),
    "begun_anew": lambda it: f"{it.node} begins anew: its directory was emptied, or put back",
    "rotten": lambda it: (
        f"the copy of {it.node} is damaged from byte {it.value} on, and does not count:"
        f" {it.subject}"
    ),
}


def as_dict(finding: Finding) -> dict[str, Any]:
    return attrs.asdict(finding)


def of_dict(found: object) -> Finding:
    """Make a finding of its dictionary.

    Raises: ValueError: it is no finding, or its alarm is unknown to this version.
    """
    finding = msgspec.convert(found, Finding)
    if finding.alarm not in _SAYS:
        raise ValueError(f"unknown alarm {finding.alarm!r}")
    return finding


def sentence(finding: Finding) -> str:
    """Describe a finding for people in one line, with its event, NODE/BOOT/SEQ, and its doubt."""
    event = f"{finding.node}/{finding.boot}/{finding.seq}"
    says = f"{finding.alarm}: {_SAYS[finding.alarm](finding)}"
    but = f"; but {finding.doubt}" if finding.doubt else ""
    return readable(f"{moment(finding.at_us)} {finding.group}: {says} ({event}){but}")


def moment(us: int) -> str:
    """Format a time in UTC; one that no calendar has, as of older versions, as its number."""
    try:
        at = datetime.datetime.fromtimestamp(us // _US, tz=datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{us} us"
    return f"{at:%Y-%m-%dT%H:%M:%S}.{us % _US // 1000:03d}Z"
