"""Small files that are replaced as a whole, on a full disk too: identity, term, checkpoint.

The new content goes into a spare file beside the old one, `NAME.spare`, and the two change names in
one step. So the old file is the next spare: its blocks and its inode are the reserve that the next
content is written into, and a disk that somebody else has filled takes it all the same.

The spare says nothing; no reader looks at it. What was in it is overwritten, so the folder is
synced before the old file is used again: a power loss must not give its name back to it.

`Replaced` does it beside the loop, too: on a busy disk two syncs take a second.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

import attrs

from actors.env.protocols import Disk, Syncer
from actors.errors import StorageError
from actors.storage.files.room import NoRoom, needing_room
from actors.storage.files.whole_files import sync_folder_of

BLOCK_BYTES: Final = 4096
"""A block of most file systems. A spare has at least one."""
SPARE_FACTOR: Final = 2
"""A spare has room for content that has grown as much."""
NO_EXCHANGE: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def spare_path(path: str) -> str:
    """The path of the reserve for a file."""
    return f"{path}.spare"


def settle_spares(disk: Disk, folder: str) -> None:
    """Before the first replacement of a process: which file bears which name is on the disk.

    An earlier process may have failed between a change of names and the sync of the folder.
    """
    disk.sync_dir(folder)


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Have the content on the disk when this returns, the old one or the new one at any time.

    Effects order: spare written and synced, names changed, folder synced; then a new spare, if
    there is room for one.

    Raises: NoRoom: the old content stays. Another OSError: then it or the new one is there, whole.
    """
    spare = spare_path(path)
    with needing_room():
        _write(disk, spare, data)
        _put_in_place(disk, path)
    sync_folder_of(disk, path)
    keep_spare(disk, path, len(data))


@attrs.define
class Replaced:
    """A file that one owner replaces again and again, at once or beside the loop.

    Attributes:
        path: absolute; it is there, and its spare's name is on the disk.
    """

    _disk: Disk
    path: str
    _syncer: Syncer | None = None
    _attempts_count: int = 0
    _is_late: bool = False  # there is content that `replace_beside` has not written
    _is_due: bool = False
    _is_busy: bool = False
    _is_settled: bool = True  # the names of file and spare are on the disk

    def replace(self, data: bytes) -> None:
        """As `replace_file`; what is under way beside the loop is given up for it."""
        self._attempts_count += 1
        self._is_due = False
        if not self._is_settled:
            settle_spares(self._disk, self.path.rpartition("/")[0])
            self._is_settled = True
        replace_file(self._disk, self.path, data)
        self._is_late = False

    async def replace_beside(self, content: Callable[[], bytes]) -> None:
        """Have what `content` gives on the disk when this returns, or what a later call brings;
        while another caller waits here, he has it written, and this returns at once.

        Raises: NoRoom. StorageError: the disk's fault, either content may be found then.
        """
        self._is_due = self._is_late = True
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._is_due:
                self._is_due = False
                await self._replace_beside(content())
        except NoRoom:
            raise
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error}") from error
        finally:
            self._is_busy = False

    def close(self) -> None:
        """Close the files. No replacement may be under way."""
        if self._syncer is not None:
            self._syncer.close()

    @property
    def is_late(self) -> bool:
        """Whether `replace_beside` was cancelled, or found no room, and nothing came after it."""
        return self._is_late and not self._is_busy

    async def _replace_beside(self, data: bytes) -> None:
        folder, spare, attempt = self.path.rpartition("/")[0], spare_path(self.path), 0
        with needing_room():
            if not self._is_settled:  # who changed the names was cancelled
                await self._sync(folder)
                self._is_settled = True
            attempt = self._attempts_count
            _write(self._disk, spare, data, sync=False)
            await self._sync(spare)
            if self._attempts_count != attempt:
                return
            self._is_settled = False
            _put_in_place(self._disk, self.path)
        await self._sync(folder)
        if self._attempts_count == attempt:
            self._is_settled, self._is_late = True, self._is_due
            keep_spare(self._disk, self.path, len(data))

    async def _sync(self, path: str) -> None:
        if self._syncer is None:
            self._syncer = self._disk.syncer()
        await self._syncer.sync((path,))


def keep_spare(disk: Disk, path: str, size_bytes: int) -> None:
    """Have room for the next content. Without, the next replacement looks for it."""
    spare = spare_path(path)
    blocks = -(-size_bytes * SPARE_FACTOR // BLOCK_BYTES)
    with suppress(OSError), closing(disk.open(spare, "w" if disk.exists(spare) else "x")) as file:
        file.prepare(0, max(blocks, 1) * BLOCK_BYTES)


def _write(disk: Disk, path: str, data: bytes, *, sync: bool = True) -> None:
    """The blocks that are there are written into before any is given back."""
    with closing(disk.open(path, "w" if disk.exists(path) else "x")) as file:
        file.pwrite(data, 0)
        file.resize(len(data))
        if sync:
            file.sync()


def _put_in_place(disk: Disk, path: str) -> None:
    """On a file system that cannot exchange, the old file goes, and with it the reserve."""
    spare = spare_path(path)
    if not disk.exists(path):
        disk.rename(spare, path)
        return
    try:
        disk.exchange(spare, path)
    except OSError as error:
        if error.errno not in NO_EXCHANGE:
            raise
        disk.rename(spare, path)
