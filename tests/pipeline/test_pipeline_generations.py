"""Whether what lies in a data directory is of the nodes whose events are in the tables."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import attrs
import pytest
from alarms_kit import publish
from lines_kit import Boot

from actors.events.node import NodeStarted
from actors.pipeline import command_line, generations
from actors.pipeline.__main__ import main
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location

DAY_S = 86_400.0


@attrs.define
class Pair:
    """A data directory and its tables' notes, as bronze writes them."""

    data: Path
    out: Path
    seen: set[str] = attrs.field(factory=set)
    batches: int = 0

    def generation(self, node: str, at_s: float, files: int = 3, boot: int = 1) -> None:
        """A boot of a node that begins then, and publishes files of two events."""
        said = Boot(node, boot)
        for number in range(files):
            for _ in range(2):
                said.say(at_s + number, "", NodeStarted(cluster="c", version="1", groups=()))
            publish(self.data, said)

    def files(self) -> list[tuple[str, int]]:
        return [
            (f"file:{file}", file.stat().st_size) for file in sorted(self.data.rglob("*.jsonl.gz"))
        ]

    def read(self, with_times: bool = True) -> None:
        """What `bronze.ingest` does, but for the events."""
        self.check()
        new = [file for file in self.files() if file[0] not in self.seen]
        self.seen.update(path for path, _ in new)
        note = {"run": 1, "files": new, "events": 1, "problems": 0, "unknown": 0}
        if with_times:
            note["begins"] = generations.rows_of(new)
        place = Location(str(self.out)) / "bronze" / generations.NOTES / f"{self.batches:06d}.json"
        place.write_json(note)
        self.batches += 1

    def check(self) -> None:
        generations.check(Location(str(self.data)), Location(str(self.out)))

    def refused(self) -> str:
        """The one line; and nothing is changed, so the next run says it too."""
        with pytest.raises(PipelineError) as first:
            self.check()
        with pytest.raises(PipelineError, match=re.escape(str(first.value))):
            self.check()
        assert "\n" not in str(first.value)
        return str(first.value)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Two nodes, whose files are read."""
    found = Pair(tmp_path / "data", tmp_path / "out")
    for node in ("n0", "n1"):
        found.generation(node, 0)
        found.generation(node, 100, boot=2)
    found.read()
    return found


def of_node(pair: Pair, node: str) -> Path:
    return pair.data / node / "events/v=1/dt=2027-01-15" / f"node={node}"


def test_an_earlier_generation_is_found_without_java(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_session(profile: object) -> None:
        raise AssertionError("Java was started for a mistake that can be seen without it")

    monkeypatch.setattr(command_line, "open_session", no_session)
    (Location(str(pair.out)) / "bronze/source.json").write_json({"data": str(pair.data)})
    shutil.rmtree(pair.data)
    pair.generation("n0", DAY_S)
    line = pair.refused()
    assert main(["bronze", str(pair.data), "-o", str(pair.out)]) == 2
    assert capsys.readouterr() == ("", f"pipeline: {line}\n")


@pytest.mark.parametrize("with_times", [True, False])
def test_a_directory_begun_anew_is_refused(pair: Pair, with_times: bool) -> None:
    """Also by the notes of a version that knew sizes only."""
    if not with_times:
        shutil.rmtree(pair.out)
        pair.seen.clear()
        pair.read(with_times=False)
    shutil.rmtree(pair.data)
    for node in ("n0", "n1"):
        said = Boot(node)
        said.say(DAY_S, "", NodeStarted(cluster="other", version="1", groups=()))
        publish(pair.data, said)
    line = pair.refused()
    assert line.startswith(f"{pair.out}: has events of an earlier n0, whose boot 1 began ")
    assert line.endswith(f": name another -o (or --tables), or remove {pair.out}")
    if with_times:
        assert "began at 2027-01-15 08:00:00.000000Z; in" in line
        assert f"{pair.data} boot 1 began at 2027-01-16 08:00:00.000000Z: it was begun" in line


def test_one_node_of_several_that_began_anew_is_refused(pair: Pair) -> None:
    """Its first file is as long as the one before, and on another day."""
    shutil.rmtree(pair.data / "n1")
    pair.generation("n1", DAY_S)
    folder = of_node(pair, "n1")
    folder.parent.rename(folder.parents[1] / "dt=2027-01-16")
    assert "an earlier n1, whose boot 1 began" in pair.refused()


def test_a_node_put_back_to_an_older_copy_is_refused_when_it_goes_on(pair: Pair) -> None:
    for file in of_node(pair, "n0").glob("000002-*"):
        file.unlink()
    pair.check()
    pair.generation("n0", 300, boot=2)
    assert "an earlier n0, whose boot 2 began at 2027-01-15 08:01:40.000000Z" in pair.refused()


def test_a_lower_boot_that_began_later_is_refused(tmp_path: Path) -> None:
    """The tables know the end of a long generation; the new one has not got as far yet."""
    pair = Pair(tmp_path / "data", tmp_path / "out")
    pair.generation("n0", 500, boot=7)
    pair.read()
    pair.generation("n0", 100, boot=5)
    pair.check()
    shutil.rmtree(pair.data)
    pair.generation("n0", 900, boot=1)
    line = pair.refused()
    assert "an earlier n0, whose boot 7 began at 2027-01-15 08:08:20" in line
    assert f"in {pair.data} boot 1 began at 2027-01-15 08:15:00" in line


def test_tables_that_have_two_generations_already_are_refused(pair: Pair) -> None:
    """An older version has read them: two files of one name are of two lengths, on two days."""
    shutil.rmtree(pair.out)
    pair.seen.clear()
    pair.read(with_times=False)
    first, *_ = pair.files()
    note = {"files": [[first[0].replace("dt=2027-01-15", "dt=2027-01-16"), first[1] + 1]]}
    (pair.out / "bronze/notes/000002.json").write_text(json.dumps(note))
    line = pair.refused()
    assert line.startswith(
        f"{pair.out}: has events of two generations of n0, whose boot 1 began with a "
    )
    assert line.endswith(f": name another -o (or --tables), or remove {pair.out}")


def test_two_generations_in_one_directory_are_refused_whatever_the_tables_are(
    tmp_path: Path,
) -> None:
    """The old one was moved aside, but not out; an exact copy beside it does no harm."""
    pair = Pair(tmp_path / "data", tmp_path / "out")
    pair.generation("n0", 0)
    shutil.copytree(pair.data / "n0", pair.data / "n0.old")
    pair.read()
    pair.check()
    shutil.rmtree(pair.data / "n0")
    pair.generation("n0", 500, files=2)
    shutil.rmtree(pair.out)
    line = pair.refused()
    assert line.startswith(
        f"{pair.data}: has two generations of n0, each with a boot 1: {pair.data}/n0."
    )
    assert line.endswith("move the files of one of them elsewhere")


def test_what_is_lawful_is_not_refused(pair: Pair, tmp_path: Path) -> None:
    """Heads that expired; a node that is away and comes back; files that were copied; a file that
    was read when its copy had not ended; boots that go on; an old boot that arrives late.
    """
    min(of_node(pair, "n0").iterdir()).unlink()
    pair.read()
    (pair.data / "n1").rename(tmp_path / "away")
    pair.read()
    pair.generation("n0", 200, boot=3)
    pair.read()
    shutil.copytree(tmp_path / "away", pair.data / "n1")
    for file in pair.data.rglob("*.gz"):
        os.utime(file, (1, 1))
    pair.read()
    pair.generation("n1", 90, files=1, boot=4)
    first = max(of_node(pair, "n1").iterdir())
    whole = first.read_bytes()
    first.write_bytes(whole[:-20])
    pair.generation("n1", 95, boot=5)
    pair.read()
    first.write_bytes(whole)
    pair.generation("n1", 80, boot=3)
    pair.read()
    known = json.loads((pair.out / "bronze/boots.json").read_text())
    assert known["through"] == pair.batches - 2
    pair.check()
    begun = generations.known_begins(Location(str(pair.out)))
    boots = [("n0", 1), ("n0", 2), ("n0", 3), ("n1", 1), ("n1", 2), ("n1", 3), ("n1", 5)]
    assert sorted(begun) == boots
    assert {begin.seq for begin in begun.values()} == {1}


def test_only_new_notes_are_read_again(pair: Pair) -> None:
    pair.check()
    (pair.out / "bronze/notes/000000.json").write_text("not read")
    pair.check()
    (pair.out / "bronze/notes/000001.json").write_text('{"files": 5}')
    with pytest.raises(PipelineError, match=r"000001\.json: not a note of this program"):
        pair.check()


def test_a_note_that_was_cut_off_is_not_read(pair: Pair) -> None:
    """A run was killed before the note had its name: the next one writes that batch anew."""
    (pair.out / "bronze/notes/000001.json.new").write_text('{"fil')
    pair.check()
    known = json.loads((pair.out / "bronze/boots.json").read_text())
    assert known["through"] == 0
    pair.generation("n0", 200, boot=3)
    pair.read()
    pair.check()
    assert ("n0", 3) in generations.known_begins(Location(str(pair.out)))


def test_what_tells_nothing_is_left_alone(pair: Pair) -> None:
    """Files that are no node's, and one whose beginning is damaged since."""
    folder = of_node(pair, "n0")
    (folder / "x.jsonl").write_text("x")
    shutil.copy(of_node(pair, "n1") / "000001-000000000003.jsonl.gz", folder.parent / "000001-1.gz")
    min(folder.glob("*.gz")).write_bytes(b"\0")
    pair.check()


def test_times_that_no_calendar_has_are_shown_as_numbers() -> None:
    for us in (2**63 - 1, -(2**63)):
        assert generations._shown(generations.Begin(seq=1, size_bytes=1, us=us)) == f"at {us} us"
