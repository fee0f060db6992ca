"""The content of one simulated file: pages as written, and pages as durable.

Every unsynced page has several versions: the one on the disk, those that running syncs carry, with
`Writeback` one that the kernel has written back by itself between two writes, and the newest. A
power loss keeps one of them at random. A page is kept whole: no power loss tears it. After a sync
that failed the pages count as clean, as in Linux, but are not on the disk; only another write and
sync of the same page can make it durable.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import trio

PAGE_BYTES = 4096
USES_MAX: Final = 64
"""How many reads and writes of a file are remembered."""
_ZEROS = bytes(PAGE_BYTES)


@attrs.define(eq=False)
class Writeback:
    """A kernel that writes pages back at times of its own.

    Attributes:
        share: the share of the writes to an unsynced page before which the page was written back.
        rng: the source that decides this, and nothing else.
        kept: how often a power loss has kept a version that was written back.
    """

    share: float
    rng: random.Random
    kept: int = 0

    def happens(self) -> bool:
        return self.share > 0.0 and self.rng.random() < self.share


@attrs.define(eq=False)
class _Durable:
    """What is surely on the disk."""

    size_bytes: int = 0
    pages: dict[int, bytes] = attrs.field(factory=dict)
    older: dict[int, bytes] = attrs.field(factory=dict)  # what the last sync of a page replaced


@attrs.define(eq=False)
class Inode:
    """A file without its name. A page that is not in `_pages` is zeros.

    Attributes:
        durable_changes: a number that grows whenever what is surely on the disk may have changed.
    """

    modified_ms: int
    size_bytes: int = 0
    writeback: Writeback | None = None
    durable_changes: int = attrs.field(init=False, default=0)
    _pages: dict[int, bytearray] = attrs.field(init=False, factory=dict)
    _allocated: set[int] = attrs.field(init=False, factory=set)
    _durable: _Durable = attrs.field(init=False, factory=_Durable)
    _dirty: dict[int, None] = attrs.field(init=False, factory=dict)  # to be taken by a sync
    _lost: dict[int, None] = attrs.field(init=False, factory=dict)  # of a sync that failed
    _syncs: dict[int, tuple[int, dict[int, bytes]]] = attrs.field(init=False, factory=dict)
    _sync_next: int = attrs.field(init=False, default=0)
    # By page: the last version that was written back, and the number of the sync that came next.
    _written_back: dict[int, tuple[int, bytes]] = attrs.field(init=False, factory=dict)

    # By processes: when, from where, to where.
    _uses: deque[tuple[float, int, int]] = attrs.field(
        init=False, factory=lambda: deque(maxlen=USES_MAX)
    )

    # As the process sees it.

    def read_by_process(self, offset: int, size: int) -> bytes:
        """Read for a simulated process, as `read` does, and remember the time and the range."""
        self._uses.append((_now_s(), offset, offset + size))
        return self.read(offset, size)

    def was_used(self, start: int, end: int, since_s: float) -> bool:
        """Whether a process has, or may have, read or written some of these bytes since a time."""
        uses = self._uses
        if len(uses) == USES_MAX and uses[0][0] >= since_s:
            return True
        return any(at_s >= since_s and low < end and start < high for at_s, low, high in uses)

    def read(self, offset: int, size: int) -> bytes:
        return _range(self._pages, offset, min(offset + size, self.size_bytes))

    def write(self, view: memoryview, offset: int) -> None:
        end = offset + len(view)
        self._uses.append((_now_s(), offset, end))
        for number in range(offset // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
            start = number * PAGE_BYTES
            low, high = max(offset, start), min(end, start + PAGE_BYTES)
            if number in self._dirty and self.writeback and self.writeback.happens():
                self._written_back[number] = (self._sync_next, self._version(number))
            page = self._page(number)
            page[low - start : high - start] = view[low - offset : high - offset]
        self.size_bytes = max(self.size_bytes, end)

    def resize(self, size_bytes: int) -> None:
        if size_bytes < self.size_bytes:
            first_gone = -(-size_bytes // PAGE_BYTES)
            for number in [number for number in self._pages if number >= first_gone]:
                del self._pages[number]
                self._touch(number)
                self._written_back.pop(number, None)
            self._allocated = {number for number in self._allocated if number < first_gone}
            rest = size_bytes % PAGE_BYTES
            if rest and size_bytes // PAGE_BYTES in self._pages:
                self._page(size_bytes // PAGE_BYTES)[rest:] = bytes(PAGE_BYTES - rest)
        self.size_bytes = size_bytes

    def _page(self, number: int) -> bytearray:
        self._touch(number)
        return self._pages.setdefault(number, bytearray(PAGE_BYTES))

    def _touch(self, number: int) -> None:
        self._dirty[number] = None
        self._lost.pop(number, None)

    # Blocks.

    @property
    def allocated_pages(self) -> int:
        return len(self._allocated)

    def missing_pages(self, offset: int, size: int) -> list[int]:
        if size == 0:
            return []
        touched = range(offset // PAGE_BYTES, (offset + size - 1) // PAGE_BYTES + 1)
        return [number for number in touched if number not in self._allocated]

    def allocate(self, numbers: list[int]) -> None:
        self._allocated.update(numbers)

    # Syncs. Several may run at once: each covers what was written when it began.

    def begin_sync(self) -> int:
        """Begin a sync. Returns: its number, for `end_sync` or `fail_sync`."""
        number = self._sync_next
        self._sync_next += 1
        taken: dict[int, bytes] = {}
        for _, under_way in self._syncs.values():  # those must have arrived as well
            taken.update(under_way)
        for page in self._dirty:
            taken[page] = self._version(page)
        self._dirty.clear()
        self._syncs[number] = (self.size_bytes, taken)
        return number

    def end_sync(self, number: int) -> None:
        """End a sync: the pages that it carries are durable. Earlier syncs that still run carried
        the same pages or older versions, so they have nothing more to write.
        """
        size_bytes, taken = self._syncs.pop(number)
        self.durable_changes += 1
        on_disk = self._durable
        on_disk.size_bytes = size_bytes
        for page, version in taken.items():
            before = on_disk.pages.get(page, _ZEROS)
            if before != version:
                on_disk.older[page] = before
            on_disk.pages[page] = version
            if page in self._written_back and self._written_back[page][0] <= number:
                del self._written_back[page]  # it is older than what this sync carried
        for earlier in [each for each in self._syncs if each < number]:
            self._syncs[earlier] = (size_bytes, {})

    def fail_sync(self, number: int) -> None:
        _, taken = self._syncs.pop(number)
        for page in taken:
            if page not in self._dirty:
                self._lost[page] = None

    def abandon_syncs(self) -> None:
        """Forget the syncs of a process that is gone. The pages that they carried count as written
        and not synced.
        """
        for _, taken in self._syncs.values():
            for page in taken:
                self._touch(page)
        self._syncs.clear()

    def _version(self, number: int) -> bytes:
        return bytes(self._pages.get(number, _ZEROS))

    # Faults.

    def power_loss(self, rng: random.Random) -> None:
        """Forget the cache, and keep of each unsynced page, and of the size, one version at
        random.
        """
        on_disk = self._durable
        candidates: dict[int, list[bytes]] = {}
        sizes = [on_disk.size_bytes]
        for size_bytes, taken in self._syncs.values():
            sizes.append(size_bytes)
            for number, version in taken.items():
                candidates.setdefault(number, []).append(version)
        for number in (*self._dirty, *self._lost):
            candidates.setdefault(number, []).append(self._version(number))
        sizes.append(self.size_bytes)
        for number, versions in sorted(candidates.items()):
            if number in self._written_back:
                versions.append(self._written_back[number][1])
            kept = rng.choice([on_disk.pages.get(number, _ZEROS), *versions])
            on_disk.pages[number] = kept
            if self.writeback and number in self._written_back:
                self.writeback.kept += kept is versions[-1]
        on_disk.size_bytes = rng.choice(sizes) if len(set(sizes)) > 1 else sizes[0]
        self._restart_from_disk()

    def _restart_from_disk(self) -> None:
        on_disk = self._durable
        self.durable_changes += 1
        self._syncs.clear()
        self._dirty.clear()
        self._lost.clear()
        self._written_back.clear()
        self._pages.clear()
        self.size_bytes = on_disk.size_bytes
        end = -(-self.size_bytes // PAGE_BYTES)
        on_disk.pages = {n: page for n, page in on_disk.pages.items() if n < end}
        rest = self.size_bytes % PAGE_BYTES
        if rest and end - 1 in on_disk.pages:
            on_disk.pages[end - 1] = on_disk.pages[end - 1][:rest].ljust(PAGE_BYTES, b"\0")
        self._pages = {number: bytearray(page) for number, page in on_disk.pages.items()}
        self._allocated = {number for number in self._allocated if number < end}

    def flip_bit(self, position: int, bit: int) -> None:
        assert 0 <= position < self.size_bytes, position
        self._alter(position, lambda byte: byte ^ 1 << bit)

    def older_pages(self) -> list[int]:
        """Return the pages that had another content before their last sync, and that are not
        dirty.
        """
        end = self.size_bytes // PAGE_BYTES
        return sorted(n for n in self._durable.older if n < end and n not in self._dirty)

    def revert_page(self, number: int) -> None:
        """Give a page the content that it had before its last sync, on the disk and in the
        cache.
        """
        before = self._durable.older.pop(number)
        self.durable_changes += 1
        self._durable.pages[number] = before
        self._pages[number] = bytearray(before)

    def patch(self, data: bytes, offset: int) -> None:
        """Write bytes to the disk and into the cache, as a repair of a file does."""
        for position, good in enumerate(data, offset):
            self._alter(position, lambda byte, good=good: good)  # type: ignore[misc]

    def _alter(self, position: int, change: Callable[[int], int]) -> None:
        """Change one byte in every version: on the disk, in the cache, and in running syncs."""
        number, at = divmod(position, PAGE_BYTES)
        self.durable_changes += 1
        page = self._pages.setdefault(number, bytearray(PAGE_BYTES))
        page[at] = change(page[at])
        for versions in (self._durable.pages, *(taken for _, taken in self._syncs.values())):
            if number in versions or versions is self._durable.pages:
                altered = bytearray(versions.get(number, _ZEROS))
                altered[at] = change(altered[at])
                versions[number] = bytes(altered)
        if number in self._written_back:
            stamp, version = self._written_back[number]
            altered = bytearray(version)
            altered[at] = change(altered[at])
            self._written_back[number] = (stamp, bytes(altered))

    def durable_bytes(self) -> bytes:
        """Return the synced content; a page with a newer unsynced version is in its old one."""
        return self.durable_range(0, self._durable.size_bytes)

    def durable_range(self, start: int, end: int) -> bytes:
        """Return a part of the synced content; shorter at the end of the durable file."""
        return _range(self._durable.pages, start, min(end, self._durable.size_bytes))


def _now_s() -> float:
    """Return the virtual time; 0.0 outside of a run, where files are made too."""
    return trio.current_time() if trio.lowlevel.in_trio_run() else 0.0


def _range(pages: Mapping[int, bytes | bytearray], start: int, end: int) -> bytes:
    if start >= end:
        return b""
    parts = []
    for number in range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
        at = number * PAGE_BYTES
        page = pages.get(number, _ZEROS)
        parts.append(page[max(start - at, 0) : min(end - at, PAGE_BYTES)])
    return b"".join(parts)
