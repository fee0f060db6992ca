"""Names of files and folders on a simulated disk, as processes see them and as they are durable.

Every creation, rename and removal is pending until its folder is synced. A power loss keeps, for
each folder, the first of its pending operations, a random number of them: a rename happened wholly
or not at all, and an operation that depends on a lost one is lost too. `mkdir` syncs what it makes
unless it is told not to.

Names that were synced in a folder that is itself new are durable once the folder's own name is.
"""

from __future__ import annotations

import errno
import os
import posixpath
import random

import attrs

from actors.env.protocols import LOST_AND_FOUND
from actors.sim.disk.pages import Inode


@attrs.frozen
class Folder:
    """Marks a path as a folder."""


FOLDER = Folder()
Node = Inode | Folder


@attrs.define(eq=False)
class _Change:
    """One pending operation: what each path that it touched holds afterwards (None: nothing).

    Attributes:
        is_synced: whether only the name of a new folder above it is missing.
    """

    after: tuple[tuple[str, Node | None], ...]
    is_synced: bool = False

    @property
    def folders(self) -> list[str]:
        """The folders that hold the names, sorted; a sync of them makes the operation durable."""
        return sorted({posixpath.dirname(path) for path, _ in self.after})

    def touches(self, paths: set[str]) -> bool:
        return any(path in paths for path, _ in self.after)

    def is_below(self, folders: set[str]) -> bool:
        """Whether all paths that it touched lie in one of the folders."""
        return all(any(path.startswith(f"{each}/") for each in folders) for path, _ in self.after)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _put(names: dict[str, Node], change: _Change) -> None:
    for path, node in change.after:
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node


class Namespace:
    """All names on a disk. Paths are absolute and normal, and the root exists.

    Attributes:
        changes: a number that grows whenever a name comes, goes or means another file.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._listed: dict[str, list[str]] = {}  # folders, as they are since the last change
        self._now: dict[str, Node] = {"/": FOLDER}
        self._durable: dict[str, Node] = {"/": FOLDER}
        self._pending: list[_Change] = []

    def get(self, path: str) -> Node | None:
        return self._now.get(path) or self._now.get(posixpath.normpath(path))

    def file(self, path: str) -> Inode:
        node = self.get(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, Inode):
            raise _error(errno.EISDIR, path)
        return node

    def durable_file(self, path: str) -> Inode | None:
        node = self._durable.get(path) or self._durable.get(posixpath.normpath(path))
        return node if isinstance(node, Inode) else None

    def inodes(self) -> list[Inode]:
        """Return every file that has a name now or on the disk, each once."""
        nodes = [*self._now.values(), *self._durable.values()]
        return list(dict.fromkeys(node for node in nodes if isinstance(node, Inode)))

    def listdir(self, path: str) -> list[str]:
        folder = posixpath.normpath(path)
        if folder in self._listed:
            return list(self._listed[folder])
        node = self._now.get(folder)
        if isinstance(node, Inode):
            raise _error(errno.ENOTDIR, path)
        begin = "/" if folder == "/" else f"{folder}/"
        size = len(begin)
        inside = [name[size:] for name in self._now if name.startswith(begin)]
        found = self._listed[folder] = sorted(
            name for name in inside if name and "/" not in name and name != LOST_AND_FOUND
        )
        return list(found)

    def create(self, path: str, inode: Inode) -> None:
        path = posixpath.normpath(path)
        if path in self._now:
            raise _error(errno.EEXIST, path)
        self._need_folder(posixpath.dirname(path), path)
        self._change((path, inode))

    def mkdir(self, path: str, *, sync: bool = True) -> None:
        folder = posixpath.normpath(path)
        missing = []
        while not isinstance(self._now.get(folder), Folder):
            if folder in self._now:
                raise _error(errno.EEXIST, path)
            missing.append(folder)
            folder = posixpath.dirname(folder)
        for folder in reversed(missing):
            self._change((folder, FOLDER))
            if sync:
                self.sync_dir(posixpath.dirname(folder))

    def rename(self, source: str, target: str) -> None:
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        if source not in self._now:
            raise _error(errno.ENOENT, source)
        self._need_folder(posixpath.dirname(target), target)
        replaced = self._now.get(target)
        if source == target:
            return
        if isinstance(replaced, Folder):
            if isinstance(self._now[source], Inode):
                raise _error(errno.EISDIR, target)
            if self.listdir(target):
                raise _error(errno.ENOTEMPTY, target)
        inside = [path for path in self._now if path.startswith(f"{source}/")]
        moved = [source, *inside]
        after: list[tuple[str, Node | None]] = [(path, None) for path in moved]
        after += [(target + path[len(source) :], self._now[path]) for path in moved]
        self._change(*after)

    def exchange(self, one: str, other: str) -> None:
        """Exchange the names of two files in one step."""
        first, second = self.file(one), self.file(other)
        self._change((posixpath.normpath(one), second), (posixpath.normpath(other), first))

    def unlink(self, path: str) -> None:
        self.file(path)
        self._change((posixpath.normpath(path), None))

    def rmtree(self, path: str) -> None:
        folder = posixpath.normpath(path)
        node = self._now.get(folder)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Inode):
            raise _error(errno.ENOTDIR, path)
        inside = sorted(name for name in self._now if name.startswith(f"{folder}/"))
        for name in [*reversed(inside), folder]:  # children before their folders
            self._change((name, None))

    def sync_dir(self, path: str) -> None:
        """Make the pending operations of this folder durable, and all on which they depend.

        If the folder is not durable itself, they are once its own name is. Operations in an older
        folder of the same name are not among them.
        """
        folder = posixpath.normpath(path)
        self._need_folder(folder, path)
        if (made := self._made(folder)) is not None:
            for change in self._pending[self._pending.index(made) :]:
                change.is_synced |= folder in change.folders
            return
        wanted: list[_Change] = []
        needed: set[str] = set()
        for change in reversed(self._pending):
            if folder in change.folders or change.touches(needed):
                wanted.append(change)
                needed.update(path for path, _ in change.after)
        for change in reversed(wanted):
            _put(self._durable, change)
            if any(node is None for _, node in change.after):
                self._drop_orphans()  # a folder of the same name may come next
        chosen = {id(change) for change in wanted}
        left: list[_Change] = []
        gone: set[str] = set()
        for change in reversed(self._pending):
            if id(change) in chosen:
                gone.update(path for path, node in change.after if node is None)
            elif not change.is_below(gone):
                left.insert(0, change)
        self._pending = left
        self._reach()

    def _made(self, folder: str) -> _Change | None:
        """Return the pending operation that made a folder, or one above it; None: all are
        durable.
        """
        for change in reversed(self._pending):
            path, node = change.after[0]  # a renamed folder is no new one
            if isinstance(node, Folder) and f"{folder}/".startswith(f"{path}/"):
                return change
        return None

    def _reach(self) -> None:
        """Make durable what was synced in folders that are durable now."""
        for change in tuple(self._pending):
            if change.is_synced and not any(map(self._made, change.folders)):
                _put(self._durable, change)
                self._pending.remove(change)

    def power_loss(self, rng: random.Random) -> list[Inode]:
        """Keep the first pending operations of each folder, a random number of them, and return the
        files that remain.
        """
        count: dict[str, int] = {}
        for change in self._pending:
            for folder in change.folders:
                count[folder] = count.get(folder, 0) + 1
        left = {folder: rng.randint(0, number) for folder, number in sorted(count.items())}
        lost: set[str] = set()
        for change in self._pending:
            kept = change.is_synced or all(left[folder] > 0 for folder in change.folders)
            for folder in change.folders:
                left[folder] -= 1
            if kept and not change.touches(lost) and lost.isdisjoint(change.folders):
                _put(self._durable, change)
                if any(node is None for _, node in change.after):
                    self._drop_orphans()
            else:
                lost.update(path for path, _ in change.after)
        self._pending.clear()
        self._drop_orphans()
        self._now = dict(self._durable)
        self._changed()
        return self.inodes()

    def _drop_orphans(self) -> None:
        """Remove the names in folders that are gone."""
        for path in sorted(self._durable):
            if path != "/" and posixpath.dirname(path) not in self._durable:
                del self._durable[path]

    def _need_folder(self, folder: str, path: str) -> None:
        node = self._now.get(folder)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, path)

    def _change(self, *after: tuple[str, Node | None]) -> None:
        change = _Change(after)
        _put(self._now, change)
        self._pending.append(change)
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._listed.clear()
