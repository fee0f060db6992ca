"""What a rule finds: one row, one line of JSON, one sentence."""

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
        alarm: two_leaders, failover, leaderless, lag, stalled, begun_anew or rotten; with _over
            behind it, the end of a failover, leaderless, lag or stalled that was reported while it
            lasted.
        group: that it is about.
        subject: two_leaders: who led already; failover: who was lost; leaderless: ""; begun_anew:
            the node; rotten: how that is known; else the follower.
        node, boot, seq: the event that shows it, or with which it began; its end, the event that
            shows that.
        at_us: when it came to be, by that node's clock.
        value: two_leaders: the term or promotion; failover, leaderless: microseconds so far;
            begun_anew: the boot's number; rotten: the first damaged byte; else how far behind the
            follower is; lag_over: how far it was at the most; stalled_over: how far it still is.
        unit: of value: "term", "promotion", "us", "boot", "bytes", "entries".
        is_over: of a failover, and leaderless: somebody leads again.
        lacked: likewise: what the node was without, "leader", or "master" in a classic group.
        lasted_us: of an end: for how long it was so, in microseconds.
        doubt: for people: which events are missing that could deny it, or which clock was set; see
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
    """A finding that the event of a fact shows."""
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
"""For Spark."""


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
    """A duration in microseconds as text for people: `1.5 s`."""
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
    "begun_anew": lambda it: f"{it.node} begins anew: its directory was emptied, or put back",
    "rotten": lambda it: (
        f"the copy of {it.node} is damaged from byte {it.value} on, and does not count:"
        f" {it.subject}"
    ),
}


def as_dict(finding: Finding) -> dict[str, Any]:
    return attrs.asdict(finding)


def of_dict(found: object) -> Finding:
    """Raises: ValueError if it is none, or of an alarm that this version does not know."""
    finding = msgspec.convert(found, Finding)
    if finding.alarm not in _SAYS:
        raise ValueError(f"unknown alarm {finding.alarm!r}")
    return finding


def sentence(finding: Finding) -> str:
    """One line for people, with the event to look at, NODE/BOOT/SEQ, and what is in doubt."""
    event = f"{finding.node}/{finding.boot}/{finding.seq}"
    says = f"{finding.alarm}: {_SAYS[finding.alarm](finding)}"
    but = f"; but {finding.doubt}" if finding.doubt else ""
    return readable(f"{moment(finding.at_us)} {finding.group}: {says} ({event}){but}")


def moment(us: int) -> str:
    """UTC; one that no calendar has, as older versions may have found, as its number."""
    try:
        at = datetime.datetime.fromtimestamp(us // _US, tz=datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{us} us"
    return f"{at:%Y-%m-%dT%H:%M:%S}.{us % _US // 1000:03d}Z"
