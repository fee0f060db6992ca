"""`dump` of DLedger stores: every entry once, in order, and on behind damage."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib

import pytest
from ledger_kit import GOLDEN, LAYOUT, fresh, golden_copy, sim_disk
from ledger_tools_kit import COUNT, all_bytes, body, dumped, filled, flip, tree_bytes

from actors.env.local_disk import LocalDisk
from actors.errors import ConfigError


@pytest.mark.real_io
@pytest.mark.parametrize("name", ["store-n0", "store-n1", "store-n2", "store-divergent"])
def test_a_java_store(name: str, tmp_path: pathlib.Path) -> None:
    wanted = json.loads((GOLDEN / "manifest.json").read_text())[name]["entries"]
    before = tree_bytes(layout := golden_copy(name, tmp_path))
    lines, done = dumped(LocalDisk(), layout.root)
    assert (done.records, done.problems) == (len(wanted), [])
    for line, entry in zip(lines, wanted, strict=True):
        found = (line["index"], line["term"], line["position"], line["size_bytes"])
        assert found == (entry["index"], entry["term"], entry["pos"], entry["size"])
        data = line["body"].encode()
        if line["body_encoding"] == "base64":
            data = base64.b64decode(data)
        assert hashlib.sha256(data).hexdigest() == entry["body_sha256"]
    assert tree_bytes(layout) == before


def test_ours_is_dumped_whole_and_unchanged() -> None:
    disk = filled()
    before = all_bytes(disk)
    lines, done = dumped(disk)
    assert [line["body"] for line in lines] == [body(number).decode() for number in range(COUNT)]
    assert [line["term"] for line in lines] == [1] * (COUNT // 2) + [2] * (COUNT // 2)
    assert done.problems == []
    assert all_bytes(disk) == before


def test_bodies_that_are_no_text_and_none() -> None:
    disk = sim_disk()
    ledger = fresh(disk)
    ledger.append_as_leader([b"\xff\x00", b"", "é".encode()], 1)
    ledger.close(ordered=True)
    lines, _ = dumped(disk)
    assert [(line["body"], line["body_encoding"]) for line in lines] == [
        ("/wA=", "base64"),
        ("", "utf-8"),
        ("é", "utf-8"),
    ]


@pytest.mark.parametrize("start", [0, 1, 40, 77, COUNT - 1, COUNT])
@pytest.mark.parametrize("count", [None, 1, 30])
def test_from_an_index_on_and_so_many(start: int, count: int | None) -> None:
    lines, _ = dumped(filled(), start=start, count_max=count)
    end = COUNT if count is None else min(COUNT, start + count)
    assert [line["index"] for line in lines] == list(range(start, end))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"start": COUNT + 1}, "--from: expected an index up to 150, where the log ends, found 1"),
        ({"topic": "t"}, "--topic: expected only for a classic group, found ledger"),
        ({"queue_id": 0}, "--queue: expected only for a classic group"),
        ({"key": "k"}, "--key: expected only for a classic group"),
    ],
)
def test_what_entries_do_not_have_is_refused(wanted: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        dumped(filled(), **wanted)


def test_it_goes_on_behind_damage() -> None:
    disk = filled()
    everything, _ = dumped(disk)
    flip(disk, f"{LAYOUT.commit_log}/{8192:020d}", 0)
    lines, done = dumped(disk)
    (problem,) = done.problems
    assert f"{8192:020d}: offset 8192: magic" in problem
    assert lines == [line for line in everything if line["position"] // 4096 != 2]
    disk.unlink(f"{LAYOUT.commit_log}/{8192:020d}")
    lines, done = dumped(disk)
    assert lines[0]["index"] == 0
    assert lines[-1]["index"] == COUNT - 1


def test_an_entry_that_is_not_what_was_written_is_left_out() -> None:
    disk = filled()
    everything, _ = dumped(disk)
    flip(disk, f"{LAYOUT.commit_log}/{8192:020d}", 60)
    lines, done = dumped(disk)
    (bad,) = [line for line in everything if line["position"] == 8192]
    assert lines == [line for line in everything if line != bad]
    (problem,) = done.problems
    assert f"entry {bad['index']} (offset 8192): an entry that is not what was written" in problem


def test_an_empty_store() -> None:
    disk = sim_disk()
    fresh(disk).close(ordered=True)
    assert dumped(disk)[0] == []
    assert dumped(disk, start=0)[0] == []
