"""A copy of the logs of a node, running or stopped, that is whole or says that it is not.

Copied is the commit log, up to an end that cannot change any more; queues and index are derived
from it by whoever starts on the copy. A running node may delete its oldest files meanwhile: then
the copy begins later.

No hard links: a truncation shortens a file in place, which would shorten the copy too.

Order: the mark of an incomplete backup; each file (under another name until it is synced); the
manifest, last. An interrupted backup is begun again and compares what it finds with the source.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import attrs

from actors.env.protocols import Disk, File
from actors.errors import ConfigError, CorruptLog, StorageError
from actors.storage import recovery
from actors.storage.commit_log import CommitLog, segment_bases, segment_path
from actors.storage.identity import UNREADABLE, identity_path
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import check_kinds
from actors.storage.side_file import SideFileDamaged, read_side_file
from actors.storage.tools.manifest import (
    BackedUpFile,
    BackedUpGroup,
    Manifest,
    incomplete_path,
    manifest_path,
    write_synced,
)
from actors.storage.tools.steps import Step, Work, labelled
from actors.storage.tools.target import GroupStore, Kind, Target, log_bases, odd_files
from actors.storage.tools.walk import READ_BYTES, Ending, read_file

PART = ".part"
MARK_BYTES_MAX = 1 << 20
NOTHING = -1
RAW_BYTES_MAX = 16 << 20


@attrs.frozen
class Limit:
    """Where a group's copy ends, at the latest.

    Attributes:
        end_bytes: below it nothing changes any more, but for what expires.
        why: what says so, for the manifest.
    """

    end_bytes: int
    why: str


@attrs.define
class BackedUp:
    """What was copied.

    Attributes:
        groups: for the manifest.
        notes: what a person should know, one line each.
        copied_bytes: written; `reused_bytes`: found there from an interrupted run, and equal.
    """

    groups: list[BackedUpGroup] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    copied_bytes: int = 0
    reused_bytes: int = 0


def open_backup(disk: Disk, source: Target, folder: str) -> None:
    """Take an empty or missing folder, or one that was begun for the same source, for a backup.

    Raises: ConfigError: it holds something else, or lies in what is copied. Effects: its mark of
        being incomplete is synced.
    """
    if source.kind is Kind.BACKUP:
        raise ConfigError(f"{source.path}: expected a node or a store, found a backup: copy it")
    for inner, outer in ((folder, source.path), (source.path, folder)):
        if f"{inner}/".startswith(f"{outer}/"):
            raise ConfigError(f"{folder}: expected a folder apart from {source.path}")
    check_kinds(disk, folders=(folder,), files=())
    about = _about(source)
    if disk.exists(manifest_path(folder)):
        raise ConfigError(f"{folder}: expected an empty folder, found a whole backup")
    if disk.exists(incomplete_path(folder)):
        found = _read_about(disk, folder)
        if found != about:
            raise ConfigError(
                f"{folder}: expected an incomplete backup of {_words(about)}, found one of"
                f" {_words(found)}"
            )
        return
    temporary = f"{incomplete_path(folder)}.tmp".rpartition("/")[2]
    names = [name for name in disk.listdir(folder) if name != temporary]
    if names:
        raise ConfigError(f"{folder}: expected an empty folder, found {', '.join(names[:5])}")
    disk.mkdir(folder)
    write_synced(disk, incomplete_path(folder), json.dumps(about).encode() + b"\n")


def _about(source: Target) -> dict[str, Any]:
    identity = source.identity
    return {
        "cluster": "" if identity is None else identity.cluster,
        "node": "" if identity is None else identity.node,
        "groups": [[store.name, store.segment_bytes] for store in source.stores],
    }


def _read_about(disk: Disk, folder: str) -> Any:
    file = disk.open(incomplete_path(folder), "r")
    try:
        return json.loads(file.pread(0, MARK_BYTES_MAX))
    except UNREADABLE:
        return None
    finally:
        file.close()


def _words(about: Any) -> str:
    if not isinstance(about, dict):
        return "nobody knows what"
    groups = ", ".join(str(each[0]) for each in about.get("groups", []))
    return f"{about.get('node') or 'a store'} ({groups})"


def stopped_limit(disk: Disk, store: GroupStore) -> Work[Limit]:
    """Where the log of a stopped store ends, as its next start would find it.

    Raises: CorruptLog: damage below the synced mark. ConfigError: a truncation is not ended.
    """
    cutting = read_side_file(disk, store.layout.truncating, 2)
    if cutting is not None and cutting[0] != NOTHING:
        raise ConfigError(
            f"{store.layout.root}: a truncation to {cutting[0]} was interrupted: run it again first"
        )
    bases = list(log_bases(disk, store))
    if not bases:
        return Limit(0, "an empty log")
    odd = odd_files(disk, store, bases)
    if odd:
        raise CorruptLog(odd[0])
    try:
        values = read_side_file(disk, store.layout.synced, 1)
    except SideFileDamaged:
        raise CorruptLog(f"{store.layout.synced}: the synced mark cannot be read") from None
    mark = None if values is None or store.is_compat else values[0]
    log = CommitLog.look(disk, store.layout.commit_log, store.segment_bytes, bases)
    start = bases[0]
    if mark is not None:
        start = max((base for base in bases if base <= mark), default=start)
    finding = recovery.find_end(
        disk, log, start_bytes=start, mark_bytes=mark, record_bytes_max=store.record_bytes_max
    )
    step = Step(f"{store.name}: the log's end", 0, 0)
    found = yield from labelled(finding, step)
    return Limit(found.end_bytes, "the end of a stopped log")


def copy_groups(
    disk: Disk, source: Target, folder: str, limits: Mapping[str, Limit]
) -> Work[BackedUp]:
    """Copy every group's log into `folder`, which `open_backup` took.

    Raises: StorageError: the log is damaged or was cut under our hands. OSError.
    """
    done = BackedUp()
    for store in source.stores:
        copying = _Copying(disk, store, f"{folder}/groups/{store.name}", limits[store.name], done)
        done.groups.append((yield from copying.run()))
    return done


def make_manifest(
    disk: Disk, source: Target, groups: list[BackedUpGroup], made_ms: int
) -> Manifest:
    """The list that ends a backup."""
    identity = source.identity
    raw = {} if source.node_dir is None else read_raw_identity(disk, source.node_dir)
    return Manifest(
        cluster="" if identity is None else identity.cluster,
        node="" if identity is None else identity.node,
        boot=0 if identity is None else identity.boot,
        made_ms=made_ms,
        identity=raw,
        groups=tuple(groups),
    )


def read_raw_identity(disk: Disk, node_dir: str) -> dict[str, Any]:
    """All that a node's identity.json says, also what this version does not know."""
    file = disk.open(identity_path(node_dir), "r")
    try:
        found: dict[str, Any] = json.loads(file.pread(0, RAW_BYTES_MAX))
    finally:
        file.close()
    return found


@attrs.define
class _Copying:
    """One group."""

    _disk: Disk
    _store: GroupStore
    _root: str
    _limit: Limit
    _done: BackedUp
    _files: list[BackedUpFile] = attrs.field(factory=list, init=False)
    _expired_count: int = attrs.field(default=0, init=False)

    def run(self) -> Work[BackedUpGroup]:
        folder = StoreLayout(self._root).commit_log
        self._disk.mkdir(folder)
        end = yield from self._record_end()
        bases = [base for base in log_bases(self._disk, self._store) if base < end]
        for base in bases:
            try:
                yield from self._file(folder, base, min(end - base, self._store.segment_bytes), end)
            except FileNotFoundError:
                self._expired(base)
        if self._expired_count:
            start = self._files[0].base_bytes if self._files else end
            self._done.notes.append(
                f"{self._store.name}: {self._expired_count} files expired before they were copied:"
                f" the copy begins at {start}"
            )
        kept = [segment_path(folder, file.base_bytes) for file in self._files]
        for name in self._disk.listdir(folder):
            if f"{folder}/{name}" not in kept:  # expired since, or of an interrupted run
                self._disk.unlink(f"{folder}/{name}")
        self._disk.sync_dir(folder)
        return BackedUpGroup(
            name=self._store.name,
            segment_bytes=self._store.segment_bytes,
            first_bytes=self._files[0].base_bytes if self._files else end,
            end_bytes=end,
            limit=self._limit.why,
            files=tuple(self._files),
        )

    def _record_end(self) -> Work[int]:
        """The end of the last whole record within the limit: a slave's may lie within one."""
        limit, size = self._limit.end_bytes, self._store.segment_bytes
        base = limit - limit % size if size else limit
        if base == limit:
            return limit
        reading = read_file(
            self._disk,
            self._store.layout.commit_log,
            base,
            size,
            limit=limit,
            record_bytes_max=self._store.record_bytes_max,
        )
        while True:
            try:
                piece = next(reading)
            except StopIteration as stop:
                if stop.value.ending in (Ending.BAD, Ending.UNWRITTEN):
                    reason = stop.value.reason or "nothing is written there"
                    raise CorruptLog(
                        f"{segment_path(self._store.layout.commit_log, base)}: offset "
                        f"{stop.value.at_bytes}: {reason}, below {limit}, {self._limit.why}"
                    ) from None
                end: int = stop.value.at_bytes
                return end
            yield Step(f"{self._store.name}: the end", piece.offset - base, limit - base)

    def _expired(self, base: int) -> None:
        """A file vanished. From the front: the copy begins behind it."""
        older = [b for b in segment_bases(self._disk, self._store.layout.commit_log) if b < base]
        if older:
            path = segment_path(self._store.layout.commit_log, base)
            raise StorageError(f"{path}: vanished, though older files are there")
        self._expired_count += 1
        self._files.clear()

    def _file(self, folder: str, base: int, size: int, end: int) -> Work[None]:
        source = self._disk.open(segment_path(self._store.layout.commit_log, base), "r")
        try:
            target = segment_path(folder, base)
            crc = yield from self._reuse(source, target, size, base, end)
            if crc is None:
                crc = yield from self._copy(source, target, size, base, end)
                self._done.copied_bytes += size
            else:
                self._done.reused_bytes += size
        finally:
            source.close()
        self._files.append(BackedUpFile(base_bytes=base, size_bytes=size, crc32=crc))

    def _reuse(self, source: File, target: str, size: int, base: int, end: int) -> Work[int | None]:
        """CRC of a full file that an interrupted run copied, if it is still the source's."""
        whole = self._store.segment_bytes
        if size != whole or not self._disk.exists(target):
            return None
        if self._disk.stat(target).size_bytes != whole:
            return None
        crc, copy = 0, self._disk.open(target, "r")
        try:
            for at in range(0, size, READ_BYTES):
                data = copy.pread(at, READ_BYTES)
                if data != source.pread(at, READ_BYTES):
                    return None
                crc = zlib.crc32(data, crc)
                yield Step(f"{self._store.name}: compare", base + at, end)
            copy.sync()
        finally:
            copy.close()
        self._disk.sync_dir(target.rpartition("/")[0])
        return crc

    def _copy(self, source: File, target: str, size: int, base: int, end: int) -> Work[int]:
        part = target + PART
        if self._disk.exists(part):
            self._disk.unlink(part)
        crc, copy = 0, self._disk.open(part, "x")
        try:
            for at in range(0, size, READ_BYTES):
                data = source.pread(at, min(READ_BYTES, size - at))
                if len(data) != min(READ_BYTES, size - at):
                    raise StorageError(f"{source.path}: ends {size - at - len(data)} bytes early")
                copy.pwrite(data, at)
                crc = zlib.crc32(data, crc)
                yield Step(f"{self._store.name}: copy", base + at + len(data), end)
            copy.resize(self._store.segment_bytes)
            copy.sync()
        finally:
            copy.close()
        self._disk.rename(part, target)
        self._disk.sync_dir(target.rpartition("/")[0])
        return crc


def verify_group(disk: Disk, folder: str, group: BackedUpGroup) -> Work[list[str]]:
    """Compare a backup's files with its manifest. Gives what differs, one line each."""
    wrong, total = [], group.end_bytes - group.first_bytes
    log_folder = StoreLayout(f"{folder}/groups/{group.name}").commit_log
    for each in group.files:
        path, crc = segment_path(log_folder, each.base_bytes), 0
        if not disk.exists(path):
            wrong.append(f"{path}: is missing")
            continue
        file = disk.open(path, "r")
        try:
            if file.size_bytes != group.segment_bytes:
                wrong.append(
                    f"{path}: expected {group.segment_bytes} bytes, found {file.size_bytes}"
                )
                continue
            for at in range(0, each.size_bytes, READ_BYTES):
                crc = zlib.crc32(file.pread(at, min(READ_BYTES, each.size_bytes - at)), crc)
                yield Step(f"{group.name}: manifest", each.base_bytes + at, total)
        finally:
            file.close()
        if crc != each.crc32:
            wrong.append(f"{path}: expected CRC-32 {each.crc32:08x}, found {crc:08x}")
    return wrong
