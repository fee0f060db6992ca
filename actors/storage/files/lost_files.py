"""A file of a running store that somebody else has removed, in words for people.

Upstream has nothing like it: a mapped file that was removed is written on, and gone at the end.
"""

from __future__ import annotations

from typing import Final

from actors.env.protocols import Disk

WHAT_TO_DO: Final = (
    "something beside the node has removed it; start the node again, which makes it anew or says"
    " what is lost and what to do"
)


def lost_text(disk: Disk, path: str) -> str:
    """Name the file that was missed, or the folder if that is gone too, and what is to be done.

    Args:
        path: of the file that the disk did not find.
    """
    gone, parent = path, path.rpartition("/")[0]
    while parent and not disk.exists(parent):
        gone, parent = parent, parent.rpartition("/")[0]
    kind = "file" if gone == path else "folder"
    return f"{gone}: the {kind} is missing: {WHAT_TO_DO}"
