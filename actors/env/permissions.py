"""Which other users may use a folder's content, by its permissions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import attrs

OTHERS = stat.S_IRWXG | stat.S_IRWXO


@attrs.frozen(kw_only=True)
class Loose:
    """What others than the owner may use.

    Attributes:
        path: the first of it.
        mode: its permissions.
        count: how many files and folders there are.
    """

    path: str
    mode: int
    count: int


def loose_in(folder: str) -> Loose | None:
    """What in a folder, itself included, is not its owner's alone; None: nothing, or no folder.

    What cannot be looked at is passed over.
    """
    found = ((path, mode) for path, mode in _modes(folder) if mode & OTHERS)
    first = next(found, None)
    if first is None:
        return None
    path, mode = first
    return Loose(path=path, mode=mode, count=1 + sum(1 for _ in found))


def _modes(folder: str) -> Iterator[tuple[str, int]]:
    yield from _mode(folder)
    for inside, folders, files in os.walk(folder):
        folders.sort()
        for name in (*folders, *sorted(files)):
            yield from _mode(f"{inside}/{name}")


def _mode(path: str) -> Iterator[tuple[str, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield path, stat.S_IMODE(status.st_mode)
