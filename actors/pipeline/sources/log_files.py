"""Folders of logs and their files, on this machine or in any store that pyarrow reaches.

A log is a folder of files of one size, each named by the offset of its first byte in 20 digits.
RocketMQ's lies in `commitlog` of a store root, DLedger's in `data`. Files are made at full size,
and the next one ahead of need: what is written ends in zeros, not at the end of a file.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import attrs
import pyarrow as pa
from pyarrow import fs as pafs

from actors.pipeline.errors import SourceError
from actors.readable import counted
from wire.files.commit_log import segment_offset

LOST_AND_FOUND: Final = "lost+found"
"""The folder that file systems have in their roots, which only its owner may read."""

HEAD_BYTES: Final = 8
"""The bytes of size and magic of a record or an entry; all are 0 where nothing was written."""
_SPECIAL: Final = frozenset("*?[")
_DLEDGER_ROOT: Final = "dledger-"
_GROUPS: Final = "groups"
"""The folder of a node's that has a store for each of its groups."""


@attrs.frozen
class Segment:
    """One file of a log.

    Attributes:
        start: the offset in the log of its first byte.
        size: its size in bytes.
        path: its path in the log's file system.
    """

    start: int
    size: int
    path: str

    @property
    def end(self) -> int:
        return self.start + self.size


@attrs.frozen
class Log:
    """One log.

    Attributes:
        name: the name of its node, unique among the logs of a source.
        folder: the folder of its files, as a URI or a path.
    """

    name: str
    folder: str


def opened(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI or path, and the path in it.

    Raises:
        SourceError: there is no such file system.
    """
    try:
        if "://" in uri:
            system, path = pafs.FileSystem.from_uri(uri)
            return system, path
        return pafs.LocalFileSystem(), os.path.abspath(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError(f"{uri}: {str(error).splitlines()[0]}") from None


def logs_at(paths: Sequence[str], inner: str, names: Sequence[str] = ()) -> list[Log]:
    """Return the logs of these store roots.

    Args:
        paths: store roots, or the folders of the files themselves. `*`, `?` and `[..]` are patterns
            of names within one folder (in a URI only `*`), unless a folder has that very name.
        inner: the log's folder in a root: "commitlog" or "data".
        names: the names of the logs, in the order of their paths; (): by the paths, see `_name`.

    Raises:
        SourceError: a path is no store, nothing fits a pattern, or names are missing or equal.
    """
    folders = [folder for path in paths for folder in _folders(path, inner)]
    if names and len(names) != len(folders):
        found = ", ".join(folders)
        raise SourceError(
            f"{counted(len(names), 'name')} in option node for"
            f" {counted(len(folders), 'log')}: {found}"
        )
    named = names or [_name(folder, inner) for folder in folders]
    for name in named:
        if named.count(name) > 1:
            raise SourceError(f"two logs are called {name!r}: name all with option node='a,b'")
    return [Log(name, folder) for name, folder in zip(named, folders, strict=True)]


def _folders(path: str, inner: str) -> list[str]:
    """Return the folders of logs that a path or pattern names."""
    system, bare = opened(path)
    if not _SPECIAL & set(bare):
        return [_named(path, bare, _log_folder(system, bare.rstrip("/") or "/", inner))]
    found = _expanded(system, bare.rstrip("/"))
    logs = [folder for root in found if (folder := _found_folder(system, root, inner)) is not None]
    if not logs:
        where = _stores_below(system, found, inner)
        raise SourceError(f"{path}: no folder that fits has a folder {inner}{where}")
    return [_named(path, bare, folder) for folder in sorted(logs)]


def _named(path: str, bare: str, folder: str) -> str:
    """Return the name of a folder as a path or a URI, as `path` is."""
    return path.replace(bare, folder, 1) if "://" in path else folder


def _expanded(system: Any, pattern: str) -> list[str]:
    """Return the folders that fit a pattern, by one listing of each folder on the way."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if _SPECIAL & set(part))
    found = ["/".join(parts[:fixed])]
    for part in parts[fixed:]:
        if not _SPECIAL & set(part):
            found = [f"{folder}/{part}" for folder in found]
            continue
        found = [each for folder in found for each in _fitting(system, folder, part)]
    return found


def _fitting(system: Any, folder: str, part: str) -> list[str]:
    """Return the folders in a folder that fit a part of a pattern, or the one of that very name."""
    named = f"{folder}/{part}"
    if system.get_file_info(named).type == pafs.FileType.Directory:
        return [named]
    return [
        info.path
        for info in _listed(system, folder or "/")
        if info.type == pafs.FileType.Directory
        and fnmatch.fnmatchcase(info.base_name, part)
        and info.base_name != LOST_AND_FOUND
    ]


def _listed(system: Any, folder: str) -> list[Any]:
    listed: list[Any] = system.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    return listed


def _found_folder(system: Any, root: str, inner: str) -> str | None:
    """Return the log's folder of a store root, the root itself if it holds the files, or None."""
    info = system.get_file_info(f"{root}/{inner}")
    if info.type == pafs.FileType.Directory:
        return f"{root}/{inner}"
    if any(segment_offset(info.base_name) is not None for info in _listed(system, root)):
        return root
    return None


def _log_folder(system: Any, root: str, inner: str) -> str:
    kind = system.get_file_info(root).type
    if kind == pafs.FileType.NotFound:
        raise SourceError(f"{root}: no such folder")
    if kind != pafs.FileType.Directory:
        raise SourceError(f"{root}: a file, but a store is a folder")
    found = _found_folder(system, root, inner)
    if found is None:
        lacks = f"no folder {inner} in it, and no files of a log"
        raise SourceError(f"{root}: no store: {lacks}{_stores_below(system, [root], inner)}")
    return found


def _stores_below(system: Any, folders: Sequence[str], inner: str) -> str:
    """Say where the stores of nodes are whose own folders were given; "": in none of them."""
    groups = [info for folder in folders for info in _listed(system, f"{folder}/{_GROUPS}")]
    names = {
        info.base_name
        for info in groups
        if system.get_file_info(f"{info.path}/{inner}").type == pafs.FileType.Directory
    }
    found = ", ".join(f"{_GROUPS}/{name}" for name in sorted(names))
    return f"; the stores of a node are in {found}" if found else ""


def _name(folder: str, inner: str) -> str:
    """Return the node's name: NODE of NODE/groups/GROUP, ID of dledger-ID, else the root's name."""
    parts = [part for part in folder.split("/") if part]
    if len(parts) > 1 and parts[-1] == inner:
        parts.pop()
    if len(parts) > 2 and parts[-2] == _GROUPS:
        return parts[-3]
    return parts[-1].removeprefix(_DLEDGER_ROOT) if parts else folder


def _unreadable(path: str, error: OSError) -> SourceError:
    return SourceError(f"{path}: {str(error).splitlines()[0]}")


class LogFolder:
    """Lists and reads the files of one log; made where it is used, as it cannot be pickled."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._system, self._path = opened(log.folder)

    def segments(self) -> list[Segment]:
        """Return the files in the order of their starts.

        Raises:
            SourceError: the folder is gone, or a file reaches over the start of the next.
        """
        try:
            infos = self._system.get_file_info(pafs.FileSelector(self._path))
        except FileNotFoundError:
            raise SourceError(f"{self.log.folder}: no such folder") from None
        except OSError as error:
            raise _unreadable(self.log.folder, error) from None
        found = []
        for info in infos:
            start = segment_offset(info.base_name)
            if start is not None and info.type == pafs.FileType.File:
                found.append(Segment(start, info.size, info.path))
        found.sort(key=lambda each: each.start)
        for one, after in pairwise(found):
            if one.end > after.start:
                raise SourceError(
                    f"{one.path}: its {one.size} bytes reach over the start of the next file, "
                    f"{after.start}: files of two sizes, or of two logs"
                )
        return found

    def open(self, segment: Segment) -> Any:
        """Open a file, for `read_at(bytes, position)`.

        Raises:
            FileNotFoundError: it is gone.
            SourceError: it cannot be read.
        """
        try:
            return self._system.open_input_file(segment.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unreadable(segment.path, error) from None

    def written(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the files without those at the end in which nothing was written yet."""
        kept = list(segments)
        while kept and self._is_spare(kept[-1]):
            kept.pop()
        return kept

    def _is_spare(self, segment: Segment) -> bool:
        try:
            with self.open(segment) as file:
                head: bytes = file.read_at(HEAD_BYTES, 0)
        except FileNotFoundError:
            return True
        return not any(head)
