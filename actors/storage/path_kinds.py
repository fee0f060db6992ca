"""Whether what lies in a node's directory is of the kind that it has to be, asked before a start.

Upstream finds out where it opens the file, with a stack trace. Somebody who restored or copied a
directory by hand gets one line for each such path here.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.env.protocols import Disk
from actors.errors import ConfigError


def check_kinds(disk: Disk, *, folders: Iterable[str], files: Iterable[str]) -> None:
    """What is not there is created later, and passes.

    Raises: ConfigError: a file where a folder is expected, or the other way round. OSError.
    """
    problems = [
        f"{path}: expected a folder, found a file" for path in folders if is_file(disk, path)
    ]
    problems += [
        f"{path}: expected a file, found a folder" for path in files if is_folder(disk, path)
    ]
    if problems:
        raise ConfigError(tuple(problems))


def names_in(disk: Disk, path: str) -> list[str]:
    """The names in a folder; none for a file."""
    try:
        return disk.listdir(path)
    except NotADirectoryError:
        return []


def is_file(disk: Disk, path: str) -> bool:
    """There is something that holds no names."""
    return disk.exists(path) and not is_folder(disk, path)


def is_folder(disk: Disk, path: str) -> bool:
    """There is something that holds names."""
    if not disk.exists(path):
        return False
    try:
        disk.listdir(path)
    except NotADirectoryError:
        return False
    return True
