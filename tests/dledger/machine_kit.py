"""A state machine for tests: it remembers what it was sent, and breaks when asked to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import trio
from group_kit import GROUP, Group

from actors.errors import MachineFailed, StorageError
from actors.sim.disk import SimDisk
from actors.state_machine import LogEntry

SNAPSHOTS: dict[str, Any] = {"snapshot_entries": 20, "data_file_bytes": 4096}
FILE_ENTRIES = 35
"""About so many of `appended` fill a data file."""


@attrs.define(eq=False)
class Book:
    """Its state is the list of all bodies; the result of an entry is how many there are then.

    Attributes:
        bodies: the state.
        indexes: of the entries that this life of it was given.
        roles: what it was sent of leading, ("started" or "stopped", term).
        loads: how often it was loaded.
        breaks: by method, called before anything is done.
        filler: bytes that a snapshot has besides.
        lazy: `save` is a generator over the state itself.
    """

    bodies: list[str] = attrs.field(factory=list)
    indexes: list[int] = attrs.field(factory=list)
    roles: list[tuple[str, int]] = attrs.field(factory=list)
    loads: int = 0
    breaks: dict[str, Callable[[], None]] = attrs.field(factory=dict)
    filler: int = 0
    lazy: bool = False

    def _maybe(self, what: str) -> None:
        if what in self.breaks:
            self.breaks[what]()

    def apply(self, entries: Sequence[LogEntry]) -> Sequence[object]:
        self._maybe("apply")
        results = []
        for entry in entries:
            assert not self.indexes or entry.index > self.indexes[-1], "in order, and once"
            self.indexes.append(entry.index)
            self.bodies.append(entry.body.decode())
            results.append(len(self.bodies))
        return results

    def save(self) -> Iterable[bytes]:
        self._maybe("save")
        if self.lazy:
            return self._pieces()
        return [json.dumps(self.bodies).encode(), b"\n" + bytes(self.filler)]

    def _pieces(self) -> Iterator[bytes]:
        yield b"["
        for number, body in enumerate(self.bodies):  # would notice a change meanwhile
            yield (", " if number else "").encode() + json.dumps(body).encode()
        yield b"]\n"

    def load(self, chunks: Iterator[bytes]) -> Iterator[None]:
        self._maybe("load")
        data = b""
        for chunk in chunks:
            data += chunk
            yield
        self.bodies[:] = json.loads(data[: data.index(b"\n")])
        self.loads += 1

    def leader_started(self, term: int) -> None:
        self._maybe("leader_started")
        self.roles.append(("started", term))

    def leader_stopped(self, term: int) -> None:
        self.roles.append(("stopped", term))


@attrs.define
class Shelf:
    """The books of a group's members; a start makes a new one.

    Attributes:
        books: of each member, the newest.
        made: called with each new one.
    """

    books: dict[str, Book] = attrs.field(factory=dict)
    made: Callable[[str, Book], None] = lambda name, book: None

    def __call__(self, name: str) -> Book:
        book = self.books[name] = Book()
        self.made(name, book)
        return book

    def all_have(self, group: Group, bodies: list[str]) -> Callable[[], bool]:
        """A condition: every running member has applied exactly these."""
        return lambda: all(self.books[name].bodies == bodies for name in group.systems)


async def failed(group: Group, name: str) -> str:
    """Wait until the member has ended with an error; the text of the machine's, or the caller's."""
    node = group.world.node(name)
    await group.until(lambda: node.failure is not None)
    failure = node.take_failure()
    group.systems.pop(name, None)
    found: list[str] = []
    open_: list[BaseException] = [failure] if failure is not None else []
    while open_:
        error = open_.pop()
        open_ += [
            *getattr(error, "exceptions", ()),
            *([error.__cause__] if error.__cause__ else []),
        ]
        if isinstance(error, MachineFailed | StorageError):
            found.append(str(error))
    (text,) = set(found)
    return text


def other(group: Group, leader: str) -> str:
    """A member that does not lead."""
    return next(name for name in group.names if name != leader)


async def appended(group: Group, leader: str, first: int, count: int) -> list[str]:
    """So many entries, one append each; their bodies."""
    bodies = [f"entry {number} " + "x" * 40 for number in range(first, first + count)]
    for body in bodies:
        await group.append(leader, body.encode())
    return bodies


def snapshot_dir(name: str) -> str:
    return f"/data/{name}/groups/{GROUP}/snapshot"


def disk_of(group: Group, name: str) -> SimDisk:
    return group.world.node(name).disk


def snapshots(group: Group, name: str) -> list[int]:
    found = disk_of(group, name).listdir(snapshot_dir(name))
    return sorted(int(each.removeprefix("snapshot_")) for each in found if each != "tmp")


async def begin_of(group: Group, name: str) -> int:
    return (await group.offsets(name)).min


async def grown(group: Group, shelf: Shelf, leader: str, count: int = 120) -> list[str]:
    """So many entries, applied by all, with the snapshots and removals that come of them."""
    bodies = await appended(group, leader, 0, count)
    await group.until(shelf.all_have(group, bodies))
    for name in group.systems:
        await group.until(lambda name=name: (snapshots(group, name) or [0])[-1] >= count - 25)
    await trio.sleep(2)  # one file after the other goes
    return bodies


def begins(group: Group, name: str) -> int:
    """The name of the first data file, which is where it begins in the log."""
    files = disk_of(group, name).listdir(f"/data/{name}/groups/{GROUP}/data")
    return int(files[0])
