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
from typing import TypeAlias, TypeVar

import attrs

from actors.config.problems import dotted, suggestion
from actors.env.protocols import Disk, FileLock, LockedByOther, LockedByUs
from actors.errors import ConfigError
from actors.storage.commit_log import segment_bases, segment_path
from actors.storage.dledger.layout import LedgerLayout
from actors.storage.identity import (
    FORMAT_VERSION,
    LOCK_CONTENT,
    Identity,
    read_identity,
)
from actors.storage.index_files import is_index_name
from actors.storage.layout import StoreLayout, may_be_group
from actors.storage.path_kinds import check_kinds, is_file, is_folder, names_in
from actors.storage.tools.manifest import Manifest, is_incomplete, read_manifest
from wire.files.message_record import RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX

EXPECTED = "expected a node's data directory, a store root (commitlog/ or data/) or a backup"
T = TypeVar("T", "GroupStore", "GroupStore | GroupLedger")


def is_ledger(disk: Disk, root: str, identity: Identity | None) -> bool:
    """Whether a folder is the store of a DLedger group, whatever else was tried with it.

    A member without entries may have nothing but its term and vote; of one that has lost its log
    and these its node knows, or what else only such a store has.
    """
    if disk.exists(f"{root}/commitlog"):
        return False
    layout, name = LedgerLayout(root), root.rpartition("/")[2]
    if is_folder(disk, layout.commit_log) or is_file(disk, layout.term):
        return True
    if identity is not None and (name in identity.ledgers or name in identity.votes):
        return True
    return any(is_folder(disk, folder) for folder in (layout.sums, layout.snapshot))


def is_member(disk: Disk, path: str, top: str, identity: Identity | None) -> bool:
    """Whether a folder that is named is a DLedger member's. Many a folder of other programs has
    a `data/`: where no node or backup is around it, something else must be a member's too.
    """
    layout = LedgerLayout(path)
    return is_ledger(disk, path, identity) and (
        top != path
        or is_file(disk, layout.term)
        or is_folder(disk, layout.index)
        or bool(segment_bases(disk, layout.commit_log))
    )


def check_paths(disk: Disk, layout: StoreLayout | LedgerLayout) -> None:
    """What a start refuses without a look into any file, in its words.

    Raises: ConfigError: a file where a folder has to be, or the other way round. OSError.
    """
    check_kinds(disk, folders=layout.folders, files=layout.files)
    kept = [layout.commit_log]
    if isinstance(layout, LedgerLayout):
        kept += [layout.index, layout.sums]
    files = [segment_path(folder, base) for folder in kept for base in segment_bases(disk, folder)]
    if isinstance(layout, StoreLayout):
        names = filter(is_index_name, names_in(disk, layout.index))
        files += [f"{layout.index}/{name}" for name in names]
    check_kinds(disk, folders=(), files=files)


class Kind(enum.Enum):
    """What a folder is."""

    NODE = enum.auto()
    STORE = enum.auto()
    BACKUP = enum.auto()


@attrs.frozen(kw_only=True)
class _Group:
    """What is known of a group without looking at its files.

    Attributes:
        name: the group; the folder's name where no node says so.
        segment_bytes: size of its log files; 0: there are none and nobody says it.
        settings: the group's settings at the node's last start, key -> JSON; {} for others.
    """

    name: str
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


@attrs.frozen(kw_only=True)
class GroupStore(_Group):
    """The store of a classic group.

    Attributes:
        layout: its paths.
    """

    layout: StoreLayout

    @property
    def record_bytes_max(self) -> int:
        """Largest record that is taken for one."""
        body = self.setting("max_message_bytes") or 0
        return max(RECORD_BYTES_MAX, body + RECORD_OVERHEAD_MAX)


@attrs.frozen(kw_only=True)
class GroupLedger(_Group):
    """The store of a member of a DLedger group.

    Attributes:
        layout: its paths.
        index_file_bytes: size of its index files; 0: there are none and nobody says it.
        had_vote: the node's identity says that its term and vote were once on the disk.
        members: of the group, as the node's identity says; () where none does.
    """

    layout: LedgerLayout
    index_file_bytes: int
    had_vote: bool = False
    members: tuple[str, ...] = ()

    @property
    def is_in_memory(self) -> bool:
        """The group has `store = "memory"`: only term and vote are here."""
        return self.settings.get("store") == '"memory"'


AnyStore: TypeAlias = GroupStore | GroupLedger


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
        ledgers: its DLedger groups, or the one that was named.
        manifest: a backup's own list.
    """

    path: str
    top: str
    kind: Kind
    node_dir: str | None
    identity: Identity | None
    stores: tuple[GroupStore, ...]
    manifest: Manifest | None = None
    ledgers: tuple[GroupLedger, ...] = ()

    @property
    def every(self) -> tuple[AnyStore, ...]:
        """Stores of either kind."""
        return (*self.stores, *self.ledgers)


def find_target(disk: Disk, path: str, group: str | None = None) -> Target:
    """Understand `path` (absolute); `group` names one of its groups.

    Raises: ConfigError: it is nothing of ours, an incomplete backup, or has no such group.
    """
    if not is_folder(disk, path):
        found = "a file" if disk.exists(path) else "no such folder"
        raise ConfigError(f"{path}: {EXPECTED}, found {found}")
    top = _top_of(disk, path)
    if is_incomplete(disk, top):
        raise ConfigError(
            f"{top}: expected a whole backup, found an incomplete one: no manifest; "
            "run the same backup again, it goes on where it was"
        )
    manifest = read_manifest(disk, top)
    identity = None if manifest is not None else _identity(disk, top)
    is_store = disk.exists(f"{path}/commitlog") or is_member(disk, path, top, identity)
    if manifest is None and identity is None and not is_store:
        raise ConfigError(f"{path}: {EXPECTED}, found {_found(disk, path)}")
    kind = Kind.STORE if identity is None else Kind.NODE
    if manifest is not None:
        kind = Kind.BACKUP
    roots = [path]
    if top == path and kind is not Kind.STORE:
        names = filter(may_be_group, disk.listdir(f"{path}/groups"))
        roots = [root for name in names if is_folder(disk, root := f"{path}/groups/{name}")]
    whose = identity if kind is Kind.NODE else None
    classic = [root for root in roots if not is_ledger(disk, root, identity)]
    stores = tuple(_store(disk, root, whose) for root in classic)
    ledgers = tuple(_ledger(disk, root, whose) for root in roots if root not in classic)
    if group is not None:
        _check_known(path, [root.rpartition("/")[2] for root in roots], group)
        stores = tuple(store for store in stores if store.name == group)
        ledgers = tuple(ledger for ledger in ledgers if ledger.name == group)
    target = Target(
        path=path,
        top=top,
        kind=kind,
        node_dir=top if identity is not None else None,
        identity=identity,
        stores=stores,
        manifest=manifest,
        ledgers=ledgers,
    )
    for one in target.every:
        check_paths(disk, one.layout)
    return target


def one_store(target: Target) -> GroupStore:
    """The only classic store. Raises: ConfigError: there are several, or none."""
    if target.ledgers and not target.stores:
        found = ", ".join(ledger.name for ledger in target.ledgers)
        raise ConfigError(
            f"{target.path}: expected a classic group, found {found}: of a dledger group's log only"
            " its leader has members cut something"
        )
    return _only(target, target.stores)


def one_log(target: Target) -> AnyStore:
    """The only store, of either kind. Raises: ConfigError: there are several, or none."""
    return _only(target, target.every)


def _only(target: Target, found: Sequence[T]) -> T:
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.name for one in found) or "none"
    raise ConfigError(f"--group: expected one of the groups of {target.path}: {known}")


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
        if any(map(may_be_group, disk.listdir(f"{top}/groups"))):
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


def _settings(root: str, identity: Identity | None) -> dict[str, str]:
    """Of the group whose store root it is."""
    start = dotted(("groups", root.rpartition("/")[2])) + "."
    settings = {} if identity is None else identity.settings
    return {key[len(start) :]: value for key, value in settings.items() if key.startswith(start)}


def _store(disk: Disk, root: str, identity: Identity | None) -> GroupStore:
    name, layout = root.rpartition("/")[2], StoreLayout(root)
    own = _settings(root, identity)
    store = GroupStore(name=name, layout=layout, segment_bytes=0, settings=own)
    size = _file_size(disk, layout.commit_log, store.setting("segment_bytes"))
    return attrs.evolve(store, segment_bytes=size)


def _ledger(disk: Disk, root: str, identity: Identity | None) -> GroupLedger:
    name, layout = root.rpartition("/")[2], LedgerLayout(root)
    own = _settings(root, identity)
    shape = None if identity is None else identity.ledgers.get(name)
    found = GroupLedger(
        name=name,
        layout=layout,
        segment_bytes=0,
        index_file_bytes=0,
        settings=own,
        had_vote=identity is not None and name in identity.votes,
        members=() if shape is None else shape.members,
    )
    index_bytes = _file_size(disk, layout.index, found.setting("index_file_bytes"))
    size = _file_size(disk, layout.commit_log, found.setting("data_file_bytes"))
    return attrs.evolve(found, segment_bytes=size, index_file_bytes=index_bytes)


def _file_size(disk: Disk, folder: str, told: int | None) -> int:
    """The size that log files have; 0 without any, where nobody tells.

    What is told is the last start's, even if that was refused because all files have another size.
    """
    sizes = [size_of(disk, segment_path(folder, base)) for base in segment_bases(disk, folder)]
    common = Counter(size for size in sizes if size).most_common()
    if told and len(common) != 1:
        return told
    return common[0][0] if common else 0


def _check_known(path: str, names: Sequence[str], group: str) -> None:
    if group not in names:
        known = ", ".join(names) or "none"
        hint = suggestion(group, tuple(names))
        raise ConfigError(f"--group: expected a group of {path}, {known}{hint}, found {group}")


class InUse(ConfigError):
    """Another process, or this one, runs on the stores."""


def take_locks(disk: Disk, target: Target, *, may_write: bool) -> ExitStack:
    """The locks that a running node or broker holds; they are released when the block ends.

    Args:
        may_write: make missing lock files. Without it nothing is made, and what may not be
            written to is not locked either: nobody can run on it.

    Raises: InUse.
    """
    roots = [one.layout.root for one in target.every]
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


def log_bases(disk: Disk, store: AnyStore) -> Sequence[int]:
    """First offsets of the log's files; a last one of 0 bytes, which a crash left, is none."""
    folder = store.layout.commit_log
    bases = segment_bases(disk, folder)
    while bases and size_of(disk, segment_path(folder, bases[-1])) == 0:
        bases.pop()
    return bases


def odd_files(disk: Disk, store: AnyStore, bases: Sequence[int]) -> list[str]:
    """What is wrong with the log's files themselves: sizes, names, holes. One line each."""
    return odd_in(disk, store.layout.commit_log, store.segment_bytes, bases)


def odd_in(disk: Disk, folder: str, size: int, bases: Sequence[int]) -> list[str]:
    """The same of the files of `size` bytes in a folder."""
    wrong = []
    for number, base in enumerate(bases):
        path = segment_path(folder, base)
        found = size_of(disk, path)
        if found not in (size, None):
            wrong.append(f"{path}: expected {size} bytes, found {found}")
        if base % size:
            wrong.append(f"{path}: the name is no multiple of {size}")
        elif number and base != bases[number - 1] + size:
            missing = segment_path(folder, bases[number - 1] + size)
            wrong.append(f"{missing}: the file is missing, {path} follows")
    return wrong
