"""Cuts off the end of a stopped store's log: first a plan, which changes nothing, then the cut.

Each step is synced before the next, so that the command may be killed anywhere and run again.
Order: what is cut is copied to `truncated/OFFSET-TIME/`, under another name until it is complete;
the synced mark is lowered; the log is cut (`actors.storage.log.truncation`, which a node's start
finishes if it is interrupted); queues and index are cut to the new end.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial
from typing import Any, cast

import attrs

from actors.config import ClassicGroup
from actors.env.protocols import Disk, Env
from actors.errors import ConfigError
from actors.storage.commitlog.opening import NO_LIMIT
from actors.storage.commitlog.recovery import Ending
from actors.storage.derived.adopting import adopt
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.derived.index_files import is_index_name
from actors.storage.derived.small_files import lower_offsets
from actors.storage.files.side_file import SideFileDamaged, lower_side_file, read_side_file
from actors.storage.files.stepping import Running, Step, Work, labelled
from actors.storage.files.whole_files import write_synced
from actors.storage.log import truncation
from actors.storage.log.commit_log import CommitLog, segment_bases, segment_path
from actors.storage.node.identity import high_water, read_raw_identity
from actors.storage.tools.commitlog.check_index import slots_of
from actors.storage.tools.commitlog.check_queues import usual_file_bytes
from actors.storage.tools.commitlog.walk import READ_BYTES, read_file, used_bytes
from actors.storage.tools.stores import GroupStore, log_bases, size_of
from wire.files.commit_log import segment_name
from wire.files.index_file import INDEX_UNIT_BYTES, index_file_bytes

PART = ".part"
NOTHING = -1


@attrs.frozen(kw_only=True)
class TruncationPlan:
    """What a truncation would do.

    Attributes:
        group: the name of the group.
        offset: the new end of the log.
        first_bytes: the offset of the log's first byte.
        used_bytes: the offset after the last byte that is not zero, where the cut part ends.
        records: how many good records are cut.
        files: how many log files are deleted.
        unfinished: the offset of an interrupted truncation, which is finished as well; None: there
            is none.
        known_bytes: the highest offset up to which everything was once known to be safe, and may so
            have been acknowledged; None: unknown.
        known_from: the source of `known_bytes`, for people.
    """

    group: str
    offset: int
    first_bytes: int
    used_bytes: int
    records: int
    files: int
    unfinished: int | None
    known_bytes: int | None
    known_from: str

    @property
    def cut_bytes(self) -> int:
        """How many bytes are cut and kept."""
        return max(self.used_bytes - self.offset, 0)

    @property
    def lost(self) -> str | None:
        """Say, for people, what may be lost of what was acknowledged; None: nothing."""
        if self.known_bytes is None or self.offset >= self.known_bytes:
            return None
        return (
            f"{self.known_from} says that all below {self.known_bytes} was safe:"
            f" {self.known_bytes - self.offset} bytes of it may have been acknowledged"
        )


@attrs.frozen
class Truncation:
    """A truncation that can be carried out.

    Attributes:
        plan: what it would do, for whoever decides.
        carry_out: cuts the log; returns the folder that keeps what was cut, None if nothing was.
    """

    plan: TruncationPlan
    carry_out: Callable[[], Work[str | None]]


def prepare_truncation(
    env: Env, store: GroupStore, offset: int, index_slots: int | None, node_dir: str | None
) -> Work[Truncation]:
    """Prepare a truncation to `offset`, without changing anything.

    Args:
        index_slots: the number of hash slots of an index file; None: the node's settings have it,
            or it is the usual one.
        node_dir: the directory of the store's node; None for another program's store.

    Raises: ConfigError: no record ends at `offset`, or the number of hash slots is unknown.
    """
    marks = marks_of(env.disk, store)
    if node_dir is not None:
        marks |= high_water(read_raw_identity(env.disk, node_dir), store.name)
    derived = derived_group(env.disk, store, index_slots)
    plan = yield from plan_truncation(env.disk, store, offset, marks)
    return Truncation(plan, partial(truncate_store, env, store, plan, derived))


def plan_truncation(
    disk: Disk, store: GroupStore, offset: int, marks: Mapping[str, int]
) -> Work[TruncationPlan]:
    """Plan a truncation to `offset`, without changing anything.

    Args:
        marks: by source, the offset up to which everything was once safe.

    Raises: ConfigError: no record ends at `offset`.
    """
    bases = list(log_bases(disk, store))
    if not bases:
        raise ConfigError(f"{store.layout.commit_log}: expected a log, found no files")
    unfinished = _unfinished(disk, store)
    if unfinished is not None and unfinished < offset:
        raise ConfigError(
            f"OFFSET: expected {unfinished} or less, a truncation to it was interrupted, found"
            f" {offset}"
        )
    yield from _check_boundary(disk, store, bases, offset)
    used, records, files = 0, 0, 0
    for base in [each for each in bases if each + store.segment_bytes > offset]:
        path = segment_path(store.layout.commit_log, base)
        start = max(offset - base, 0)
        step = Step(f"{store.name}: what would be cut", base - offset, bases[-1] - offset)
        end = base + (yield from labelled(used_bytes(disk, path, start, store.segment_bytes), step))
        used = max(used, end if end > base + start else 0)
        files += base >= offset and base != bases[0]
        count, records_end = yield from _count(disk, store, base, max(offset, base))
        records, used = records + count, max(used, records_end)
    known_from, known = max(marks.items(), key=lambda item: item[1], default=("", None))
    return TruncationPlan(
        group=store.name,
        offset=offset,
        first_bytes=bases[0],
        used_bytes=max(used, offset),
        records=records,
        files=files,
        unfinished=unfinished,
        known_bytes=known,
        known_from=known_from,
    )


def marks_of(disk: Disk, store: GroupStore) -> dict[str, int]:
    """Return, by source, up to which offset the store's own files say that everything was safe."""
    try:
        values = read_side_file(disk, store.layout.synced, 1)
    except SideFileDamaged:
        return {}
    return {} if values is None else {"the synced mark": values[0]}


def _unfinished(disk: Disk, store: GroupStore) -> int | None:
    values = read_side_file(disk, store.layout.truncating, 2)
    return None if values is None or values[0] == NOTHING else values[0]


def _check_boundary(disk: Disk, store: GroupStore, bases: list[int], offset: int) -> Work[None]:
    """Check that a record ends at `offset`.

    Raises: ConfigError: none does; it names the nearest positions where one does.
    """
    size = store.segment_bytes
    end = bases[-1] + size
    if not bases[0] <= offset <= end:
        raise ConfigError(
            f"OFFSET: expected one from {bases[0]} to {end}, the ends of the log's files, found"
            f" {offset}"
        )
    if offset % size == 0:
        return
    base = offset - offset % size
    before, after = base, cast("int | None", None)
    reading = Running(read_file(disk, store, base, check_crc=False))
    for piece in reading:
        ends = [piece.offset + at + length for at, length in piece.found]
        before = max((end for end in ends if end <= offset), default=before)
        after = next((end for end in ends if end > offset), None)
        yield Step(f"{store.name}: record ends", before - base, size)
        if after is not None:
            break
    else:
        after = base + size if reading.result.ending is Ending.BLANK else None
    if before != offset:
        nearest = f"{before}" if after is None else f"{before} or {after}"
        raise ConfigError(
            f"OFFSET: expected one where a record ends, the nearest is {nearest}, found {offset}"
        )


def _count(disk: Disk, store: GroupStore, base: int, start: int) -> Work[tuple[int, int]]:
    """Return the number of good records of a file from `start` on, and the end of the last one."""
    count, end = 0, 0
    for piece in read_file(disk, store, base, start=start, check_crc=False):
        at, size = piece.found[-1]
        count, end = count + len(piece.found), piece.offset + at + size
        yield Step(f"{store.name}: records", end - base, store.segment_bytes)
    return count, end


def derived_group(disk: Disk, store: GroupStore, index_slots: int | None) -> ClassicGroup | None:
    """Return the sizes of the derived files as settings of a group; None: there are no derived
    files.

    Raises: ConfigError: it is unknown how many hash slots the index files have.
    """
    layout = store.layout
    queue_bytes = usual_file_bytes(disk, store)
    names = [name for name in disk.listdir(layout.index) if is_index_name(name)]
    sizes = [size for name in names if (size := size_of(disk, f"{layout.index}/{name}"))]
    if not queue_bytes and not sizes:
        return None
    slots = index_slots or store.setting("index_slots_count") or slots_of(disk, layout.index)
    changes: dict[str, Any] = {}
    if queue_bytes:
        changes["consume_queue_bytes"] = queue_bytes
    if sizes:
        units, rest = divmod(sizes[0] - index_file_bytes(slots or 0, 0), INDEX_UNIT_BYTES)
        if not slots or rest or units < 1:
            raise ConfigError(
                "--index-slots: expected the number of hash slots of the files in "
                f"{layout.index}, found {slots or 'none'}"
            )
        changes |= {"index_slots_count": slots, "index_units_count": units}
    try:
        return ClassicGroup(
            name="store", master="node", segment_bytes=store.segment_bytes, **changes
        )
    except ValueError as error:
        raise ConfigError(f"{layout.root}: {error}") from error


def truncate_store(
    env: Env, store: GroupStore, plan: TruncationPlan, derived: ClassicGroup | None
) -> Work[str | None]:
    """Carry out a plan. The caller holds the store's locks.

    Args:
        derived: the result of `derived_group`.

    Returns: the folder that keeps what was cut; None if nothing was.
    """
    disk, layout = env.disk, store.layout
    kept = None  # an interrupted truncation has kept its own part before it began
    if plan.cut_bytes and (plan.unfinished is None or plan.unfinished > plan.offset):
        kept = yield from _keep_aside(env, store, plan)
    lower_side_file(disk, store.layout.synced, plan.offset)
    lower_offsets(disk, layout.checkpoint, plan.offset)
    bases = segment_bases(disk, layout.commit_log)
    log = CommitLog.look(disk, layout.commit_log, store.segment_bytes, bases)
    truncation.truncate(disk, layout, log, min(plan.offset, log.written_bytes))
    yield Step(f"{store.name}: cut", 0, 0)
    if derived is not None:
        yield from labelled(
            _cut_derived(env, store, derived, plan), Step(f"{store.name}: queues, index", 0, 0)
        )
    return kept


def _keep_aside(env: Env, store: GroupStore, plan: TruncationPlan) -> Work[str]:
    """Copy what is cut. Effects order: each file is synced, then the folder gets its final name."""
    disk = env.disk
    parent = f"{store.layout.root}/truncated"
    for name in disk.listdir(parent):
        if name.endswith(PART):  # it was left by a run that was killed
            disk.rmtree(f"{parent}/{name}")
    now_ms = env.wall_clock_ms()
    when = datetime.datetime.fromtimestamp(now_ms // 1000, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = f"{parent}/{segment_name(plan.offset)}-{when}"
    while disk.exists(folder):
        folder += "+"
    part = folder + PART
    disk.mkdir(part)
    done = 0
    for base in segment_bases(disk, store.layout.commit_log):
        start, end = max(plan.offset, base), min(plan.used_bytes, base + store.segment_bytes)
        if start >= end:
            continue
        source = disk.open(segment_path(store.layout.commit_log, base), "r")
        target = disk.open(f"{part}/{segment_name(start)}", "x")
        with closing(source), closing(target):
            for at in range(start, end, READ_BYTES):
                data = source.pread(at - base, min(READ_BYTES, end - at))
                target.pwrite(data, at - start)
                done += len(data)
                yield Step(f"{store.name}: set aside", done, plan.cut_bytes)
            target.sync()
    about = {
        "group": plan.group,
        "from_bytes": plan.offset,
        "to_bytes": plan.used_bytes,
        "records": plan.records,
        "cut_ms": now_ms,
    }
    write_synced(disk, f"{part}/about.json", json.dumps(about, indent=1).encode() + b"\n")
    disk.sync_dir(part)
    disk.rename(part, folder)
    disk.sync_dir(parent)
    return folder


def _cut_derived(
    env: Env, store: GroupStore, derived: ClassicGroup, plan: TruncationPlan
) -> Generator[None, None, None]:
    """Cut the derived files as a node's start does; after an ordered stop a broker's are taken
    over.
    """
    disk, layout = env.disk, store.layout
    if not disk.exists(layout.dispatched) and not disk.exists(layout.abort):
        yield from adopt(disk, layout, derived, NO_LIMIT)
    files = DerivedFiles(env=env, layout=layout, group=derived)
    yield from files.recover(plan.first_bytes, plan.offset)
    files.close()
