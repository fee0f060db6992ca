"""The modes that a cluster file may name, and what an answered append of their groups means.

Each room that does something of its own for each mode has such a table; `actors.modes` lists them.

What groups promise is printed at start and by `check`, and is the table of `guarantees.md`.
The words for one group and for the table come from the same functions, so that neither can promise
more than the other.
"""

from __future__ import annotations

from typing import Any, Final

from actors.config.autoswitch_kind import AUTOSWITCH
from actors.config.classic_kind import CLASSIC
from actors.config.dledger_kind import DLEDGER
from actors.config.group import Group
from actors.config.kind import ConfigKind, Guarantee

KINDS: Final[dict[str, ConfigKind[Any]]] = {
    "classic": CLASSIC,
    "dledger": DLEDGER,
    "autoswitch": AUTOSWITCH,
}
"""The kinds by the names of their modes."""


def kind_of(group: Group) -> ConfigKind[Any]:
    """The kind of a group."""
    return KINDS[group.mode]


def broker_ports(group: Group) -> tuple[int, ...]:
    """Where its members listen for whoever takes them for brokers; () if nowhere."""
    return kind_of(group).broker_ports(group)


def guarantee_of(group: Group) -> Guarantee:
    """The promise of one configured group."""
    return kind_of(group).guarantee(group)


def table() -> tuple[Guarantee, ...]:
    """The promises of every kind of group, for `guarantees.md`."""
    return tuple(row for kind in KINDS.values() for row in kind.guarantees())


def markdown() -> str:
    """`table()` for `guarantees.md`, which a test compares with it."""
    lines = [
        "| Group | An append returns when | Holds after | Judged by |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.mode} | {row.returns_when} | {row.holds_after} |"
        f" {', '.join(f'`{judge}`' for judge in row.judges)} |"
        for row in table()
    ]
    return "\n".join(lines)
