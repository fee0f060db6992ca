"""Logs whose old files are deleted between two readings into the same tables."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from lines_kit import START_US
from pyspark.sql import SparkSession

from actors.config import bounds
from actors.config.model import EventsConfig
from actors.events.node import NodeStarted
from actors.events.runtime import ActorRestarted
from actors.events.sink import EventSink
from actors.pipeline import layers, silver, steps
from actors.pipeline.audits import judging, logs
from actors.pipeline.audits.audit import Evidence
from actors.pipeline.locations import Location
from actors.runtime import SupervisorSpec, open_system
from actors.sim.disk import SimDisk
from actors.sim.scheduler import virtual_clock
from actors.storage.node import event_files
from actors.storage.node.event_log import child_spec

STARTED = NodeStarted(cluster="c", version="1", groups=())
CONFIG = EventsConfig(retention_bytes=bounds.EVENT_BYTES_MIN, roll_interval_s=1.0)
FIRST_S = 4.5
PAUSES_S = (10.0, 10.3, 10.6, 10.9, 11.2)
"""Of each node until it is read again: at any moment between two files that it publishes."""

Files: TypeAlias = dict[str, bytes]
"""By path in a node's folder."""


def files_of(disk: SimDisk, node: str) -> Files:
    """What can be read, and copied, now."""
    root = f"/{node}/events"
    files = event_files.published(disk, root, node)
    return {file.path: event_files.read_all(disk, file.path) for file in files}


def two_readings(node: str, pause_s: float) -> tuple[Files, Files]:
    """What is there of a node's log after a while, and after a pause in which all that expires."""

    def now_us() -> int:
        return START_US + round(trio.current_time() * 1e6)

    async def talk(sink: EventSink) -> None:
        for number in range(10**6):
            sink(f"/{node}/x", 1, ActorRestarted(restarts=random.Random(number).getrandbits(40)))
            await trio.sleep(0.002)

    async def run() -> tuple[Files, Files]:
        disk = SimDisk(random.Random(1))
        sink = EventSink(node, 1, now_us, STARTED)
        log = child_spec(sink, disk, f"/{node}/events", CONFIG, now_us)
        async with open_system(node, SupervisorSpec(children=(log,)), events=sink):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(talk, sink)
                await trio.sleep(FIRST_S)
                first = files_of(disk, node)
                await trio.sleep(pause_s)
                second = files_of(disk, node)
                nursery.cancel_scope.cancel()
        return first, second

    return trio.run(run, clock=virtual_clock())


def put(data: Path, readings: list[Files]) -> None:
    shutil.rmtree(data, ignore_errors=True)
    for files in readings:
        for path, content in files.items():
            file = data / path.removeprefix("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


@pytest.fixture(scope="module")
def readings() -> list[tuple[Files, Files]]:
    return [two_readings(f"n{number}", pause_s) for number, pause_s in enumerate(PAUSES_S)]


def test_what_was_deleted_before_it_was_read_is_no_hole_whenever_one_looks(
    spark: SparkSession, readings: list[tuple[Files, Files]], tmp_path: Path
) -> None:
    """It made the log a broken promise, for good."""
    data, out = Location(str(tmp_path / "data")), Location(str(tmp_path / "out"))
    told: list[str] = []
    for files in zip(*readings, strict=True):
        put(tmp_path / "data", list(files))
        steps.run_bronze(spark, data, out, lambda _: None)
    steps.run_silver(spark, out, told.append)
    events = layers.read(spark, layers.current(out / "silver") / "events", silver.SCHEMA)
    evidence = Evidence(spark=spark, events=events, data=data, out=out)
    assert judging.judge(logs.LOGS_WHOLE, evidence).witnesses == ()
    found = judging.judge(logs.READ_IN_TIME, evidence)
    assert [each["node"] for each in found.witnesses] == [f"n{at}" for at in range(len(PAUSES_S))]
    assert len({each["last_seq"] for each in found.witnesses}) > 1
    assert not found.is_failure
    for each in found.witnesses:
        count = each["last_seq"] - each["first_seq"] + 1
        line = f"{count:,} events were deleted as too old before they were read"
        assert f"silver: {each['node']}, boot 1: {line}" in told
