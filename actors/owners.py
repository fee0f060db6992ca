"""Whose a folder is: who can have put something there, and who can change it."""

from __future__ import annotations

import os
import stat

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
