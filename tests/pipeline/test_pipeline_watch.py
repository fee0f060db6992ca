"""`watch`: the alarms' whole stream in Spark, told once over restarts and kills."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import pytest
from checkpoints_kit import leave_first_note
from lines_kit import START_US
from logs_kit import Day
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession

from actors.pipeline import command_line, event_files, steps
from actors.pipeline.__main__ import main
from actors.pipeline.alarms import source, watch
from actors.pipeline.alarms.event_logs import published
from actors.pipeline.alarms.facts import Fact, FactReader
from actors.pipeline.alarms.findings import Finding, as_dict, of_dict
from actors.pipeline.alarms.limits import Limits
from actors.pipeline.alarms.processor import GroupState
from actors.pipeline.alarms.sink import FindingsWriter, batches_after, findings_of
from actors.pipeline.ending import Terminated
from actors.pipeline.errors import PipelineError
from actors.pipeline.locations import Location, claim, event_folders

LOW = Limits(failover_s=0.05, lag_bytes=300, lag_entries=3, stall_s=0.7)
"""Which the simulated day is above: a slave is cut off for 1.5 s, a leader is killed."""


ALARM = Finding(
    alarm="two_leaders",
    group="g",
    subject="n0",
    node="n1",
    boot=1,
    seq=7,
    at_us=START_US,
    value=5,
    unit="term",
)


def expected(data: Path, limits: Limits) -> list[Finding]:
    """What the rules find in all files at once, without Spark."""
    groups: dict[str, list[Fact]] = defaultdict(list)
    last_us = 0
    for folder in event_folders(Location(str(data))):
        reader = FactReader()
        for file in published(folder):
            lines = event_files.lines_of(event_files.read_bytes(file.path))
            for fact in reader.read(lines):
                groups[fact.group].append(fact)
                last_us = max(last_us, fact.ts_us)
    told = []
    for group, facts in groups.items():
        state = GroupState()
        told += state.take(facts, limits)
        told += state.pass_time(group, last_us, limits)
    return told


def shown(findings: list[Finding]) -> list[tuple[object, ...]]:
    """Without what depends on when it was looked at: of a failover `is_over`, its length, and its
    end, which is not told where it was over by then.
    """
    return sorted(
        (f.alarm, f.group, f.subject, f.node, f.boot, f.seq, 0 if f.unit == "us" else f.value)
        for f in findings
        if f.alarm != "failover_over"
    )


@attrs.define
class Watch:
    """Runs over one data directory that end when all is read."""

    spark: SparkSession
    data: Path
    out: Path

    def run(self, files_max: int = source.FILES_MAX) -> list[Finding]:
        """What this run told."""
        told: list[Finding] = []
        places = Location(str(self.data)), Location(str(self.out))
        with watch.taken(*places):
            watch.watch(self.spark, *places, LOW, told.append, 0, files_max)
        return told

    @property
    def stream(self) -> Path:
        return self.out / watch.LAYER / watch.STREAM

    def kept(self) -> list[Finding]:
        folder = Location(str(self.stream / "findings"))
        return [each for batch in batches_after(folder, -1) for each in findings_of(folder, batch)]


def test_each_finding_of_a_hard_day_is_told_once_over_restarts_and_kills(
    spark: SparkSession, day: Day, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(day.folder, data)
    later = sorted(data.rglob("*.gz"), key=lambda path: path.name)[-3:]
    for path in later:
        path.rename(path.with_suffix(".later"))
    watched = Watch(spark, data, tmp_path / "out")
    told = watched.run(files_max=3)
    assert told

    for path in later:
        path.with_suffix(".later").rename(path)
    told += watched.run()
    assert {each.alarm for each in told} >= {"failover", "lag", "stalled"}
    assert shown(told) == shown(expected(data, LOW))
    assert shown(watched.kept()) == shown(told)

    # Killed after its last batch was written and before Spark and we had noted that.
    commits = sorted(
        (watched.stream / "checkpoint/commits").glob("[0-9]*"), key=lambda p: int(p.name)
    )
    for path in commits[-2:]:
        path.unlink()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    assert watched.run() == []
    assert shown(watched.kept()) == shown(told)


def test_a_watch_killed_as_it_noted_its_first_batch_keeps_no_other_from_starting(
    spark: SparkSession, day: Day, tmp_path: Path
) -> None:
    watched = Watch(spark, Path(day.folder), tmp_path / "out")
    claim(Location(str(watched.out)) / watch.LAYER, Location(str(watched.data)))
    leave_first_note(watched.stream / "checkpoint")
    assert shown(watched.run()) == shown(expected(watched.data, LOW))


def test_a_finding_that_a_killed_run_could_not_tell_is_told_by_the_next(tmp_path: Path) -> None:
    stream = Location(str(tmp_path))
    told: list[Finding] = []
    for batch in (3, 11):
        writer = FindingsWriter(stream / "findings")
        writer.commit([writer.write(iter([Row(**as_dict(ALARM))]))], batch)
        watch.tell_new(stream, told.append)
        assert len(told) == (1 if batch == 3 else 2)
        watch.tell_new(stream, told.append)
    assert told == [ALARM, ALARM]


class Query:
    """Fails at its first look, as often as there are failures left; else ends at its third."""

    def __init__(self, failures: list[int]) -> None:
        self._failures, self._looks = failures, 0

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        if self._failures:
            self._failures.pop()
            raise StreamingQueryException("Python worker failed to connect back.\n\tat java.X")
        self._looks += 1
        return self._looks == 3

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("failures", [0, watch.FAILURES_MAX, watch.FAILURES_MAX + 1])
def test_a_stream_that_fails_goes_on_but_not_for_ever(
    failures: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = [0] * failures
    monkeypatch.setattr(watch, "facts", lambda *_: None)
    monkeypatch.setattr(watch, "alarms", lambda *_: None)
    monkeypatch.setattr(watch, "_start", lambda *_: Query(left))
    places = Location(str(tmp_path / "data")), Location(str(tmp_path / "out"))

    begun: list[int] = []

    def run() -> None:
        watch.watch(None, *places, LOW, lambda _: None, begun=lambda: begun.append(1))  # type: ignore[arg-type]

    if failures > watch.FAILURES_MAX:
        with pytest.raises(StreamingQueryException):
            run()
    else:
        run()
    assert left == []
    assert begun == [1], "said once, not at each start"
    said = [record.getMessage() for record in caplog.records]
    text = (
        "watch: it failed, and goes on from its checkpoint: Python worker failed to connect back."
    )
    assert said == [text] * min(failures, watch.FAILURES_MAX)


@pytest.mark.parametrize("left", ["told.json", "findings/000000003.jsonl"])
def test_findings_without_their_checkpoint_are_refused(
    left: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Batches begin at 0 again: new findings would be taken for those that are there."""
    monkeypatch.setattr(watch, "facts", lambda *_: None)
    monkeypatch.setattr(watch, "alarms", lambda *_: None)
    monkeypatch.setattr(watch, "_start", lambda *_: Query([]))
    places = Location(str(tmp_path / "data")), Location(str(tmp_path / "out"))
    stream = places[1] / "alarms" / watch.STREAM

    def run() -> None:
        watch.watch(None, *places, LOW, lambda _: None)  # type: ignore[arg-type]

    run()
    content = {"batch": 3} if left == "told.json" else as_dict(ALARM)
    (stream / left).write_json(content)
    with pytest.raises(PipelineError, match="has findings, and no checkpoint any more"):
        run()
    (stream / "checkpoint/metadata").write_json({"id": "x"})
    run()


GOOD = json.dumps(as_dict(ALARM))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("told.json", b"", "not a note of this program"),
        ("told.json", b'{"batch": 3', "not a note of this program"),
        ("told.json", b'{"batch": "x"}', "not a note of this program: Expected `int`"),
        ("told.json", b"{}", "not a note of this program: Object missing"),
        ("told.json", b"\xff", "not a note of this program"),
        ("told.json", b"[" * 100_000, "not a note of this program"),
        ("findings/x.jsonl", GOOD.encode(), "no batch of this program; move it elsewhere"),
        ("findings/000000003.jsonl", f"{GOOD}\n{GOOD[:50]}".encode(), "line 2 is no finding of"),
        ("findings/000000003.jsonl", b"\0\0\0\n", "line 1 is no finding of this program"),
        ("findings/000000003.jsonl", b'{"alarm": "lag"}\n', "line 1 is no finding of this program"),
        ("findings/000000003.jsonl", GOOD.replace("two_leaders", "fire").encode(), "alarm 'fire'"),
        ("findings/000000003.jsonl", GOOD.replace("7", '"7"').encode(), "Expected `int`"),
    ],
)
def test_damaged_notes_of_alarms_are_one_line_without_java(
    name: str,
    content: bytes,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def no_session(profile: object) -> None:
        raise AssertionError("Java was started for a mistake that can be seen without it")

    monkeypatch.setattr(command_line, "open_session", no_session)
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "n0/events/v=1").mkdir(parents=True)
    Location(str(out / "alarms/source.json")).write_json({"data": str(data)})
    stream = Location(str(out)) / "alarms" / watch.STREAM
    (stream / "checkpoint/metadata").write_json({"id": "x"})
    (stream / name).write_bytes(content)
    assert main(["watch", str(data), "-o", str(out)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"pipeline: {stream / name}: ")
    assert said in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_lines_or_json(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []

    def found(*given: Any, begun: Any) -> None:
        *_, tell, seconds = given
        begun()
        assert said
        assert seconds == 3
        tell(ALARM)
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "watch", found)
    lines: list[str] = []
    place = Location(str(tmp_path))
    steps.run_watch(None, place, place, LOW, 3, lines.append, said.append, as_json=as_json)  # type: ignore[arg-type]
    assert said == [f"watch: follows {place} for 3 s; what it finds is kept in {place}/alarms"]
    (line,) = lines
    if as_json:
        assert of_dict(json.loads(line)) == ALARM
    else:
        assert line.endswith("g: two_leaders: n1 leads in term 5, and so does n0 (n1/1/7)")


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Terminated(15)])
def test_ctrl_c_is_how_a_watch_ends_and_sigterm_is_not(
    end: KeyboardInterrupt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise end

    def run() -> None:
        steps.run_watch(None, place, place, LOW, 3, print, print, as_json=False)  # type: ignore[arg-type]

    monkeypatch.setattr(steps, "watch", interrupted)
    place = Location(str(tmp_path))
    if isinstance(end, Terminated):
        with pytest.raises(Terminated):
            run()
    else:
        run()
