"""Copies a classic group's log and metadata, of a running or a stopped node, and makes a store of a
copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import attrs

from actors.config import ClusterConfig
from actors.env.protocols import Disk
from actors.errors import CorruptLog, TriologError
from actors.group_status import GroupStatus
from actors.storage.commitlog import recovery
from actors.storage.commitlog.recovery import Ending
from actors.storage.files.side_file import SideFileDamaged, read_side_file, write_side_file
from actors.storage.files.stepping import Running, Step, Work, labelled
from actors.storage.layout import StoreLayout
from actors.storage.log.commit_log import CommitLog, segment_bases, segment_path
from actors.storage.tools.commitlog.check_digests import DigestCheck
from actors.storage.tools.commitlog.config_files import copy_config, restore_config
from actors.storage.tools.commitlog.walk import READ_BYTES, read_file
from actors.storage.tools.copying import (
    BackedUp,
    BackedUpFile,
    BackedUpGroup,
    Limit,
    LogCopy,
    refuse_unfinished,
)
from actors.storage.tools.findings import Findings
from actors.storage.tools.stores import GroupStore, log_bases, odd_files
from wire.crc import crc32


def stopped_limit(disk: Disk, store: GroupStore) -> Work[Limit]:
    """Return the end of a stopped store's log, as its next start would find it.

    Raises: CorruptLog: there is damage below the synced mark. ConfigError: a truncation was
        interrupted.
    """
    refuse_unfinished(disk, store.layout.root, store.layout.truncating)
    bases = list(log_bases(disk, store))
    if not bases:
        return Limit(end_bytes=0, why="an empty log")
    odd = odd_files(disk, store, bases)
    if odd:
        raise CorruptLog(odd[0])
    try:
        values = read_side_file(disk, store.layout.synced, 1)
    except SideFileDamaged:
        raise CorruptLog(f"{store.layout.synced}: the synced mark cannot be read") from None
    mark = None if values is None or store.is_compat else values[0]
    log = CommitLog.look(disk, store.layout.commit_log, store.segment_bytes, bases)
    start = bases[0]
    if mark is not None:
        start = max((base for base in bases if base <= mark), default=start)
    finding = recovery.find_end(
        disk, log, start_bytes=start, mark_bytes=mark, record_bytes_max=store.record_bytes_max
    )
    step = Step(f"{store.name}: the log's end", 0, 0)
    found = yield from labelled(finding, step)
    return Limit(end_bytes=found.end_bytes, why="the end of a stopped log")


def synced_mark(disk: Disk, store: GroupStore) -> int:
    """Return the offset of the synced mark; 0 if there is none."""
    values = read_side_file(disk, store.layout.synced, 1)
    return 0 if values is None else values[0]


def running_limit(disk: Disk, store: GroupStore, status: GroupStatus | None, node: str) -> Limit:
    """Return the end of a running node's copy: what is acknowledged and synced.

    Args:
        status: the node's status of the group; None: it did not answer, so the synced mark counts.

    Raises: TriologError: the node does not know yet what is acknowledged.
    """
    if status is None:
        mark = synced_mark(disk, store)
        return Limit(end_bytes=mark, why="the synced mark of a node that did not answer")
    if status.synced and not status.acknowledged:
        raise TriologError(
            f"{node} does not know yet what of {store.name} is acknowledged: try again while its"
            " master runs, or stop it"
        )
    end = min(status.synced, status.acknowledged)
    return Limit(end_bytes=end, why="acknowledged and synced on a running node")


def copy_group(
    disk: Disk, store: GroupStore, root: str, limit: Limit, done: BackedUp
) -> Work[BackedUpGroup]:
    """Copy a classic group's log, and before it what is known of its broker, into a store root of a
    backup.

    Raises: StorageError: the log is damaged, or was cut while it was copied. OSError.
    """
    return _Copying(disk, store, root, limit, done).run()


@attrs.define
class _Copying:
    """One copy of a group's log."""

    _disk: Disk
    _store: GroupStore
    _root: str
    _limit: Limit
    _done: BackedUp

    def run(self) -> Work[BackedUpGroup]:
        layouts = self._store.layout, StoreLayout(self._root)
        config, settings = yield from copy_config(self._disk, self._store.name, *layouts)
        end = yield from self._record_end()
        copy = LogCopy(
            disk=self._disk,
            name=self._store.name,
            source=self._store.layout.commit_log,
            target=StoreLayout(self._root).commit_log,
            file_bytes=self._store.segment_bytes,
            end_bytes=end,
            limit=self._limit.why,
            done=self._done,
        )
        bases = list(log_bases(self._disk, self._store))
        copied = yield from copy.run(bases)
        yield from self._compare(bases, end)
        return attrs.evolve(copied, config=config, settings=settings)

    def _compare(self, bases: Sequence[int], end: int) -> Work[None]:
        """Compare what was copied with the log's digests. Raises: CorruptLog: they differ."""
        found = Findings()
        check = DigestCheck(
            disk=self._disk,
            name=self._store.name,
            total_bytes=end,
            log_folder=self._store.layout.commit_log,
            copy_folder=StoreLayout(self._root).commit_log,
            digests_folder=self._store.layout.digests,
            segment_bytes=self._store.segment_bytes,
            limit_bytes=end,
            findings=found,
        )
        yield from check.run(bases)
        if found.damage:
            raise CorruptLog(found.damage[0])

    def _record_end(self) -> Work[int]:
        """Return the end of the last whole record within the limit; a slave's limit may lie within
        one.
        """
        limit, size = self._limit.end_bytes, self._store.segment_bytes
        base = limit - limit % size if size else limit
        if base == limit:
            return limit
        reading = Running(read_file(self._disk, self._store, base, limit=limit))
        for piece in reading:
            yield Step(f"{self._store.name}: the end", piece.offset - base, limit - base)
        end = reading.result
        if end.ending in (Ending.BAD, Ending.UNWRITTEN):
            raise CorruptLog(
                f"{segment_path(self._store.layout.commit_log, base)}: offset {end.at_bytes}: "
                f"{end.reason or 'nothing is written there'}, below {limit}, {self._limit.why}"
            )
        return end.at_bytes


# ---- and back ----


def seed_problems(config: ClusterConfig, node: str, name: str, group: BackedUpGroup) -> list[str]:
    """Say why a copy does not fit the group `name` of the cluster file, one line per problem."""
    found, key = config.classic_groups.get(name), f"{config.path}: key groups.{name}"
    if found is None:
        return [f"{key}: expected the group of the backup (or --group), found none"]
    problems = []
    if node not in found.members:
        problems.append(f"{key}.slaves: expected {node} among them, found it nowhere")
    elif node == found.master:
        problems.append(f"{key}.master: expected another node than the one that is seeded")
    if group.segment_bytes and found.segment_bytes != group.segment_bytes:
        problems.append(
            f"{key}.segment_bytes: expected {group.segment_bytes}, the size of the backup's"
            f" files, found {found.segment_bytes}"
        )
    return problems


def seed_group(disk: Disk, group: BackedUpGroup, source_root: str, root: str) -> Work[int]:
    """Make a store from a group's copy. Returns: the bytes copied.

    Raises: CorruptLog: the copy is not what its manifest says. OSError.
    """
    layout, source = StoreLayout(root), StoreLayout(source_root).commit_log
    disk.mkdir(layout.commit_log)
    _remove_files(disk, layout)
    total = sum(file.size_bytes for file in group.files)
    done = 0
    for each in group.files:
        yield from _file(disk, source, layout.commit_log, group, each, done, total)
        done += each.size_bytes
    disk.sync_dir(layout.commit_log)
    yield from restore_config(disk, group, StoreLayout(source_root), layout)
    if group.files:
        write_side_file(disk, layout.synced, (group.end_bytes,))
    return done


def _remove_files(disk: Disk, layout: StoreLayout) -> None:
    """Remove the files of a seeding that was killed."""
    paths = [segment_path(layout.commit_log, b) for b in segment_bases(disk, layout.commit_log)]
    for path in (*paths, layout.synced):
        if disk.exists(path):
            disk.unlink(path)


def _file(
    disk: Disk,
    source: str,
    target: str,
    group: BackedUpGroup,
    each: BackedUpFile,
    done: int,
    total: int,
) -> Work[None]:
    path, crc = segment_path(source, each.base_bytes), 0
    with closing(disk.open(segment_path(target, each.base_bytes), "x")) as copy:
        with closing(disk.open(path, "r")) as file:
            for at in range(0, each.size_bytes, READ_BYTES):
                data = file.pread(at, min(READ_BYTES, each.size_bytes - at))
                crc = crc32(data, crc)
                copy.pwrite(data, at)
                yield Step(f"{group.name}: copy", done + at + len(data), total)
        if crc != each.crc32:
            raise CorruptLog(
                f"{path}: expected CRC-32 {each.crc32:08x} as the manifest says, found {crc:08x}"
            )
        copy.resize(group.segment_bytes)
        copy.sync()
