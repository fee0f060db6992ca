"""Where a node's Unix socket is: `api.sock` in its data directory, or beside if that is too long.

The system allows 107 bytes for a socket's path. For a longer one the socket lies in the folder for
temporary files, under a name made from the data directory's, and the file `api.path` in the data
directory says where.
"""

from __future__ import annotations

import hashlib
import os

from actors.env.protocols import Disk
from actors.storage.path_kinds import check_kinds

PATH_BYTES_MAX = 107
"""struct sockaddr_un holds 108 with the final zero."""
SOCKET_NAME = "api.sock"
POINTER_NAME = "api.path"
POINTER_BYTES_MAX = 4096
TEMP_DIR = "/tmp"


def api_socket_path(node_dir: str, temp_dir: str = TEMP_DIR) -> str:
    """Where the node in this data directory listens.

    Args:
        node_dir: the node's data directory, absolute.
        temp_dir: absolute and short.
    """
    direct = os.path.join(node_dir, SOCKET_NAME)
    if len(os.fsencode(direct)) <= PATH_BYTES_MAX:
        return direct
    digest = hashlib.sha256(os.fsencode(node_dir)).hexdigest()[:24]
    return os.path.join(temp_dir, f"triolog-{digest}.sock")


def write_pointer(disk: Disk, node_dir: str, socket_path: str) -> None:
    """Have `api.path` name a socket that is elsewhere; remove it if none is.

    Raises: ConfigError: it is no file. OSError.
    """
    pointer = os.path.join(node_dir, POINTER_NAME)
    check_kinds(disk, folders=(), files=(pointer,))
    if disk.exists(pointer):
        disk.unlink(pointer)
    if os.path.dirname(socket_path) == os.path.normpath(node_dir):
        return
    file = disk.open(pointer, "x")
    try:
        file.pwrite(os.fsencode(socket_path) + b"\n", 0)
    finally:
        file.close()


def read_pointer(disk: Disk, node_dir: str) -> str:
    """Where the node in this data directory said that it listens. Raises: OSError."""
    pointer = os.path.join(node_dir, POINTER_NAME)
    if not disk.exists(pointer):
        return os.path.join(node_dir, SOCKET_NAME)
    file = disk.open(pointer, "r")
    try:
        return os.fsdecode(file.pread(0, POINTER_BYTES_MAX)).strip()
    finally:
        file.close()
