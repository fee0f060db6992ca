"""Checks before a start that each path in a node's directory is a file, or a folder, as it must be.

Upstream finds out when it opens the file, with a stack trace. An operator who restored or copied a
directory by hand gets one line for each wrong path here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from actors.env.protocols import Disk, FileKind
from actors.errors import ConfigError

BARE_DEPTH = 3
"""How deep the folders may be that were prepared for a node: `groups/GROUP/commitlog`."""


def check_kinds(disk: Disk, *, folders: Iterable[str], files: Iterable[str]) -> None:
    """Check that each path is a file, or a folder, as it has to be; a missing one is made later.

    Raises: ConfigError: there is a file where a folder is expected, or the other way round, or
        something else (a named pipe, a socket, a device, a link that leads nowhere). OSError.
    """
    problems = wrong_kinds(disk, folders=folders, files=files)
    if problems:
        raise ConfigError(problems)


def wrong_kinds(
    disk: Disk, *, folders: Iterable[str], files: Iterable[str], sockets: Iterable[str] = ()
) -> tuple[str, ...]:
    """Describe, for people, what `check_kinds` refuses, one line a path. Raises: OSError."""
    wanted = [("folder", path) for path in folders] + [("file", path) for path in files]
    wanted += [("socket", path) for path in sockets]
    found = [(path, kind, kind_of(disk, path)) for kind, path in wanted]
    others = [
        (path, kind, other or _unseen(disk, path, kind))
        for path, kind, other in found
        if other != kind
    ]
    return tuple(
        f"{path}: expected a {kind}, found a {other}" for path, kind, other in others if other
    )


def _unseen(disk: Disk, path: str, wanted: str) -> str:
    """Return what was found at a path where `kind_of` found nothing.

    Returns: "" if there is no such name, or it is right by now.
    """
    if not disk.has_name(path):
        return ""
    found = kind_of(disk, path)  # again: a node that starts meanwhile makes its files
    if found == wanted:
        return ""
    return found or "link that leads nowhere"


def names_in(disk: Disk, path: str) -> list[str]:
    """Return the names in a folder; none for a file."""
    try:
        return disk.listdir(path)
    except NotADirectoryError:
        return []


def kind_of(disk: Disk, path: str) -> FileKind | None:
    """Return what is at a path.

    Returns: None if there is nothing, or a link that leads nowhere or to itself.

    Raises: OSError.
    """
    try:
        return disk.stat(path).kind
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def is_file(disk: Disk, path: str) -> bool:
    """Return whether the path exists and is no folder."""
    return kind_of(disk, path) not in ("folder", None)


def is_folder(disk: Disk, path: str) -> bool:
    """Return whether the path exists and is a folder."""
    return kind_of(disk, path) == "folder"


def is_bare(disk: Disk, path: str, depth: int = BARE_DEPTH) -> bool:
    """Return whether a path is a folder without any file, such as one prepared for mounts."""
    return (
        depth > 0
        and is_folder(disk, path)
        and all(is_bare(disk, f"{path}/{name}", depth - 1) for name in disk.listdir(path))
    )
