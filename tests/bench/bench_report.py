"""What `triolog pipeline report` takes until its first page and in all, in turns with another
checkout's; with --parts what each of its parts takes.

Run: python tests/bench/bench_report.py [--data DIR --against CHECKOUT --rounds 3]
     python tests/bench/bench_report.py --parts [--data DIR --profile local]

Needs the extra pipeline and some Java. Without DIR the report is of a run that is made first, which
takes some four minutes: three nodes, both groups, SECONDS at RATE records/s for each group, KILLS
nodes killed (`tests/audit.py`). It stays in var/report, and the next measurement takes it again.

Each round runs the command as people do, with tables of its own that begin empty; with CHECKOUT,
another clone of this repository, that one's command too, in turn. Then the verdicts of both must be
the same. Processor time is that of the command and all that it starts, by the system; where others
use the machine, it says more than the clock.

The parts, in order, each once in one process, as the command has them but for the two kinds of
audits, which are apart here:

- start: of Java and Spark.
- bronze, silver, gold; pictures: what is drawn is gathered, drawn and written.
- audits of events; audits of records: those that look into the nodes' logs.

For each: the jobs that Spark began, the seconds of processor time of this process, Java and its
Python workers, and the seconds by the clock. The first hardly depends on the machine, the second
little on what else runs there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
from bench_kit import Figures, arguments, show_versions
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

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS: Final = 150
RATE: Final = 9000
KILLS: Final = 6
HERE: Final = "this checkout"
OTHER: Final = "the other one"
FIRST_PAGE: Final = "without the verdicts"
"""What the line about the first page says, and no other one."""
COLUMNS: Final = ("first page s", "all s", "processor s")
OF_RECORDS: Final = (REPLICAS_EQUAL, ACKNOWLEDGED_READABLE, WRITTEN_READABLE)


def make_run(folder: Path) -> None:
    """Have a run's data directory in the folder. Raises: SystemExit: it was not as planned."""
    options = {"seconds": SECONDS, "rate": RATE, "kills": KILLS, "folder": folder}
    command = [sys.executable, str(ROOT / "tests" / "audit.py"), "--run-only"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    if subprocess.run(command).returncode:
        raise SystemExit("the run was not as planned")


# ---- the command ----


def in_turns(data: Path, against: Path | None, rounds: int, folder: Path) -> None:
    """Print the table of the commands. Raises: SystemExit: their verdicts differ."""
    checkouts = {HERE: ROOT} | ({OTHER: against.resolve()} if against else {})
    table = Figures(f"report of {data}", COLUMNS)
    for _ in range(rounds):
        said = []
        for name, checkout in checkouts.items():
            scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=folder))
            try:
                figures, verdicts = command_of(checkout, data, scratch)
            finally:
                shutil.rmtree(scratch)
            table.add(name, **figures)
            said.append(verdicts)
        if any(verdicts != said[0] for verdicts in said):
            raise SystemExit("the verdicts differ")
    table.show(ratios=[(HERE, OTHER, column, "") for column in COLUMNS if against])


def command_of(
    checkout: Path, data: Path, scratch: Path
) -> tuple[dict[str, float], dict[str, Any]]:
    """One report; its figures, and its verdicts without the times that they took."""
    page_file = scratch / "report.html"
    command = [sys.executable, "-m", "actors.pipeline", "report", str(data), "-o", str(page_file)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}  # the workers' too
    figures: dict[str, float] = {}
    begin = time.perf_counter()
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if FIRST_PAGE in line:
                figures["first page s"] = time.perf_counter() - begin
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    figures["all s"] = time.perf_counter() - begin
    figures["processor s"] = used.ru_utime + used.ru_stime
    if run.returncode not in (0, 1) or "first page s" not in figures:
        raise SystemExit(f"{checkout}: no report, exit code {run.returncode}")
    verdicts = json.loads((scratch / "report.tables" / "audit" / "verdicts.json").read_text())
    del verdicts["made_at_us"]
    for audit in verdicts["audits"]:
        del audit["seconds"]
    return figures, verdicts


# ---- its parts ----


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


def by_parts(data: Location, folder: Path, profile: Profile) -> None:
    """Print a line for each part of one report."""
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
    parser.add_argument("--data", type=Path, help="a data directory")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--parts", action="store_true", help="part by part, once")
    parser.add_argument("--profile", choices=("local", "short"), default="short", help="of --parts")
    given = parser.parse_args()
    data = given.data or ROOT / "var" / "report" / "data"
    if given.data is None and not data.is_dir():
        make_run(data.parent)
    show_versions()
    if not given.parts:
        in_turns(data.resolve(), given.against, given.rounds, given.folder)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        by_parts(Location(str(data)).absolute(), Path(name), Profile(given.profile))


if __name__ == "__main__":
    main()
