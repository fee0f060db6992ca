"""The path of a node's Unix socket: `api.sock` in its data directory, however long that path is.

Earlier versions put it into the folder for temporary files if the path has more than 107 bytes,
under a name that any program could take first, and wrote its path to `api.path`.
"""

from __future__ import annotations

import os

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk

SOCKET_NAME = "api.sock"
POINTER_NAME = "api.path"


def api_socket_path(node_dir: str) -> str:
    """Return the path at which the node of this data directory, an absolute path, listens."""
    return os.path.join(node_dir, SOCKET_NAME)


def remove_pointer(disk: Disk, node_dir: str) -> None:
    """Remove the `api.path` of an older version, which is not true any more.

    Raises: ConfigError: it is no file. OSError.
    """
    pointer = os.path.join(node_dir, POINTER_NAME)
    check_kinds(disk, folders=(), files=(pointer,))
    if disk.exists(pointer):
        disk.unlink(pointer)
