"""What an answered append means, in words: printed at start and by `check`, and the README's table.

Design section 4. The words for one group and for the table come from the same functions, so that
neither can promise more than the other.
"""

from __future__ import annotations

from actors.config.group import Group
from actors.config.kind import Guarantee
from actors.config.kinds import KINDS, kind_of


def guarantee_of(group: Group) -> Guarantee:
    """The promise of one configured group."""
    return kind_of(group).guarantee(group)


def table() -> tuple[Guarantee, ...]:
    """The promises of every kind of group, for the README."""
    return tuple(row for kind in KINDS.values() for row in kind.guarantees())


def markdown() -> str:
    """`table()` for the README, which a test compares with it."""
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
