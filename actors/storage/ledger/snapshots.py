"""Snapshots of a state machine on disk: folders `snapshot/snapshot_<index>`, each with `data` and
`snapshot_meta` (`wire.dledger.snapshot`).

Upstream: openmessaging/dledger, snapshot/SnapshotManager.java, FileSnapshotStore.java, tag 0.4.0.

Differs:
- A snapshot and its name are on the disk before anything depends on it: it is written under another
  name, synced and renamed, and the folder is synced. A snapshot that a leader sent is treated
  alike.
- It has a checksum. A damaged snapshot stays where it is, and the one before it is used.

The owner writes within its own task, and syncs in threads: `Writer.finish`, then a `Syncer` on its
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
"""How many bytes are written, read and summed in one step: a millisecond or two."""
SNAPSHOT_BYTES_MAX = 64 << 30
"""A larger snapshot is neither taken nor received: the log is kept instead."""
TAKEN = "tmp"
"""Upstream's name of the folder for a snapshot that this member takes of its own machine."""
INSTALLED = "install_tmp"
"""Upstream's name of the folder for a snapshot that a leader is sending."""


class SnapshotDamaged(StorageError):
    """A snapshot is not what was written."""


class SnapshotTooLarge(TriologError):
    """The snapshot would be larger than SNAPSHOT_BYTES_MAX."""


@attrs.frozen(kw_only=True)
class Snapshot:
    """A snapshot that is complete by its meta file.

    Attributes:
        path: the path of its data.
        index, term: index and term of the last entry whose effect is in the state.
        size_bytes, crc: the size and the CRC-32 of its data.
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
        at_bytes: how many bytes have been read.
    """

    snapshot: Snapshot
    _file: File
    at_bytes: int = 0
    _crc: int = 0

    @classmethod
    def open(cls, disk: Disk, snapshot: Snapshot) -> Reader:
        """Open a snapshot's data. Raises: SnapshotDamaged: it has another size than the meta file
        says. OSError.
        """
        file = disk.open(snapshot.path, "r")
        size = file.size_bytes
        if size != snapshot.size_bytes:
            file.close()
            said = f"it has {size} bytes, its meta file says {snapshot.size_bytes}"
            raise SnapshotDamaged(f"{snapshot.path}: {said}")
        return cls(snapshot, file)

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Return the next bytes; b"" at the end.

        Raises: SnapshotDamaged: the checksum differs, known once the last byte is read. OSError.
        """
        data = self._file.pread(self.at_bytes, size)
        self.at_bytes += len(data)
        self._crc = crc32(data, self._crc)
        if self.at_bytes == self.snapshot.size_bytes and self._crc != self.snapshot.crc:
            raise SnapshotDamaged(f"{self.snapshot.path}: its meta file has another checksum")
        return data

    def chunks(self) -> Iterator[bytes]:
        """Yield the rest of the data in pieces. Raises: as `read`."""
        while data := self.read():
            yield data

    def close(self) -> None:
        self._file.close()


@attrs.define
class Writer:
    """Writes one snapshot. Nobody sees the snapshot before `commit`.

    Attributes:
        size_bytes, crc: size and CRC-32 of the data written so far.
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
        """The path of the folder that holds the snapshot until `commit`."""
        return f"{self._root}/{self._name}"

    def write(self, data: bytes | memoryview) -> None:
        """Append to the data. Raises: LogFull: there is no room. SnapshotTooLarge. OSError."""
        assert len(data) <= CHUNK_BYTES
        if self.size_bytes + len(data) > SNAPSHOT_BYTES_MAX:
            raise SnapshotTooLarge(f"a snapshot of more than {SNAPSHOT_BYTES_MAX} bytes")
        with _with_room():
            self._data.pwrite(data, self.size_bytes)
        self.size_bytes += len(data)
        self.crc = crc32(data, self.crc)

    def finish(self, index: int, term: int) -> tuple[str, ...]:
        """End the data, and write the meta file: this is the state after entry `index` of `term`.

        Returns: the paths that have to be synced before `commit`.

        Raises: LogFull: there is no room. OSError.
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
        """Publish the snapshot, after the paths from `finish` were synced. Raises: OSError."""
        disk = self._disk
        disk.sync_dir(self.folder)
        if disk.exists(self._target):
            disk.rmtree(self._target)  # it has the same index, and was found damaged
        disk.rename(self.folder, self._target)
        disk.sync_dir(self._root)

    def abandon(self) -> None:
        """Remove what was written of the snapshot. Raises: OSError."""
        self._data.close()
        if self._disk.exists(self.folder):
            self._disk.rmtree(self.folder)


@contextmanager
def _with_room() -> Iterator[None]:
    """A context that turns the errors of a full disk into LogFull; other OSErrors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM_CODES:
            raise LogFull(f"no room for a snapshot: {error}") from error
        raise


@attrs.define
class SnapshotFolder:
    """The snapshots of one member, with one owner.

    Attributes:
        root: the path of the folder `snapshot` of the store.
        members: the members of the group, which the meta file names.
    """

    disk: Disk
    root: str
    members: tuple[str, ...]

    def open(self, *, keeps: bool = True) -> None:
        """Make the folder, and remove snapshots that were never finished.

        Args:
            keeps: whether snapshots outlive a restart; False: all are removed.

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
        """Return the indexes of all snapshots, damaged ones too, the newest first."""
        found = (index_of(name) for name in self.disk.listdir(self.root))
        return sorted((index for index in found if index is not None), reverse=True)

    def snapshot(self, index: int) -> Snapshot:
        """Return the snapshot at `index`, as its meta file describes it. Raises: SnapshotDamaged;
        OSError.
        """
        folder = f"{self.root}/{folder_name(index)}"
        if not self.disk.exists(f"{folder}/{META}") or not self.disk.exists(f"{folder}/{DATA}"):
            raise SnapshotDamaged(f"{folder}: {META} or {DATA} is missing")
        try:
            meta = decode_meta(read_bytes(self.disk, f"{folder}/{META}", META_BYTES_MAX))
        except RemoteProtocolError as error:
            raise SnapshotDamaged(f"{folder}: {error}") from None
        if meta.last_included_index != index:
            raise SnapshotDamaged(f"{folder}: its meta file is of index {meta.last_included_index}")
        return Snapshot(
            path=f"{folder}/{DATA}",
            index=index,
            term=meta.last_included_term,
            size_bytes=meta.data_bytes,
            crc=meta.data_crc,
        )

    def check(self, snapshot: Snapshot) -> Generator[None, None, None]:
        """Read a snapshot through. Yields between pieces. Raises: SnapshotDamaged; OSError."""
        with closing(Reader.open(self.disk, snapshot)) as reader:
            for _ in reader.chunks():
                yield
            if reader.at_bytes != snapshot.size_bytes:
                raise SnapshotDamaged(f"{snapshot.path}: it ends early")

    def writer(self, name: str) -> Writer:
        """Begin a snapshot, and remove one that was begun under the same name.

        Args:
            name: of its folder until it is published: TAKEN or INSTALLED.

        Raises: LogFull: there is no room. OSError.
        """
        folder = f"{self.root}/{name}"
        if self.disk.exists(folder):
            self.disk.rmtree(folder)
        with _with_room():
            self.disk.mkdir(folder)
            data = self.disk.open(f"{folder}/{DATA}", "x")
        return Writer(self.disk, self.root, name, self.members, data)

    def prune(self, keep: frozenset[int]) -> None:
        """Remove all snapshots but those at these indexes. Raises: OSError."""
        for index in self.indexes():
            if index not in keep:
                self.disk.rmtree(f"{self.root}/{folder_name(index)}")
        self.disk.sync_dir(self.root)
