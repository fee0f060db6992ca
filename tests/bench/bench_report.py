"""What `triolog pipeline report` takes, part by part: Spark's jobs, processor time, and the clock.

Run: python tests/bench/bench_report.py [--data var/audit/data --profile short]
Needs the extra pipeline, some Java, and a run's data directory: `make audit` leaves one, with
SECONDS=600 ARGS="--kills 8" a longer one. The parts, in order, each once, as the command has them
but for the two kinds of audits, which are apart here:

- start: of Java and Spark.
- bronze, silver, gold; pictures: what is drawn is gathered, drawn and written.
- audits of events; audits of records: those that look into the nodes' logs.

For each: the jobs that Spark began, the seconds of processor time of this process, Java and its
Python workers, and the seconds by the clock. The first hardly depends on the machine, the second
little on what else runs there.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
from bench_kit import arguments, show_versions
from bench_pipeline_sources import cpu_since, ticks_below

from actors.pipeline import layers, silver, steps
from actors.pipeline.audits import judging
from actors.pipeline.audits.data_receipts import ACKNOWLEDGED_READABLE, WRITTEN_READABLE
from actors.pipeline.audits.data_replicas import REPLICAS_EQUAL
from actors.pipeline.locations import Location
from actors.pipeline.report.gather import gather
from actors.pipeline.report.page import page
from actors.pipeline.report.pictures import pictures
from actors.pipeline.session import Profile, close_session, open_session
from actors.pipeline.sources.log_source import register

OF_RECORDS = (REPLICAS_EQUAL, ACKNOWLEDGED_READABLE, WRITTEN_READABLE)


@attrs.define
class Parts:
    """Prints a line for each part, and their sum.

    Attributes:
        jobs: that Spark has begun so far.
        sums: jobs, seconds of processor time and by the clock.
    """

    spark: Any = None
    jobs: int = 0
    sums: list[float] = attrs.field(factory=lambda: [0.0, 0.0, 0.0])

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Do a part and print what it took; returns what it returns."""
        began, before = time.perf_counter(), ticks_below()
        found = work()
        took = [float(self._new_jobs()), cpu_since(before), time.perf_counter() - began]
        self.sums = [one + more for one, more in zip(self.sums, took, strict=True)]
        self.line(name, took)
        return found

    def line(self, name: str, took: list[float]) -> None:
        jobs, cpu_s, clock_s = took
        print(f"{name:20}{jobs:8,.0f}{cpu_s:12.1f}{clock_s:12.1f}", flush=True)

    def _new_jobs(self) -> int:
        """By the number of the next one: the status tracker knows no job of a stream or a plan."""
        if self.spark is None:
            return 0
        before = self.jobs
        self.jobs = self.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
        return self.jobs - before


def measure(data: Location, folder: Path, profile: Profile) -> None:
    """The whole report."""
    print(f"{'':20}{'jobs':>8}{'processor s':>12}{'clock s':>12}")
    parts, tables = Parts(), Location(str(folder / "tables"))
    spark = parts.run("start", lambda: open_session(profile, scratch=folder / "spark"))
    parts.spark = spark
    try:
        register(spark)
        parts.run("bronze", lambda: steps.run_bronze(spark, data, tables, silent))
        parts.run("silver", lambda: steps.run_silver(spark, tables, silent))
        parts.run("gold", lambda: steps.run_gold(spark, tables, silent))

        def draw() -> int:
            facts = gather(spark, data, tables, silent)
            return (folder / "report.html").write_bytes(page(facts, pictures(facts)).encode())

        parts.run("pictures", draw)
        of_events = [each for each in judging.AUDITS if each not in OF_RECORDS]
        for name, audits in (("audits of events", of_events), ("audits of records", OF_RECORDS)):
            parts.run(name, lambda audits=audits: judging.run(spark, tables, data, audits=audits))
        parts.line("all", parts.sums)
        events = layers.read(spark, layers.current(tables / "silver") / "events", silver.SCHEMA)
        print(f"of {events.count():,} events")
    finally:
        close_session(spark)  # before its folder goes


def silent(line: str) -> None:
    """Nobody reads it here."""


def main() -> None:
    parser = arguments(__doc__)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "var" / "audit" / "data")
    parser.add_argument("--profile", choices=("local", "short"), default="short")
    given = parser.parse_args()
    show_versions()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        measure(Location(str(given.data)).absolute(), Path(name), Profile(given.profile))


if __name__ == "__main__":
    main()
