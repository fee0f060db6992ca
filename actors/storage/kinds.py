"""The modes whose stores a node and the storage tools know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from actors.env.protocols import Disk
from actors.storage.commitlog.kind import AUTOSWITCH, CLASSIC
from actors.storage.kind import StoreKind
from actors.storage.ledger.kind import DLEDGER
from actors.storage.node.identity import Identity

if TYPE_CHECKING:
    from actors.storage.tools.kind import StoreTools

KINDS: Final[dict[str, StoreKind[StoreTools[Any]]]] = {
    "classic": CLASSIC,
    "dledger": DLEDGER,
    "autoswitch": AUTOSWITCH,
}
"""By mode. Folders are tried in this order."""


class _OfMode(Protocol):
    @property
    def mode(self) -> str: ...


T = TypeVar("T", bound=_OfMode)


def kind_of(found: _OfMode) -> StoreKind[StoreTools[Any]]:
    """The kind of a group, of a store that was found, or of a copy."""
    return KINDS[found.mode]


def tools_of(found: _OfMode) -> StoreTools[Any]:
    """The tools of its kind."""
    return kind_of(found).tools()


def kind_at(disk: Disk, root: str, identity: Identity | None) -> StoreKind[StoreTools[Any]]:
    """The kind of a store that lies in a node's directory or a backup.

    A member without entries, and a store of which all is lost, may have nothing that shows it.
    """
    known = (mode for mode, kind in KINDS.items() if kind.is_store(disk, root, identity))
    found = without_extended(known)
    return KINDS[found[0]] if found else CLASSIC


def without_extended(modes: Iterable[str]) -> list[str]:
    """Of the modes whose signs a store has, those of which it can be: it has those of the mode that
    its own one extends, too.
    """
    found = list(modes)
    extended = {KINDS[mode].extends for mode in found}
    return [mode for mode in found if mode not in extended]


def by_key(found: Iterable[T]) -> dict[str, list[T]]:
    """Stores, reports or copies under the keys of their kinds, each of which is there."""
    every = list(found)
    return {kind.key: [one for one in every if kind_of(one) is kind] for kind in KINDS.values()}
