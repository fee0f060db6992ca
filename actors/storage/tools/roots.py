"""What kind of store a folder is, and whether what lies in it can be one: before it is read."""

from __future__ import annotations

from actors.env.protocols import Disk
from actors.storage.commit_log import segment_bases, segment_path
from actors.storage.dledger.layout import LedgerLayout
from actors.storage.identity import Identity
from actors.storage.index_files import is_index_name
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import check_kinds, is_file, is_folder, names_in


def is_ledger(disk: Disk, root: str, identity: Identity | None) -> bool:
    """Whether a folder is the store of a DLedger group, whatever else was tried with it.

    A member without entries may have nothing but its term and vote; of one that has lost its log
    and these its node knows, or what else only such a store has.
    """
    if disk.exists(f"{root}/commitlog"):
        return False
    layout, name = LedgerLayout(root), root.rpartition("/")[2]
    if is_folder(disk, layout.commit_log) or is_file(disk, layout.term):
        return True
    if identity is not None and (name in identity.ledgers or name in identity.votes):
        return True
    return any(is_folder(disk, folder) for folder in (layout.sums, layout.snapshot))


def is_member(disk: Disk, path: str, top: str, identity: Identity | None) -> bool:
    """Whether a folder that is named is a DLedger member's. Many a folder of other programs has
    a `data/`: where no node or backup is around it, something else must be a member's too.
    """
    layout = LedgerLayout(path)
    return is_ledger(disk, path, identity) and (
        top != path
        or is_file(disk, layout.term)
        or is_folder(disk, layout.index)
        or bool(segment_bases(disk, layout.commit_log))
    )


def check_paths(disk: Disk, layout: StoreLayout | LedgerLayout) -> None:
    """What a start refuses without a look into any file, in its words.

    Raises: ConfigError: a file where a folder has to be, or the other way round. OSError.
    """
    check_kinds(disk, folders=layout.folders, files=layout.files)
    kept = [layout.commit_log]
    if isinstance(layout, LedgerLayout):
        kept += [layout.index, layout.sums]
    files = [segment_path(folder, base) for folder in kept for base in segment_bases(disk, folder)]
    if isinstance(layout, StoreLayout):
        names = filter(is_index_name, names_in(disk, layout.index))
        files += [f"{layout.index}/{name}" for name in names]
    check_kinds(disk, folders=(), files=files)
