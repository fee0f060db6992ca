"""Stores for the tests of `actors.storage.tools`, and a disk on which a process is killed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import attrs
from store_kit import ROOT, running, sim_disk, small_group

from actors.config import ClassicGroup
from actors.env.protocols import Env
from actors.log_types import Message
from actors.sim.disk import EPOCH_MS, SimDisk
from actors.storage.commitlog.opening import close_store, open_store
from actors.storage.derived.derived_files import DerivedFiles
from actors.storage.files.stepping import finish
from actors.storage.layout import StoreLayout
from actors.storage.node.identity import open_directory
from actors.storage.tools.commitlog.check import CheckOptions, check_store
from actors.storage.tools.findings import StoreReport
from actors.storage.tools.stores import GroupStore
from actors.storage.tools.target import find_target

NODE_DIR = "/data/n0"
LAYOUT = StoreLayout(ROOT)
S = 4096
GROUP = small_group()


def settings_of(group: ClassicGroup) -> dict[str, str]:
    """What a node's identity keeps of its group's settings, as far as it matters here."""
    keys = ("segment_bytes", "consume_queue_bytes", "index_slots_count", "index_units_count")
    keys = (*keys, "scrub_bytes_per_s")
    found = {f"groups.orders.{key}": str(getattr(group, key)) for key in keys}
    if group.store_version is not None:
        found["groups.orders.store_version"] = f'"{group.store_version}"'
    return found


async def node_disk(
    count: int = 150, *, disk: SimDisk | None = None, group: ClassicGroup = GROUP
) -> SimDisk:
    """The disk of a node that was stopped in order: `count` records, two topics, some with keys."""
    disk = disk or sim_disk()
    directory = open_directory(
        disk, NODE_DIR, cluster="demo", node="n0", groups=["orders"], settings=settings_of(group)
    )
    async with running(disk, group) as kit:
        for number in range(0, count, 5):
            await kit.append(*(message(number + each) for each in range(5)))
        await kit.dispatched((await kit.range()).written_bytes)
    directory.close()
    return disk


def message(number: int) -> Message:
    return Message(
        topic="tu"[number % 2],
        body=b"%d " % number * (number % 7 * 10),
        keys=(f"k{number}", f"k{number // 3}") if number % 3 else (),
        queue_id=number % 3,
    )


def twin(disk: SimDisk) -> SimDisk:
    """The same content on another machine."""
    return copy.deepcopy(disk)


def store_of(disk: Any, path: str = NODE_DIR) -> GroupStore:
    (store,) = find_target(disk, path).stores
    return store


def checked(disk: Any, path: str = NODE_DIR, **options: Any) -> StoreReport:
    """What a check says."""
    return finish(check_store(disk, store_of(disk, path), CheckOptions(**options)))


def write_at(disk: SimDisk, path: str, at: int, data: bytes) -> None:
    """Damage a file."""
    file = disk.open(path, "w")
    file.pwrite(data, at)
    file.sync()
    file.close()


def read_all(disk: Any, path: str) -> bytes:
    file = disk.open(path, "r")
    try:
        return bytes(file.pread(0, file.size_bytes))
    finally:
        file.close()


def log_of(disk: SimDisk, folder: str = LAYOUT.commit_log) -> bytes:
    """All bytes of a log, without the zeros behind it."""
    data = b"".join(read_all(disk, f"{folder}/{name}") for name in disk.listdir(folder))
    return data.rstrip(b"\0")


def starts(disk: SimDisk, root: str = ROOT, group: ClassicGroup = GROUP) -> int:
    """Open and close a store as a node does. Gives the end of its log."""
    layout = StoreLayout(root)
    opened = finish(open_store(disk, layout, group, is_master=False, owner="n0"))
    end = opened.log.written_bytes
    close_store(disk, layout, opened.log, opened.mark, (), synced_bytes=0)
    return end


def forget_derived(disk: SimDisk) -> None:
    """Queues, index, and what says how far they reach."""
    disk.rmtree(LAYOUT.consume_queue)
    disk.rmtree(LAYOUT.index)
    disk.unlink(LAYOUT.dispatched)


def env_of(disk: Any) -> Env:
    return Env(
        network=None,  # type: ignore[arg-type]
        disk=disk,
        rng=None,  # type: ignore[arg-type]
        wall_clock_ms=lambda: EPOCH_MS,
        events=lambda path, incarnation, event: None,
    )


class Killed(BaseException):
    """The process ends here; nothing catches it."""


@attrs.define(eq=False)
class _File:
    _inner: Any
    _step: Callable[[], None]

    def pwrite(self, data: bytes, offset: int) -> None:
        self._step()
        self._inner.pwrite(data, offset)

    def resize(self, size_bytes: int) -> None:
        self._step()
        self._inner.resize(size_bytes)

    def sync(self) -> None:
        self._step()
        self._inner.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class KillingDisk:
    """Passes everything on until the step before which the process is killed.

    A step is whatever changes the disk: a write, a sync, a name made, moved or removed.
    """

    def __init__(self, inner: SimDisk, kill_before: int) -> None:
        self._inner = inner
        self._left = kill_before

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed

    def open(self, path: str, mode: str) -> Any:
        if mode == "x":
            self._step()
        return _File(self._inner.open(path, mode), self._step)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in ("mkdir", "rename", "unlink", "rmtree", "sync_dir"):
            return method

        def stepped(*args: Any) -> Any:
            self._step()
            return method(*args)

        return stepped


def expire(disk: SimDisk, group: ClassicGroup, count: int) -> None:
    """As a running node: the log's first files, then the derived files that only they needed."""
    for number in range(count):
        disk.unlink(f"{LAYOUT.commit_log}/{number * S:020d}")
    files = DerivedFiles(env=env_of(disk), layout=LAYOUT, group=group)
    finish(files.recover(count * S, 1 << 40))
    assert finish(files.queues.trim(count * S))
    assert files.index.trim(count * S)
    files.close()


LOSSES = 4
"""Power losses after the same step: each keeps another part of what was not synced."""


def deaths(
    template: SimDisk, work: Callable[[Any], object], *, power_loss: bool
) -> Iterator[tuple[int, SimDisk]]:
    """The disk after `work` was killed before its 1st, 2nd, ... step, and at last behind its end.

    Args:
        power_loss: of the machine, instead of a kill of the process.
    """
    for number in range(10_000):
        disk = twin(template)
        ended = True
        try:
            work(KillingDisk(disk, number))
        except Killed:
            ended = False
        if not power_loss:
            disk.kill()
            yield number, disk
        for loss in range(LOSSES if power_loss else 0):
            lost = twin(disk)
            lost.power_loss(random.Random(f"{number}:{loss}"))
            yield number, lost
        if ended:
            assert number > 5, "hardly any steps"
            return
    raise AssertionError("it never ended")
