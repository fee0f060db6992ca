"""Finds out what a folder is: a node's data directory, a store root, or a backup.

A store root lies in a node's directory (`DATA_DIR/NODE/groups/GROUP`), in a backup, or is that of a
RocketMQ broker (`storePathRootDir`). Nothing here writes, except lock files.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import attrs

from actors.config.problems import suggestion
from actors.env.path_kinds import check_kinds, is_folder, names_in
from actors.env.protocols import Disk, FileLock, LockedByOther, LockedByUs, process_text
from actors.errors import ConfigError
from actors.storage.files.stepping import Work
from actors.storage.kinds import KINDS, kind_at, kind_of, tools_of
from actors.storage.node.identity import (
    FORMAT_VERSION,
    Identity,
    lock_file,
    may_be_group,
    read_identity,
)
from actors.storage.tools.commitlog.truncate import Truncation
from actors.storage.tools.manifest import Manifest, is_incomplete, read_manifest
from actors.storage.tools.stores import FoundStore


def check_paths(disk: Disk, store: FoundStore) -> None:
    """Check the kinds of a store's paths, with the messages of a start.

    Raises: ConfigError: there is a file where a folder has to be, or the other way round. OSError.
    """
    check_kinds(disk, folders=store.layout.folders, files=store.layout.files)
    named = kind_of(store).named_files(store.layout.root).items()
    files = [
        f"{folder}/{name}"
        for folder, is_own in named
        for name in names_in(disk, folder)
        if is_own(name)
    ]
    check_kinds(disk, folders=(), files=files)


class Kind(enum.Enum):
    """What a folder can be."""

    NODE = enum.auto()
    STORE = enum.auto()
    BACKUP = enum.auto()


@attrs.frozen(kw_only=True)
class Target:
    """A folder that was recognised.

    Attributes:
        path: its absolute path.
        top: the node's directory or the backup that contains it if it is a store root; else `path`.
        kind: what it is.
        node_dir: the node's directory; None for a store of another program and for a backup.
        identity: the node's identity; None if `node_dir` is None.
        stores: its groups, in the order of their modes, or only the group that was asked for.
        manifest: the manifest of a backup; None for others.
    """

    path: str
    top: str
    kind: Kind
    node_dir: str | None
    identity: Identity | None
    stores: tuple[FoundStore, ...]
    manifest: Manifest | None = None


def find_target(disk: Disk, path: str, group: str | None = None) -> Target:
    """Find out what the folder `path` (absolute) is.

    Args:
        group: the only group wanted; None: all.

    Raises: ConfigError: it is none of these, or an incomplete backup, or has no such group.
    """
    if not is_folder(disk, path):
        found = "a file" if disk.exists(path) else "no such folder"
        raise ConfigError(f"{path}: {_expected()}, found {found}")
    top = _top_of(disk, path)
    if is_incomplete(disk, top):
        raise ConfigError(
            f"{top}: expected a whole backup, found an incomplete one: no manifest; "
            "run the same backup again, it goes on where it was"
        )
    manifest = read_manifest(disk, top)
    identity = None if manifest is not None else _identity(disk, top)
    is_around = manifest is not None or identity is not None
    if not is_around and not any(each.is_store_alone(disk, path) for each in KINDS.values()):
        raise ConfigError(f"{path}: {_expected()}, found {_found(disk, path)}")
    kind = Kind.STORE if identity is None else Kind.NODE
    if manifest is not None:
        kind = Kind.BACKUP
    roots = [path]
    if top == path and kind is not Kind.STORE:
        inside = filter(may_be_group, disk.listdir(f"{path}/groups"))
        roots = [root for name in inside if is_folder(disk, root := f"{path}/groups/{name}")]
    if group is not None:
        names = [root.rpartition("/")[2] for root in roots]
        _check_known(path, names, group)
        roots = [root for root, name in zip(roots, names, strict=True) if name == group]
    kinds = {root: kind_at(disk, root, identity) for root in roots}
    stores = tuple(
        each.tools().find(disk, root, identity)
        for each in KINDS.values()
        for root in roots
        if kinds[root] is each
    )
    for store in stores:
        check_paths(disk, store)
    return Target(
        path=path,
        top=top,
        kind=kind,
        node_dir=top if identity is not None else None,
        identity=identity,
        stores=stores,
        manifest=manifest,
    )


def one_store(target: Target) -> FoundStore:
    """Return the only store. Raises: ConfigError: there are several, or none."""
    return _only(target, target.stores)


def one_to_cut(target: Target) -> tuple[FoundStore, Callable[..., Work[Truncation]]]:
    """Return the only store whose end may be cut off, and the function that prepares it.

    Raises: ConfigError: there are several, or none.
    """
    cuts = [(one, tools_of(one).truncate) for one in target.stores]
    able = [(one, cut) for one, cut in cuts if not isinstance(cut, str)]
    if cuts and not able:
        every = {mode: kind.tools().truncate for mode, kind in KINDS.items()}
        modes = " or ".join(mode for mode, cut in every.items() if not isinstance(cut, str))
        found = ", ".join(one.name for one in target.stores)
        raise ConfigError(f"{target.path}: expected a {modes} group, found {found}: {cuts[0][1]}")
    return _only(target, [one for one, _ in able]), able[0][1]


def _only(target: Target, found: Sequence[FoundStore]) -> FoundStore:
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.name for one in found) or "none"
    raise ConfigError(f"--group: expected one of the groups of {target.path}: {known}")


def _expected() -> str:
    logs = dict.fromkeys(kind.layout("").commit_log[1:] + "/" for kind in KINDS.values())
    folders = " or ".join(logs)
    return f"expected a node's data directory, a store root ({folders}) or a backup"


def _top_of(disk: Disk, path: str) -> str:
    """Return the node's directory or the backup that contains a store root, else the folder
    itself.
    """
    parent, _, name = path.rpartition("/")
    top, _, folder = parent.rpartition("/")
    if folder != "groups" or not name or disk.exists(f"{path}/identity.json"):
        return path
    inside = ("identity.json", "backup.json", "backup.incomplete")
    return top if any(disk.exists(f"{top}/{each}") for each in inside) else path


def _identity(disk: Disk, top: str) -> Identity | None:
    identity = read_identity(disk, top)
    if identity is None:
        if any(map(may_be_group, disk.listdir(f"{top}/groups"))):
            raise ConfigError(
                f"{top}: expected identity.json or a backup's manifest beside groups/, found "
                "neither: the copy is incomplete"
            )
        return None
    if identity.format_version > FORMAT_VERSION:
        raise ConfigError(
            f"{top}: expected format {FORMAT_VERSION} or older, found {identity.format_version}: "
            "it was written by a newer version"
        )
    return identity


def _found(disk: Disk, path: str) -> str:
    names = disk.listdir(path)
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing in it"


def _check_known(path: str, names: Sequence[str], group: str) -> None:
    if group not in names:
        known = ", ".join(names) or "none"
        hint = suggestion(group, tuple(names))
        raise ConfigError(f"--group: expected a group of {path}, {known}{hint}, found {group}")


class InUse(ConfigError):
    """Another process, or this one, is using the stores."""


def take_locks(disk: Disk, target: Target, *, may_write: bool) -> ExitStack:
    """Take the locks that a running node or broker holds; they are released when the block ends.

    Args:
        may_write: whether to make missing lock files. If not, nothing is made, and what may not be
            written is not locked either, because nothing can run on it.

    Raises: InUse: another process holds one, or this one does.
    """
    roots = [one.layout.root for one in target.stores]
    if target.node_dir is not None:
        roots.insert(0, target.node_dir)
    with ExitStack() as held:
        for root in roots:
            lock = _lock(disk, f"{root}/lock", may_write=may_write)
            if lock is not None:
                held.callback(lock.release)
        return held.pop_all()


def _lock(disk: Disk, path: str, *, may_write: bool) -> FileLock | None:
    if not may_write and not disk.exists(path):
        return None
    try:
        return lock_file(disk, path)
    except LockedByUs as error:
        raise InUse(f"{path}: is in use by this process already") from error
    except LockedByOther as error:
        raise InUse(f"{path}: is in use by {process_text(error.pid)}; stop it first") from error
    except OSError as error:
        if not may_write and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return None
        raise
