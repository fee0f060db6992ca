"""Snapshots of a state machine on disk: folders `snapshot/snapshot_<index>`, each with `data` and
`snapshot_meta` (`wire.dledger.snapshot`).

Upstream: openmessaging/dledger, snapshot/SnapshotManager.java, FileSnapshotStore.java, tag 0.4.0.

Differs:
- A snapshot and its name are on the disk before anything rests on it: it is written under another
  name, synced, renamed, and the folder synced. So is one that a leader has sent.
- It has a checksum; a damaged one is skipped for the one before, and stays where it is.

The owner writes inline and syncs beside the event loop: `Writer.finish`, then a `Syncer` on its
paths, then `Writer.commit`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

import attrs

from actors.env.protocols import Disk, File
from actors.errors import NO_ROOM_CODES, LogFull, StorageError, TriologError
from actors.storage.files.whole_files import read_bytes
from wire.crc import crc32
from wire.dledger.snapshot import (
    DATA,
    META,
    META_BYTES_MAX,
    SnapshotMeta,
    decode_meta,
    encode_meta,
    folder_name,
    index_of,
)
from wire.errors import RemoteProtocolError

CHUNK_BYTES = 1 << 20
"""Written, read and summed in one step: a millisecond or two."""
SNAPSHOT_BYTES_MAX = 64 << 30
"""A larger one is not taken, and not received: the log goes on without."""
TAKEN = "tmp"
"""What is being written of the own machine's, under this name; upstream's."""
INSTALLED = "install_tmp"
"""What a leader sends, under this name; upstream's."""


class SnapshotDamaged(StorageError):
    """A snapshot is not what was written."""


class SnapshotTooLarge(TriologError):
    """The snapshot would have more than SNAPSHOT_BYTES_MAX."""


@attrs.frozen(kw_only=True)
class Snapshot:
    """A snapshot that is whole, by its meta file.

    Attributes:
        path: the path of its data.
        index, term: those of the last entry in its state.
        size_bytes, crc: the size and the checksum of its data.
    """

    path: str
    index: int
    term: int
    size_bytes: int
    crc: int


@attrs.define
class Reader:
    """Reads a snapshot's data in order. It has one owner, which closes it.

    Attributes:
        at_bytes: how many bytes were read.
    """

    snapshot: Snapshot
    _file: File
    at_bytes: int = 0
    _crc: int = 0

    @classmethod
    def open(cls, disk: Disk, snapshot: Snapshot) -> Reader:
        """Raises: SnapshotDamaged: its size is another. OSError."""
        file = disk.open(snapshot.path, "r")
        size = file.size_bytes
        if size != snapshot.size_bytes:
            file.close()
            said = f"{size} bytes, its meta says {snapshot.size_bytes}"
            raise SnapshotDamaged(f"{snapshot.path}: {said}")
        return cls(snapshot, file)

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """The next bytes; b"" behind the last. Raises: SnapshotDamaged, at the last; OSError."""
        data = self._file.pread(self.at_bytes, size)
        self.at_bytes += len(data)
        self._crc = crc32(data, self._crc)
        if self.at_bytes == self.snapshot.size_bytes and self._crc != self.snapshot.crc:
            raise SnapshotDamaged(f"{self.snapshot.path}: its checksum says something else")
        return data

    def chunks(self) -> Iterator[bytes]:
        """Yield all that follows. Raises: as `read`."""
        while data := self.read():
            yield data

    def close(self) -> None:
        self._file.close()


@attrs.define
class Writer:
    """Writes one snapshot. Nobody sees it before `commit`.

    Attributes:
        size_bytes, crc: of what was written.
    """

    _disk: Disk
    _root: str
    _name: str
    _members: tuple[str, ...]
    _data: File
    _target: str = ""
    size_bytes: int = 0
    crc: int = 0

    @property
    def folder(self) -> str:
        """The folder in which it is until `commit`."""
        return f"{self._root}/{self._name}"

    def write(self, data: bytes | memoryview) -> None:
        """More of it. Raises: LogFull: no room. SnapshotTooLarge. OSError."""
        assert len(data) <= CHUNK_BYTES
        if self.size_bytes + len(data) > SNAPSHOT_BYTES_MAX:
            raise SnapshotTooLarge(f"a snapshot of more than {SNAPSHOT_BYTES_MAX} bytes")
        with _with_room():
            self._data.pwrite(data, self.size_bytes)
        self.size_bytes += len(data)
        self.crc = crc32(data, self.crc)

    def finish(self, index: int, term: int) -> tuple[str, ...]:
        """End the snapshot of the state after that entry.

        Returns: the paths that have to be synced before `commit`.

        Raises: as `write`.
        """
        assert self.size_bytes > 0
        meta = SnapshotMeta(
            data_bytes=self.size_bytes,
            data_crc=self.crc,
            last_included_index=index,
            last_included_term=term,
            members=self._members,
        )
        path = f"{self.folder}/{META}"

        with _with_room(), closing(self._disk.open(path, "x")) as file:
            file.pwrite(encode_meta(meta), 0)
        self._data.close()
        self._target = f"{self._root}/{folder_name(index)}"
        return (self._data.path, path)

    def commit(self) -> None:
        """Publish the snapshot, once the paths from `finish` were synced. Raises: OSError."""
        disk = self._disk
        disk.sync_dir(self.folder)
        if disk.exists(self._target):
            disk.rmtree(self._target)  # It stood for as much, and was damaged.
        disk.rename(self.folder, self._target)
        disk.sync_dir(self._root)

    def abandon(self) -> None:
        """Remove what was written of it. Raises: OSError."""
        self._data.close()
        if self._disk.exists(self.folder):
            self._disk.rmtree(self.folder)


@contextmanager
def _with_room() -> Iterator[None]:
    """Raises: LogFull: no room. Another OSError as it is."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM_CODES:
            raise LogFull(f"no room for a snapshot: {error}") from error
        raise


@attrs.define
class SnapshotFolder:
    """The snapshots of one member. One owner.

    Attributes:
        root: the folder `snapshot` of the store.
        members: of the group; stands in what is written.
    """

    disk: Disk
    root: str
    members: tuple[str, ...]

    def open(self, *, keeps: bool = True) -> None:
        """Make the folder, and clear away what was never finished.

        Args:
            keeps: False: nothing outlives a restart.

        Raises: OSError.
        """
        if not keeps and self.disk.exists(self.root):
            self.disk.rmtree(self.root)
        self.disk.mkdir(self.root)
        for name in (TAKEN, INSTALLED):
            if self.disk.exists(f"{self.root}/{name}"):
                self.disk.rmtree(f"{self.root}/{name}")
        self.disk.sync_dir(self.root)

    def indexes(self) -> list[int]:
        """The indexes of all that are there, damaged ones too, the newest first."""
        found = (index_of(name) for name in self.disk.listdir(self.root))
        return sorted((index for index in found if index is not None), reverse=True)

    def snapshot(self, index: int) -> Snapshot:
        """The snapshot at `index`, by its meta file. Raises: SnapshotDamaged; OSError."""
        folder = f"{self.root}/{folder_name(index)}"
        if not self.disk.exists(f"{folder}/{META}") or not self.disk.exists(f"{folder}/{DATA}"):
            raise SnapshotDamaged(f"{folder}: {META} or {DATA} is missing")
        try:
            meta = decode_meta(read_bytes(self.disk, f"{folder}/{META}", META_BYTES_MAX))
        except RemoteProtocolError as error:
            raise SnapshotDamaged(f"{folder}: {error}") from None
        if meta.last_included_index != index:
            raise SnapshotDamaged(f"{folder}: it is that of {meta.last_included_index}")
        return Snapshot(
            path=f"{folder}/{DATA}",
            index=index,
            term=meta.last_included_term,
            size_bytes=meta.data_bytes,
            crc=meta.data_crc,
        )

    def check(self, snapshot: Snapshot) -> Generator[None, None, None]:
        """Read it through. Raises: SnapshotDamaged; OSError."""
        with closing(Reader.open(self.disk, snapshot)) as reader:
            for _ in reader.chunks():
                yield
            if reader.at_bytes != snapshot.size_bytes:
                raise SnapshotDamaged(f"{snapshot.path}: it ends early")

    def writer(self, name: str) -> Writer:
        """A new one, in place of what was begun under that name.

        Args:
            name: TAKEN or INSTALLED.

        Raises: LogFull: no room. OSError.
        """
        folder = f"{self.root}/{name}"
        if self.disk.exists(folder):
            self.disk.rmtree(folder)
        with _with_room():
            self.disk.mkdir(folder)
            data = self.disk.open(f"{folder}/{DATA}", "x")
        return Writer(self.disk, self.root, name, self.members, data)

    def prune(self, keep: frozenset[int]) -> None:
        """Remove all but these. Raises: OSError."""
        for index in self.indexes():
            if index not in keep:
                self.disk.rmtree(f"{self.root}/{folder_name(index)}")
        self.disk.sync_dir(self.root)
