"""A stream of logs: growing ones, cut ones, several up to one time. Its reader is asked as Spark
asks it, without Spark."""

from __future__ import annotations

import json
import logging
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from entry_kit import encode_entry, encode_index, new_entry
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes
from sources_kit import SEGMENT, START_MS, LedgerWriter, LogWriter, damage_in, messages, options_of

from actors.pipeline.errors import SourceError
from actors.pipeline.sources.formats import COMMIT_LOG, DLEDGER, Format
from actors.pipeline.sources.log_stream import LogStreamReader

BODIES = [b"%03d" % number * (number % 90 + 1) for number in range(100)]


class Stream:
    """A query: its checkpoint, and one reader for each of its runs."""

    def __init__(self, path: Path, form: Format = COMMIT_LOG, **options: object) -> None:
        self.options, self.form = options_of(form, path=path, **options), form
        self.offset: dict[str, Any] | None = None
        self.batches: list[list[dict[str, Any]]] = []
        self.begin()

    def begin(self) -> LogStreamReader:
        self.reader = LogStreamReader(self.form.name, self.options)
        return self.reader

    def look(self, limit: ReadLimit | None = None) -> list[dict[str, Any]]:
        """One look; the rows of the batch that follows, [] if none does."""
        if self.offset is None:
            self.offset = json.loads(json.dumps(self.reader.initialOffset()))
        limit = limit or self.reader.getDefaultReadLimit()
        latest = json.loads(json.dumps(self.reader.latestOffset(self.offset, limit)))
        if latest == self.offset:
            return []
        rows = self.read(self.reader, self.offset, latest)
        self.offset = latest
        self.batches.append(rows)
        return rows

    def read(self, reader: LogStreamReader, start: Any, end: Any) -> list[dict[str, Any]]:
        task = pickle.loads(pickle.dumps(reader))
        parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
        return [row for part in parts for batch in task.read(part) for row in batch.to_pylist()]

    def run(self) -> list[dict[str, Any]]:
        """A run with availableNow: a new process, which reads until nothing is left."""
        self.begin().prepareForTriggerAvailableNow()
        found: list[dict[str, Any]] = []
        for _ in range(1000):
            before = self.offset
            found += self.look()
            if self.offset == before:
                return found
        raise AssertionError("the run does not end")


def bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in rows]


@pytest.mark.parametrize("batch_bytes", [0, 1, 1000, 1 << 20])
def test_a_growing_log_is_read_once_and_in_order(tmp_path: Path, batch_bytes: int) -> None:
    writer = LogWriter(tmp_path / "n0")
    stream = Stream(tmp_path / "n0", batch_bytes=batch_bytes)
    found = stream.run()
    assert found == []
    for first in range(0, 100, 20):
        writer.append(BODIES[first : first + 20])
        found += stream.run()
        assert bodies(found) == BODIES[: first + 20]
    assert damage_in(found) == []
    sizes = [sum(row["size"] for row in batch) for batch in stream.batches]
    assert batch_bytes == 0 or max(sizes) <= max(batch_bytes, *(r["size"] for r in found))


def test_a_record_is_read_when_it_is_whole(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES[:3])
    stream = Stream(tmp_path / "n0")
    assert bodies(stream.look()) == BODIES[:3]
    data = writer.record(b"late" * 20, 5)
    for written in (4, 8, 50, 100, len(data) - 1):
        writer.put(writer.end, data[:written])
        assert stream.look() == []
    writer.put(writer.end, data)
    assert bodies(stream.look()) == [b"late" * 20]


def test_an_entry_is_read_when_the_index_has_it(tmp_path: Path) -> None:
    """An entry has no CRC, and its head stands there before its body."""
    writer = LedgerWriter(tmp_path / "n0")
    writer.append(BODIES[:3])
    stream = Stream(tmp_path / "n0", DLEDGER)
    assert bodies(stream.look()) == BODIES[:3]
    entry = new_entry(index=3, term=1, pos=writer.end, body=b"late" * 9)
    for written in (20, 48, 70, entry.size):
        writer.put(writer.end, encode_entry(entry)[:written])
        assert stream.look() == []
    writer.put_index(encode_index([entry]))
    assert bodies(stream.look()) == [b"late" * 9]
    shutil.rmtree(tmp_path / "n0/index")
    assert len(Stream(tmp_path / "n0", DLEDGER).run()) == 4, "believed as far as its heads go"


def test_a_run_takes_what_there_was_when_it_began(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES[:10])
    stream = Stream(tmp_path / "n0", batch_bytes=1)
    stream.begin().prepareForTriggerAvailableNow()
    found = stream.look()
    writer.append(BODIES[10:20])
    LogWriter(tmp_path / "other").append(BODIES)
    while rows := stream.look():
        found += rows
    assert bodies(found) == BODIES[:10]
    assert bodies(stream.run()) == BODIES[10:20]


def test_a_batch_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    """After a crash Spark reads a batch again by its offsets, with another reader."""
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES)
    stream = Stream(tmp_path / "n0", batch_bytes=3000, partition_bytes=500)
    start = stream.reader.initialOffset()
    rows = stream.look()
    assert len(rows) > 5
    writer.append(BODIES)
    assert stream.read(stream.begin(), start, stream.offset) == rows


def test_several_logs_go_on_together_in_time(tmp_path: Path) -> None:
    for node, step in (("n0", 1), ("n1", 7), ("n2", 50)):
        LogWriter(tmp_path / node).append([b"x" * 50] * 60, step_ms=step)
    stream = Stream(tmp_path / "*", batch_bytes=3000)
    rows = stream.run()
    assert len(rows) == 180
    assert len({(row["node"], row["offset"]) for row in rows}) == 180
    newest = None
    for batch in stream.batches:
        times = [row["store_time"] for row in batch]
        assert newest is None or min(times) >= newest
        newest = max(times)
    assert len(stream.batches) > 5


def test_a_silent_log_holds_the_others_for_three_looks(tmp_path: Path) -> None:
    one, two = LogWriter(tmp_path / "n0"), LogWriter(tmp_path / "n1")
    one.append([b"a"], START_MS)
    two.append([b"b"], START_MS)
    stream = Stream(tmp_path / "*")
    assert len(stream.look()) == 2
    two.append([b"c"], START_MS + 60_000)
    assert [bodies(stream.look()) for _ in range(5)] == [[], [], [], [b"c"], []]
    two.append([b"d"], START_MS + 70_000)
    assert bodies(stream.look()) == [b"d"], "silent still"


def test_a_new_log_is_read_from_its_begin(tmp_path: Path) -> None:
    LogWriter(tmp_path / "n0").append(BODIES[:5])
    stream = Stream(tmp_path / "*")
    assert len(stream.look()) == 5
    LogWriter(tmp_path / "n1").append(BODIES[:7])
    rows = [row for _ in range(5) for row in stream.look()]
    assert {row["node"] for row in rows} == {"n1"}
    assert bodies(rows) == BODIES[:7]


@pytest.mark.parametrize("from_", ["earliest", "latest", "offset"])
def test_a_new_log_is_read_from_its_begin_though_it_grows(tmp_path: Path, from_: str) -> None:
    """While its first batch is planned, and before that is read again after a crash."""
    one = LogWriter(tmp_path / "n0")
    one.append(BODIES[:50])
    stream = Stream(tmp_path / "*", from_=one.offsets[30] if from_ == "offset" else from_)
    stream.look()
    two = LogWriter(tmp_path / "n1")
    two.append(BODIES[:7])
    start = stream.offset
    latest = stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())
    two.append(BODIES[7:9])
    for reader in (stream.reader, stream.begin()):
        rows = stream.read(reader, start, latest)
        assert {row["node"] for row in rows} == {"n1"}
        assert bodies(rows) == BODIES[:7]
    stream.offset = latest
    assert bodies(stream.look()) == BODIES[7:9]


def test_the_first_batch_begins_where_it_was_planned(tmp_path: Path) -> None:
    """Spark asks for the first offset again when it reads the batch, and after a crash."""
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES[:5])
    stream = Stream(tmp_path / "n0", from_="latest")
    first = stream.reader.initialOffset()
    writer.append(BODIES[5:9])
    latest = stream.reader.latestOffset(first, stream.reader.getDefaultReadLimit())
    writer.append(BODIES[9:12])
    for reader in (stream.reader, stream.begin()):
        rows = stream.read(reader, reader.initialOffset(), latest)
        assert bodies(rows) == BODIES[5:9]
    stream.offset = latest
    assert bodies(stream.look()) == BODIES[9:12]


def test_a_checkpoint_without_begins_goes_on(tmp_path: Path) -> None:
    """As an earlier version wrote it."""
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES[:5])
    stream = Stream(tmp_path / "n0")
    stream.look()
    assert stream.offset is not None
    del stream.offset["n0"]["begin"]
    writer.append(BODIES[5:9])
    assert bodies(stream.look()) == BODIES[5:9]


@pytest.mark.parametrize("from_", ["latest", "offset"])
def test_from(tmp_path: Path, from_: str) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES[:50])
    start = writer.offsets[30] if from_ == "offset" else from_
    stream = Stream(tmp_path / "n0", from_=start)
    assert bodies(stream.look()) == (BODIES[30:50] if from_ == "offset" else [])
    writer.append(BODIES[50:60])
    assert bodies(stream.look()) == BODIES[50:60]


def test_files_that_expired_before_they_were_read_are_one_row(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES)
    stream = Stream(tmp_path / "n0", batch_bytes=1000)
    stream.look()
    assert stream.offset is not None
    end = stream.offset["n0"]["end"]
    for start in (0, SEGMENT, 2 * SEGMENT):
        (writer.folder / f"{start:020d}").unlink()
    rows = stream.run()
    text = "expired: deleted before it was read"
    assert damage_in(rows) == [(end, 3 * SEGMENT - end, text)]
    left = [each for each in writer.offsets if each >= 3 * SEGMENT]
    assert [row["offset"] for row in rows if not row["damage"]] == left
    failing = Stream(tmp_path / "n0", from_=0, damage="fail")
    with pytest.raises(SourceError, match="n0: damage at offset 0: expired"):
        failing.run()


def test_damage_before_the_last_file_is_passed(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES)
    at, good = writer.offsets[10], writer.offsets[11]
    writer.put(at, b"\xff")
    writer.put(writer.offsets[20] + 100, b"!")
    for batch_bytes in (0, 1, 700):
        rows = Stream(tmp_path / "n0", batch_bytes=batch_bytes).run()
        rows.sort(key=lambda row: row["offset"])
        assert damage_in(rows) == [
            (at, good - at, rows[10]["damage"]),
            (writer.offsets[20], rows[20]["size"], "body CRC is wrong"),
        ]
        assert [row["offset"] for row in rows] == writer.offsets


def test_damage_at_the_end_is_said_once_and_not_passed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = LogWriter(tmp_path / "n0")
    writer.append(BODIES[:9])
    writer.put(writer.offsets[5], b"\xff")
    stream = Stream(tmp_path / "n0")
    with caplog.at_level(logging.WARNING):
        assert bodies(stream.look()) == BODIES[:5]
        assert stream.look() == []
    (said,) = caplog.messages
    assert said.startswith(f"n0 stops at offset {writer.offsets[5]}: ")
    assert stream.reader.reportLatestOffset() == {"n0": {"end": writer.offsets[5]}}


def test_a_log_that_was_cut_back_is_an_error(tmp_path: Path) -> None:
    writer = LedgerWriter(tmp_path / "n0")
    writer.append(BODIES[:5])
    stream = Stream(tmp_path / "n0", DLEDGER)
    assert bodies(stream.look()) == BODIES[:5]
    assert stream.offset is not None
    last, end = stream.offset["n0"]["last"], stream.offset["n0"]["end"]
    writer.put(last, bytes(end - last))
    with pytest.raises(SourceError, match=f"n0 was cut back below offset {end}"):
        stream.look()


def test_ledgers_go_on_together_by_index(tmp_path: Path) -> None:
    for node, size in (("n0", 10), ("n1", 90)):
        LedgerWriter(tmp_path / node).append([b"x" * size] * 40)
    stream = Stream(tmp_path / "*", DLEDGER, batch_bytes=2000)
    rows = stream.run()
    assert len(rows) == 80
    for batch in stream.batches:
        ends = [max(r["index"] for r in batch if r["node"] == node) for node in ("n0", "n1")]
        assert ends[0] == ends[1]


def test_without_a_limit_all_is_taken(tmp_path: Path) -> None:
    for node, step in (("n0", 1), ("n1", 900)):
        LogWriter(tmp_path / node).append([b"x" * 50] * 60, step_ms=step)
    stream = Stream(tmp_path / "*", batch_bytes=100)
    assert isinstance(stream.reader.getDefaultReadLimit(), ReadMaxBytes)
    assert len(stream.look(ReadAllAvailable())) == 120


@pytest.mark.parametrize("seed", range(12))
def test_whenever_one_looks_only_whole_records_are_seen(tmp_path: Path, seed: int) -> None:
    """A writer that writes upwards, in pieces as small as they like, over the ends of files."""
    rng = random.Random(seed)
    made = LogWriter(tmp_path / "made")
    made.append(rng.choices(BODIES[:60], k=60))
    whole = {int(path.name): path.read_bytes() for path in made.folder.iterdir()}
    folder = tmp_path / "n0" / "commitlog"
    folder.mkdir(parents=True)
    stream = Stream(tmp_path / "n0", batch_bytes=rng.choice((0, 1, 500, 1 << 20)))
    found = []
    for start in sorted(whole):
        growing = bytearray(SEGMENT)
        for spare in (start, start + SEGMENT):
            path = folder / f"{spare:020d}"
            if not path.exists():
                path.write_bytes(growing)
        at = 0
        while at < SEGMENT:
            end = min(SEGMENT, at + rng.choice((1, 3, 3, 60, 400)))
            growing[at:end] = whole[start][at:end]
            at = end
            (folder / f"{start:020d}").write_bytes(growing)
            found += stream.look() if rng.random() < 0.4 else []
    for _ in range(200):
        found += stream.look()
    assert found == messages(tmp_path / "made", node="n0")
    assert len(found) == 60
