"""What a node's part in a DLedger group began with: no cluster file changes that silently.

Two lists of members may each have a majority, and what one acknowledges the other never sees; a
member whose store is of another kind begins empty and votes all the same. Each machine may have a
cluster file of its own, so a node remembers both since the first start that came to a vote.

There is no upstream: a broker believes its configuration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs

from actors.config import DLedgerGroup
from actors.errors import ConfigError

README = "(README, Running it: another member)"


@attrs.frozen(kw_only=True)
class LedgerShape:
    """The shape of one group's files, as the node remembers it.

    Attributes:
        members: sorted.
        store: "file" or "memory".
    """

    members: tuple[str, ...]
    store: str

    @staticmethod
    def of(group: DLedgerGroup) -> LedgerShape:
        return LedgerShape(members=group.members, store=group.store)

    @staticmethod
    def parse(found: Any) -> LedgerShape:
        """Raises: what is in `identity.UNREADABLE`."""
        members = found["members"]
        if not isinstance(members, list):
            raise TypeError("members is no list")
        return LedgerShape(
            members=tuple(sorted(str(member) for member in members)), store=str(found["store"])
        )


def next_shapes(
    groups: Iterable[DLedgerGroup],
    known: Mapping[str, LedgerShape],
    begun: Collection[str],
    *,
    source: str,
    identity: str,
) -> dict[str, LedgerShape]:
    """What is to be remembered from this start on.

    Args:
        known: what is remembered.
        begun: groups of which there is a vote; what is known of others binds nobody.
        source, identity: paths of the cluster file and of what remembers, for people.

    Raises: ConfigError: a group is not what it was, and its file does not say that this is meant.
    """
    problems: list[str] = []
    shapes = dict(known)
    for group in groups:
        was = known.get(group.name) if group.name in begun else None
        if was is not None:
            problems += _problems(group, was, source or "the configuration", identity)
        shapes[group.name] = LedgerShape.of(group)
    if problems:
        raise ConfigError(tuple(problems))
    return shapes


def _problems(group: DLedgerGroup, was: LedgerShape, source: str, identity: str) -> list[str]:
    key, began = f"{source}: key groups.{group.name}", f"with which this node began ({identity})"
    found = []
    if was.members not in (group.members, tuple(sorted(group.members_before))):
        found.append(
            f"{key}.members: expected {', '.join(was.members)}, {began}, found"
            f" {', '.join(group.members)}: with two lists of members acknowledged entries are lost."
            f" Put it back; {_meant(group, was)} {README}"
        )
    if was.store != group.store:
        found.append(
            f'{key}.store: expected "{was.store}", {began}, found "{group.store}": it would forget'
            " what it has acknowledged; put it back, or name the group anew"
        )
    return found


def _meant(group: DLedgerGroup, was: LedgerShape) -> str:
    """How a change is made on purpose."""
    if len(set(was.members) ^ set(group.members)) > 1:
        return (
            "members change one at a time; if this node began with a wrong list, its entries are no"
            " part of the group"
        )
    return (
        "if the change is meant, stop all nodes and say in every file"
        f" members_before = {_list(was.members)}"
    )


def _list(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
