"""Copies the logs of a node, running or stopped. A copy is complete, or marked as incomplete.

What is copied is the log, up to an end that cannot change any more. A node that starts on the copy
derives queues and index from it. A running node may delete its oldest files meanwhile: then the
copy begins later.

Files are copied and not hard-linked, because a truncation shortens a file in place, which would
shorten the copy too.

Order: the mark of an incomplete backup; each file, under another name until it is synced; last the
manifest. If an interrupted backup is run again, it compares the files that it finds with the
source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from actors.env.path_kinds import check_kinds
from actors.env.protocols import Disk, LockedByOther, LockedByUs
from actors.errors import ConfigError
from actors.storage.files.stepping import Work
from actors.storage.files.whole_files import read_bytes, write_synced
from actors.storage.kinds import tools_of
from actors.storage.node.identity import UNREADABLE, read_raw_identity
from actors.storage.tools.copying import BackedUp, Limit
from actors.storage.tools.manifest import Manifest, incomplete_path, manifest_path
from actors.storage.tools.target import Kind, Target

LOCK_NAME = "backup.lock"
MARK_BYTES_MAX = 1 << 20


@contextmanager
def held_backup(disk: Disk, source: Target, folder: str) -> Iterator[None]:
    """Prepare a folder as `open_backup` does, and lock it against other backups until the block
    ends.

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
        open_backup(disk, source, folder)  # checked again under the lock
        yield
    finally:
        disk.unlink(path)
        lock.release()


def open_backup(disk: Disk, source: Target, folder: str) -> None:
    """Prepare a folder for a backup: an empty or missing one, or one of an interrupted backup of
    the same source.

    Effects order: the mark of an incomplete backup is synced when this returns.

    Raises: ConfigError: the folder holds something else, or lies in what is copied.
    """
    if not _check_folder(disk, source, folder):
        disk.mkdir(folder)
        about = json.dumps(_about(source)).encode()
        write_synced(disk, incomplete_path(folder), about + b"\n")


def _check_folder(disk: Disk, source: Target, folder: str) -> bool:
    """Whether a backup was begun in the folder. Raises: as `open_backup`."""
    if source.kind is Kind.BACKUP:
        raise ConfigError(f"{source.path}: expected a node or a store, found a backup: copy it")
    for inner, outer in ((folder, source.path), (source.path, folder)):
        if f"{inner}/".startswith(f"{outer}/"):
            raise ConfigError(f"{folder}: expected a folder outside of {source.path}")
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
        "groups": [[store.name, store.segment_bytes] for store in source.stores],
    }


def _read_about(disk: Disk, folder: str) -> Any:
    try:
        return json.loads(read_bytes(disk, incomplete_path(folder), MARK_BYTES_MAX))
    except UNREADABLE:
        return None


def _words(about: Any) -> str:
    try:
        groups = ", ".join(str(name) for name, _ in about["groups"])
    except UNREADABLE:
        return "an unknown source"
    return f"{about.get('node') or 'a store'} ({groups})"


def copy_stores(
    disk: Disk, source: Target, folder: str, limits: Mapping[str, Limit], done: BackedUp
) -> Work[None]:
    """Copy the log of every store into `folder`, which `open_backup` has prepared.

    Args:
        limits: the end of each copy, by group.
        done: what was copied so far; the copies are added to it.

    Raises: StorageError: a log is damaged, or was cut or deleted while it was copied. OSError.
    """
    for store in source.stores:
        root, limit = f"{folder}/groups/{store.name}", limits[store.name]
        done.copies.append((yield from tools_of(store).copy(disk, store, root, limit, done)))


def make_manifest(disk: Disk, source: Target, done: BackedUp, made_ms: int) -> Manifest:
    """Make the manifest, which ends a backup."""
    identity = source.identity
    raw = {} if source.node_dir is None else read_raw_identity(disk, source.node_dir)
    return Manifest(
        cluster="" if identity is None else identity.cluster,
        node="" if identity is None else identity.node,
        boot=0 if identity is None else identity.boot,
        made_ms=made_ms,
        identity=raw,
        copies=tuple(done.copies),
    )
