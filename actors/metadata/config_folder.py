"""The files of a broker's metadata, `config/` in its store's root, which Java brokers write too.

Upstream: apache/rocketmq, common/.../ConfigManager.java and MixAll.string2File, 5.3.3 and 4.9.7;
classic-ha.md 5.3.

A file is replaced as a whole: the new content is written beside it and synced, the two change names
in one step, and the old content becomes `NAME.bak`. So both are whole at any time, and a full disk
leaves the old ones. A file that is missing, empty or damaged is read from `NAME.bak`; it is set
aside as `NAME.damaged` when it is replaced, and never becomes the backup.

Differs: 4.9 removes the file before it renames the new one, 5.3.3 overwrites it in place, and none
syncs, so that a power loss leaves files of no bytes (broker.md T22). An absent `timercheck` has no
backup upstream.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Any, Final

import attrs

from actors.env.protocols import Disk, Syncer
from actors.metadata.core.kinds import KINDS, Kind
from actors.metadata.core.tables import Tables
from actors.storage.files.replacing import NO_EXCHANGE
from actors.storage.files.room import needing_room
from actors.storage.files.whole_files import read_bytes
from wire.errors import RemoteProtocolError

FILE_BYTES_MAX: Final = 256 << 20
"""The most bytes of a file: a hundred times as many as 10,000 topics with as many groups take."""
_ABSENT: Final = "is not there"
_LOGGER = logging.getLogger("triolog.metadata")


@attrs.frozen
class _Content:
    """The decoded content of a file."""

    value: Any


@attrs.define
class ConfigFolder:
    """Reads and replaces the files of one folder. It may have only one owner.

    Args:
        disk: the disk with the folder.
        path: the absolute path of the folder.
        owner: the names of node and group, for people.
    """

    _disk: Disk
    path: str
    owner: str
    _unreadable: set[str] = attrs.field(init=False, factory=set)  # paths, set aside at a write
    _syncer: Syncer | None = attrs.field(init=False, default=None)

    def read(self) -> Tables:
        """Return the tables in the files. One that neither its file nor its backup has is empty.

        Raises:
            OSError: the disk failed.
        """
        return Tables(**{kind.name: self._read_kind(kind) for kind in KINDS})

    async def write(self, kind: Kind, value: Any) -> None:
        """Write one table to its file, and return when it is on the disk. Calls must not overlap.

        The order of effects: the content is written and synced, the names are exchanged, and the
        folder is synced.

        Raises:
            NoRoom: the disk is full. The file has its old content.
            OSError: the disk failed. The file has its old or its new content, complete.
        """
        path = f"{self.path}/{kind.file}"
        temporary = f"{path}.tmp"
        data = kind.encode_file(value)
        with needing_room():
            if not self._disk.exists(self.path):
                self._disk.mkdir(self.path)
            with closing(self._disk.open(temporary, _mode(self._disk, temporary))) as file:
                file.pwrite(data, 0)
                file.resize(len(data))
            await self._sync(temporary)
            self._put_in_place(path, temporary)
        await self._sync(self.path)

    def close(self) -> None:
        """Release the thread. No call of `write` may be under way."""
        if self._syncer is not None:
            self._syncer.close()

    def _read_kind(self, kind: Kind) -> Any:
        path = f"{self.path}/{kind.file}"
        found = self._read_file(kind, path)
        if isinstance(found, _Content):
            return found.value
        backup = self._read_file(kind, f"{path}.bak")
        if isinstance(backup, _Content):
            _LOGGER.warning("%s: %s %s: its backup is used", self.owner, path, found)
            return backup.value
        if (found, backup) != (_ABSENT, _ABSENT):
            text = "%s: %s %s, and its backup %s: it begins empty"
            _LOGGER.error(text, self.owner, path, found, backup)
        return kind.empty

    def _read_file(self, kind: Kind, path: str) -> _Content | str:
        """Return the content of a file, or why it has none, for people."""
        if not self._disk.exists(path):
            return _ABSENT
        data = read_bytes(self._disk, path, FILE_BYTES_MAX + 1)
        try:
            if len(data) > FILE_BYTES_MAX:
                raise RemoteProtocolError(f"longer than {FILE_BYTES_MAX} bytes")
            return _Content(kind.decode(data))
        except RemoteProtocolError as error:
            self._unreadable.add(path)
            return f"is damaged ({error})" if data.strip(b"\0") else "is empty"

    def _put_in_place(self, path: str, temporary: str) -> None:
        """Give a written file the name of the old one, which becomes the backup.

        The backup is always the previous content, and never a damaged file.
        """
        disk = self._disk
        if not disk.exists(path):
            disk.rename(temporary, path)
            return
        aside = f"{path}.damaged" if path in self._unreadable else f"{path}.bak"
        try:
            disk.exchange(temporary, path)
        except OSError as error:
            if error.errno not in NO_EXCHANGE:
                raise
            disk.rename(path, aside)
            disk.rename(temporary, path)
        else:
            disk.rename(temporary, aside)
        self._unreadable.discard(path)

    async def _sync(self, path: str) -> None:
        if self._syncer is None:
            self._syncer = self._disk.syncer()
        await self._syncer.sync((path,))
        self._syncer.forget((path,))


def _mode(disk: Disk, path: str) -> str:
    return "w" if disk.exists(path) else "x"
