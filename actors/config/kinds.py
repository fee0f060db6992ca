"""The modes that a cluster file may name.

Each room that does something of its own for each mode has such a table; `actors.modes` lists them.
"""

from __future__ import annotations

from typing import Any, Final

from actors.config.classic_kind import CLASSIC
from actors.config.dledger_kind import DLEDGER
from actors.config.group import Group
from actors.config.kind import ConfigKind

KINDS: Final[dict[str, ConfigKind[Any]]] = {"classic": CLASSIC, "dledger": DLEDGER}
"""The kinds by the names of their modes."""


def kind_of(group: Group) -> ConfigKind[Any]:
    """The kind of a group."""
    return KINDS[group.mode]
