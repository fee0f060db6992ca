"""The stores of `mode = "classic"` and `mode = "autoswitch"`, as start and tools need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from actors.env.protocols import Disk
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.queue_files import named_queues, queue_folder
from actors.storage.kind import StoreKind
from actors.storage.layout import AutoSwitchLayout, StoreLayout
from actors.storage.log.commit_log import is_segment_name

if TYPE_CHECKING:
    from actors.storage.tools.kind import StoreTools


def _start_paths(root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The topic of the group's own records. The rest a node's directory is asked for."""
    return (f"{StoreLayout(root).consume_queue}/{root.rpartition('/')[2]}",), ()


def _named_files(root: str) -> dict[str, Callable[[str], bool]]:
    layout = StoreLayout(root)
    return {layout.commit_log: is_segment_name, layout.index: is_index_name}


def _inner_folders(disk: Disk, root: str) -> Iterator[str]:
    queues = StoreLayout(root).consume_queue
    return (queue_folder(queues, *each) for each in named_queues(disk, queues))


def _has_log(disk: Disk, root: str) -> bool:
    return disk.exists(StoreLayout(root).commit_log)


def _tools() -> StoreTools[Any]:
    from actors.storage.tools.commitlog.tools import TOOLS

    return TOOLS


CLASSIC: Final = StoreKind(
    key="groups",
    layout=StoreLayout,
    signs=lambda root: (StoreLayout(root).commit_log,),
    start_paths=_start_paths,
    named_files=_named_files,
    inner_folders=_inner_folders,
    is_store=lambda disk, root, identity: _has_log(disk, root),
    is_store_alone=_has_log,
    tools=_tools,
)


def _start_paths_of_replica(root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    folders, files = _start_paths(root)
    return folders, (*files, *AutoSwitchLayout(root).own_files)


def _is_replica(disk: Disk, root: str) -> bool:
    return any(map(disk.exists, AutoSwitchLayout(root).own_files))


def _replica_tools() -> StoreTools[Any]:
    from actors.storage.tools.commitlog.tools import REPLICA_TOOLS

    return REPLICA_TOOLS


AUTOSWITCH: Final = StoreKind(
    key="replicas",
    extends="classic",
    why_not_back="whose epochs a classic group does not keep",
    layout=AutoSwitchLayout,
    signs=lambda root: AutoSwitchLayout(root).own_files,
    start_paths=_start_paths_of_replica,
    named_files=_named_files,
    inner_folders=_inner_folders,
    is_store=lambda disk, root, identity: _is_replica(disk, root),
    is_store_alone=lambda disk, root: _is_replica(disk, root) and _has_log(disk, root),
    tools=_replica_tools,
)
