"""What the folders of groups in a node's directory hold, beside what the cluster file says of them.

Whether a group's folder holds the store of a group of its mode is asked before a start.

Classic groups and DLedger's name some files alike (`synced`, `index/`, `checkpoint`) and mean other
things by them. Where a cluster file changes the mode of a group that has data, either would find
its own files damaged, and the advice for that takes the other's synced mark away.

A classic group's store becomes an auto-switch group's when it is opened as that: what it has is of
epoch 0. Not the other way round, for the next master's bytes would be taken for the last epoch's.

A group of another name than before, by a mistake in the file, begins empty beside its own data: a
warning says so.

There is no upstream: a broker keeps its DLedger store in another folder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from actors.config import Group
from actors.env.path_kinds import names_in, wrong_kinds
from actors.env.protocols import LOST_AND_FOUND, Disk
from actors.errors import ConfigError
from actors.readable import with_article
from actors.storage.commitlog.set_aside import PROBE
from actors.storage.kinds import KINDS, kind_of, without_extended
from actors.storage.node.identity import LOCK_NAME, may_be_group

_LOGGER: Final = logging.getLogger("triolog.node")
NAMED_MAX: Final = 8
"""Groups that one warning names."""


def check_group_kinds(disk: Disk, path: str, groups: Sequence[Group]) -> None:
    """Look at a node's directory. What is not there, and a folder with the files of both, passes.

    Raises: ConfigError: `group_kind_problems`. OSError.
    """
    if problems := group_kind_problems(disk, path, groups):
        raise ConfigError(problems)


def group_kind_problems(disk: Disk, path: str, groups: Sequence[Group]) -> tuple[str, ...]:
    """A line for each group's folder that has files of another mode only; else for what is no
    folder or file where one has to be.

    Raises: OSError.
    """
    problems = []
    roots = {f"{path}/groups/{group.name}": group for group in groups}
    for root, group in roots.items():
        signed = (mode for mode, kind in KINDS.items() if any(map(disk.exists, kind.signs(root))))
        found = without_extended(signed)
        if not found or {group.mode, kind_of(group).extends} & {*found}:
            continue
        there = KINDS[found[0]]
        why = f", {there.why_not_back}" if there.extends == group.mode else ""
        problems.append(
            f"{root}: expected the store of {with_article(group.mode)} group, as"
            f" groups.{group.name}.mode says, found that of {with_article(found[0])} group{why}:"
            " put the mode back, or name the group anew"
        )
    if problems:
        return tuple(problems)
    paths = [kind_of(group).start_paths(root) for root, group in roots.items()]
    return wrong_kinds(
        disk,
        folders=[each for folders, _ in paths for each in folders],
        files=[each for _, files in paths for each in files],
    )


def inner_kind_problems(disk: Disk, path: str, groups: Sequence[Group]) -> tuple[str, ...]:
    """What is of the wrong kind below a name of a node's logs, indexes and queues, a
    line each. A start finds these one by one, as it opens them.

    Raises: OSError.
    """
    files: list[str] = []
    folders: list[str] = []
    for group in groups:
        kind, root = kind_of(group), f"{path}/groups/{group.name}"
        for folder, is_own in kind.named_files(root).items():
            files += (f"{folder}/{name}" for name in names_in(disk, folder) if is_own(name))
        folders += kind.inner_folders(disk, root)
    return wrong_kinds(disk, folders=folders, files=files)


def warn_of_others(disk: Disk, path: str, node: str, groups: Sequence[Group]) -> None:
    """Warn, in one line each, of data of groups that are none of these, and of what cannot be ours.
    A lock alone is no data.

    What cannot be looked at is passed over: a start depends on none of it.
    """
    root, own = f"{path}/groups", {group.name for group in groups}
    names: list[str] = []
    with suppress(OSError):
        names = names_in(disk, root)
    others = [name for name in names if name not in own and _has_data(disk, f"{root}/{name}")]
    if others:
        _LOGGER.warning(
            "%s: %s has data of %s, in which the cluster file gives %s no part: a group that was"
            " renamed or mistyped there begins empty; data that nobody needs may be removed",
            node,
            root,
            _some_of(others),
            node,
        )
    places = [path, root, *(folder for group in groups for folder in _folders(root, group))]
    foreign = [f"{place}/{LOST_AND_FOUND}" for place in dict.fromkeys(places)]
    foreign = [found for found in foreign if disk.exists(found)]
    foreign += [f"{root}/{name}" for name in names if not may_be_group(name)]
    foreign += [each for group in groups for each in _strangers(disk, root, group)]
    if foreign:
        _LOGGER.warning("%s: left alone, as it cannot be ours: %s", node, _some_of(foreign))


def _has_data(disk: Disk, path: str) -> bool:
    if not may_be_group(path.rpartition("/")[2]):
        return False
    with suppress(OSError):
        return bool(set(names_in(disk, path)) - {LOCK_NAME})
    return False


def _folders(root: str, group: Group) -> tuple[str, ...]:
    return kind_of(group).layout(f"{root}/{group.name}").folders


def _strangers(disk: Disk, root: str, group: Group) -> Iterator[str]:
    """What lies among the files of a log or an index under a name that no file of theirs has."""
    kept = (LOST_AND_FOUND, PROBE)  # reported elsewhere, and what a kill may leave
    for folder, is_own in kind_of(group).named_files(f"{root}/{group.name}").items():
        names: list[str] = []
        with suppress(OSError):
            names = names_in(disk, folder)
        yield from (f"{folder}/{name}" for name in names if name not in kept and not is_own(name))


def _some_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
