"""The judge of the mixed groups reads Java's files, and notices what is wrong in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs
import pytest
from interop_ledger_files import LedgerFiles
from interop_nodes import ROOT

GOLDEN = ROOT / "tests" / "golden" / "dledger"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the store of a real member: two files, of which the first ends with a blank."""
    return Path(shutil.copytree(GOLDEN / "store-n1", tmp_path / "store"))


def test_java_s_log_is_read_to_its_end(folder: Path) -> None:
    log = LedgerFiles.read(folder)
    entries = json.loads((GOLDEN / "manifest.json").read_text())["store-n1"]["entries"]
    assert list(log.terms) == [entry["term"] for entry in entries]
    assert len(log.content) == entries[-1]["pos"] + entries[-1]["size"]
    assert log.bodies[:2] == (b"hello", b"aaaaa")
    assert log.indexed == len(entries)
    assert log == LedgerFiles.read(GOLDEN / "store-n2")


@pytest.mark.parametrize("place", [0, 4, 15, 31, 47])
def test_a_changed_head_ends_the_log(folder: Path, place: int) -> None:
    whole = LedgerFiles.read(folder)
    path = min((folder / "data").iterdir())
    data = bytearray(path.read_bytes())
    data[53 + place] ^= 0x40  # of the second entry
    path.write_bytes(data)
    assert LedgerFiles.read(folder).bodies == whole.bodies[:1]


def test_a_changed_body_is_another_log(folder: Path) -> None:
    whole = LedgerFiles.read(folder)
    path = min((folder / "data").iterdir())
    data = bytearray(path.read_bytes())
    data[48] ^= 1
    path.write_bytes(data)
    assert LedgerFiles.read(folder) != whole


def test_no_files_are_an_empty_log(tmp_path: Path) -> None:
    assert LedgerFiles.read(tmp_path / "none") == LedgerFiles(b"", (), (), 0)


@pytest.mark.parametrize("place", [3, 11, 15, 23, 31])
def test_a_changed_record_ends_the_index(folder: Path, place: int) -> None:
    whole = LedgerFiles.read(folder)
    path = min((folder / "index").iterdir())
    data = bytearray(path.read_bytes())
    data[32 + place] ^= 0x40  # of the second entry
    path.write_bytes(data)
    assert LedgerFiles.read(folder) == attrs.evolve(whole, indexed=1)


def test_a_missing_index_has_no_entry(folder: Path) -> None:
    shutil.rmtree(folder / "index")
    assert LedgerFiles.read(folder).indexed == 0
