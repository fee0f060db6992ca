"""What the tests of `actors.storage.tools` on DLedger stores share."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import attrs
from ledger_kit import FILE, INDEX_FILE, LAYOUT, ROOT, finish, fresh, sim_disk

from actors.sim.disk import SimDisk
from actors.storage.files.whole_files import sync_file
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import TermVote
from actors.storage.ledger.snapshots import TAKEN, SnapshotFolder
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Dumped, Wanted
from actors.storage.tools.findings import LedgerReport
from actors.storage.tools.ledger.check import check_ledger
from actors.storage.tools.ledger.dump import dump_ledger
from actors.storage.tools.stores import GroupLedger
from actors.storage.tools.target import find_target

COUNT = 150


def body(number: int) -> bytes:
    """Of an entry: about a hundred bytes, none of them zero."""
    return b"entry %03d " % number * (number % 20 + 1)


def filled(count: int = COUNT, *, disk: SimDisk | None = None, ordered: bool = True) -> SimDisk:
    """The disk of a member that has stopped: entries of two terms, all committed, several files."""
    disk = disk or sim_disk()
    ledger = fresh(disk)
    ledger.save_vote(TermVote(2, "n1"))
    for number in range(count):
        ledger.append_as_leader([body(number)], 1 if number < count // 2 else 2)
    ledger.commit(count - 1)
    if ordered:
        ledger.close(ordered=True)
        return disk
    for path in ledger.begin_sync(whole=True).paths:
        sync_file(disk, path)
    return disk


def take_snapshot(disk: SimDisk, index: int, term: int, data: bytes = b"state" * 100) -> None:
    """As a member does."""
    folder = SnapshotFolder(disk, LAYOUT.snapshot, ("n0",))
    if not disk.exists(folder.root):
        folder.open()
    writer = folder.writer(TAKEN)
    writer.write(data)
    for path in writer.finish(index, term):
        sync_file(disk, path)
    writer.commit()


def ledger_at(disk: Any, path: str = ROOT) -> GroupLedger:
    """With the sizes that a node's identity keeps."""
    (ledger,) = find_target(disk, path).stores
    return attrs.evolve(ledger, segment_bytes=FILE, index_file_bytes=INDEX_FILE)


def checked(disk: Any, path: str = ROOT, **options: Any) -> LedgerReport:
    return finish(check_ledger(disk, ledger_at(disk, path), CheckOptions(**options)))


def dumped(
    disk: Any, path: str = ROOT, limit: int | None = None, **wanted: Any
) -> tuple[list[dict[str, Any]], Dumped]:
    """The lines as objects, and what was noted."""
    out: list[bytes] = []
    work = dump_ledger(disk, ledger_at(disk, path), Wanted(**wanted), out.append, limit=limit)
    done = finish(work)
    return [json.loads(line) for line in b"".join(out).splitlines()], done


def flip(disk: SimDisk, path: str, at: int) -> None:
    """Damage one byte."""
    file = disk.open(path, "w")
    was = file.pread(at, 1)
    file.pwrite(bytes([was[0] ^ 0x41]), at)
    file.sync()
    file.close()


def write_file(disk: SimDisk, path: str, data: bytes) -> None:
    """A small file, in place of what is there."""
    file = disk.open(path, "w" if disk.exists(path) else "x")
    file.resize(0)
    file.pwrite(data, 0)
    file.sync()
    file.close()


def all_bytes(disk: SimDisk, folder: str = ROOT) -> dict[str, bytes]:
    """Every file below a folder."""
    found: dict[str, bytes] = {}
    for name in disk.listdir(folder):
        path = f"{folder}/{name}"
        try:
            file = disk.open(path, "r")
        except OSError:
            found |= all_bytes(disk, path)
            continue
        found[path] = bytes(file.pread(0, file.size_bytes))
        file.close()
    return found


def tree_bytes(folder: pathlib.Path | LedgerLayout) -> dict[str, bytes]:
    """The same of a real folder."""
    top = pathlib.Path(folder.root if isinstance(folder, LedgerLayout) else folder)
    return {str(path): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}
