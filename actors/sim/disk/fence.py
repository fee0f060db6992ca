"""A process's access to its machine's disk, which ends with the process."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import attrs

from actors.env.protocols import Disk, File, FileLock, FileStat, Syncer


@attrs.define(eq=False)
class FencedDisk:
    """Passes every call on until `fence`; afterwards every call fails with EIO and has no effect.

    Files, locks and syncers that were opened before are disabled by the inner disk
    (`SimDisk.kill`).
    """

    _inner: Disk
    _fenced: bool = attrs.field(init=False, default=False)

    def fence(self) -> None:
        self._fenced = True

    def _disk(self, path: str) -> Disk:
        if self._fenced:
            raise OSError(errno.EIO, "this process was killed", path)
        return self._inner

    def open(self, path: str, mode: str) -> File:
        return self._disk(path).open(path, mode)

    def exists(self, path: str) -> bool:
        return self._disk(path).exists(path)

    def has_name(self, path: str) -> bool:
        return self._disk(path).has_name(path)

    def stat(self, path: str) -> FileStat:
        return self._disk(path).stat(path)

    def listdir(self, path: str) -> list[str]:
        return self._disk(path).listdir(path)

    def names(self, path: str) -> Iterator[str]:
        return self._disk(path).names(path)

    def mkdir(self, path: str, *, sync: bool = True) -> None:
        self._disk(path).mkdir(path, sync=sync)

    def rename(self, source: str, target: str) -> None:
        self._disk(source).rename(source, target)

    def exchange(self, one: str, other: str) -> None:
        self._disk(one).exchange(one, other)

    def unlink(self, path: str) -> None:
        self._disk(path).unlink(path)

    def rmtree(self, path: str) -> None:
        self._disk(path).rmtree(path)

    def sync_dir(self, path: str) -> None:
        self._disk(path).sync_dir(path)

    def usage(self, path: str) -> float:
        return self._disk(path).usage(path)

    def free_bytes(self, path: str) -> int:
        return self._disk(path).free_bytes(path)

    def free_files(self, path: str) -> int | None:
        return self._disk(path).free_files(path)

    def lock(self, path: str) -> FileLock:
        return self._disk(path).lock(path)

    def syncer(self) -> Syncer:
        return self._disk("syncer").syncer()
