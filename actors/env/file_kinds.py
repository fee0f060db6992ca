"""Opens a path only if it is a file: opening anything else may wait for ever, or act on a device.

Opening a named pipe waits until somebody opens its other end, and a start that meets one in place
of a small file would hang before it has said a word. A device does whatever it does when it is
read. So what is opened is asked first what it is, and refused by its name.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from actors.env.protocols import LOST_AND_FOUND, FileKind

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""Only the node's user may read its records, and replace the files that it must not forget."""

_KINDS: tuple[tuple[int, FileKind], ...] = (
    (stat.S_IFREG, "file"),
    (stat.S_IFDIR, "folder"),
    (stat.S_IFIFO, "named pipe"),
    (stat.S_IFSOCK, "socket"),
)


def kind_of(status: os.stat_result) -> FileKind:
    """Return the kind of file that a status shows, which was read through symbolic links."""
    found = stat.S_IFMT(status.st_mode)
    return next((kind for mode, kind in _KINDS if mode == found), "device")


def open_file(path: str, flags: int) -> int:
    """Open a file as `os.open` does, without ever waiting, and return its descriptor.

    A file that is made has mode FILE_MODE, whatever the umask.

    Raises: OSError: with EISDIR for a folder, with EINVAL for what is neither file nor folder.
    """
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, FILE_MODE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that nobody drives
            raise _refusal(path, kind_of(os.stat(path))) from None
        raise
    kind = kind_of(os.fstat(fd))
    if kind != "file":
        os.close(fd)  # no lock of ours can be on it
        raise _refusal(path, kind)
    os.set_blocking(fd, True)
    if flags & os.O_EXCL:
        os.fchmod(fd, FILE_MODE)
    return fd


def open_folder(path: str) -> int:
    """Return a descriptor of a folder, for names in it, readable or not. Raises: OSError."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _refusal(path: str, kind: FileKind) -> OSError:
    if kind == "folder":
        return OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return OSError(errno.EINVAL, f"expected a file, found a {kind}", path)


def remove_folder(path: str) -> None:
    """Implement `Disk.rmtree`. Raises: OSError."""
    with os.scandir(path) as found:
        entries = [entry for entry in found if entry.name != LOST_AND_FOUND]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_folder(entry.path)
        else:
            os.unlink(entry.path)
    try:
        os.rmdir(path)
    except OSError as error:
        is_mount = error.errno == errno.EBUSY  # `ismount` knows none within one file system
        if not is_mount and not os.path.islink(path) and os.listdir(path) != [LOST_AND_FOUND]:
            raise


def sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
