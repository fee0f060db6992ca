"""The step `report`: a day from its event logs to the page, and what a user can get wrong."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest
from kept_session import judged_once, no_gold, shared
from lines_kit import START_US, Boot, events_of
from logs_kit import Day
from pyspark.sql import SparkSession

from actors.events import node
from actors.pipeline import command_line, layers, silver, steps
from actors.pipeline.__main__ import main
from actors.pipeline.audits import judging
from actors.pipeline.locations import Location
from actors.pipeline.report import gather, unknown
from actors.pipeline.report.gather import shown_boots
from actors.pipeline.report.time_axis import Stretch, time_axis
from actors.pipeline.verdicts import Verdicts

__all__ = ["judged_once", "no_gold", "shared"]


@pytest.mark.usefixtures("shared", "judged_once")
def test_a_day_becomes_a_page(
    day: Day,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code follows the verdicts; the tables stand beside the page."""
    monkeypatch.setattr(steps, "run_audit", failing(steps.run_audit))
    page = tmp_path / "deep" / "report.html"
    code = main(["report", str(day.folder), "-o", str(page), "--json"])
    printed = capsys.readouterr()
    assert "pipeline: " not in printed.err
    assert code == 1
    said = json.loads(printed.out)
    assert said["report"] == str(page)
    assert said["tables"] == str(tmp_path / "deep" / "report.tables")
    assert (tmp_path / "deep" / "report.tables" / "gold" / "current.json").is_file()
    assert said["failed"] is True
    summary = said["summary"]
    assert summary["events"] == len(day.keys)
    assert (summary["boots"], summary["killed"]) == (4, 1)
    assert summary["nodes"] == ["n0", "n1", "n2"]
    acknowledged = sum(
        e.event.records
        for told in day.events.values()
        for e in told
        if e.kind == "AppendsAcknowledged"
    )
    orders = summary["groups"]["orders"]
    assert orders["acknowledged"] == acknowledged
    assert 0 < orders["waits_ms"]["50 %"] <= orders["waits_ms"]["worst"]
    assert orders["lag_worst"]["n2"] > orders["lag_worst"]["n1"]
    assert summary["groups"]["ledger"]["acknowledged"] > 0
    made = page.read_text()
    assert made.count("<svg") == 8
    for text in (
        "one_leader_per_term",
        "✗ 1 violated",
        "Processes, roles and terms",
        "it was killed",
    ):
        assert text in made
    lines = printed.err.splitlines()
    for step in ("bronze: ", "gold: ", "audit: ", "report: drawing", "report: written to"):
        assert any(line.startswith(step) for line in lines)
    early = lines.index(f"report: written to {page}, without the verdicts, which follow")
    assert early < next(n for n, line in enumerate(lines) if line.startswith("audit: "))


@pytest.mark.usefixtures("shared", "no_gold")
def test_verdicts_are_for_programs_too(
    day: Day,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard output is the JSON, and what is being done is beside it."""
    kept = ("logs", "leaders")
    audits = tuple(each for each in judging.AUDITS if any(w in each.name for w in kept))
    monkeypatch.setattr(judging.run, "__defaults__", (lambda _: None, audits))
    code = main(["audit", str(day.folder), "-o", str(tmp_path / "out"), "--json"])
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert (code, said["failed"]) == (0, False)
    assert [each["name"] for each in said["audits"]] == [each.name for each in audits]
    written = json.loads((tmp_path / "out" / "audit" / "verdicts.json").read_text())
    assert {**said, "failed": None} == {**written, "failed": None}
    assert any(line.startswith("audit: held") for line in printed.err.splitlines())


def failing(run_audit: Any) -> Any:
    """The audits, of which the first one finds something."""

    def run(*args: Any) -> Verdicts:
        found: Verdicts = run_audit(*args)
        first = attrs.evolve(found.audits[0], verdict="violated", severity="error", findings=1)
        return attrs.evolve(found, audits=(first, *found.audits[1:]))

    return run


def test_where_a_leaders_events_are_missing_nothing_reads_0(
    spark: SparkSession, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its followers' events are here, and say whom they followed, and when."""
    leader = next(
        told.node
        for events in day.events.values()
        for told in events
        if told.kind == "RoleChanged" and told.event.role == "LEADER"
    )
    monkeypatch.setattr(unknown, "GRACE_US", 100_000)
    data, out = tmp_path / "data", Location(str(tmp_path / "out"))
    for name in set(day.events) - {leader}:
        shutil.copytree(day.folder / name, data / name)
    steps.run_bronze(spark, Location(str(data)), out, lambda _: None)
    steps.run_silver(spark, out, lambda _: None)
    steps.run_gold(spark, out, lambda _: None)
    facts = gather.gather(spark, Location(str(data)), out, lambda _: None)
    times = facts.unknown["ledger"]
    assert sum(end - begin for begin, end in times) > 1_000_000
    curves = [each for each in (*facts.throughput, *facts.lag) if each.group == "ledger"]
    assert curves
    for curve in curves:
        assert not [us for us, _ in curve.points if any(a < us < b for a, b in times)]
    assert not facts.is_judged
    rest = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    others = sorted(set(day.events) - {leader})
    assert set(others) & set(gather.named_by_others(rest)), "by name, and not by address"


def test_a_clock_that_jumps_within_a_boot_is_cut_out(spark: SparkSession) -> None:
    boot, again = Boot("n0"), Boot("n0", boot=2)
    for second in (0, 30, 60, 3e8, 3e8 + 5):
        boot.say(second, "", node.NodeStarted(cluster="c", version="1", groups=()))
    again.say(90, "", node.NodeStarted(cluster="c", version="1", groups=()))
    again.say(95, "", node.NodeStopped(reason="OSError: no room"))
    boots, active, is_cut = shown_boots(events_of(spark, boot, again))
    assert [(each.boot, each.events, each.end) for each in boots] == [
        (1, 5, "killed"),
        (2, 2, "gave up"),
    ]
    assert boots[1].stop_reason == "OSError: no room"
    assert not is_cut
    axis, _ = time_axis(active)
    second = 1_000_000
    later = START_US + 300_000_000 * second
    assert axis.stretches == (
        Stretch(START_US, START_US + 95 * second, 5),
        Stretch(later, later + 5 * second, 2),
    )


def test_a_quiet_last_hour_makes_nobody_killed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where hours are left out, the one in which a node stopped is none of them."""
    monkeypatch.setattr(gather, "HOURS_MAX", 2)
    boot = Boot("n0")
    for second in (0, 1, 3600, 3601, 3602):
        boot.say(second, "", node.NodeStarted(cluster="c", version="1", groups=()))
    boot.say(7200, "", node.NodeStopped(reason="ordered"))
    (found,), _, is_cut = shown_boots(events_of(spark, boot))
    assert (found.end, found.events, is_cut) == ("stopped", 4, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-o", "{folder}"], "a folder; -o names the page"),
        (["-o", "{pipe}"], "pipe: a device, a pipe or a socket; -o names the page, a file"),
        (["-o", "{data}/report.html"], "cannot be in the data directory"),
        (["-o", "r.html", "--tables", "{data}/t"], "cannot be in the data directory"),
        (["-o", "{data}/report.html", "--tables", "{folder}/t"], "cannot be in the data directory"),
        (["-o", "{file}/report.html"], "/report.html: its folder cannot be made: File exists\n"),
    ],
)
def test_mistakes_are_one_line_without_java(
    words: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def no_session(profile: object) -> None:
        raise AssertionError("Java was started")

    monkeypatch.setattr(command_line, "open_session", no_session)
    data, file, folder = tmp_path / "data", tmp_path / "file", tmp_path / "folder"
    (data / "n0/events/v=1").mkdir(parents=True)
    pipe = tmp_path / "pipe"
    folder.mkdir()
    file.touch()
    os.mkfifo(pipe)
    given = [word.format(data=data, file=file, folder=folder, pipe=pipe) for word in words]
    assert main(["report", str(data), *given]) == 2
    printed = capsys.readouterr()
    assert expected in printed.err
    assert printed.err.count("\n") == 1


def test_options_of_the_report_have_no_meaning_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["--json"], ["--tables", "t"]):
        with pytest.raises(SystemExit):
            main(["gold", "data", "-o", "out", *words])
        assert f"{words[0]} is for the step" in capsys.readouterr().err


def test_a_page_is_replaced_whole(tmp_path: Path) -> None:
    place = Location(str(tmp_path / "a" / "page.html"))
    for content in (b"one", b"two"):
        place.write_bytes(content)
        assert (tmp_path / "a" / "page.html").read_bytes() == content
    assert place.name.rpartition("/")[2] in {each.name for each in (tmp_path / "a").iterdir()}
    assert len(list((tmp_path / "a").iterdir())) == 1
