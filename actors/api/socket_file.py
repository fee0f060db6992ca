"""Where a node's Unix socket is: `api.sock` in its data directory, whatever the length of its path.

Versions before put it into the folder for temporary files where the path has more than 107 bytes,
under a name that anybody could take before, and the file `api.path` in the data directory said so.
"""

from __future__ import annotations

import os

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk

SOCKET_NAME = "api.sock"
POINTER_NAME = "api.path"


def api_socket_path(node_dir: str) -> str:
    """Where the node in this data directory, an absolute path, listens."""
    return os.path.join(node_dir, SOCKET_NAME)


def remove_pointer(disk: Disk, node_dir: str) -> None:
    """What an older version said is not so any more.

    Raises: ConfigError: it is no file. OSError.
    """
    pointer = os.path.join(node_dir, POINTER_NAME)
    check_kinds(disk, folders=(), files=(pointer,))
    if disk.exists(pointer):
        disk.unlink(pointer)
