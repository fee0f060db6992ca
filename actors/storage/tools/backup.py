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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from actors.env.protocols import Disk, LockedByOther, LockedByUs
from actors.errors import ConfigError, CorruptLog
from actors.storage import recovery
from actors.storage.commit_log import CommitLog, segment_path
from actors.storage.identity import UNREADABLE, identity_path
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import check_kinds
from actors.storage.side_file import SideFileDamaged, read_side_file
from actors.storage.tools.check_digests import DigestCheck
from actors.storage.tools.copying import BackedUp as BackedUp
from actors.storage.tools.copying import LogCopy, refuse_unfinished
from actors.storage.tools.findings import Findings
from actors.storage.tools.manifest import (
    BackedUpGroup,
    Manifest,
    incomplete_path,
    manifest_path,
    write_synced,
)
from actors.storage.tools.steps import Step, Work, labelled
from actors.storage.tools.target import GroupStore, Kind, Target, log_bases, odd_files
from actors.storage.tools.walk import Ending, read_file

LOCK_NAME = "backup.lock"
MARK_BYTES_MAX = 1 << 20
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


@contextmanager
def held_backup(disk: Disk, source: Target, folder: str) -> Iterator[None]:
    """Take a folder as `open_backup`, and keep others from copying into it until the block ends.

    Raises: as `open_backup`. ConfigError: another backup copies into it.
    """
    _check_folder(disk, source, folder)
    disk.mkdir(folder)
    path = f"{folder}/{LOCK_NAME}"
    try:
        lock = disk.lock(path)
    except (LockedByUs, LockedByOther) as error:
        raise ConfigError(f"{folder}: another backup copies into it: wait, then again") from error
    try:
        open_backup(disk, source, folder)  # what it holds now
        yield
    finally:
        disk.unlink(path)
        lock.release()


def open_backup(disk: Disk, source: Target, folder: str) -> None:
    """Take an empty or missing folder, or one that was begun for the same source, for a backup.

    Raises: ConfigError: it holds something else, or lies in what is copied. Effects: its mark of
        being incomplete is synced.
    """
    if not _check_folder(disk, source, folder):
        disk.mkdir(folder)
        about = json.dumps(_about(source)).encode()
        write_synced(disk, incomplete_path(folder), about + b"\n")


def _check_folder(disk: Disk, source: Target, folder: str) -> bool:
    """Whether it was begun. Raises: as `open_backup`."""
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
        return True
    ours = (f"{incomplete_path(folder)}.tmp".rpartition("/")[2], LOCK_NAME)
    names = [name for name in disk.listdir(folder) if name not in ours]
    if names:
        raise ConfigError(f"{folder}: expected an empty folder, found {', '.join(names[:5])}")
    return False


def _about(source: Target) -> dict[str, Any]:
    identity = source.identity
    return {
        "cluster": "" if identity is None else identity.cluster,
        "node": "" if identity is None else identity.node,
        "groups": [[store.name, store.segment_bytes] for store in source.every],
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
    refuse_unfinished(disk, store.layout.root, store.layout.truncating)
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
    disk: Disk, source: Target, folder: str, limits: Mapping[str, Limit], done: BackedUp
) -> Work[None]:
    """Copy every classic group's log into `folder`, which `open_backup` took.

    Args:
        done: as far as it is.

    Raises: StorageError: the log is damaged or was cut under our hands. OSError.
    """
    for store in source.stores:
        copying = _Copying(disk, store, f"{folder}/groups/{store.name}", limits[store.name], done)
        done.groups.append((yield from copying.run()))


def make_manifest(disk: Disk, source: Target, done: BackedUp, made_ms: int) -> Manifest:
    """The list that ends a backup."""
    identity = source.identity
    raw = {} if source.node_dir is None else read_raw_identity(disk, source.node_dir)
    return Manifest(
        cluster="" if identity is None else identity.cluster,
        node="" if identity is None else identity.node,
        boot=0 if identity is None else identity.boot,
        made_ms=made_ms,
        identity=raw,
        groups=tuple(done.groups),
        ledgers=tuple(done.ledgers),
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

    def run(self) -> Work[BackedUpGroup]:
        end = yield from self._record_end()
        copy = LogCopy(
            disk=self._disk,
            name=self._store.name,
            source=self._store.layout.commit_log,
            target=StoreLayout(self._root).commit_log,
            file_bytes=self._store.segment_bytes,
            end_bytes=end,
            limit=self._limit.why,
            done=self._done,
        )
        bases = list(log_bases(self._disk, self._store))
        copied = yield from copy.run(bases)
        yield from self._compare(bases, end)
        return copied

    def _compare(self, bases: Sequence[int], end: int) -> Work[None]:
        """What was copied with what was written once. Raises: CorruptLog."""
        found = Findings()
        check = DigestCheck(
            disk=self._disk,
            log_folder=self._store.layout.commit_log,
            copy_folder=StoreLayout(self._root).commit_log,
            digests_folder=self._store.layout.digests,
            segment_bytes=self._store.segment_bytes,
            limit_bytes=end,
            findings=found,
        )
        done = 0
        for size in check.run(bases):
            done += size
            yield Step(f"{self._store.name}: digests", done, max(done, end))
        if found.damage:
            raise CorruptLog(found.damage[0])

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
