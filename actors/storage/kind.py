"""What start and storage tools need to know of a mode's store: one value for each, in `kinds`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

import attrs

from actors.env.protocols import Disk
from actors.storage.node.identity import Identity

T = TypeVar("T")
"""Its tools."""


class Layout(Protocol):
    """Where things lie in a store root, whatever the mode.

    Attributes:
        root: absolute path of the store root.
        commit_log: folder of the log's files.
        folders, files: all that are folders, the root first, and all that are files.
    """

    @property
    def root(self) -> str: ...
    @property
    def commit_log(self) -> str: ...
    @property
    def folders(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> tuple[str, ...]: ...


@attrs.frozen(kw_only=True)
class StoreKind(Generic[T]):
    """A mode, as far as its files go. A root is the absolute path of a store's folder.

    Attributes:
        key: what reports and manifests list its stores under.
        extends: the mode whose stores become this one's by being opened, and whose signs they keep;
            "": there is none.
        why_not_back: why they are not opened as that mode's any more, for people.
        layout: where things lie in a root.
        signs: paths in a root of which its stores have one, and those of no other mode.
        start_paths: folders and files in a root that have to be of their kind before any store of
            the node is opened.
        named_files: by folder of a log or an index, whether a name there can be one of its files.
        inner_folders: folders below those of the layout, that a start finds one by one.
        is_store: a root in a node's directory or a backup is of such a store. The first kind that
            says so has it, and where none does it is a classic one.
        is_store_alone: the same of a folder that no node and no backup is around.
        tools: gives what `python -m actors.storage` does with it, a `tools.kind.StoreTools`, and
            imports that: a node starts without.
    """

    key: str
    extends: str = ""
    why_not_back: str = ""
    layout: Callable[[str], Layout]
    signs: Callable[[str], tuple[str, ...]]
    start_paths: Callable[[str], tuple[tuple[str, ...], tuple[str, ...]]]
    named_files: Callable[[str], Mapping[str, Callable[[str], bool]]]
    inner_folders: Callable[[Disk, str], Iterable[str]] = lambda disk, root: ()
    is_store: Callable[[Disk, str, Identity | None], bool]
    is_store_alone: Callable[[Disk, str], bool]
    tools: Callable[[], T]
