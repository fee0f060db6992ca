"""What the cluster file needs to know of a mode: one value for each, in `kinds`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Literal, TypeVar

import attrs

from actors.config.group import Group
from actors.config.problems import Problem
from actors.readable import counted

G = TypeVar("G", bound=Group)


@attrs.frozen(kw_only=True)
class Guarantee:
    """One promise of a group, for people.

    Attributes:
        mode: which groups it is for.
        returns_when: what has happened when an append returns.
        holds_after: what may happen then without losing the record.
        notes: what an operator has to know besides, one sentence each.
        judges: the checkers of `actors.sim` that a group which breaks it does not pass.
    """

    mode: str
    returns_when: str
    holds_after: str
    notes: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()


def unit_word(unit: str) -> str:
    """`byte` of bytes, `entry` of entries; `position` of an unknown unit ("")."""
    return {"bytes": "byte", "entries": "entry"}.get(unit, "position")


@attrs.frozen(kw_only=True)
class Terms:
    """What a mode calls things, for people.

    Attributes:
        unit: what its log counts.
        leader: whoever takes the appends.
        peer: another member, as the leader sees it.
        epoch: what has a number and a leader.
        since: the word before such a number: "by" or "in".
        acknowledged: what is said of records that readers may see.
    """

    unit: Literal["bytes", "entries"] = "bytes"
    leader: str = "leader"
    peer: str = "peer"
    epoch: str = "epoch"
    since: str = "in"
    acknowledged: str = "acknowledged"

    def shown(self, end: int | None) -> str:
        """A position for people; "-" if there is none."""
        if self.unit == "entries":
            end = end - 1 if end else None
        return "-" if end is None else str(end)

    def at(self, position: int) -> str:
        """`byte 900`, `entry 900`: one position of its log."""
        return f"{unit_word(self.unit)} {position}"

    def up_to(self, end: int) -> str:
        """`byte 900`, `entry 899`: where a log ends, as `shown` has it."""
        return f"{unit_word(self.unit)} {self.shown(end)}"

    def amount(self, count: int) -> str:
        """`1 byte`, `900 entries`: of its log's unit."""
        return counted(count, unit_word(self.unit), self.unit)

    def by(self, epoch: int) -> str:
        """` by promotion 2`; "" before the first."""
        return f" {self.since} {self.epoch} {epoch}" if epoch > 0 else ""


def _no_ports(group: Group) -> tuple[int, ...]:
    """The members are no brokers."""
    return ()


@attrs.frozen(kw_only=True)
class ConfigKind(Generic[G]):
    """A mode, as far as configuration goes.

    Attributes:
        group: the class of its groups: a frozen attrs class whose fields are the table's keys.
        copiers: what the nodes that copy are called, in the plural.
        callers: who connects to the group's port.
        shares_port: its groups may have one port of a node in common.
        broker_ports: where the members of a group listen for whoever takes them for brokers.
        problems: what no single key can show, given all nodes' addresses by name.
        guarantee: what an answered append of a group means.
        guarantees: the rows of `guarantees.md`: the promises of every kind of such group.
        fresh_read: who confirms a fresh read, as the rest of a sentence that begins "a fresh read".
        terms: what its groups' status calls things.
        rows: further lines about a group for `check`: subject and rest of the sentence.
    """

    group: type[G]
    copiers: str
    callers: str
    shares_port: bool
    problems: Callable[[G, Mapping[str, str]], Iterable[Problem]]
    guarantee: Callable[[G], Guarantee]
    guarantees: Callable[[], tuple[Guarantee, ...]]
    fresh_read: Callable[[G], str]
    rows: Callable[[G], list[tuple[str, str]]]
    broker_ports: Callable[[G], tuple[int, ...]] = _no_ports
    terms: Terms = attrs.field(factory=Terms)
