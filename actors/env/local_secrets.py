"""The real `SecretStore`: a cluster's secret in a private file, and bytes that nobody can guess.

The rules are those of OpenSSH for a private key: the file belongs to whoever runs this or to root,
and nobody else may read it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import Final

from actors.env.file_kinds import open_file
from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError

SECRET_BYTES: Final = 32
"""The size of a secret that is made here: that of the digest that it is used with, SHA-256."""
SECRET_CHARS_MIN: Final = 32
"""The least size of a secret that an operator made: 16 bytes in hexadecimal digits, which cannot be
guessed either."""
SECRET_FILE_BYTES_MAX: Final = 4096
PRIVATE_MODE: Final = 0o600
_OTHERS: Final = 0o077


class LocalSecretStore:
    """The secrets on this machine's disk; implements `SecretStore`, and has no state."""

    def fresh(self, size: int) -> bytes:
        return secrets.token_bytes(size)

    def read(self, path: str) -> bytes | None:
        try:
            fd = open_file(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None  # there is none for whoever runs this
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        try:
            _check_private(path, os.fstat(fd))
            text = os.pread(fd, SECRET_FILE_BYTES_MAX + 1, 0).strip()
        finally:
            os.close(fd)
        if not SECRET_CHARS_MIN <= len(text) <= SECRET_FILE_BYTES_MAX:
            raise ConfigError(
                f"{path}: expected a secret of {SECRET_CHARS_MIN} to {SECRET_FILE_BYTES_MAX} bytes,"
                f" found {len(text)}: put the cluster's there, or remove the file"
            )
        return text

    def make(self, path: str) -> None:
        # Whole under another name first: several nodes may start at once, and any may be killed.
        LocalDisk().mkdir(os.path.dirname(os.path.abspath(path)))  # nobody else's
        temporary = f"{path}.{os.getpid()}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # of a killed process that had this number
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_MODE)
        try:
            with open(fd, "wb", buffering=0) as file:
                os.fchmod(fd, PRIVATE_MODE)
                file.write(secrets.token_hex(SECRET_BYTES).encode() + b"\n")
                os.fsync(fd)
            with contextlib.suppress(FileExistsError):  # another node's, or an operator's
                os.link(temporary, path)  # unlike a rename it never replaces
        finally:
            os.unlink(temporary)


def _check_private(path: str, status: os.stat_result) -> None:
    """Check that no other user can have read or made the file. Raises: ConfigError."""
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"{path}: expected a file of user {os.geteuid()}, who runs this, or of root, found one"
            f" of user {status.st_uid}"
        )
    if mode & _OTHERS:
        raise ConfigError(
            f"{path}: expected a file that only its owner may read (mode 0600), found mode"
            f" {mode:04o}: chmod 600, and if others have read it, replace it on all machines"
        )
