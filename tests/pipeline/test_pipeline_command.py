"""The command: one line for each mistake, no Java for any of them, and a day through all steps."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kept_session import failing, no_session, shared
from logs_kit import Day
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from actors.pipeline import clock, command_line, layers, steps
from actors.pipeline.__main__ import main
from actors.pipeline.errors import PipelineError
from actors.pipeline.gold.tables import TABLES
from actors.pipeline.locations import Location, event_pattern, held
from actors.pipeline.session import Profile

__all__ = ["shared"]


def test_a_day_goes_through_all_steps_and_is_read_once(
    shared: None, day: Day, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(day.folder, data)
    unknown = '{"node":"n0","boot":1,"seq":99999,"path":"/n0","incarnation":0,"ts_us":1,'
    (data / "n0/events/v=1/x.jsonl").write_text(unknown + '"kind":"Sneezed"}\nhalf')
    (data / "n0/events/v=2").mkdir()
    words = ["gold", str(data), "-o", str(out)]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert f"bronze: {data}/n0/events/v=2 is of another format and is left alone" in lines
    files = sorted(data.rglob("*.jsonl*"))
    size = sum(file.stat().st_size for file in files)
    assert [line for line in lines if f"{len(files)} new files, {size:,} bytes" in line]
    for file in files:
        assert f"bronze: read {file}, {file.stat().st_size:,} bytes" in lines
    assert "bronze: 1 event is of kinds that this version does not know" in lines
    assert "bronze: 1 problem in 1 file" in lines
    assert (
        f"bronze: {data}/n0/events/v=1/x.jsonl: line 2: the last line has no end (1 such)" in lines
    )
    assert f"silver: {len(day.keys) + 1:,} events of 4 boots of n0, n1, n2" in lines
    assert "silver: 1 event of the unknown kind Sneezed" in lines
    assert any("silver: n0, boot 1: " in line and "are missing" in line for line in lines)

    assert main(["silver", *words[1:]]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[2] == "bronze: no new files, 0 bytes read"
    assert sum(f" of {len(TABLES)} tables, " in line for line in lines) == len(TABLES)
    gold = layers.current(Location(str(out)) / "gold")
    behind = layers.read(spark, gold / "lag").where("group = 'orders'")
    worst = {row[0]: row[1] for row in behind.groupBy("follower").agg(fn.max("lag")).collect()}
    assert worst["n2"] > 500 > worst["n1"]
    terms = {row["term"] for row in layers.read(spark, gold / "elections").collect()}
    assert terms == {e.event.term for e in leaders(day)}

    assert main(["compact", *words[1:]]) == 0
    assert "\ncompact: 1 batch of " in capsys.readouterr().out


def leaders(day: Day) -> list[Any]:
    told = [event for each in day.events.values() for event in each]
    return [e for e in told if e.kind == "RoleChanged" and e.event.role == "LEADER"]


def test_old_versions_go_and_the_one_before_stays(spark: SparkSession, tmp_path: Path) -> None:
    layer = Location(str(tmp_path / "report [v2] {a,b}*?" / "x"))
    with pytest.raises(PipelineError, match="run the step `x` first"):
        layers.current(layer)
    (layer / "version=mine").make()
    for number in range(4):
        layers.publish(layer, {"t": spark.range(number)})
        table = layers.current(layer) / "t"
        assert layers.read(spark, table).count() == number
        assert layers.read(spark, table).schema == spark.read.parquet(table.for_readers()).schema
    assert layer.children() == [
        "current.json", "version=000003", "version=000004", "version=mine"
    ]  # fmt: skip


@pytest.mark.parametrize("note", [{}, {"version": "4"}, {"version": 0}])
def test_a_note_that_names_no_version_is_named(tmp_path: Path, note: dict[str, object]) -> None:
    layer = Location(str(tmp_path / "x"))
    (layer / layers.NOTE).write_json(note)
    with pytest.raises(PipelineError, match=r"x/current\.json: not a note of this program: "):
        layers.current(layer)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda data: None, "no such folder"),
        (lambda data: data.mkdir(), "no event logs here, it is empty"),
        (lambda data: data.write_text("x"), "a file; expected a data directory"),
        (lambda data: (data / "n0/events/v=3").mkdir(parents=True), "event logs of format v=3"),
        (lambda data: (data / "parquet").mkdir(parents=True), "no NODE/events/v=1/ in it"),
    ],
)
def test_mistakes_are_one_line_without_java(
    make: Any,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    data = tmp_path / "data"
    make(data)
    assert main(["bronze", str(data), "-o", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith(f"pipeline: {data}: ")
    assert words in printed.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "limit", "profile"),
    [
        (["report"], 5, Profile.SHORT),
        (["report"], 4, Profile.LOCAL),
        (["watch"], 5, Profile.LOCAL),
        (["audit", "--profile", "cluster"], 5, Profile.CLUSTER),
    ],
)
def test_few_events_are_for_a_java_that_warms_up_sooner(
    words: list[str], limit: int, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "n0/events/v=1/dt=2026-01-31/node=n0"
    folder.mkdir(parents=True)
    (folder / "000001-000000000001.jsonl.gz").write_text("12345")
    monkeypatch.setattr(command_line, "SHORT_BYTES", limit)
    asked = command_line.parse([*words, str(tmp_path), "-o", "out"])
    assert command_line._profile(asked, Location(str(tmp_path))) is profile


def test_a_colon_in_the_path_is_one_line_and_a_link_without_one_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To Spark a:b in a pattern is b of a scheme a."""
    monkeypatch.setattr(command_line, "open_session", no_session)
    data, link = tmp_path / "12:30" / "data", tmp_path / "link"
    (data / "n0/events/v=1").mkdir(parents=True)
    link.symlink_to(data)
    assert main(["bronze", str(data), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pipeline: {data}: Spark reads no path with a colon in it: make a link")
    assert said.count("\n") == 1
    assert event_pattern(Location(str(link))) == f"{link}/*/events/v=1"
    assert event_pattern(Location(str(data / "n0"))) == f"{data}/n0/events/v=1"


@pytest.mark.parametrize("comes", [True, False])
def test_a_watch_waits_for_the_first_events_of_nodes_that_begin(
    comes: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before it starts Java; not where no node is, for no longer than it was asked to run, and not
    where its tables cannot be.
    """
    data = tmp_path / "data"
    (data / "n0").mkdir(parents=True)
    (data / "n0/identity.json").write_text("{}")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if comes and len(slept) == 3:
            (data / "n0/events/v=3").mkdir(parents=True)

    monkeypatch.setattr(command_line, "open_session", no_session)
    monkeypatch.setattr(clock, "pause", sleep)
    monkeypatch.setattr(clock, "stopwatch_s", lambda: sum(slept))
    asked = ["--seconds", "2"] if not comes else []
    assert main(["watch", str(data), "-o", str(tmp_path / "out"), *asked]) == 2
    waits, ends = capsys.readouterr().err.splitlines()
    assert waits == f"watch: no node has published events in {data} yet; waits for the first ones"
    assert ("event logs of format v=3" if comes else "no event logs here") in ends
    assert len(slept) == (3 if comes else 4)
    assert main(["watch", str(data), "-o", str(tmp_path / "out"), "--seconds", "0"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["watch", str(data), "-o", str(data / "tables"), "--seconds", "9"]) == 2
    (refused,) = capsys.readouterr().err.splitlines()
    assert "the tables cannot be in the data directory" in refused


def test_tables_do_not_go_into_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main(["gold", ".", "-o", "n0/tables"]) == 2
    assert "cannot be in the data directory" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["", "-o", "x"], ["x", "-o", ""]])
def test_an_empty_name_is_not_the_root(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bronze", *words])
    assert ended.value.code == 2


@pytest.mark.parametrize("option", ["--seconds", "--lag-bytes", "--silent-s"])
def test_what_only_watch_takes_is_refused_elsewhere(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gold", "x", "-o", "y", option, "5"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {option} is for the step `watch`\n")


def test_only_the_bronze_of_the_data_directory_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "n0/events/v=1").mkdir(parents=True)
    words = ["compact", str(data), "-o", str(out)]
    assert main(words) == 2
    said = f"pipeline: {out}: no bronze here; run the step `bronze` first\n"
    assert capsys.readouterr().err == said
    assert not out.exists()
    Location(str(out / "bronze/source.json")).write_json({"data": "/elsewhere"})
    assert main(words) == 2
    assert "its bronze is of /elsewhere, not of" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["bronze", "silver", "gold", "audit", "report"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("source.json", "its bronze is of /elsewhere, not of "),
        ("mine.json", "something else is in it"),
    ],
)
def test_tables_of_something_else_are_refused_without_java(
    step: str,
    name: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    data, out = tmp_path / "data", tmp_path / "page.tables"
    (data / "n0/events/v=1").mkdir(parents=True)
    Location(str(out / "bronze" / name)).write_json({"data": "/elsewhere"})
    made = tmp_path / "page.html" if step == "report" else out
    assert main([step, str(data), "-o", str(made)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("error", [PipelineError, PySparkException, OSError])
def test_what_logs_have_for_names_is_shown_and_does_nothing_to_a_terminal(
    error: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def say(spark: object, data: object, out: object, tell: Any) -> None:
        tell("silver: 3 events of the unknown kind \x1b[2J\nü")
        raise error("n0\x9b")

    monkeypatch.setattr(steps, "run_bronze", say)
    monkeypatch.setattr(command_line, "open_session", lambda _: NoSpark())
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    assert main(["bronze", str(tmp_path), "-o", f"{tmp_path}.out"]) in (1, 2)
    printed = capsys.readouterr()
    assert (
        printed.out
        == "bronze: starting Spark\nsilver: 3 events of the unknown kind \\u001b[2J\\u000aü\n"
    )
    assert printed.err.startswith("pipeline: ")
    assert printed.err.endswith("n0\\u009b\n")


class NoSpark:
    """A session that nothing is asked of."""

    def stop(self) -> None:
        pass


def test_a_layer_that_somebody_damaged_is_named(
    shared: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    note = tmp_path / "out/bronze/source.json"
    note.parent.mkdir(parents=True)
    note.write_text("{")
    assert main(["bronze", str(tmp_path / "n0"), "-o", str(tmp_path / "out")]) == 2
    assert f"{note}: not a note of this program" in capsys.readouterr().err


@pytest.mark.parametrize("step", ["bronze", "silver", "gold", "audit", "report", "compact"])
def test_two_runs_do_not_write_the_same_tables(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second ends before it has read or written anything, and without Java."""
    monkeypatch.setattr(command_line, "open_session", no_session)
    data, out = tmp_path / "data", tmp_path / "page.tables"
    (data / "n0/events/v=1").mkdir(parents=True)
    Location(str(out / "bronze/source.json")).write_json({"data": str(data)})
    made = tmp_path / "page.html" if step == "report" else out
    with held(Location(str(out)), "nobody"):
        assert main([step, str(data), "-o", str(made)]) == 2
    assert capsys.readouterr().err == f"pipeline: {out}: another run is at it\n"


def test_a_second_watch_is_refused_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would share what was told and what was read: each finding, to one of the two."""
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "n0/events/v=1").mkdir(parents=True)
    words = ["watch", str(data), "-o", str(out)]
    asked: list[int] = []

    def watch_meanwhile(_: object) -> NoSpark:
        monkeypatch.setattr(command_line, "open_session", no_session)
        asked.append(main(words))
        return NoSpark()

    monkeypatch.setattr(steps, "run_watch", lambda *_, **__: None)
    for _ in range(2):  # the first one's end lets go of it
        monkeypatch.setattr(command_line, "open_session", watch_meanwhile)
        assert main(words) == 0
        assert capsys.readouterr().err == f"pipeline: {out}/alarms: another watch is at it\n"
    assert asked == [2, 2]


def test_alarms_of_another_directory_are_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "open_session", no_session)
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "n0/events/v=1").mkdir(parents=True)
    Location(str(out / "alarms/source.json")).write_json({"data": "/elsewhere"})
    assert main(["watch", str(data), "-o", str(out)]) == 2
    assert capsys.readouterr().err.endswith(f"its alarms are of /elsewhere, not of {data}\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Py4JNetworkError("no answer"), "no answer"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "refused: has Java ended?"),
    ],
)
def test_a_java_that_ended_is_one_line(
    error: Exception,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed, or out of memory: nothing more can be asked of it, its end included."""
    monkeypatch.setattr(command_line, "open_session", lambda _: DeadSpark())
    monkeypatch.setattr(steps, "run_bronze", partial(failing, error))
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    assert main(["bronze", str(tmp_path), "-o", f"{tmp_path}.out"]) == 1
    assert capsys.readouterr().err == f"pipeline: Spark failed: {said}\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PySparkException("[UNAVAILABLE] nobody listens there\n\tat a.B(C.java:1)"), "nobody"),
        (Py4JError("All masters are unresponsive! Giving up.\n\tat a.B(C.java:1)"), "All masters"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "refused: has Java ended?"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_line(
    error: Exception,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command_line, "open_session", partial(failing, error))
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    words = ["bronze", str(tmp_path), "-o", f"{tmp_path}.out", "--profile", "cluster"]
    assert main(words) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("pipeline: Spark failed: ")
    assert said in printed
    assert printed.count("\n") == 1


class DeadSpark:
    """A session whose Java is gone."""

    def stop(self) -> None:
        raise ConnectionRefusedError


def test_what_fails_in_spark_is_one_line(
    shared: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise PySparkException("Something\n\tat java.io.Something(A.java:1)\n")

    monkeypatch.setattr(steps, "run_bronze", fail)
    (tmp_path / "n0/events/v=1").mkdir(parents=True)
    assert main(["bronze", str(tmp_path), "-o", f"{tmp_path}.out"]) == 1
    assert capsys.readouterr().err == "pipeline: Spark failed: Something\n"


def test_help_needs_no_spark(tmp_path: Path) -> None:
    """And a wrong step is argparse's own one-line error."""
    command = [sys.executable, "-m", "actors.pipeline"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("bronze", "NODE/BOOT/SEQ", " 143 "))
    wrong = subprocess.run([*command, "iron", "."], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "invalid choice: 'iron'" in wrong.stderr
