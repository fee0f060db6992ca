"""Whether a group's folder holds the store of a group of its mode, asked before a start.

Classic groups and DLedger's name some files alike (`synced`, `index/`, `checkpoint`) and mean other
things by them. Where a cluster file changes the mode of a group that has data, either would find
its own files damaged, and the advice for that takes the other's synced mark away.

There is no upstream: a broker keeps its DLedger store in another folder.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.config import Group
from actors.env.protocols import Disk
from actors.errors import ConfigError
from actors.storage.dledger.layout import LedgerLayout
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import check_kinds


def check_group_kinds(disk: Disk, path: str, groups: Sequence[Group]) -> None:
    """Look at a node's directory. What is not there, and a folder with the files of both, passes.

    Raises: ConfigError: a group's folder has files of the other mode only; in a DLedger group's a
        file is where a folder has to be, or the like. OSError.
    """
    problems = []
    for group in groups:
        root = f"{path}/groups/{group.name}"
        found = [mode for mode, paths in _signs(root).items() if any(map(disk.exists, paths))]
        if found and group.mode not in found:
            problems.append(
                f"{root}: expected the store of a {group.mode} group, as groups.{group.name}.mode"
                f" says, found that of a {found[0]} group: put the mode back, or name the group"
                " anew"
            )
    if problems:
        raise ConfigError(tuple(problems))
    ledgers = [
        LedgerLayout(f"{path}/groups/{each.name}") for each in groups if each.mode == "dledger"
    ]
    check_kinds(
        disk,
        folders=(folder for each in ledgers for folder in each.folders),
        files=(file for each in ledgers for file in each.files),
    )


def _signs(root: str) -> dict[str, tuple[str, ...]]:
    """By mode, what only its stores have: a member without entries has its term and vote alone."""
    ledger = LedgerLayout(root)
    return {
        "classic": (StoreLayout(root).commit_log,),
        "dledger": (ledger.commit_log, ledger.term),
    }
