"""Silver: each event once, and what is missing is known as exactly as `event_reader` knows it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lines_kit import START_US, Boot, bronze_of, events_of, rows
from logs_kit import Day
from pyspark.sql import DataFrame, SparkSession

from actors.config.semantics import RESERVED_GROUPS
from actors.events import dledger, ha, node, runtime, store
from actors.pipeline import bronze, silver
from actors.pipeline.alarms import facts
from actors.pipeline.audits.logs import clock_jumps
from actors.pipeline.audits.logs import holes as audited_holes
from actors.pipeline.event_files import ABOVE_GROUPS, MOMENT_MAX_US, NUMBER_MAX
from actors.pipeline.locations import Location
from actors.storage.node.event_reader import summarize
from actors.trees.broker import REGISTRARS

STARTED = node.NodeStarted(cluster="c", version="1", groups=("orders",))


def synced(offset_bytes: int) -> store.LogSynced:
    return store.LogSynced(offset_bytes=offset_bytes)


@pytest.fixture(scope="module")
def logs(day: Day, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The day's data, in which n0 has lost a file and n1's first one lies in a backup, too."""
    data = tmp_path_factory.mktemp("silver") / "data"
    shutil.copytree(day.folder, data)
    files = sorted((data / "n0").rglob("*.gz"))
    files[1].unlink()
    first = min((data / "n1").rglob("*.gz"))
    backup = data / "backup" / first.relative_to(data / "n1")
    backup.parent.mkdir(parents=True)
    shutil.copy(first, backup)
    return data


@pytest.fixture(scope="module")
def events(spark: SparkSession, logs: Path) -> DataFrame:
    out = Location(str(logs.parent / "out"))
    bronze.ingest(spark, Location(str(logs)), out, lambda _: None)
    return silver.typed(bronze.read_bronze(spark, out)).cache()


def boots(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in silver.boots(table)]


def test_few_rows_are_worked_out_once_for_the_same_events(spark: SparkSession) -> None:
    asked: list[DataFrame] = []

    @silver.worked_out
    def names(events: DataFrame) -> DataFrame:
        asked.append(events)
        return events.select("node").distinct()

    boots = [Boot("n0"), Boot("n1")]
    for boot in boots:
        boot.say(0, "", STARTED)
    tables = [events_of(spark, *boots), events_of(spark, boots[1])]
    for table, expected in 2 * list(zip(tables, ({"n0", "n1"}, {"n1"}), strict=True)):
        assert {row["node"] for row in names(table).collect()} == expected
    assert asked == tables


def test_boots_are_told_as_by_the_reader_of_event_logs(events: DataFrame, day: Day) -> None:
    """Without the lost file; `missing` is what the reader names as its problem."""
    found = {(row["node"], row["boot"]): row for row in silver.boots(events)}
    (hole,) = silver.holes(events).collect()
    assert hole["node"] == "n0"
    assert not hole["named"]
    here = [
        event
        for told in day.events.values()
        for event in told
        if event.node != "n0" or not hole["first_seq"] <= event.seq <= hole["last_seq"]
    ]
    summaries = summarize(here)
    assert len(found) == len(summaries) == 4
    for summary in summaries:
        row = found[summary.node, summary.boot]
        assert row["first_seq"] == summary.first_seq
        assert row["last_seq"] == summary.last_seq
        assert row["events"] == summary.events
        assert row["dropped"] == summary.dropped
        assert row["ended"] == summary.ended
        assert row["started"]
        assert bool(row["missing"]) == bool(summary.problems)
    text = f"seq {hole['first_seq']} to {hole['last_seq']} are missing"
    assert [s.problems for s in summaries if s.problems] == [(text,)]
    assert found["n0", 1]["missing"] == len(day.events["n0"]) - found["n0", 1]["events"]


def test_what_is_read_twice_is_one_event(events: DataFrame, logs: Path) -> None:
    keys = events.select(*silver.KEY)
    assert keys.distinct().count() == keys.count()
    copied = events.where("copies > 1")
    (first,) = (logs / "backup").rglob("*.gz")
    assert copied.count() == bronze_lines(first)
    assert copied.where("copies <> 2 or differ or node <> 'n1'").count() == 0


def bronze_lines(file: Path) -> int:
    from actors.pipeline.event_files import lines_of

    return len(list(lines_of(file.read_bytes())))


def test_views_have_a_kinds_own_columns_typed(events: DataFrame, day: Day) -> None:
    view = silver.view(events, "SlaveAcked")
    assert view.columns[-3:] == ["connection", "offset_bytes", "slave"]
    found = rows(view.where("node = 'n0'"), "seq", "group", "slave", "offset_bytes")
    here = {row[0] for row in rows(events.where("node = 'n0'"), "seq")}
    assert found == sorted(
        (
            (e.seq, "orders", e.event.slave, e.event.offset_bytes)
            for e in day.events["n0"]
            if isinstance(e.event, ha.SlaveAcked) and e.seq in here
        ),
        key=str,
    )
    with pytest.raises(KeyError):
        silver.view(events, "Sneezed")


def test_holes_that_the_node_explains_are_told_apart(spark: SparkSession) -> None:
    boot = Boot("n0")
    boot.say(0, "", STARTED)
    boot.seq = 5
    boot.say(1, "event_log", node.EventsDropped(first_seq=2, last_seq=4))
    boot.say(1, "orders/storage/store", synced(1))
    boot.seq = 9
    boot.say(2, "orders/storage/store", synced(2))
    boot.seq = 20
    boot.say(2, "orders/storage/store", synced(3))
    late, other = Boot("n0", boot=2, seq=100), Boot("n1")
    late.say(3, "orders/storage/store", synced(4))
    for _ in range(2):
        left = {"oldest_boot": 1, "oldest_seq": 20}
        late.say(4, "event_log", node.EventFilesExpired(files=1, size_bytes=9, **left))
    other.say(0, "event_log", node.EventFilesExpired(files=1, size_bytes=9, **NINTH))
    boot.lines.append(OLD_EXPIRED)
    table = events_of(spark, boot, late, other)
    assert rows(silver.holes(table)) == [
        ("n0", 1, 10, 19, False, True),
        ("n0", 1, 2, 4, True, False),
        ("n0", 1, 7, 8, False, False),
    ]
    counts = ("events", "dropped", "expired", "missing", "started", "ended")
    assert boots(table, "node", "boot", "first_seq", "last_seq", *counts) == [
        ("n0", 1, 1, 21, 6, 3, 10, 2, True, False),
        ("n0", 2, 100, 102, 3, 0, 0, 0, False, False),
        ("n1", 1, 1, 1, 1, 0, 0, 0, False, False),
    ]
    last_boot = table.where("node = 'n0' and boot = 1")
    assert rows(silver.holes(last_boot, table)) == rows(silver.holes(table))


def test_the_greatest_numbers_that_are_events_can_be_counted_with(spark: SparkSession) -> None:
    """Greater ones ended every audit and the report: 64 bits do not hold what is between them."""
    boot = Boot("n0", seq=0)
    boot.say(0, "orders/storage/store", synced(1))
    far = boot.lines[0].replace('"seq":0', f'"seq":{NUMBER_MAX}')
    lines = [*boot.lines, far, far.replace(f":{NUMBER_MAX}", f":{2**63 - 1}")]
    late = far.replace('"boot":1', '"boot":2')
    lines.append(late.replace(f'"ts_us":{START_US}', f'"ts_us":{MOMENT_MAX_US}'))
    table = silver.typed(bronze_of(spark, lines)).cache()
    hole = ("n0", 1, 1, NUMBER_MAX - 1)
    assert rows(audited_holes(table)) == [(*hole, "missing")]
    assert boots(table, "boot", "missing") == [(1, NUMBER_MAX - 1), (2, 0)]
    assert rows(clock_jumps(table)) == []


NINTH = {"oldest_boot": 1, "oldest_seq": 9}
"""Where another node's log begins says nothing of this one's."""
OLD_EXPIRED = (
    '{"node":"n0","boot":1,"seq":21,"path":"/n0/event_log","incarnation":1,"ts_us":9,'
    '"kind":"EventFilesExpired","files":1,"size_bytes":9}'
)
"""Of a version that did not say what is left."""


def test_lines_of_one_key_that_differ_and_fields_of_another_type_are_counted(
    spark: SparkSession,
) -> None:
    one, other = Boot("n0"), Boot("n0")
    for boot, offset in ((one, 10), (other, 20)):
        boot.say(0, "orders/storage/store", synced(offset))
    mistyped = Boot("n0", seq=2)
    mistyped.say(1, "orders/storage/store", synced(7))
    lines = [
        *one.lines,
        *other.lines,
        mistyped.lines[0].replace(":7", ':"seven"'),
        mistyped.lines[0].replace('"seq":2', '"seq":3').replace("LogSynced", "Sneezed"),
    ]
    table = silver.typed(bronze_of(spark, lines)).cache()
    found = rows(table, "seq", "copies", "differ", "mistyped", "kind")
    assert found == [
        (1, 2, True, False, "LogSynced"),
        (2, 1, False, True, "LogSynced"),
        (3, 1, False, False, "Sneezed"),
    ]
    assert table.where("kind = 'Sneezed'").first()["line"] == lines[3]
    assert boots(table, "copies", "differ", "mistyped", "unknown", "missing") == [(1, 1, 1, 1, 0)]


def test_the_group_is_the_events_word_or_the_place_of_its_actor(spark: SparkSession) -> None:
    boot = Boot("n0")
    stopped = runtime.ActorStopped(reason="normal")
    boot.say(0, "", node.NodeStopped(reason="ordered"))
    for place in ("event_log", "api/unix_socket", "roles/orders", "orders/storage/store", "ledger"):
        boot.say(0, place, stopped)
    boot.say(0, "api/links/orders-n1", client_link())
    boot.say(0, "ledger/state_maintainer", dledger.RoleChanged(**ROLE))
    found = rows(events_of(spark, boot), "seq", "group")
    assert [group for _, group in found] == [
        "",
        "",
        "",
        "orders",
        "orders",
        "ledger",
        "orders",
        "ledger",
    ]


def test_the_alarms_find_the_same_groups_in_paths(spark: SparkSession) -> None:
    groups = {
        "/n0/g/store": "g",
        "/n0/g": "g",
        "/n0/roles/g": "g",
        "/n0/roles/g/x": "g",
        "/n0/roles": "",
        f"/n0/{REGISTRARS}/g/registrar": "g",
        "/n0/api/links/g-n1": "",
        "/n0/event_log": "",
        "/n0": "",
        "n0": "",
        "": "",
    }
    groups |= {f"/n0/{name}/x/y": "" for name in RESERVED_GROUPS if name not in ABOVE_GROUPS}
    groups |= {f"/n0/{name}/g/x": "g" for name in ABOVE_GROUPS}
    paths = spark.createDataFrame([(path,) for path in groups], "path string")
    found = paths.select("path", silver.group_of(paths["path"])).collect()
    assert {row[0]: row[1] for row in found} == groups
    assert {path: facts.group_of(path) for path in groups} == groups


ROLE = {"session": 1, "role": "LEADER", "term": 1, "leader": "n0"}


def client_link() -> object:
    from actors.events.client import MasterLinkLost

    return MasterLinkLost(group="orders", master="n1", error="gone")


def test_no_field_of_an_event_bears_the_name_of_a_column_of_silver() -> None:
    columns = [*silver.SCHEMA.names]
    assert len(set(columns)) == len(columns)
