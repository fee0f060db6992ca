"""A task of bronze: event files to a Parquet file, which others than Spark read too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.pipeline import bronze_parts, event_files, locations
from actors.pipeline.bronze_parts import Tasks, shares
from actors.pipeline.locations import Location

LINE = '{"node":"n","boot":1,"seq":%d,"path":"/n","incarnation":0,"ts_us":5,"kind":"%s"}\n'


@pytest.mark.parametrize(
    ("sizes", "dealt"),
    [
        ([], [0]),
        ([0, 0, 0], [0]),
        ([1] * 100, [100]),
        ([60] * 10, [60 * 2] * 5),
        ([1000, 0, 0], [1000, 0, 0]),
        ([300, 200, 100, 10], [300, 200, 100, 10]),
        ([100, 90, 20, 10, 10], [120, 110]),
    ],
)
def test_files_are_dealt_out_by_their_bytes(sizes: list[int], dealt: list[int]) -> None:
    files = {f"f{number}": size for number, size in enumerate(sizes)}
    found = shares(files.items(), share_bytes=120)
    assert sorted(path for share in found for path in share) == sorted(files)
    assert sorted(sum(files[path] for path in share) for share in found) == sorted(dealt)


def tasks_of(folder: Path, *contents: str) -> Tasks:
    """Each content a file, and all of them one task; before it is one that is not asked for."""
    folder.mkdir()
    for number, content in enumerate(contents):
        (folder.parent / f"a b%20[{number}].jsonl").write_text(content)
    paths = tuple(f"file:{each}" for each in sorted(folder.parent.glob("*.jsonl")))
    return Tasks(paths=(("not asked for",), paths), folder=str(folder), run=1, kinds=("Known",))


def done(tasks: Tasks) -> list[dict[str, object]]:
    numbers = pa.record_batch({"id": pa.array([1], pa.int64())})
    return [row for batch in bronze_parts.write(tasks, [numbers]) for row in batch.to_pylist()]


def test_a_task_writes_each_line_once_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_parts, "GROUP_ROWS", 3)
    known = "".join(LINE % (seq, "Known") for seq in range(4))
    more = LINE % (9, "Sneezed") + "{half"
    tasks = tasks_of(tmp_path / "out", known, "", more, LINE % (10, "Known"))
    (told,) = done(tasks)
    (file,) = (tmp_path / "out").iterdir()
    assert told == {"name": file.name, "events": 6, "problems": 2, "unknown": 1}
    found = pq.ParquetFile(file)
    assert found.schema_arrow == event_files.ROWS
    assert found.metadata.num_row_groups == 3
    assert found.read()["seq"].to_pylist() == [0, 1, 2, 3, None, 9, None, 10]
    assert found.read()["problem"].to_pylist() == [
        *[None] * 4,
        "the file is empty",
        None,
        "the last line has no end",
        None,
    ]


def test_what_a_task_wrote_is_no_part_of_a_table_before_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Done twice, as Spark does if it loses sight of a worker: only one is named, once."""
    tasks = tasks_of(tmp_path / "out", LINE % (1, "Known"))
    (first,) = done(tasks)
    monkeypatch.setattr(bronze_parts, "attempt", lambda: 7)
    (second,) = done(tasks)
    assert first["name"] != second["name"]
    names = [file.name for file in (tmp_path / "out").iterdir()]
    assert sorted(names) == sorted([first["name"], second["name"]])
    assert all(name.startswith(".") and not name.endswith(".parquet") for name in names)
    (Location(str(tmp_path / "out")) / str(second["name"])).rename(bronze_parts.final_name(1))
    (named,) = (tmp_path / "out").glob("*.parquet")
    assert pq.ParquetFile(named).metadata.num_rows == 1


def test_what_a_task_wrote_is_on_the_disk_when_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole: what is still in a buffer when the file is synced may be lost."""
    synced: list[tuple[str, int]] = []
    monkeypatch.setattr(
        locations, "_sync", lambda path: synced.append((path, Path(path).stat().st_size))
    )
    done(tasks_of(tmp_path / "out", LINE % (1, "Known")))
    (file,) = (tmp_path / "out").iterdir()
    assert synced == [(str(file), file.stat().st_size)]


def test_a_file_that_has_gone_is_an_error_and_no_gap(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path / "out", LINE % (1, "Known"), LINE % (2, "Known"))
    (tmp_path / "a b%20[1].jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        done(tasks)
