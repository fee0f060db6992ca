"""What a folder is that somebody names: a node's data directory, a store root, or a backup.

A store root lies in a node's directory (`DATA_DIR/NODE/groups/GROUP`), in a backup, or is that of
a RocketMQ broker (`storePathRootDir`). Reading only, but for the locks.
"""

from __future__ import annotations

import enum
import errno
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import attrs

from actors.config.strict import dotted, suggestion
from actors.env.protocols import Disk, FileLock, LockedByOther, LockedByUs
from actors.errors import ConfigError
from actors.storage.commit_log import segment_bases, segment_path
from actors.storage.dledger.layout import LedgerLayout
from actors.storage.identity import FORMAT_VERSION, LOCK_CONTENT, Identity, read_identity
from actors.storage.layout import StoreLayout
from actors.storage.path_kinds import check_kinds, is_folder
from actors.storage.tools.manifest import Manifest, is_incomplete, read_manifest
from wire.message_record import RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX

_LEDGER = "a dledger group's store, which its node checks at each start and nobody else reads"
EXPECTED = "expected a node's data directory, a store root (with commitlog/) or a backup"


class Kind(enum.Enum):
    """What a folder is."""

    NODE = enum.auto()
    STORE = enum.auto()
    BACKUP = enum.auto()


@attrs.frozen(kw_only=True)
class GroupStore:
    """One store.

    Attributes:
        name: the group; the folder's name where no node says so.
        layout: its paths.
        segment_bytes: size of its log files; 0: there are none and nobody says it.
        settings: the group's settings at the node's last start, key -> JSON; {} for others.
    """

    name: str
    layout: StoreLayout
    segment_bytes: int
    settings: Mapping[str, str]

    def setting(self, key: str) -> int | None:
        """An int among the settings."""
        value = json.loads(self.settings.get(key, "null"))
        return value if isinstance(value, int) else None

    @property
    def is_compat(self) -> bool:
        """The group has `compat = "upstream"`: recovery cuts whatever the mark says."""
        return self.settings.get("compat") == '"upstream"'

    @property
    def record_bytes_max(self) -> int:
        """Largest record that is taken for one."""
        body = self.setting("max_message_bytes") or 0
        return max(RECORD_BYTES_MAX, body + RECORD_OVERHEAD_MAX)


@attrs.frozen(kw_only=True)
class Target:
    """A folder, understood.

    Attributes:
        path: absolute.
        top: the node's directory or backup that a store root lies in; else `path`.
        kind: what it is.
        node_dir: the node's directory; None for a store of another program and for a backup.
        identity: whose it is, as the node says.
        stores: its classic groups, or the one that was named.
        ledgers: its DLedger groups, whose stores are not read here.
        manifest: a backup's own list.
    """

    path: str
    top: str
    kind: Kind
    node_dir: str | None
    identity: Identity | None
    stores: tuple[GroupStore, ...]
    manifest: Manifest | None = None
    ledgers: tuple[str, ...] = ()


def find_target(disk: Disk, path: str, group: str | None = None) -> Target:
    """Understand `path` (absolute); `group` names one of its groups.

    Raises: ConfigError: it is nothing of ours, an incomplete backup, or has no such group; what is
        meant is the store of a DLedger group.
    """
    if not is_folder(disk, path):
        found = "a file" if disk.exists(path) else "no such folder"
        raise ConfigError(f"{path}: {EXPECTED}, found {found}")
    if _is_ledger(disk, path):
        raise ConfigError(f"{path}: {EXPECTED}, found {_LEDGER}")
    top = _top_of(disk, path)
    if is_incomplete(disk, top):
        raise ConfigError(
            f"{top}: expected a whole backup, found an incomplete one: no manifest; "
            "run the same backup again, it goes on where it was"
        )
    manifest = read_manifest(disk, top)
    identity = None if manifest is not None else _identity(disk, top)
    if manifest is None and identity is None and not disk.exists(f"{path}/commitlog"):
        raise ConfigError(f"{path}: {EXPECTED}, found {_found(disk, path)}")
    kind = Kind.STORE if identity is None else Kind.NODE
    if manifest is not None:
        kind = Kind.BACKUP
    ledgers: tuple[str, ...] = ()
    if top != path:
        stores: tuple[GroupStore, ...] = (_store(disk, path, identity),)
    elif kind is Kind.STORE:
        stores = (_store(disk, path, None),)
    else:
        names = disk.listdir(f"{path}/groups")
        ledgers = tuple(name for name in names if _is_ledger(disk, f"{path}/groups/{name}"))
        classic = [name for name in names if name not in ledgers]
        stores = tuple(_store(disk, f"{path}/groups/{name}", identity) for name in classic)
    if group in ledgers or (ledgers and not stores):
        found = group or ", ".join(ledgers)
        raise ConfigError(f"{path}: expected a classic group, found {found}: {_LEDGER}")
    chosen = _chosen(path, stores, group)
    for store in chosen:
        check_kinds(disk, folders=store.layout.folders, files=store.layout.files)
    return Target(
        path=path,
        top=top,
        kind=kind,
        node_dir=top if identity is not None else None,
        identity=identity,
        stores=chosen,
        manifest=manifest,
        ledgers=ledgers if group is None else (),
    )


def one_store(target: Target) -> GroupStore:
    """The only store. Raises: ConfigError: there are several, or none."""
    if len(target.stores) == 1:
        return target.stores[0]
    known = ", ".join(store.name for store in target.stores) or "none"
    raise ConfigError(f"--group: expected one of the groups of {target.path}: {known}")


def _is_ledger(disk: Disk, root: str) -> bool:
    """Whether a folder is the store of a DLedger group, whatever else was tried with it."""
    is_classic = disk.exists(f"{root}/commitlog")
    return not is_classic and is_folder(disk, LedgerLayout(root).commit_log)


def _top_of(disk: Disk, path: str) -> str:
    """The node's directory or backup that a store root lies in, else the folder itself."""
    parent, _, name = path.rpartition("/")
    top, _, folder = parent.rpartition("/")
    if folder != "groups" or not name or disk.exists(f"{path}/identity.json"):
        return path
    inside = ("identity.json", "backup.json", "backup.incomplete")
    return top if any(disk.exists(f"{top}/{each}") for each in inside) else path


def _identity(disk: Disk, top: str) -> Identity | None:
    identity = read_identity(disk, top)
    if identity is None:
        if disk.listdir(f"{top}/groups"):
            raise ConfigError(
                f"{top}: expected identity.json or a backup's manifest beside groups/, found "
                "neither: an incomplete copy"
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


def _store(disk: Disk, root: str, identity: Identity | None) -> GroupStore:
    name = root.rpartition("/")[2]
    start = dotted(("groups", name)) + "."
    settings = {} if identity is None else identity.settings
    own = {key[len(start) :]: value for key, value in settings.items() if key.startswith(start)}
    layout = StoreLayout(root)
    store = GroupStore(name=name, layout=layout, segment_bytes=0, settings=own)
    size = store.setting("segment_bytes") or _usual_size(disk, layout.commit_log)
    return attrs.evolve(store, segment_bytes=size)


def _usual_size(disk: Disk, folder: str) -> int:
    """The size that most log files have; 0 without any."""
    sizes = [size_of(disk, segment_path(folder, base)) for base in segment_bases(disk, folder)]
    common = Counter(size for size in sizes if size).most_common(1)
    return common[0][0] if common else 0


def _chosen(path: str, stores: tuple[GroupStore, ...], group: str | None) -> tuple[GroupStore, ...]:
    if group is None:
        return stores
    names = tuple(store.name for store in stores)
    if group not in names:
        known = ", ".join(names) or "none"
        hint = suggestion(group, names)
        raise ConfigError(f"--group: expected a group of {path}, {known}{hint}, found {group}")
    return tuple(store for store in stores if store.name == group)


class InUse(ConfigError):
    """Another process, or this one, runs on the stores."""


def take_locks(disk: Disk, target: Target, *, may_write: bool) -> ExitStack:
    """The locks that a running node or broker holds; they are released when the block ends.

    Args:
        may_write: make missing lock files. Without it nothing is made, and what may not be
            written to is not locked either: nobody can run on it.

    Raises: InUse.
    """
    roots = [store.layout.root for store in target.stores]
    if target.node_dir is not None:
        roots.insert(0, target.node_dir)
    with ExitStack() as held:
        for root in roots:
            lock = _lock(disk, f"{root}/lock", may_write=may_write)
            if lock is not None:
                held.callback(lock.release)
        return held.pop_all()


def _lock(disk: Disk, path: str, *, may_write: bool) -> FileLock | None:
    if not disk.exists(path):
        if not may_write:
            return None
        file = disk.open(path, "x")
        file.pwrite(LOCK_CONTENT, 0)
        file.close()
    try:
        return disk.lock(path)
    except LockedByUs as error:
        raise InUse(f"{path}: is in use by this process already") from error
    except LockedByOther as error:
        raise InUse(f"{path}: is in use by another process; stop it first") from error
    except OSError as error:
        if not may_write and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return None
        raise


def size_of(disk: Disk, path: str) -> int | None:
    """A file's size in bytes; None: a running node has deleted it meanwhile."""
    try:
        return disk.stat(path).size_bytes
    except FileNotFoundError:
        return None


def log_bases(disk: Disk, store: GroupStore) -> Sequence[int]:
    """First offsets of the log's files; a last one of 0 bytes, which a crash left, is none."""
    folder = store.layout.commit_log
    bases = segment_bases(disk, folder)
    while bases and size_of(disk, segment_path(folder, bases[-1])) == 0:
        bases.pop()
    return bases


def odd_files(disk: Disk, store: GroupStore, bases: Sequence[int]) -> list[str]:
    """What is wrong with the log's files themselves: sizes, names, holes. One line each."""
    size, wrong = store.segment_bytes, []
    for number, base in enumerate(bases):
        path = segment_path(store.layout.commit_log, base)
        found = size_of(disk, path)
        if found not in (size, None):
            wrong.append(f"{path}: expected {size} bytes, found {found}")
        if base % size:
            wrong.append(f"{path}: the name is no multiple of {size}")
        elif number and base != bases[number - 1] + size:
            missing = segment_path(store.layout.commit_log, bases[number - 1] + size)
            wrong.append(f"{missing}: the file is missing, {path} follows")
    return wrong
