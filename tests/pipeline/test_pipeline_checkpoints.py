"""What a killed stream leaves in its checkpoint: see `test_pipeline_bronze` for Spark's part."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints_kit import UNFINISHED, leave_first_note

from actors.pipeline.checkpoints import clear_unbegun
from actors.pipeline.locations import Location


def names(checkpoint: Path) -> set[str]:
    return {str(each.relative_to(checkpoint)) for each in checkpoint.rglob("*") if each.is_file()}


def test_a_first_note_that_is_not_whole_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    clear_unbegun(Location(str(checkpoint)))
    assert not checkpoint.exists()
    leave_first_note(checkpoint)
    (checkpoint / "commits/.0.1.tmp").touch()
    others = {"metadata", ".metadata.crc", "sources/0/0", "sources/0/.0.crc"}
    (checkpoint / "sources/0").mkdir(parents=True)
    for name in others:
        (checkpoint / name).touch()
    clear_unbegun(Location(f"file://{checkpoint}"))
    assert names(checkpoint) == others
    clear_unbegun(Location(str(checkpoint)))
    assert names(checkpoint) == others


@pytest.mark.parametrize("whole", ["offsets/0", "commits/7", "offsets/9.compact"])
def test_where_a_batch_was_begun_nothing_is_touched(whole: str, tmp_path: Path) -> None:
    leave_first_note(tmp_path)
    (tmp_path / whole).touch()
    clear_unbegun(Location(str(tmp_path)))
    assert names(tmp_path) == {"metadata", whole, *(f"offsets/{name}" for name in UNFINISHED)}
