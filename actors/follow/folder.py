"""The folder of a copy: a broker's store root, with `follow/` for the copy's own files.

| Name | What it is |
|---|---|
| `commitlog/`, `consumequeue/`, `index/`, `checkpoint`, `abort`, `lock` | as a broker's |
| `synced`, `dispatched`, `digests/` and others | as in a Python node, see `storage.layout` |
| `follow/identity.json` | how often the copy was started, and the properties of its files |
| `follow/broker.json` | the brokerName of the broker whose metadata is in `config/` |
| `follow/events/` | its event log, as a node's |

A folder can become a copy if it is empty or has nothing but a broker's store. The latter is for a
copy of the master's store with all files, as a stock master sends an empty slave its last file
only. Whether it is the master's log is verified before any of it is reported, see `ha.log_judge`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import attrs

from actors.config import ClassicGroup
from actors.config.bounds import Mismatch
from actors.config.members import MasterNode, SlaveNode
from actors.env.path_kinds import is_folder
from actors.env.protocols import Address, Disk
from actors.errors import ConfigError
from actors.storage.derived.index_files import is_index_name
from actors.storage.layout import StoreLayout
from actors.storage.node.identity import (
    LOCK_NAME,
    NodeDirectory,
    hold_lock,
    identity_path,
    open_directory,
    setting_in,
)
from actors.storage.node.identity import read_identity as read_own
from actors.storage.tools.commitlog.check_queues import first_file_bytes
from actors.storage.tools.stores import file_size, size_of
from actors.storage.tools.target import Kind, find_target
from wire.files.consume_queue import UNIT_BYTES
from wire.files.index_file import INDEX_UNIT_BYTES, index_file_bytes

NODE: Final = "follow"
GROUP: Final = "copy"
MASTER: Final = "master"
OWN_FOLDER: Final = "follow"
KNOWN_BROKER: Final = "broker.json"
SIZES: Final = {
    "segment_bytes": "mappedFileSizeCommitLog",
    "consume_queue_bytes": "mappedFileSizeConsumeQueue",
    "index_slots_count": "maxHashSlotNum",
    "index_units_count": "maxIndexNum",
}
"""The sizes that cannot change once there are files: by the key of `Shape`, the broker's setting.
"""


@attrs.frozen(kw_only=True)
class Shape:
    """The sizes of a copy's files. None stands for the sizes of the files that are there or,
    without any, for those of a stock broker. See `config.ClassicGroup` for the attributes.
    """

    segment_bytes: int | None = None
    consume_queue_bytes: int | None = None
    index_slots_count: int | None = None
    index_units_count: int | None = None
    store_version: str | None = None
    max_message_bytes: int | None = None
    message_delay_level: str | None = None


@attrs.frozen
class CopyFolder:
    """A folder that is taken. `close` releases it.

    Attributes:
        path: the absolute path.
        group: the copy as a classic group, with the copy as the only slave and the stock broker as
            the master.
        was_empty: whether there was no log in it.
    """

    path: str
    group: ClassicGroup
    was_empty: bool
    own: NodeDirectory
    _locks: ExitStack

    def close(self) -> None:
        self.own.close()
        self._locks.close()


def option_of(key: str) -> str:
    """Return the option of the command line that sets a key of `Shape`."""
    return "--" + key.removesuffix("_count").replace("_", "-")


def take_folder(
    disk: Disk, path: str, master: Address, shape: Shape, file_limit_bytes: int | None = None
) -> CopyFolder:
    """Take a folder for a copy, and create it if it is missing.

    The content of a folder that is refused is not changed.

    Args:
        file_limit_bytes: the size of the largest file that may be written, or None for any.

    Raises:
        ConfigError: the folder has other content than a copy or a store, is in use, or has files
            of other sizes than `shape` has; or its files would be too large.
        OSError: the disk failed.
    """
    own = f"{path}/{OWN_FOLDER}"
    if disk.has_name(path) and not is_folder(disk, path):
        raise ConfigError(f"--into: expected a folder, found a file: {path}")
    found = read_own(disk, own)
    if found is None:
        _check_is_free(disk, path)
    disk.mkdir(path)
    with ExitStack() as locks:
        locks.callback(hold_lock(disk, StoreLayout(path).lock, path).release)
        known = {} if found is None else found.settings
        group = _group(disk, path, master, shape, known)
        if file_limit_bytes is not None and group.segment_bytes > file_limit_bytes:
            raise ConfigError(
                f"{option_of('segment_bytes')}: expected at most {file_limit_bytes}, the largest"
                f" file that this process may write (ulimit -f), found {group.segment_bytes}"
            )
        settings = {
            key: json.dumps(value)
            for key, value in attrs.asdict(group, recurse=False).items()
            if key in attrs.fields_dict(Shape)
        }
        directory = open_directory(
            disk, own, cluster=NODE, node=NODE, groups=(), settings=settings, source=path
        )
        layout = StoreLayout(path)
        was_empty = not disk.listdir(layout.commit_log)
        return CopyFolder(path, group, was_empty, directory, locks.pop_all())


def _check_is_free(disk: Disk, path: str) -> None:
    """Check that a folder is empty or a broker's store.

    Raises:
        ConfigError: it has other content.
    """
    names = [name for name in disk.listdir(path) if name not in (LOCK_NAME, OWN_FOLDER)]
    if not names:
        return
    expected = f"{path}: expected an empty folder, a copy, or a broker's store (commitlog/)"
    if not is_folder(disk, StoreLayout(path).commit_log):
        some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise ConfigError(f"{expected}, found {some}")
    target = find_target(disk, path)
    if target.kind is not Kind.STORE or target.top != path:
        raise ConfigError(f"{expected}, found what belongs to {target.top}")


def _group(
    disk: Disk, path: str, master: Address, shape: Shape, known: Mapping[str, str]
) -> ClassicGroup:
    """Return the copy as a group.

    Raises:
        ConfigError: the files have other sizes than `shape`.
    """
    wanted = {key: value for key, value in attrs.asdict(shape).items() if value is not None}
    before: dict[str, Any] = {}
    if size := file_size(disk, StoreLayout(path).commit_log, None):
        said = {key: setting_in(known, key) for key in attrs.fields_dict(Shape)}
        before = {key: value for key, value in said.items() if value is not None}
        before["segment_bytes"] = size
        before = _found_sizes(disk, path, before | wanted) | before
    began = "with which the copy in {} began" if known else "that of the files in {}"
    for key, upstream in SIZES.items():
        if key in wanted and wanted[key] != before.get(key, wanted[key]):
            raise ConfigError(
                f"{option_of(key)}: expected {before[key]}, {began.format(path)},"
                f" found {wanted[key]} (the broker's {upstream})"
            )
    settings = {key: value for key, value in (before | wanted).items() if value is not None}
    try:
        return ClassicGroup(
            name=GROUP,
            master=MasterNode(MASTER, "java"),
            slaves=(SlaveNode(NODE, "python"),),
            port=master.port,
            disk_full_ratio=DISK_FULL_RATIO,
            **settings,
        )
    except Mismatch as error:  # the arguments were checked when they were parsed
        file = identity_path(f"{path}/{OWN_FOLDER}")
        raise ConfigError(f"{file}: what the copy began with cannot be: {error}") from error


def _found_sizes(disk: Disk, path: str, said: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes that a store's queues and index have, for in others they are built anew.

    Args:
        said: what the copy began with, and the command line says.

    Raises:
        ConfigError: the size of the index files is no stock broker's, and the slots are unknown.
    """
    layout, found = StoreLayout(path), {}
    queue_bytes = first_file_bytes(disk, layout.consume_queue)
    if queue_bytes and not queue_bytes % UNIT_BYTES:
        found["consume_queue_bytes"] = queue_bytes
    names = [name for name in disk.listdir(layout.index) if is_index_name(name)]
    index_bytes = next(filter(None, (size_of(disk, f"{layout.index}/{name}") for name in names)), 0)
    if index_bytes and index_bytes != index_file_bytes():
        slots = said.get("index_slots_count", 0)
        units, rest = divmod(index_bytes - index_file_bytes(slots, 0), INDEX_UNIT_BYTES)
        if not slots or rest or units < 1:
            raise ConfigError(
                f"{option_of('index_slots_count')}: expected the broker's maxHashSlotNum, as the"
                f" files in {layout.index} have {index_bytes} bytes, found {slots or 'none'}"
            )
        found |= {"index_slots_count": slots, "index_units_count": units}
    return found


DISK_FULL_RATIO: Final = 0.99
"""The share of the disk above which copying pauses. It is high, as a copy deletes nothing."""
