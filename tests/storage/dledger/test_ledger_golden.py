"""Stores that real DLedger nodes wrote: opened, read completely, continued; ours beside them."""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
from typing import Any

import pytest
from ledger_kit import (
    GOLDEN,
    ROOT,
    chain,
    entries_of,
    folder_bytes,
    fresh,
    golden_copy,
    local,
    model,
    opened,
    sim_disk,
)

from actors.env.local_disk import LocalDisk
from actors.storage.layout import LedgerLayout
from actors.storage.ledger.ledger import TermVote
from actors.storage.ledger.term_files import read_checkpoint, write_term
from wire.dledger.files import LedgerCheckpoint

pytestmark = pytest.mark.real_io
STORES = ("store-n0", "store-n1", "store-n2", "store-divergent")
MANIFEST: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())


def entry_files(layout: LedgerLayout) -> dict[str, bytes]:
    return {name: data for name, data in folder_bytes(layout).items() if any(data)}


@pytest.mark.parametrize("name", STORES)
def test_a_java_store_opens_and_is_read_completely(name: str, tmp_path: pathlib.Path) -> None:
    layout, wanted = golden_copy(name, tmp_path), MANIFEST[name]
    before = folder_bytes(layout)
    ledger = opened(LocalDisk(), layout)
    found = [
        {
            "index": entry.index,
            "term": entry.term,
            "pos": entry.pos,
            "size": entry.size,
            "magic": entry.magic,
            "body_sha256": hashlib.sha256(entry.body).hexdigest(),
        }
        for entry in entries_of(ledger)
    ]
    assert found == wanted["entries"]
    assert ledger.committed_index == int(wanted["checkpoint"]["committedIndex"])
    term = wanted["currterm"]
    assert ledger.vote == TermVote(int(term["currTerm"]), term["voteLeader"])
    assert ledger.opened.kept_bytes == 0
    assert ledger.opened.index_made is None
    assert entry_files(layout) == before
    assert sorted(path.name for path in pathlib.Path(layout.root).iterdir())[:2] == [
        "checkpoint",
        "checkpoint.bak",
    ]
    ledger.close(ordered=True)
    assert folder_bytes(layout) == before


@pytest.mark.checklist(2, of="dledger")
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("as_leader", [True, False])
def test_ours_is_equal_to_javas_byte_for_byte(
    name: str, as_leader: bool, tmp_path: pathlib.Path
) -> None:
    java = golden_copy(name, tmp_path)
    source = opened(LocalDisk(), java)
    entries = entries_of(source)
    source.close(ordered=True)
    disk, layout = local(tmp_path)
    ledger = opened(disk, layout)
    if as_leader:
        for entry in entries:
            ledger.append_as_leader([entry.body], entry.term)
    else:
        ledger.append_as_follower(entries[:20])
        ledger.append_as_follower(entries[20:])
    ledger.commit(int(MANIFEST[name]["checkpoint"]["committedIndex"]))
    ledger.save_vote(TermVote(entries[-1].term, "n0"))
    ledger.close(ordered=True)
    assert folder_bytes(layout) == folder_bytes(java)


@pytest.mark.checklist(3, of="dledger")
@pytest.mark.parametrize("name", STORES)
def test_small_files_are_those_of_java(name: str, tmp_path: pathlib.Path) -> None:
    term = MANIFEST[name]["currterm"]
    layout = golden_copy(name, tmp_path)
    disk = LocalDisk()
    write_term(disk, layout.term, TermVote(int(term["currTerm"]), term["voteLeader"]))
    text = pathlib.Path(layout.term).read_bytes()
    assert text == (GOLDEN / name / "currterm").read_bytes()
    was = read_checkpoint(disk, layout.checkpoint)
    ledger = opened(disk, layout)
    ledger.close(ordered=True)
    assert read_checkpoint(disk, layout.checkpoint) == LedgerCheckpoint(
        committed_index=was.committed_index, end_index=MANIFEST[name]["entries"][-1]["index"]
    )
    text = pathlib.Path(layout.checkpoint).read_bytes()
    lines = [line.split(b"=")[0] for line in text.splitlines()]
    assert lines == [b"committedIndex", b"endIndex"]
    assert text.endswith(b"\n")


def test_a_java_store_goes_on(tmp_path: pathlib.Path) -> None:
    layout = golden_copy("store-n0", tmp_path)
    ledger = opened(LocalDisk(), layout)
    end, entries = ledger.end_bytes, entries_of(ledger)
    ledger.append_as_leader([b"more" * 200], 5)
    ledger.close(ordered=True)
    again = opened(LocalDisk(), layout)
    assert entries_of(again) == entries + chain([b"more" * 200], term=5, index=39, pos=end)
    again.close(ordered=True)


@pytest.mark.parametrize("lost", ["index", "last", "record", "torn"])
def test_the_index_of_a_java_store_is_made_again(lost: str, tmp_path: pathlib.Path) -> None:
    layout = golden_copy("store-n0", tmp_path)
    before = folder_bytes(layout)
    names = sorted(pathlib.Path(layout.index).iterdir())
    match lost:
        case "index":
            shutil.rmtree(layout.index)
        case "last":
            names[-1].unlink()
        case "record":
            data = bytearray(names[0].read_bytes())
            data[32 * 7 + 5] ^= 1
            names[0].write_bytes(bytes(data))
        case _:
            names[-1].write_bytes(names[-1].read_bytes()[:100])
    ledger = opened(LocalDisk(), layout)
    assert ledger.opened.index_made == 0
    assert len(model(ledger)) == 39
    ledger.close(ordered=True)
    assert folder_bytes(layout) == before


def test_an_interrupted_write_of_javas_term_file_loses_no_vote(tmp_path: pathlib.Path) -> None:
    layout = golden_copy("store-n0", tmp_path)
    root = pathlib.Path(layout.root)
    (root / "currterm").rename(root / "currterm.bak")
    ledger = opened(LocalDisk(), layout)
    assert ledger.vote == TermVote(4, "n0")
    ledger.close(ordered=True)
    (root / "currterm").unlink()
    (root / "currterm.tmp").write_bytes(b"voteLeader=n1\ncurrTerm=5\n")
    again = opened(LocalDisk(), layout)
    assert again.vote == TermVote(5, "n1")
    again.close(ordered=True)
    (root / "currterm").unlink()
    (root / "currterm.tmp").write_bytes(b"voteLeader=n1\ncurrTerm=")
    (root / "currterm.bak").write_bytes(b"")
    (root / "synced").unlink()
    last = opened(LocalDisk(), layout)
    assert last.vote == TermVote(4, "")
    last.close(ordered=True)


def test_a_store_without_its_vote_begins_with_nothing_else(tmp_path: pathlib.Path) -> None:
    """An empty Java node has neither folder nor file but perhaps these two."""
    disk = sim_disk()
    disk.mkdir(ROOT)
    ledger = opened(disk)
    assert ledger.vote == TermVote(0, "")
    assert disk.listdir(ROOT) == ["currterm", "currterm.spare", "data", "index", "sums", "synced"]


def test_what_java_appended_after_our_stop_is_believed() -> None:
    """Without its bytes' checksums, and though pieces of it are zeros."""
    disk, other = sim_disk(), sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"ours" * 100], 1)
    ledger.close(ordered=True)
    java = fresh(other)
    java.append_as_leader([b"ours" * 100, bytes(2000), b"x"], 1)
    path = f"{ROOT}/data/{0:020d}"
    disk.open(path, "w").pwrite(other.open(path, "r").pread(0, 4096), 0)
    again = opened(disk)
    assert model(again) == model(java)
    assert again.opened.kept_bytes == 0
    disk.kill()
    assert model(opened(disk)) == model(java)
