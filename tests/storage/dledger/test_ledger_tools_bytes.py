"""Whatever lies in a DLedger store, the tools say something about it, in one line each, and end."""

from __future__ import annotations

import copy
import random

import pytest
from ledger_kit import LAYOUT, ROOT, finish
from ledger_tools_kit import all_bytes, filled, take_snapshot, write_file

from actors.errors import TriologError
from actors.sim.disk import SimDisk
from actors.storage.files.side_file import SideFile
from actors.storage.tools.backup import copy_stores, open_backup
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.commitlog.dump import Wanted
from actors.storage.tools.copying import BackedUp
from actors.storage.tools.ledger.backup import stopped_ledger_limit
from actors.storage.tools.ledger.check import check_ledger
from actors.storage.tools.ledger.dump import dump_ledger
from actors.storage.tools.stores import GroupLedger
from actors.storage.tools.target import find_target


def spoil(disk: SimDisk, draw: random.Random) -> None:
    """One file is shortened, lengthened, emptied, lost, or has other bytes."""
    path = draw.choice(sorted(all_bytes(disk)))
    data = bytearray(all_bytes(disk)[path])
    match draw.randrange(6):
        case 0:
            disk.unlink(path)
            return
        case 1:
            del data[draw.randrange(len(data) + 1) :]
        case 2:
            data += draw.randbytes(draw.randrange(1, 5000))
        case 3:
            data.clear()
        case 4:
            at = draw.randrange(max(len(data), 1))
            data[at : at + 20] = draw.randbytes(20)
        case _:
            at = draw.randrange(max(len(data), 1))
            data[at : at + 600] = bytes(600)
    write_file(disk, path, bytes(data))


def looked_at(disk: SimDisk, ledger: GroupLedger, *, is_running: bool) -> int:
    """All that reads it. Gives how many things were found or refused."""
    said = 0
    try:
        report = finish(check_ledger(disk, ledger, CheckOptions(is_running=is_running)))
        found = [*report.findings.damage, *report.findings.notes]
    except TriologError as error:
        found = [str(error)]
    assert not any("\n" in line for line in found)
    said += len(found)
    try:
        done = finish(dump_ledger(disk, ledger, Wanted(), lambda lines: None))
        said += len(done.problems)
    except TriologError:
        said += 1
    try:
        limit = finish(stopped_ledger_limit(disk, ledger))
        target = find_target(disk, ROOT)
        open_backup(disk, target, "/backup")
        finish(copy_stores(disk, target, "/backup", {ledger.name: limit}, BackedUp()))
    except TriologError:
        said += 1
    return said


@pytest.mark.parametrize("seed", range(8))
def test_any_bytes_are_reported_about(seed: int) -> None:
    """Without the sizes that a node's identity keeps, which is the harder case."""
    template = filled(40)
    take_snapshot(template, 30, 2)
    SideFile.open(template, LAYOUT.truncating, 2)[0].close()
    draw, said = random.Random(seed), 0
    for number in range(25):
        disk = copy.deepcopy(template)
        for _ in range(draw.randrange(1, 4)):
            spoil(disk, draw)
        try:
            (ledger,) = find_target(disk, ROOT).stores
        except (TriologError, ValueError):
            assert not disk.exists(LAYOUT.term)
            continue
        before = all_bytes(disk)
        said += looked_at(disk, ledger, is_running=number % 2 == 0) > 0
        assert all_bytes(disk) == before
    assert said > 10
