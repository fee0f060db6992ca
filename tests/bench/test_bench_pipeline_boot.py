"""The long boot that bench_pipeline measures is one that a master could have had."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import bench_pipeline_boot
import pytest
from bench_pipeline_boot import event_files, make_long_boot

STORE, TRANSFER = "/n0/orders/storage/store", "/n0/orders/group_transfer"


def said(kind: str, path: str, ts_us: int, **fields: Any) -> dict[str, Any]:
    return {
        "node": "n0",
        "boot": 3,
        "path": path,
        "incarnation": 1,
        "ts_us": ts_us,
        "kind": kind,
    } | (fields)


def answered_twice() -> list[dict[str, Any]]:
    """Two writes, of which an answer reaches both, among what a boot says beside that."""
    ends = ({"first_bytes": 40, "next_bytes": 70}, {"first_bytes": 70, "next_bytes": 100})
    whole = {"first_bytes": 40, "next_bytes": 100}
    return [
        said("NodeStarted", "/n0", 100, groups=["orders"]),
        said("RecordsAppended", STORE, 200, appends=1, records=1, **ends[0]),
        said("ActorStarted", "/n0/api", 210),
        said("RecordsAppended", STORE, 220, appends=1, records=1, **ends[1]),
        said("SlaveAcked", TRANSFER, 230, slave="n1", connection=1, offset_bytes=100),
        said("AppendsAcknowledged", TRANSFER, 240, appends=2, records=2, **whole),
        said("RecordsAppended", "/n0/other/storage/store", 250, appends=1, records=1, **ends[0]),
        said("NodeStopped", "/n0", 300, reason="ordered"),
    ]


def run_of(data: Path, events: list[dict[str, Any]]) -> Path:
    folder = data / "n0/events/v=1/dt=2027-01-15/node=n0"
    folder.mkdir(parents=True)
    lines = [json.dumps({**event, "seq": at}) + "\n" for at, event in enumerate(events, 1)]
    for at in (0, 4):  # two files
        content = "".join(lines[at : at + 4]).encode()
        (folder / f"000003-{at + 1:012d}.jsonl.gz").write_bytes(gzip.compress(content))
    return data


def test_a_boot_is_prolonged_without_holes_and_all_of_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_pipeline_boot, "FILE_EVENTS", 300)
    data = run_of(tmp_path / "run", answered_twice())
    count, size = make_long_boot(data, tmp_path / "long", 1000)
    files = event_files(tmp_path / "long")
    assert size == sum(file.stat().st_size for file in files)
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, count + 1))
    firsts = [json.loads(gzip.decompress(file.read_bytes()).splitlines()[0]) for file in files]
    assert len(files) == -(-count // 300)
    assert [f"000003-{event['seq']:012d}.jsonl.gz" for event in firsts] == [f.name for f in files]
    assert [event["kind"] for event in events].count("NodeStarted") == 1
    assert all(one["ts_us"] < two["ts_us"] for one, two in pairwise(events))
    writes = [event for event in events if event["kind"] == "RecordsAppended"]
    assert len(writes) == 1000
    assert all(one["next_bytes"] == two["first_bytes"] for one, two in pairwise(writes))
    answers = [event for event in events if event["kind"] == "AppendsAcknowledged"]
    assert answers[-1]["next_bytes"] == writes[-1]["next_bytes"] == 40 + 1000 * 30


@pytest.mark.parametrize(
    ("kept", "words"), [((), "no event logs there"), (("NodeStarted",), "no master there")]
)
def test_a_run_without_a_master_is_named(tmp_path: Path, kept: tuple[str, ...], words: str) -> None:
    events = [event for event in answered_twice() if event["kind"] in kept]
    if events:
        run_of(tmp_path, events)
    with pytest.raises(SystemExit, match=words):
        make_long_boot(tmp_path, tmp_path / "long", 10)
