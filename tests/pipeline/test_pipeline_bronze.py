"""Bronze: each line of real nodes' event logs once, whatever happens to files and runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pytest
from logs_kit import Day
from pyspark.sql import SparkSession

from actors.pipeline import bronze, event_files
from actors.pipeline.bronze import BatchRead
from actors.pipeline.compaction import compact
from actors.pipeline.errors import PipelineError
from actors.pipeline.places import Place
from actors.storage import event_files as written

UNKNOWN = (
    '{"node":"n1","boot":9,"seq":1,"path":"/n1","incarnation":0,"ts_us":5,"kind":"Sneezed","a":1}'
)


@attrs.define
class Run:
    """Bronze of one data directory, run by run."""

    spark: SparkSession
    data: Place
    out: Place

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

    def problems(self) -> list[tuple[str, str]]:
        found = bronze.read_bronze(self.spark, self.out).where("problem is not null")
        return sorted(
            (Path(row["file"]).name, row["problem"])
            for row in found.select("file", "problem").collect()
        )


@pytest.fixture
def run(spark: SparkSession, day: Day, tmp_path: Path) -> Run:
    """A copy of the day's data, and nowhere yet; the folder's name is one to stumble over."""
    data = tmp_path / "a [b] {c,d} %20*"
    shutil.copytree(day.folder, data)
    return Run(spark, Place(str(data)), Place(str(tmp_path / "out")))


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


def test_compaction_leaves_alone_what_a_killed_run_did_not_finish(run: Run, day: Day) -> None:
    """The next run writes that batch anew, and readers pass over what is compacted."""
    last = run.ingest(bytes_per_batch=run.size_bytes() // 2)[-1].batch
    bronze_folder = Path(run.out.name) / "bronze"
    run.forget_end_of(last)
    (bronze_folder / f"notes/{last:06d}.json").unlink()
    for file in (bronze_folder / f"events/batch={last:06d}").glob("*.parquet"):
        file.unlink()
    assert compact(run.spark, run.out)[0] == last
    assert [each.batch for each in run.ingest()] == [last]
    assert run.keys() == day.keys
    assert compact(run.spark, run.out)[0] == 1
    assert run.keys() == day.keys


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
        Run(run.spark, Place(str(other)), run.out).ingest()


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


def test_a_folder_with_something_else_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out/bronze").mkdir(parents=True)
    (tmp_path / "out/bronze/mine.txt").write_text("mine")
    with pytest.raises(PipelineError, match="something else is in it"):
        run.ingest()


def test_without_bronze_the_step_is_named(run: Run) -> None:
    with pytest.raises(PipelineError, match="run the step `bronze` first"):
        bronze.read_bronze(run.spark, run.out)
