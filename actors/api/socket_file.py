"""Where a node's Unix socket is: `api.sock` in its data directory, or beside if that is too long.

The system allows 107 bytes for a socket's path. For a longer one the socket lies in the folder for
temporary files, under a name made from the data directory's, and the file `api.path` in the data
directory says where.
"""

from __future__ import annotations

import hashlib
import os

from actors.env.protocols import Disk

PATH_BYTES_MAX = 107
"""struct sockaddr_un holds 108 with the final zero."""
SOCKET_NAME = "api.sock"
POINTER_NAME = "api.path"
POINTER_BYTES_MAX = 4096


def server_path(disk: Disk, node_dir: str, temp_dir: str = "/tmp") -> str:
    """Where the node shall listen; writes `api.path` if that is not in its data directory.

    Args:
        node_dir: the node's data directory, absolute; it exists.
        temp_dir: absolute.

    Raises: OSError.
    """
    pointer = os.path.join(node_dir, POINTER_NAME)
    if disk.exists(pointer):
        disk.unlink(pointer)
    direct = os.path.join(node_dir, SOCKET_NAME)
    if len(os.fsencode(direct)) <= PATH_BYTES_MAX:
        return direct
    digest = hashlib.sha256(os.fsencode(node_dir)).hexdigest()[:24]
    path = os.path.join(temp_dir, f"triolog-{digest}.sock")
    file = disk.open(pointer, "x")
    try:
        file.pwrite(os.fsencode(path) + b"\n", 0)
    finally:
        file.close()
    return path


def client_path(disk: Disk, node_dir: str) -> str:
    """Where the node in this data directory listens, if it runs. Raises: OSError."""
    pointer = os.path.join(node_dir, POINTER_NAME)
    if not disk.exists(pointer):
        return os.path.join(node_dir, SOCKET_NAME)
    file = disk.open(pointer, "r")
    try:
        return os.fsdecode(file.pread(0, POINTER_BYTES_MAX)).strip()
    finally:
        file.close()
