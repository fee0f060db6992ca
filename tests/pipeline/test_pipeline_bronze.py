"""Bronze: each line of real nodes' event logs once, whatever happens to files and runs."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from checkpoints_kit import leave_first_note
from logs_kit import Day
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from actors.pipeline import bronze, event_files, locations
from actors.pipeline.bronze import BatchRead
from actors.pipeline.compaction import compact
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location
from actors.storage.node import event_files as written

UNKNOWN = (
    '{"node":"n1","boot":9,"seq":1,"path":"/n1","incarnation":0,"ts_us":5,"kind":"Sneezed","a":1}'
)


@attrs.define
class Run:
    """Bronze of one data directory, run by run."""

    spark: SparkSession
    data: Location
    out: Location

    def ingest(self, bytes_per_batch: int = bronze.BATCH_BYTES) -> list[BatchRead]:
        told: list[BatchRead] = []
        bronze.ingest(self.spark, self.data, self.out, told.append, bytes_per_batch)
        return told

    def forget_end_of(self, batch: int) -> None:
        """As if the run had been killed while it was at that batch."""
        commits = Path(self.out.name) / "bronze/checkpoint/commits"
        (commits / str(batch)).unlink()
        (commits / f".{batch}.crc").unlink(missing_ok=True)

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in Path(self.data.name).rglob("*.gz"))

    def keys(self) -> list[tuple[str, int, int]]:
        found = bronze.read_bronze(self.spark, self.out).where("problem is null")
        return sorted(tuple(row) for row in found.select("node", "boot", "seq").collect())

    def days(self) -> list[tuple[str | None, str]]:
        found = bronze.read_bronze(self.spark, self.out)
        return sorted((tuple(row) for row in found.select("line", "day").collect()), key=str)

    def problems(self) -> list[tuple[str, str]]:
        found = bronze.read_bronze(self.spark, self.out).where("problem is not null")
        return sorted(
            (Path(row["file"]).name, row["problem"])
            for row in found.select("file", "problem").collect()
        )


@pytest.fixture
def run(spark: SparkSession, day: Day, tmp_path: Path) -> Run:
    """A copy of the day's data, and nowhere yet; the folders' names are some to stumble over."""
    data = tmp_path / "a [b] {c,d} %20*"
    shutil.copytree(day.folder, data)
    return Run(spark, Location(str(data)), Location(str(tmp_path / "out [v2] {e,f} %20*?")))


def test_every_event_comes_once_and_the_next_run_reads_only_what_is_new(run: Run, day: Day) -> None:
    late = sorted(Path(run.data.name).rglob("*.gz"))[-1]
    kept = late.rename(Path(run.data.name).parent / "kept")
    some = run.size_bytes() // 3
    first = run.ingest(bytes_per_batch=some)
    assert len(first) >= 3
    assert all(each.size_bytes <= some or len(each.files) == 1 for each in first)
    assert run.ingest() == []
    late.parent.mkdir(exist_ok=True)
    kept.rename(late)
    (second,) = run.ingest()
    assert [(Path(path).name, size) for path, size in second.files] == [
        (late.name, late.stat().st_size)
    ]
    assert sum(each.events for each in (*first, second)) == len(day.keys)
    assert run.keys() == day.keys
    assert run.problems() == []


def test_a_run_looks_at_no_note_of_earlier_runs(run: Run) -> None:
    """Once they are known: there are more each day, and it looks each second."""
    late = sorted(Path(run.data.name).rglob("*.gz"))[-1]
    kept = late.rename(Path(run.data.name).parent / "kept")
    run.ingest()
    assert run.ingest() == []
    (Path(run.out.name) / "bronze/notes/000000.json").write_text("not read")
    kept.rename(late)
    assert [each.batch for each in run.ingest()] == [1]


def test_many_small_files_are_one_batch_and_one_file(run: Run, day: Day) -> None:
    """A node that says little closes one each ten seconds: 8,640 a day."""
    folder = next(Path(run.data.name).rglob("*.gz")).parent
    for number in range(100):
        (folder / f"{number}.jsonl").write_text(
            UNKNOWN.replace('"seq":1', f'"seq":{number}') + "\n"
        )
    (told,) = run.ingest()
    assert len(told.files) > 100
    assert told.events == len(day.keys) + 100
    batch = Path(run.out.name) / "bronze/events/batch=000000"
    assert len(list(batch.glob("*.parquet"))) == 1
    assert len(set(run.keys())) == told.events


def test_a_killed_batch_is_written_anew_and_read_once(run: Run, day: Day) -> None:
    """Killed after some of its files were there and before its end was noted."""
    run.ingest()
    run.forget_end_of(0)
    batch = Path(run.out.name) / "bronze/events/batch=000000"
    left = next(batch.glob("*.parquet"))
    shutil.copy(left, batch / "part-left-by-the-killed-run.parquet")
    assert len(run.keys()) > len(day.keys)
    (again,) = run.ingest()
    assert again.events == len(day.keys)
    assert run.keys() == day.keys


def test_a_run_killed_as_it_noted_its_first_batch_keeps_no_other_from_starting(
    run: Run, day: Day
) -> None:
    """The source's own note of its files was whole by then, and more files came."""
    late = sorted(Path(run.data.name).rglob("*.gz"))[-1]
    kept = late.rename(Path(run.data.name).parent / "kept")
    run.ingest()
    layer = Path(run.out.name) / "bronze"
    for name in ("events", "notes", "checkpoint/offsets", "checkpoint/commits"):
        shutil.rmtree(layer / name)
    (layer / "boots.json").unlink(missing_ok=True)
    leave_first_note(layer / "checkpoint")
    kept.rename(late)
    assert sum(each.events for each in run.ingest()) == len(day.keys)
    assert run.keys() == day.keys
    assert run.ingest() == []


def test_compaction_changes_no_row_and_what_comes_later_is_read_beside_it(
    run: Run, day: Day
) -> None:
    late = sorted(Path(run.data.name).rglob("*.gz"))[-1]
    kept = late.rename(Path(run.data.name).parent / "kept")
    read = run.ingest(bytes_per_batch=run.size_bytes() // 2)
    before = run.keys()
    batches, files = compact(run.spark, run.out)
    assert batches == len(read) >= 2
    assert files >= batches
    assert run.keys() == before
    assert compact(run.spark, run.out) == (0, 0)
    kept.rename(late)
    run.ingest()
    assert run.keys() == day.keys
    assert compact(run.spark, run.out)[0] == 1
    assert run.keys() == day.keys
    assert (run.out / "bronze/events").children() == [f"batch={batches:06d}"]
    days = (run.out / f"bronze/days/through={batches - 1:06d}").children()
    assert [name for name in days if name.startswith("day=")] == [f"day={day.date}"]


def test_in_compacted_files_each_log_is_in_its_order(run: Run, day: Day) -> None:
    """And a node's day in one of them, whatever batches it came with."""
    days = (day.date, "2001-01-31")
    for folder in list(Path(run.data.name).rglob("dt=*")):
        shutil.copytree(folder, folder.with_name(f"dt={days[1]}"))
    assert len(run.ingest(bytes_per_batch=run.size_bytes() // 4)) >= 3
    compact(run.spark, run.out)
    files = list(Path(run.out.name).glob("bronze/days/*/*/*.parquet"))
    assert {file.parent.name for file in files} == {f"day={each}" for each in days}
    nodes = []
    for file in files:
        columns = pq.ParquetFile(file).read(["node", "boot", "seq"]).columns
        keys = list(zip(*(column.to_pylist() for column in columns), strict=True))
        assert keys == sorted(keys)
        nodes += [(file.parent, node) for node in {key[0] for key in keys}]
    assert len(nodes) == len(set(nodes)) == 6


def test_compaction_keeps_the_day_of_files_in_no_days_folder(run: Run) -> None:
    (Path(run.data.name) / "n0/events/v=1/x.jsonl").write_text(f"{UNKNOWN}\n{{half")
    run.ingest()
    before = run.days()
    assert [day for line, day in before if line in (UNKNOWN, "{half")] == ["", ""]
    compact(run.spark, run.out)
    assert run.days() == before


def test_what_a_killed_compaction_left_goes_with_the_next_one(run: Run, day: Day) -> None:
    """It was killed before its note, and then more came."""
    read = run.ingest(bytes_per_batch=run.size_bytes() // 2)
    assert len(read) >= 2
    for through in (0, len(read) - 1):
        left = Path(run.out.name) / f"bronze/days/through={through:06d}/day={day.date}"
        left.mkdir(parents=True)
        (left / "torn.parquet").write_text("PAR1")
    assert compact(run.spark, run.out)[0] == len(read)
    assert run.keys() == day.keys
    assert (run.out / "bronze/days").children() == [f"through={len(read) - 1:06d}"]


@pytest.mark.parametrize("was_finished", [False, True])
def test_compaction_leaves_alone_what_a_run_did_not_finish(
    run: Run, day: Day, monkeypatch: pytest.MonkeyPatch, was_finished: bool
) -> None:
    """The next run writes that batch anew, and readers pass over what is compacted.

    A run before may have finished the batch, and was killed before Spark knew of it.
    """
    last = run.ingest(bytes_per_batch=run.size_bytes() // 2)[-1].batch
    run.forget_end_of(last)
    if not was_finished:
        (Path(run.out.name) / f"bronze/notes/{last:06d}.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(bronze, "_write_parts", full_disk)
        with pytest.raises(StreamingQueryException, match="No space left"):
            run.ingest()
    assert compact(run.spark, run.out)[0] == last
    assert [each.batch for each in run.ingest()] == [last]
    assert run.keys() == day.keys
    assert compact(run.spark, run.out)[0] == 1
    assert run.keys() == day.keys


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_rows_are_on_the_disk_before_their_note(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that outlives a loss of power says that they are there. The parts are the workers'."""
    synced: list[tuple[str, list[str]]] = []
    really = locations._sync

    def sync(path: str) -> None:
        names = sorted(each.name for each in Path(path).iterdir()) if Path(path).is_dir() else []
        synced.append((path.removeprefix(f"{run.out}/bronze/"), names))
        really(path)

    monkeypatch.setattr(locations, "_sync", sync)
    run.ingest()
    parts = [each.name for each in Path(f"{run.out}/bronze/events/batch=000000").iterdir()]
    ended = synced.index(("notes/000000.json.new", []))
    assert ("events/batch=000000", sorted(parts)) in synced[:ended]
    assert ("events", ["batch=000000"]) in synced[:ended]
    synced.clear()
    compact(run.spark, run.out)
    ended = synced.index(("days.json.new", []))
    before = {path for path, _ in synced[:ended]}
    days = Path(f"{run.out}/bronze/days").rglob("*")
    written = {str(each.relative_to(f"{run.out}/bronze")) for each in days}
    assert written | {"days"} <= before


def test_what_is_damaged_is_counted_and_the_rest_is_read(run: Run, day: Day) -> None:
    """Truncated gzip, a half-written line, other JSON, an unknown kind, a changed type."""
    files = sorted(Path(run.data.name).rglob("*.gz"))
    cut = files[0].read_bytes()
    whole = sum(len(content.splitlines()) for content in written.decompress(cut[:-9])[0])
    files[0].write_bytes(cut[:-9])
    folder = files[0].parent
    good = UNKNOWN.replace("Sneezed", "Coughed")
    (folder / "a.jsonl").write_text(f'{UNKNOWN}\n{{"x": 1}}\n[1]\n5\n\n{good[:40]}')
    (folder / "b.jsonl").write_text(UNKNOWN.replace('"seq":1', '"seq":"one"') + "\n")
    (folder / ".hidden.jsonl.gz.part").write_bytes(b"not looked at")
    (folder / "notes.txt").write_text("not looked at")
    (told,) = run.ingest()
    assert told.unknown == 1
    lost = len(day.keys) + 1 - told.events
    in_file = sum(len(part.splitlines()) for part in written.decompress(cut)[0])
    assert 0 <= lost <= in_file - whole
    problems = run.problems()
    assert told.problems == len(problems)
    named = [(name, problem) for name, problem in problems if not name.startswith("000001")]
    assert named == [
        ("a.jsonl", event_files.NO_JSON),
        ("a.jsonl", event_files.NO_EVENT),
        ("a.jsonl", event_files.NO_EVENT),
        ("a.jsonl", event_files.NO_EVENT),
        ("a.jsonl", "the last line has no end"),
        ("b.jsonl", event_files.NO_EVENT),
    ]
    assert any(
        "it ends too early" in problem for name, problem in problems if name == files[0].name
    )


def test_tables_of_another_directory_are_not_mixed_in(run: Run, tmp_path: Path) -> None:
    run.ingest()
    other = tmp_path / "other"
    shutil.copytree(run.data.name, other)
    with pytest.raises(PipelineError, match=r"its bronze is of .*, not of .*other"):
        Run(run.spark, Location(str(other)), run.out).ingest()


def test_a_directory_begun_anew_is_not_mixed_in(run: Run, day: Day, tmp_path: Path) -> None:
    """One node of it; its files have the names of the old ones, or other names."""
    run.ingest()
    compact(run.spark, run.out)
    data = Path(run.data.name)
    shutil.move(data / "n1", tmp_path / "away")
    assert run.ingest() == []
    files = sorted((tmp_path / "away").rglob("*.gz"))
    assert len(files) > 2
    for file in (files[0], files[2]):
        lines = b"".join(written.decompress(file.read_bytes())[0])
        new = data / "n1" / file.relative_to(tmp_path / "away")
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(written.compress([lines.replace(b'"ts_us":', b'"ts_us":1')]))
    with pytest.raises(PipelineError, match=r"earlier n1, whose .* name another -o .* or remove"):
        run.ingest()
    assert run.keys() == day.keys
    shutil.rmtree(data / "n1")
    shutil.copytree(tmp_path / "away", data / "n1", copy_function=shutil.copyfile)
    assert run.ingest() == []


def test_a_folder_with_something_else_is_refused(run: Run) -> None:
    folder = Path(run.out.name) / "bronze"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(PipelineError, match="something else is in it"):
        run.ingest()


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("runs.json", {"runs": "x"}),
        ("notes/000000.json", {"run": 1, "begins": []}),
        ("days.json", {"through": 0}),
        ("days.json", {"through": 0, "folders": 5}),
        ("days.json", {"through": "0", "folders": []}),
    ],
)
def test_a_note_with_other_content_is_named(run: Run, name: str, note: dict[str, object]) -> None:
    (run.out / "bronze/source.json").write_json({"data": str(run.data)})
    place = run.out / "bronze" / name
    place.write_json(note)
    with pytest.raises(PipelineError) as caught:
        run.ingest()
        bronze.read_bronze(run.spark, run.out)
    assert str(caught.value).startswith(f"{place}: not a note of this program: ")


@pytest.mark.parametrize("name", ["batch=000000 copy", "batch=0000001", "batch=1", "batch=x"])
def test_a_folder_that_would_be_taken_for_a_batch_is_named(tmp_path: Path, name: str) -> None:
    """Others would read its rows too: `bronze/events` has each line once."""
    out = Location(str(tmp_path))
    for each in ("batch=000007", "batch=1000000", "batch=000011", ".DS_Store", name):
        (out / "bronze/events" / each).make()
    with pytest.raises(PipelineError, match=f"{name}: no batch of this program"):
        bronze.batches_after(out, -1)
    (out / "bronze/events" / name).remove()
    assert bronze.batches_after(out, 7) == [11, 1000000]


def test_without_bronze_the_step_is_named(run: Run) -> None:
    with pytest.raises(PipelineError, match="run the step `bronze` first"):
        bronze.read_bronze(run.spark, run.out)
