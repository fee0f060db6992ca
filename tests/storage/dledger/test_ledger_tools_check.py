"""`check` of DLedger stores: Java's are good, every kind of damage is found, nothing is changed."""

from __future__ import annotations

import copy
import json
import pathlib
import re
from collections.abc import Callable

import attrs
import pytest
from ledger_kit import (
    GOLDEN,
    LAYOUT,
    ROOT,
    entries_of,
    finish,
    fresh,
    golden_copy,
    opened,
    sim_disk,
    sync,
)
from ledger_tools_kit import (
    COUNT,
    all_bytes,
    checked,
    filled,
    flip,
    ledger_at,
    take_snapshot,
    tree_bytes,
    write_file,
)

from actors.env.local_disk import LocalDisk
from actors.errors import CorruptLog
from actors.sim.disk import SimDisk
from actors.storage.files.side_file import SideFile
from actors.storage.ledger.mark import Mark, MarkValues
from actors.storage.tools.commitlog.check import CheckOptions
from actors.storage.tools.ledger.check import check_ledger

DATA, INDEX, SUMS = LAYOUT.commit_log, LAYOUT.index, LAYOUT.sums


def file(folder: str, base: int) -> str:
    return f"{folder}/{base:020d}"


@pytest.mark.real_io
@pytest.mark.parametrize("name", ["store-n0", "store-n1", "store-n2", "store-divergent"])
def test_a_java_store_is_good(name: str, tmp_path: pathlib.Path) -> None:
    wanted = json.loads((GOLDEN / "manifest.json").read_text())[name]
    before = tree_bytes(layout := golden_copy(name, tmp_path))
    found = checked(LocalDisk(), layout.root)
    assert found.is_good, found.findings
    assert found.findings.notes == []
    entries = wanted["entries"]
    assert (found.first_index, found.end_index) == (0, entries[-1]["index"])
    assert (found.entries, found.indexed, found.summed) == (len(entries), len(entries), 0)
    assert found.end_term == entries[-1]["term"]
    assert found.end_bytes == entries[-1]["pos"] + entries[-1]["size"]
    assert found.committed_index == int(wanted["checkpoint"]["committedIndex"])
    term = wanted["currterm"]
    assert (found.term, found.voted_for) == (int(term["currTerm"]), term["voteLeader"])
    assert (found.mark_bytes, found.torn_bytes, found.state) == (None, 0, "stopped")
    assert tree_bytes(layout) == before


def test_ours_is_good_and_unchanged() -> None:
    disk = filled()
    before = all_bytes(disk)
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.findings.notes == []
    assert (found.entries, found.indexed, found.summed) == (COUNT, COUNT, COUNT)
    assert (found.committed_index, found.term, found.voted_for) == (COUNT - 1, 2, "n1")
    assert found.mark_bytes == found.end_bytes
    assert found.files > 3
    assert all_bytes(disk) == before


def lost(folder: str, base: int) -> Callable[[SimDisk], None]:
    return lambda disk: disk.unlink(file(folder, base))


def flipped(folder: str, base: int, at: int) -> Callable[[SimDisk], None]:
    return lambda disk: flip(disk, file(folder, base), at)


def shortened(folder: str, base: int, size: int) -> Callable[[SimDisk], None]:
    return lambda disk: disk.open(file(folder, base), "w").resize(size)


def written(path: str, data: bytes) -> Callable[[SimDisk], None]:
    return lambda disk: write_file(disk, path, data)


DAMAGE = {
    "magic": (flipped(DATA, 4096, 3), r"data/0{16}4096: byte 0 \(entry \d+, offset 4096\): magic"),
    "index": (flipped(DATA, 4096, 15), r"data/0{16}4096: byte 0 .*: index \d+ where \d+ belongs"),
    "term": (flipped(DATA, 4096, 23), r"offset 4096\): (term|an entry that is not)"),
    "place": (flipped(DATA, 4096, 31), r"offset 4096\): pos \d+ in an entry at 4096"),
    "size": (flipped(DATA, 4096, 7), r"offset 4096\): size \d+ with \d+ body bytes"),
    "body": (flipped(DATA, 4096, 50), r"offset 4096\): an entry that is not what was written"),
    "first": (flipped(DATA, 0, 0), r"data/0{20}: byte 0 \(entry 0, offset 0\): magic"),
    "hole": (lost(DATA, 4096), r"data/0{16}4096: the file is missing, .*8192 follows"),
    "short": (shortened(DATA, 8192, 100), r"data/0{16}8192: expected 4096 bytes, found 100"),
    "mark": (written(LAYOUT.synced, b"x" * 1024), r"synced: the synced mark cannot be read"),
    "index record": (flipped(INDEX, 1024, 5), r"index/0{16}1024: byte 0: .* lead to entry 32 at"),
    "index hole": (lost(INDEX, 1024), r"index/0{16}1024: the file is missing"),
    "index file": (shortened(INDEX, 1024, 10), r"index/0{16}1024: expected 1024 bytes, found 10"),
    "no index": (lambda disk: disk.rmtree(INDEX), r"index/0{20}: .* does not lead to entry 0 at 0"),
    "no term": (lambda disk: disk.unlink(LAYOUT.term), r"currterm: there is none, but the log hol"),
    "term text": (written(LAYOUT.term, b"currTerm=2\n"), r"currterm: .* cannot be read: currterm"),
    "old term": (
        written(LAYOUT.term, b"voteLeader=\ncurrTerm=1\n"),
        r"currterm: term 1, but the last entry is of term 2: it has forgotten votes; never guess",
    ),
    "checkpoint": (written(LAYOUT.checkpoint, b"committedIndex=x\n"), r"checkpoint: committedInd"),
    "committed": (
        written(LAYOUT.checkpoint, b"committedIndex=999\nendIndex=999\n"),
        r"checkpoint: entries up to 999 were committed, but the log ends at 149",
    ),
    "truncating": (written(LAYOUT.truncating, b"x" * 1024), r"truncating: cannot be read"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_with_what_to_do(name: str) -> None:
    harm, expected = DAMAGE[name]
    disk = filled()
    harm(disk)
    before = all_bytes(disk)
    found = checked(disk)
    assert not found.is_good
    line = [*found.findings.damage, *found.findings.mends][0]
    assert re.search(expected, line), found.findings
    assert re.search(r"[;:] .*(start|remove)", line), "it says what to do"
    assert all("\n" not in each for each in found.findings.damage)
    assert all_bytes(disk) == before


@pytest.mark.parametrize("name", ["hole", "short", "no term", "term text", "mark"])
def test_what_a_start_refuses_is_damage(name: str) -> None:
    disk = filled()
    DAMAGE[name][0](disk)
    with pytest.raises(CorruptLog):
        opened(disk)


def test_the_index_of_a_damaged_log_is_not_to_be_removed() -> None:
    """It may be what is right."""
    disk = filled()
    flip(disk, file(DATA, 8192), 3)
    flip(disk, file(INDEX, 0), 5)
    found = checked(disk)
    (line,) = found.findings.damage
    assert "offset 8192): magic" in line
    assert "entry 0, which the log's damage may explain" in " ".join(found.findings.notes)


@pytest.mark.parametrize("name", ["index record", "index hole", "index file", "no index"])
def test_the_index_is_made_again_as_it_says(name: str) -> None:
    disk = filled()
    DAMAGE[name][0](disk)
    if disk.exists(INDEX):
        disk.rmtree(INDEX)
    opened(disk).close(ordered=True)
    found = checked(disk)
    assert (found.is_good, found.indexed) == (True, COUNT)


def test_a_new_term_as_it_says_lets_the_member_start() -> None:
    disk = filled()
    disk.unlink(LAYOUT.term)
    write_file(disk, LAYOUT.term, b"voteLeader=\ncurrTerm=9\n")
    ledger = opened(disk)
    assert ledger.vote.term == 9
    ledger.close(ordered=True)
    assert checked(disk).is_good


def test_the_end_that_a_kill_has_torn_is_no_damage() -> None:
    disk = filled(ordered=False)
    ledger = opened(disk)
    ledger.append_as_leader([b"torn" * 20, b"more" * 20], 2)
    end = ledger.end_bytes
    base = end - end % 4096
    disk.kill()
    flip(disk, file(DATA, base), end - base - 60)
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.state == "not stopped in order"
    (note,) = [line for line in found.findings.notes if "the next start cuts" in line]
    assert f"cuts {found.torn_bytes} bytes and sets them aside" in note
    again = opened(disk)
    assert (again.end_index, again.end_bytes) == (found.end_index, found.end_bytes)
    assert again.opened.kept_bytes == found.torn_bytes > 0


def test_index_records_that_a_kill_took_are_no_damage() -> None:
    disk = filled(ordered=False)
    ledger = opened(disk)
    before = ledger.end_index
    ledger.append_as_leader([b"more"] * 3, 2)
    disk.kill()
    flip(disk, file(INDEX, (before + 1) * 32 // 1024 * 1024), (before + 1) * 32 % 1024)
    found = checked(disk)
    assert found.is_good, found.findings
    assert f"the index lacks entries from {before + 1} on" in " ".join(found.findings.notes)


def test_damage_in_a_java_store(tmp_path: pathlib.Path) -> None:
    """Without a mark: what follows it in another file was not torn, and a start cuts it off."""
    layout = golden_copy("store-n0", tmp_path)
    path = pathlib.Path(layout.commit_log) / f"{0:020d}"
    data = bytearray(path.read_bytes())
    entry = json.loads((GOLDEN / "manifest.json").read_text())["store-n0"]["entries"][15]
    data[entry["pos"]] = 0xFF
    path.write_bytes(bytes(data))
    found = checked(LocalDisk(), layout.root)
    assert (found.result, found.end_index) == ("DAMAGE", 14)
    assert "entries up to 38 were committed, but the log ends at 14" in found.findings.damage[0]
    assert f"offset {entry['pos']}: magic" in found.findings.mends[0]
    assert "whole entries and sets them aside" in found.findings.mends[0]
    layout = golden_copy("store-n1", tmp_path)
    path = pathlib.Path(layout.commit_log) / f"{4096:020d}"
    path.write_bytes(path.read_bytes()[:3990].ljust(4096, b"\0"))
    found = checked(LocalDisk(), layout.root)
    assert "entries up to 38 were committed, but the log ends at" in found.findings.damage[0]


def test_a_vote_for_no_member_is_reported_and_no_damage() -> None:
    disk = filled()
    known = attrs.evolve(ledger_at(disk), members=("n0", "n1"))
    write_file(disk, LAYOUT.term, b"voteLeader=n9\ncurrTerm=3\n")
    found = finish(check_ledger(disk, known, CheckOptions()))
    assert (found.is_good, found.voted_for) == (True, "n9")
    (note,) = found.findings.notes
    assert "term 3, vote for n9: the cluster file names no such member" in note
    write_file(disk, LAYOUT.term, b"voteLeader=n1\ncurrTerm=3\n")
    assert finish(check_ledger(disk, known, CheckOptions())).findings.notes == []


@pytest.mark.parametrize("kind", ["nothing", "term", "opened", "in memory"])
def test_an_empty_store(kind: str) -> None:
    disk = sim_disk()
    disk.mkdir(ROOT)
    write_file(disk, LAYOUT.term, b"voteLeader=n1\ncurrTerm=3\n")
    if kind == "nothing":
        disk.unlink(LAYOUT.term)
        disk.mkdir(DATA)
        disk.mkdir(INDEX)  # a folder with a data/ alone may be anybody's
    elif kind == "opened":
        opened(disk).close(ordered=True)
    found = checked(disk)
    assert found.is_good, found.findings
    assert (found.entries, found.first_index, found.end_index) == (0, -1, -1)
    assert found.term == (-1 if kind == "nothing" else 3)


def test_expiry_leaves_a_whole_log() -> None:
    disk = filled()
    ledger = opened(disk)
    ledger.commit(COUNT - 1)
    assert ledger.delete_expired(COUNT, snapshot=True) is not None
    assert ledger.delete_expired(COUNT, snapshot=True) is not None
    begin = ledger.begin_index
    ledger.close(ordered=True)
    found = checked(disk)
    assert found.is_good, found.findings
    assert (found.first_index, found.entries) == (begin, COUNT - begin)
    take_snapshot(disk, begin - 2, 1)
    found = checked(disk)
    assert f"up to {begin - 2}, but the log begins at {begin}" in found.findings.damage[0]
    take_snapshot(disk, begin, 1)
    assert checked(disk).is_good


def test_a_log_that_begins_in_the_middle_of_a_file() -> None:
    disk = sim_disk()
    source = fresh(sim_disk(1))
    for number in range(60):
        source.append_as_leader([b"entry %d" % number * 8], 1)
    some = entries_of(source)[41:]
    ledger = fresh(disk)
    for _ in ledger.restart_at(some[0].index, some[0].pos):
        pass
    assert checked(disk, is_running=True).is_good
    ledger.append_as_follower(some)
    sync(ledger, disk, whole=True)
    ledger.close(ordered=True)
    found = checked(disk)
    assert found.is_good, found.findings
    assert (found.first_index, found.entries, found.indexed) == (41, 19, 19)


def test_snapshots() -> None:
    disk = filled()
    take_snapshot(disk, 40, 1)
    take_snapshot(disk, 100, 2)
    found = checked(disk)
    assert found.is_good, found.findings
    assert found.snapshots == [100, 40]
    flip(disk, f"{LAYOUT.snapshot}/snapshot_100/data", 30)
    found = checked(disk)
    assert found.snapshots == [40]
    (line,) = found.findings.damage
    assert (
        "snapshot_100/data: its meta file has another checksum; an older one is used instead"
        in line
    )
    take_snapshot(disk, 100, 1)
    (line,) = checked(disk).findings.damage
    assert "ends with entry 100 of term 1, which is of term 2 in the log" in line
    disk.rmtree(f"{LAYOUT.snapshot}/snapshot_100")
    disk.unlink(f"{LAYOUT.snapshot}/snapshot_40/snapshot_meta")
    assert "snapshot_meta or data is missing" in checked(disk).findings.damage[0]
    disk.rmtree(f"{LAYOUT.snapshot}/snapshot_40")
    disk.mkdir(f"{LAYOUT.snapshot}/install_tmp")
    found = checked(disk)
    assert found.is_good
    assert "install_tmp: was never finished" in found.findings.notes[0]


def test_an_interrupted_truncation_is_reported() -> None:
    """Also while the file that holds the new end is short, as it is for a moment."""
    disk = filled()
    intent, _ = SideFile.open(disk, LAYOUT.truncating, 2)
    end = checked(disk).end_bytes
    intent.write((end, 4096))
    intent.sync()
    intent.close()
    found = checked(disk)
    reported = f"a truncation to {end} was interrupted: the next start ends it"
    assert (found.is_good, found.findings.notes) == (True, [reported])
    disk.open(file(DATA, end - end % 4096), "w").resize(end % 4096)
    found = checked(disk)
    assert (found.is_good, found.findings.notes) == (True, [reported])
    again = opened(copy.deepcopy(disk))
    assert (again.end_index, again.end_bytes) == (COUNT - 1, end)
    disk.open(file(DATA, 4096), "w").resize(9)
    assert "expected 4096 bytes, found 9" in checked(disk).findings.damage[0]


def test_a_log_that_lacks_all_files() -> None:
    disk = filled()
    disk.rmtree(DATA)
    found = checked(disk)
    assert "no files, but all below" in found.findings.damage[0]
    mark = Mark.open(disk, LAYOUT.synced)
    mark.write(MarkValues())
    mark.close()
    found = checked(disk)
    assert found.is_good, "it was begun anew"
    assert "it was begun anew" in found.findings.notes[0]
