"""What a batch of the alarms reads, the time that it reaches, and where findings are kept."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from alarms_kit import publish
from lines_kit import START_US, Boot
from pyspark.sql import Row

from actors.events.dledger import CommittedRose
from actors.events.node import NodeStarted, NodeStopped
from actors.pipeline import locations
from actors.pipeline.alarms import event_logs, sink
from actors.pipeline.alarms.event_logs import (
    Ending,
    Listing,
    Published,
    ending,
    passed_over,
    published,
)
from actors.pipeline.alarms.findings import Finding, as_dict, sentence
from actors.pipeline.alarms.reading import LogRead, Position, next_position
from actors.pipeline.alarms.sink import FindingsWriter
from actors.pipeline.alarms.source import FactStream
from actors.pipeline.errors import PipelineError
from actors.pipeline.event_files import EMPTY, NO_FILE
from actors.pipeline.locations import Location

SILENT_MS = 15_000
START_MS = START_US // 1000
STARTED = NodeStarted(cluster="c", version="1", groups=("g",))


def rose(index: int) -> CommittedRose:
    return CommittedRose(session=1, index=index)


def read_on(
    start: Position, logs: Mapping[str, Sequence[float | str]], files_max: int = 100
) -> Position:
    """The next batch of logs whose files end at these seconds; "." after one: NodeStopped."""

    def look(file: Published) -> Ending:
        end = logs[file.path][file.first_seq]
        return Ending(
            last_us=round(float(str(end).rstrip(".")) * 1e6), stopped="." in str(end)[-1:]
        )

    files = {name: [Published(1, at, name) for at in range(len(logs[name]))] for name in logs}
    return next_position(start, files, look, files_max=files_max, silent_us=SILENT_MS * 1000)


def taken(position: Position) -> dict[str, int]:
    """How many files of each log."""
    return {name: read.first_seq + 1 for name, read in position.logs.items()}


def test_the_time_is_that_of_the_log_that_is_furthest_behind() -> None:
    position = read_on(Position(), {"a": [10, 20], "b": [12], "c": [18]})
    assert taken(position) == {"a": 2, "b": 1, "c": 1}
    assert position.time_ms == 12_000


def test_a_dead_node_holds_the_time_for_so_long_and_a_stopped_one_not_at_all() -> None:
    dead = read_on(Position(), {"a": [10, 100], "b": [12]})
    assert dead.time_ms == 100_000 - SILENT_MS
    stopped = read_on(Position(), {"a": [10, 100], "b": ["12."]})
    assert stopped.time_ms == 100_000
    assert read_on(Position(), {"a": ["7."], "b": ["12."]}).time_ms == 12_000


def test_a_backlog_is_read_as_if_the_logs_had_grown_together() -> None:
    """However long one log is: its newest rows never come before the others' older ones."""
    logs = {"a": [10, 20, 30, 40, 500], "b": [11, 21, 490], "c": [5.0, 500]}
    position, times, read = Position(), [], []
    while (end := read_on(position, logs, files_max=3)) != position:
        position = end
        times.append(position.time_ms)
        read.append(taken(position))
    assert read[0] == {"a": 1, "b": 1, "c": 1}
    assert read[1] == {"a": 2, "b": 2, "c": 2}, "of c first, which was the furthest behind"
    assert times == [5000, 20_000, 40_000, 490_000]
    assert sum(read[-1].values()) == 10


def test_nothing_new_is_no_batch_and_old_news_do_not_take_the_time_back() -> None:
    first = read_on(Position(), {"a": [50]})
    assert read_on(first, {"a": [50]}) is first
    late = read_on(first, {"a": [50], "b": [3]})
    assert late.time_ms == first.time_ms + 1


def test_a_node_that_starts_again_holds_the_time_again() -> None:
    first = read_on(Position(), {"a": [50], "b": ["40."]})
    assert first.time_ms == 50_000
    assert read_on(first, {"a": [50, 70], "b": ["40.", 60]}).time_ms == 60_000


def test_a_log_that_begins_anew_is_read_from_its_beginning() -> None:
    """Boot numbers and seqs begin at 1 again, in a directory that was emptied."""
    read = read_on(Position(), {"a": [10, 20, 30], "b": [30.5]})
    assert read.logs["a"].lives == 0
    for again in ([40], [40, 50], [40, 50, 60], [40, 50, 60, 70]):
        anew = read_on(read, {"a": again, "b": [30.5]})
        assert taken(anew) == {"a": len(again), "b": 1}
        assert (anew.logs["a"].lives, anew.logs["b"].lives) == (1, 0)
        assert read_on(anew, {"a": again, "b": [30.5]}) is anew
        assert read_on(anew, {"a": [*again, 99], "b": [30.5]}).logs["a"].lives == 1


def test_a_log_that_waits_for_its_turn_to_begin_anew_does_so_then() -> None:
    read = read_on(Position(), {"a": [10, 20], "b": [15]})
    logs = {"a": [40, 50], "b": [15, 18]}
    first = read_on(read, logs, files_max=1)
    assert (taken(first), first.logs["a"].lives) == ({"a": 2, "b": 2}, 0)
    second = read_on(first, logs, files_max=1)
    assert (taken(second), second.logs["a"].lives) == ({"a": 1, "b": 2}, 1)
    third = read_on(second, logs, files_max=1)
    assert (taken(third), third.logs["a"].lives) == ({"a": 2, "b": 2}, 1)


def test_a_log_whose_old_files_are_gone_does_not_begin_anew() -> None:
    """Retention takes the oldest first, and may have taken the last that was read."""

    def look(file: Published) -> Ending:
        return Ending(last_us=round(file.first_seq * 1e6))

    read = Position(logs={"a": LogRead(boot=1, first_seq=7, reached_us=7_000_000)})
    for first in (8, 20):
        files = {"a": [Published(1, at, "a") for at in range(first, 22)]}
        end = next_position(read, files, look, files_max=100, silent_us=1)
        assert (end.logs["a"].first_seq, end.logs["a"].lives) == (21, 0)
    assert next_position(read, {"a": []}, look, files_max=100, silent_us=1) is read


def test_an_ending_tells_of_stops_and_starts_and_passes_over_what_is_torn() -> None:
    boot = Boot("n0")
    boot.say(0, "", STARTED)
    boot.say(1, "g/x", rose(1))
    assert ending([boot.lines, ["torn"], []]) == Ending(
        last_us=START_US + 1_000_000, last=(1, 2), groups=("g",)
    )
    boot.say(2, "", NodeStopped(reason="ordered"))
    assert ending([boot.lines[1:]]).stopped
    assert ending([["", "x"]]) == Ending()


def test_files_are_those_that_a_node_has_published_in_its_order(tmp_path: Path) -> None:
    late, early = tmp_path / "v=1/dt=2027-01-02/node=n0", tmp_path / "v=1/dt=2027-01-01/node=n0"
    for folder in (late, early):
        folder.mkdir(parents=True)
    (late / "000001-000000000001.jsonl.gz").touch()
    (early / "000001-000000000900.jsonl.gz").touch()  # the clock was set back meanwhile
    (late / "000002-000000000001.jsonl").touch()
    for other in (".000002-000000000900.jsonl.gz.part", "notes.txt", "x.jsonl"):
        (late / other).touch()
    assert [file.key for file in published(Location(str(tmp_path)))] == [(1, 1), (1, 900), (2, 1)]
    assert published(Location(str(tmp_path / "nothing"))) == []


def test_what_spark_passes_over_is_found_wherever_a_node_has_it(tmp_path: Path) -> None:
    """A file without a byte, as a copy that was cut off has it, and a folder or pipe in the place
    of one. Those that a node has not published are not meant."""
    with pytest.raises(PipelineError, match="no event logs"):
        passed_over(Location(str(tmp_path)))
    days = [tmp_path / f"n{number}/events/v=1/dt=2027-01-02/node=n{number}" for number in range(2)]
    for folder in days:
        folder.mkdir(parents=True)
        (folder / "000001-000000000001.jsonl.gz").write_text("x")
        (folder / ".000001-000000000009.jsonl.gz.part").touch()
        (folder / "notes.txt").touch()
    assert passed_over(Location(str(tmp_path))) == []
    for folder in days:
        (folder / "000001-000000000005.jsonl.gz").touch()
        (folder / "000001-000000000007.jsonl.gz").mkdir()
        os.mkfifo(folder / "000001-000000000009.jsonl.gz")
    found = [
        (f"{folder}/000001-{seq:012d}.jsonl.gz", problem)
        for folder in days
        for seq, problem in ((5, EMPTY), (7, NO_FILE), (9, NO_FILE))
    ]
    assert passed_over(Location(str(tmp_path))) == found
    assert passed_over(Location(str(tmp_path / "n1"))) == found[3:]


def test_a_look_reads_no_folder_in_which_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days of files stay where they are; one folder of them grows."""
    times = itertools.count(10**18)

    def add(day: int, name: str) -> Path:
        folder = tmp_path / f"v=1/dt=2027-01-{day:02d}/node=n0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl.gz").touch()
        for each in (folder, folder.parent, folder.parent.parent):
            os.utime(each, ns=(0, next(times)))
        return folder

    def look() -> tuple[int, set[str]]:
        read.clear()
        return len(listing.look()), {path for path in read if path.endswith("node=n0")}

    read: list[str] = []
    real = event_logs.entries
    monkeypatch.setattr(
        event_logs, "entries", lambda log, path: read.append(path) or real(log, path)
    )
    days = [str(add(day, f"000001-{day:012d}")) for day in (1, 2, 3)]
    listing = Listing(Location(str(tmp_path)))
    assert [look(), look(), look()] == [(3, {*days}), (3, {*days}), (3, set())]
    add(2, "000001-000000000004")
    assert [look(), look(), look()] == [(4, {days[1]}), (4, {days[1]}), (4, set())]
    new = str(add(4, "000001-000000000005"))
    assert [look(), look(), look()] == [(5, {new}), (5, {new}), (5, set())]
    shutil.rmtree(tmp_path / "v=1/dt=2027-01-01")
    assert look() == (4, set())
    before_ns = Path(new).stat().st_mtime_ns
    (Path(new) / "000001-000000000006.jsonl.gz").touch()
    os.utime(new, ns=(0, before_ns))
    assert look() == (4, set())
    monkeypatch.setattr(event_logs, "LOOKS_OF_ALL", 1)
    assert look() == (5, {*days[1:], new}), "now and then all"


# ---- the source ----


def rows(stream: FactStream, start: dict, end: dict) -> list[tuple]:
    """What the tasks of a batch read: node, seq, what, number, and the batch's time."""
    found = []
    for part in stream.partitions(start, end):
        for batch in stream.read(part):
            for row in batch.to_pylist():
                clock = round(row["clock"].timestamp() * 1000)
                found.append((row["node"], row["seq"], row["what"], row["number"], clock))
    return found


def as_spark_keeps_it(offset: dict) -> dict:
    return json.loads(json.dumps(offset))


def test_a_batch_is_the_same_however_often_it_is_read(tmp_path: Path) -> None:
    boots = {name: Boot(name) for name in ("n0", "n1")}
    for boot in boots.values():
        boot.say(0, "", STARTED)
        boot.say(1, "g/x", rose(5))
        publish(tmp_path, boot)
    stream = FactStream(Location(str(tmp_path)), 64, SILENT_MS * 1000)
    start = stream.initialOffset()
    end = as_spark_keeps_it(stream.latestOffset(start, stream.getDefaultReadLimit()))
    expected = [
        (name, seq, what, number, START_MS + 1000)
        for name in ("n0", "n1")
        for seq, what, number in ((1, "started", 0), (2, "committed", 5), (2, "reached", 0))
    ]
    assert rows(stream, start, end) == expected
    again = as_spark_keeps_it(stream.latestOffset(end, stream.getDefaultReadLimit()))
    assert again == end

    boots["n1"].say(2, "", NodeStopped(reason="ordered"))
    publish(tmp_path, boots["n1"])
    restarted = FactStream(Location(str(tmp_path)), 64, SILENT_MS * 1000)
    assert rows(restarted, start, end) == expected
    later = restarted.latestOffset(end, restarted.getDefaultReadLimit())
    assert [row[:3] for row in rows(restarted, end, later)] == [
        ("n1", 3, "stopped"),
        ("n1", 3, "reached"),
    ], "the groups are known from the batch before"


@pytest.mark.parametrize("before", [1, 3])
def test_a_directory_that_was_emptied_is_read_anew(tmp_path: Path, before: int) -> None:
    """Though its new files have names that were read before, or lower ones."""
    boot = Boot("n0")
    for number in range(before):
        boot.say(number, "", STARTED if number == 0 else NodeStopped(reason="ordered"))
        publish(tmp_path, boot)
    stream = FactStream(Location(str(tmp_path)), 64, SILENT_MS * 1000)
    limit = stream.getDefaultReadLimit()
    read = as_spark_keeps_it(stream.latestOffset(stream.initialOffset(), limit))
    shutil.rmtree(tmp_path / "n0")
    boot = Boot("n0")
    boot.say(before, "", STARTED)
    publish(tmp_path, boot)
    later = [stream, FactStream(Location(str(tmp_path)), 64, SILENT_MS * 1000)]
    for each in later:
        end = as_spark_keeps_it(each.latestOffset(read, limit))
        said = [row[1:3] for row in rows(each, read, end)]
        assert said == [(1, "anew"), (1, "started"), (1, "reached")]
        assert as_spark_keeps_it(each.latestOffset(end, limit)) == end


def test_a_run_that_ends_reads_only_what_was_there_when_it_began(tmp_path: Path) -> None:
    boot = Boot("n0")
    boot.say(0, "", STARTED)
    publish(tmp_path, boot)
    stream = FactStream(Location(str(tmp_path)), 64, SILENT_MS * 1000)
    stream.prepareForTriggerAvailableNow()
    boot.say(1, "g/x", rose(5))
    publish(tmp_path, boot)
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end
    assert len(rows(stream, stream.initialOffset(), end)) == 2


def test_a_damaged_file_gives_what_is_readable(tmp_path: Path) -> None:
    boot = Boot("n0")
    boot.say(0, "", STARTED)
    path = publish(tmp_path, boot)
    path.write_bytes(path.read_bytes() + gzip.compress(b"x" * 100)[:-9])
    stream = FactStream(Location(str(tmp_path)), 64, SILENT_MS * 1000)
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert len(rows(stream, stream.initialOffset(), end)) == 2


# ---- the sink ----


def finding(at_us: int, subject: str = "n1") -> Finding:
    return Finding(
        alarm="lag",
        group="g",
        subject=subject,
        node="n0",
        boot=1,
        seq=7,
        at_us=at_us,
        value=12_345,
        unit="bytes",
    )


def test_a_batch_is_kept_once(tmp_path: Path) -> None:
    folder = Location(str(tmp_path / "findings"))
    writer = FindingsWriter(folder)
    messages = [writer.write(iter([Row(**as_dict(finding(at)))])) for at in (2_000_000, 1_000_000)]
    writer.commit([*messages, None], 7)
    writer.commit([writer.write(iter([]))], 8)
    assert folder.children() == ["000000007.jsonl"]
    FindingsWriter(folder).commit([writer.write(iter([Row(**as_dict(finding(9)))]))], 7)
    assert sink.findings_of(folder, 7) == [finding(1_000_000), finding(2_000_000)]
    assert sink.batches_after(folder, -1) == [7]
    assert sink.batches_after(folder, 7) == []


def test_a_kill_while_a_batch_is_written_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Location(str(tmp_path))

    def killed(path: str) -> None:
        raise KeyboardInterrupt

    writer = FindingsWriter(folder)
    messages = [writer.write(iter([Row(**as_dict(finding(1)))]))]
    with monkeypatch.context() as patch:
        patch.setattr(locations, "_sync", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.commit(messages, 0)
    assert sink.batches_after(folder, -1) == []
    writer.commit(messages, 0)
    assert sink.findings_of(folder, 0) == [finding(1)]


def test_a_finding_is_a_sentence_with_the_event_to_look_at() -> None:
    assert sentence(finding(START_US)) == (
        "2027-01-15T08:00:00.000Z g: lag: n1 is 12,345 bytes behind (n0/1/7)"
    )
    assert sentence(finding(START_US + 1_999)).startswith("2027-01-15T08:00:00.001Z g: ")
    for at_us in (2**60, -(2**63)):
        assert sentence(finding(at_us)).startswith(f"{at_us} us g: lag: ")
    wild = attrs.evolve(finding(START_US), group="g\x1b[2J\nok", subject="\u202en1")
    assert "g\\u001b[2J\\u000aok: lag: \\u202en1 is" in sentence(wild)
