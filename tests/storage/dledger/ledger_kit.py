"""What the tests of the DLedger store share: worlds with one disk, entries, whole logs as lists."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from entry_kit import new_entry

from actors.env.local_disk import LocalDisk
from actors.env.protocols import Disk, Env
from actors.sim.disk import SimDisk, SimFile
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.file_ledger import FileLedger, open_ledger
from actors.storage.ledger.ledger import LedgerStore
from actors.storage.ledger.settings import LedgerSettings
from wire.dledger.entry import (
    Entry,
    decode_entry,
    position,
)

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "dledger"
ROOT = "/data/n0/groups/ledger"
LAYOUT = LedgerLayout(ROOT)
FILE = 4096
INDEX_FILE = 1024
T = TypeVar("T")


def finish(work: Generator[None, None, T]) -> T:
    """Run a generator that yields between pieces of work to its end."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: T = stop.value
            return result


def env_of(disk: Disk, now_ms: int = 1_700_000_000_000) -> Env:
    return Env(
        network=None,  # type: ignore[arg-type]
        disk=disk,
        rng=random.Random(1),
        wall_clock_ms=lambda: now_ms,
        events=lambda path, incarnation, event: None,
    )


def small(**changes: Any) -> LedgerSettings:
    """Settings with small files."""
    fields: dict[str, Any] = {"data_file_bytes": FILE, "index_file_bytes": INDEX_FILE}
    return LedgerSettings(**(fields | changes))


def sim_disk(seed: int = 0) -> SimDisk:
    return SimDisk(random.Random(seed))


def opened(disk: Disk, layout: LedgerLayout = LAYOUT, **changes: Any) -> FileLedger:
    return finish(open_ledger(env_of(disk), layout, small(**changes)))


def saved_term(disk: Disk, layout: LedgerLayout = LAYOUT) -> None:
    """As a member has before its first entry."""
    disk.mkdir(layout.root)
    if not disk.exists(layout.term):
        file = disk.open(layout.term, "x")
        file.pwrite(b"voteLeader=n0\ncurrTerm=1\n", 0)
        file.sync()
        disk.sync_dir(layout.root)
        file.close()


def fresh(disk: Disk, **changes: Any) -> FileLedger:
    saved_term(disk)
    return opened(disk, **changes)


def sync(ledger: LedgerStore, disk: Disk, *, whole: bool = False) -> None:
    """What a syncer does."""
    work = ledger.begin_sync(whole=whole)
    for path in work.paths:
        disk.open(path, "w").sync()
    ledger.end_sync(work)


def entries_of(ledger: LedgerStore, bytes_max: int = 1 << 20) -> list[Entry]:
    """All of the log, read in order."""
    found: list[Entry] = []
    index = ledger.begin_index
    while 0 <= index <= ledger.end_index:
        data = ledger.read(index, bytes_max)
        at = 0
        while at < len(data):
            entry = decode_entry(data, at)
            assert entry.index == index
            found.append(entry)
            at += entry.size
            index += 1
    return found


def model(ledger: LedgerStore) -> list[tuple[int, int, bytes]]:
    """(index, term, body) of every entry."""
    return [(entry.index, entry.term, entry.body) for entry in entries_of(ledger)]


def chain(
    bodies: list[bytes], *, term: int = 1, index: int = 0, pos: int = 0, file_bytes: int = FILE
) -> list[Entry]:
    """Entries as a leader has them."""
    found = []
    for number, body in enumerate(bodies):
        pos = position(pos, 48 + len(body), file_bytes)
        found.append(new_entry(index=index + number, term=term, pos=pos, body=body))
        pos += 48 + len(body)
    return found


def golden_copy(name: str, folder: pathlib.Path) -> LedgerLayout:
    """A writable copy of a golden store."""
    target = folder / name
    shutil.copytree(GOLDEN / name, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return LedgerLayout(str(target))


def folder_bytes(layout: LedgerLayout) -> dict[str, bytes]:
    """Name -> content of data and index files."""
    top = pathlib.Path(layout.root)
    names = [*top.glob("data/*"), *top.glob("index/*")]
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(names)}


def local(tmp_path: pathlib.Path) -> tuple[LocalDisk, LedgerLayout]:
    disk, layout = LocalDisk(), LedgerLayout(f"{tmp_path}/store")
    saved_term(disk, layout)
    return disk, layout


class Died(Exception):
    """The process of a test."""


CHANGES = (
    (SimFile, ("pwrite", "resize", "sync", "prepare")),
    (SimDisk, ("unlink", "rmtree", "mkdir", "rename", "sync_dir")),
)


@contextmanager
def dying_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> Iterator[list[bool]]:
    """Every operation that changes the disk raises once `steps` of them were done.

    Gives a list that holds True afterwards if that happened.
    """
    left, died = [steps], [False]
    with monkeypatch.context() as patch:
        for kind, names in CHANGES:
            for name in names:
                real = getattr(kind, name)

                def counted(*args: Any, real: Any = real) -> Any:
                    left[0] -= 1
                    if left[0] < 0:
                        raise Died
                    return real(*args)

                patch.setattr(kind, name, counted)
        try:
            yield died
        except Died:
            died[0] = True
