"""Copies the files of a log, of a classic group or of a DLedger member, into a backup.

Each file has another name until it is synced. Files that an interrupted run has copied are compared
with the source, and kept if they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar, Protocol

import attrs
import msgspec

from actors.env.protocols import Disk, File
from actors.errors import ConfigError, CorruptLog, StorageError
from actors.readable import counted
from actors.storage.files.side_file import SideFileDamaged, read_side_file
from actors.storage.files.stepping import Step, Work
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.storage.tools.commitlog.walk import READ_BYTES
from wire.crc import crc32
from wire.files.commit_log import segment_offset

PART = ".part"
NOTHING = -1


@attrs.frozen(kw_only=True)
class BackedUpFile:
    """One file of a log; the text of `manifest` describes the fields."""

    base_bytes: int
    size_bytes: int
    crc32: int


@attrs.frozen(kw_only=True)
class BackedUpConfig:
    """One file of a broker's metadata; the text of `manifest` describes the fields."""

    name: str
    size_bytes: int
    crc32: int


@attrs.frozen(kw_only=True)
class BackedUpGroup:
    """The copy of one group's log, from `first_bytes` to `end_bytes`; see the table of
    `manifest`.
    """

    mode: ClassVar = "classic"
    name: str
    segment_bytes: int
    first_bytes: int
    end_bytes: int
    limit: str
    files: tuple[BackedUpFile, ...]
    config: tuple[BackedUpConfig, ...] = ()
    settings: BackedUpConfig | None = None

    @property
    def log(self) -> BackedUpGroup:
        """The copy of the log. In other modes it is only a part of what was copied."""
        return self

    @property
    def line(self) -> str:
        """A line about what was copied, for people."""
        return (
            f"{self.name}: {self.first_bytes} to {self.end_bytes} ({self.limit}),"
            f" {counted(len(self.files), 'file')}"
            + (f", {len(self.config)} of metadata" if self.config else "")
        )

    @staticmethod
    def parse(found: Any) -> BackedUpGroup:
        """Parse a manifest's entry. Raises: what is in `identity.UNREADABLE`."""
        return msgspec.convert(found, BackedUpGroup)


class Copied(Protocol):
    """The copy of one store, as a manifest lists it; each mode has its attrs class.

    Attributes:
        mode: the mode of the store, a key of `actors.storage.kinds.KINDS`.
        name: the name of the group.
        log: the copy of its log.
        line: a line about what was copied, for people.
    """

    mode: ClassVar[str]

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> BackedUpGroup: ...
    @property
    def line(self) -> str: ...


@attrs.frozen(kw_only=True)
class Limit:
    """The highest end that a group's copy may have.

    Attributes:
        end_bytes: an offset below which nothing changes any more, unless it expires.
        why: how the end was found, for the manifest.
        is_sure: whether not even a group that cuts its log changes anything below the end.
    """

    end_bytes: int
    why: str
    is_sure: bool = False


@attrs.define
class BackedUp:
    """What a backup has copied.

    Attributes:
        copies: the copies, for the manifest.
        notes: what the user should know, one line each.
        copied_bytes: how many bytes were written.
        reused_bytes: how many bytes of an interrupted run were equal and kept.
    """

    copies: list[Copied] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    copied_bytes: int = 0
    reused_bytes: int = 0


def refuse_unfinished(disk: Disk, root: str, path: str) -> None:
    """Refuse a store with an interrupted truncation.

    Args:
        root: the store's folder, for people.
        path: the path of the side file with the truncation's intent.

    Raises: ConfigError: a truncation was interrupted. CorruptLog: the side file cannot be read.
    """
    try:
        cutting = read_side_file(disk, path, 2)
    except SideFileDamaged:
        raise CorruptLog(f"{path}: cannot be read") from None
    if cutting is not None and cutting[0] != NOTHING:
        raise ConfigError(
            f"{root}: a truncation to {cutting[0]} was interrupted: run it again first"
        )


@attrs.define(kw_only=True)
class LogCopy:
    """One copy of a log's files.

    Attributes:
        name: the name of the group.
        source, target: the folder of the log's files, and the folder for the copies.
        file_bytes: the size of a file.
        end_bytes: bytes from this offset on are not copied; they are zeros in the copy.
        limit: why the copy ends there, for people.
        done: takes notes and counts.
    """

    disk: Disk
    name: str
    source: str
    target: str
    file_bytes: int
    end_bytes: int
    limit: str
    done: BackedUp
    _files: list[BackedUpFile] = attrs.field(factory=list, init=False)
    _expired_count: int = attrs.field(default=0, init=False)

    def run(self, bases: Sequence[int]) -> Work[BackedUpGroup]:
        """Copy the files that begin at `bases`, up to `end_bytes`.

        Raises: StorageError: the log was cut, or begun anew, while it was copied. OSError.
        """
        end = self.end_bytes
        self.disk.mkdir(self.target)
        for base in [each for each in bases if each < end]:
            try:
                yield from self._file(base, min(end - base, self.file_bytes))
            except FileNotFoundError:
                self._expired(base)
        first = self._files[0].base_bytes if self._files else end
        if self._expired_count:
            self.done.notes.append(
                f"{self.name}: {counted(self._expired_count, 'file')} expired before its copy:"
                f" the copy begins at {first}"
            )
        kept = [segment_path(self.target, file.base_bytes) for file in self._files]
        for name in self.disk.listdir(self.target):
            path, is_ours = f"{self.target}/{name}", segment_offset(name.removesuffix(PART))
            # it has expired since, or an interrupted run left it
            if path not in kept and is_ours is not None:
                self.disk.unlink(path)
        self.disk.sync_dir(self.target)
        return BackedUpGroup(
            name=self.name,
            segment_bytes=self.file_bytes,
            first_bytes=first,
            end_bytes=end,
            limit=self.limit,
            files=tuple(self._files),
        )

    def _expired(self, base: int) -> None:
        """Handle a file that has vanished. If it was the oldest one, the copy begins after it.

        Raises: StorageError: older files exist.
        """
        older = [b for b in segment_bases(self.disk, self.source) if b < base]
        if older:
            path = segment_path(self.source, base)
            raise StorageError(f"{path}: the file has vanished, though older files exist")
        self._expired_count += 1
        self._files.clear()

    def _file(self, base: int, size: int) -> Work[None]:
        with closing(self.disk.open(segment_path(self.source, base), "r")) as source:
            target = segment_path(self.target, base)
            crc = yield from self._reuse(source, target, size, base)
            if crc is None:
                crc = yield from self._copy(source, target, size, base)
                self.done.copied_bytes += size
            else:
                self.done.reused_bytes += size
        self._files.append(BackedUpFile(base_bytes=base, size_bytes=size, crc32=crc))

    def _reuse(self, source: File, target: str, size: int, base: int) -> Work[int | None]:
        """Return the CRC of a full file that an interrupted run copied, if it still equals the
        source's.
        """
        whole = self.file_bytes
        if size != whole or not self.disk.exists(target):
            return None
        if self.disk.stat(target).size_bytes != whole:
            return None
        crc = 0
        with closing(self.disk.open(target, "r")) as copy:
            for at in range(0, size, READ_BYTES):
                data = copy.pread(at, READ_BYTES)
                if data != source.pread(at, READ_BYTES):
                    return None
                crc = crc32(data, crc)
                yield Step(f"{self.name}: compare", base + at, self.end_bytes)
            copy.sync()
        self.disk.sync_dir(target.rpartition("/")[0])
        return crc

    def _copy(self, source: File, target: str, size: int, base: int) -> Work[int]:
        part = target + PART
        if self.disk.exists(part):
            self.disk.unlink(part)
        crc = 0
        with closing(self.disk.open(part, "x")) as copy:
            for at in range(0, size, READ_BYTES):
                data = source.pread(at, min(READ_BYTES, size - at))
                if len(data) != min(READ_BYTES, size - at):
                    raise StorageError(
                        f"{source.path}: ends {counted(size - at - len(data), 'byte')} early"
                    )
                copy.pwrite(data, at)
                crc = crc32(data, crc)
                yield Step(f"{self.name}: copy", base + at + len(data), self.end_bytes)
            copy.resize(self.file_bytes)
            copy.sync()
        self.disk.rename(part, target)
        self.disk.sync_dir(target.rpartition("/")[0])
        return crc


def verify_group(disk: Disk, log_folder: str, group: BackedUpGroup) -> Work[list[str]]:
    """Compare a log's files in a backup with its manifest. Returns: a line for each difference."""
    wrong, total = [], group.end_bytes - group.first_bytes
    for each in group.files:
        path, crc = segment_path(log_folder, each.base_bytes), 0
        if not disk.exists(path):
            wrong.append(f"{path}: the file is missing")
            continue
        with closing(disk.open(path, "r")) as file:
            if file.size_bytes != group.segment_bytes:
                wrong.append(
                    f"{path}: expected {group.segment_bytes} bytes, found {file.size_bytes}"
                )
                continue
            for at in range(0, each.size_bytes, READ_BYTES):
                crc = crc32(file.pread(at, min(READ_BYTES, each.size_bytes - at)), crc)
                yield Step(f"{group.name}: manifest", each.base_bytes + at, total)
        if crc != each.crc32:
            wrong.append(f"{path}: expected CRC-32 {each.crc32:08x}, found {crc:08x}")
    return wrong
