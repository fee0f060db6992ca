"""Describes the stores that the tools find, as far as it is known without reading their files.

`FoundStore` is what all modes have in common. Nothing here writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import ClassVar

import attrs

from actors.config.problems import dotted
from actors.env.protocols import Disk
from actors.storage.kind import Layout
from actors.storage.layout import AutoSwitchLayout, LedgerLayout, StoreLayout
from actors.storage.log.commit_log import segment_bases, segment_path
from actors.storage.node.identity import Identity, setting_in
from wire.files.message_record import RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX
from wire.files.properties import DELAY_LEVELS_MS, delay_levels_ms


@attrs.frozen(kw_only=True)
class FoundStore:
    """A store of any mode.

    Attributes:
        mode: the mode of the store, a key of `actors.storage.kinds.KINDS`.
        name: the name of the group, which is the folder's name.
        layout: the paths of its files.
        segment_bytes: the size of its log files; 0: there are no files, and it is unknown.
        settings: the group's settings at the node's last start, key -> JSON; {} for another
            program's store.
    """

    mode: ClassVar[str]
    name: str
    layout: Layout
    segment_bytes: int
    settings: Mapping[str, str]

    def setting(self, key: str) -> int | None:
        """Return the value of a setting that is an int; None if there is none."""
        return number_in(self.settings, key)

    @property
    def is_compat(self) -> bool:
        """Whether the group has `compat = "upstream"`: recovery cuts whatever the mark says."""
        return self.settings.get("compat") == '"upstream"'


@attrs.frozen(kw_only=True)
class GroupStore(FoundStore):
    """The store of a classic group."""

    mode = "classic"
    layout: StoreLayout

    @property
    def record_bytes_max(self) -> int:
        """The size of the largest possible record."""
        body = self.setting("max_message_bytes") or 0
        return max(RECORD_BYTES_MAX, body + RECORD_OVERHEAD_MAX)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delays of the levels in ms; of another program's store they are unknown, and these
        are the usual ones.
        """
        text = setting_in(self.settings, "message_delay_level")
        return delay_levels_ms(text) if isinstance(text, str) else DELAY_LEVELS_MS


@attrs.frozen(kw_only=True)
class ReplicaStore(GroupStore):
    """The store of a replica of an auto-switch group."""

    mode = "autoswitch"
    layout: AutoSwitchLayout


@attrs.frozen(kw_only=True)
class GroupLedger(FoundStore):
    """The store of a member of a DLedger group.

    Attributes:
        index_file_bytes: the size of its index files; 0: there are no files, and it is unknown.
        had_vote: whether term and vote were once on the disk, by the node's identity.
        members: the members of the group, by the node's identity; () if they are unknown.
    """

    mode = "dledger"
    layout: LedgerLayout
    index_file_bytes: int
    had_vote: bool = False
    members: tuple[str, ...] = ()

    @property
    def is_in_memory(self) -> bool:
        """Whether the group has `store = "memory"`, so only term and vote are on the disk."""
        return self.settings.get("store") == '"memory"'


def settings_at(root: str, identity: Identity | None) -> dict[str, str]:
    """Return the settings of the group with this store root, key -> JSON, as its node remembers
    them.
    """
    start = dotted(("groups", root.rpartition("/")[2])) + "."
    settings = {} if identity is None else identity.settings
    return {key[len(start) :]: value for key, value in settings.items() if key.startswith(start)}


def number_in(settings: Mapping[str, str], key: str) -> int | None:
    """Return a setting that is an int; None for anything else."""
    value = setting_in(settings, key)
    return value if isinstance(value, int) else None


def file_size(disk: Disk, folder: str, last: int | None) -> int:
    """Return the size of a log's files; 0 if there are none and `last` is unknown.

    Args:
        last: the configured size at the last start. It does not count if all files have another
            size, for then that start was refused.
    """
    sizes = [size_of(disk, segment_path(folder, base)) for base in segment_bases(disk, folder)]
    common = Counter(size for size in sizes if size).most_common()
    if last and len(common) != 1:
        return last
    return common[0][0] if common else 0


def size_of(disk: Disk, path: str) -> int | None:
    """Return a file's size in bytes; None: a running node has deleted it meanwhile."""
    try:
        return disk.stat(path).size_bytes
    except FileNotFoundError:
        return None


def log_bases(disk: Disk, store: FoundStore) -> Sequence[int]:
    """Return the offsets of the log's files, without last ones of 0 bytes, which a crash leaves."""
    folder = store.layout.commit_log
    bases = segment_bases(disk, folder)
    while bases and size_of(disk, segment_path(folder, bases[-1])) == 0:
        bases.pop()
    return bases


def bytes_to_read(
    disk: Disk, store: FoundStore, bases: Sequence[int], limit: int | None = None
) -> int:
    """How much of these log files is there to be read: room that was only prepared is not, as most
    of the last file may be.

    Args:
        limit: nothing at or behind this offset is read; None: all is.
    """
    found = 0
    for base in bases:
        end = _data_end(disk, segment_path(store.layout.commit_log, base), store.segment_bytes)
        found += end if limit is None else max(0, min(end, limit - base))
    return found


def _data_end(disk: Disk, path: str, most: int) -> int:
    """Where the last byte may be that is no zero; `most` where that cannot be found out."""
    at = 0
    try:
        with closing(disk.open(path, "r")) as file:
            while (stretch := file.data_from(at))[0] < stretch[1]:
                at = stretch[1]
    except FileNotFoundError:  # it has just expired
        return 0
    except OSError:
        return most
    return min(at, most)


def odd_files(disk: Disk, store: FoundStore, bases: Sequence[int]) -> list[str]:
    """Say what is wrong with sizes, names and number of the log's files, one line each."""
    return odd_in(disk, store.layout.commit_log, store.segment_bytes, bases)


def odd_in(disk: Disk, folder: str, size: int, bases: Sequence[int]) -> list[str]:
    """Say what is wrong with the files in a folder, which should have `size` bytes, one line
    each.
    """
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
