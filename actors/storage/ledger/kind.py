"""What a start and the tools need to know of the stores of `mode = "dledger"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.env.path_kinds import is_file, is_folder
from actors.env.protocols import Disk
from actors.storage.kind import StoreKind
from actors.storage.layout import LedgerLayout
from actors.storage.log.commit_log import is_segment_name, segment_bases
from actors.storage.node.identity import Identity

if TYPE_CHECKING:
    from actors.storage.tools.kind import StoreTools


def _signs(root: str) -> tuple[str, ...]:
    """Return the paths of which a DLedger store has at least one.

    A member without entries has only the file of its term and vote.
    """
    layout = LedgerLayout(root)
    return layout.commit_log, layout.term


def _start_paths(root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    layout = LedgerLayout(root)
    return layout.folders, layout.files


def _named_files(root: str) -> dict[str, Callable[[str], bool]]:
    layout = LedgerLayout(root)
    return dict.fromkeys((layout.commit_log, layout.index, layout.sums), is_segment_name)


def _is_store(disk: Disk, root: str, identity: Identity | None) -> bool:
    """Whether a folder is a DLedger store.

    A member without entries may have nothing but its term and vote. If both log and vote are lost,
    the node's identity names the member, or other folders that only such a store has are there.
    """
    layout, name = LedgerLayout(root), root.rpartition("/")[2]
    if is_folder(disk, layout.commit_log) or is_file(disk, layout.term):
        return True
    if identity is not None and (name in identity.ledgers or name in identity.votes):
        return True
    return any(is_folder(disk, folder) for folder in (layout.sums, layout.snapshot))


def _is_store_alone(disk: Disk, root: str) -> bool:
    """Whether a folder is a DLedger store, judged without a node's identity.

    Folders of other programs may have a `data/`, so something else that only a member has must be
    there too.
    """
    layout = LedgerLayout(root)
    return _is_store(disk, root, None) and (
        is_file(disk, layout.term)
        or is_folder(disk, layout.index)
        or bool(segment_bases(disk, layout.commit_log))
    )


def _tools() -> StoreTools[Any]:
    from actors.storage.tools.ledger.tools import TOOLS

    return TOOLS


DLEDGER: Final = StoreKind(
    key="ledgers",
    layout=LedgerLayout,
    signs=_signs,
    start_paths=_start_paths,
    named_files=_named_files,
    is_store=_is_store,
    is_store_alone=_is_store_alone,
    tools=_tools,
)
