"""Whose a folder is: who can have put something there, who can change it, and who may use it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import attrs

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def only_theirs(folder: str, user: int, *, shared_above: bool = False) -> bool:
    """Whether nobody but this user and root can put, replace or change anything in the folder: so
    for each folder on the way, links followed. False if it is not there.

    Args:
        user: a number.
        shared_above: folders above may be of the kind of /tmp, in which everybody makes names and
            nobody removes another's: right for whoever looks whether he made this one himself.
    """
    here = os.path.realpath(folder)
    above = False
    while True:
        try:
            status = os.lstat(here)
        except OSError:
            return False
        sticky = shared_above and above and status.st_mode & stat.S_ISVTX
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, user):
            return False
        if status.st_mode & _OTHERS_WRITE and not sticky:
            return False
        parent = os.path.dirname(here)
        if parent == here:
            return True
        here, above = parent, True


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
