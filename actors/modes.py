"""The ways to replicate a group, each as one value that names all its parts.

Whoever wants to know what a mode is, or to add one, begins here. Each room has a table of its own
part of each mode, and finds it there by the mode's name; nothing else asks for a mode. A mode of
somebody else's is added with `register`, before a cluster file names it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

import attrs

from actors.config import kinds as config_kinds
from actors.config.kind import ConfigKind
from actors.node import kinds as node_kinds
from actors.node.kind import NodeKind
from actors.sim import running
from actors.sim.plan import Plan
from actors.storage import kinds as store_kinds
from actors.storage.kind import StoreKind


@attrs.frozen(kw_only=True)
class GroupKind:
    """A mode: all that it has of its own, in every room.

    Attributes:
        config: its table in a cluster file: keys, rules, guarantees, words.
        store: its files: layout, signs, and what the storage tools do with them.
        node: what runs on a node for its groups, and how they are asked.
        plan: its simulated histories: what is drawn, staged and judged.
    """

    config: ConfigKind[Any]
    store: StoreKind[Any]
    node: NodeKind[Any]
    plan: type[Plan]


_TABLES: Final[dict[str, MutableMapping[str, Any]]] = {
    "config": config_kinds.KINDS,
    "store": store_kinds.KINDS,
    "node": node_kinds.KINDS,
    "plan": running.PLANS,
}
"""By the attribute of `GroupKind`, the room's table."""


def kinds() -> dict[str, GroupKind]:
    """The kinds by the names of their modes."""
    return {
        mode: GroupKind(**{part: table[mode] for part, table in _TABLES.items()})
        for mode in config_kinds.KINDS
    }


def register(mode: str, kind: GroupKind) -> None:
    """Add a mode of this name to all rooms. Raises: ValueError: there is one."""
    if mode in config_kinds.KINDS:
        raise ValueError(f"there is a mode {mode!r} already")
    for part, table in _TABLES.items():
        table[mode] = getattr(kind, part)


def unregister(mode: str) -> None:
    """Take such a mode away again. Raises: KeyError: there is none."""
    for table in _TABLES.values():
        del table[mode]
