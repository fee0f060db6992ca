"""Where Spark starts to pay: the pipeline over a real run's events, multiplied, beside DuckDB.

Run: python tests/bench/bench_pipeline.py [--data var/audit/data --events 2M,20M --bytes 512MB
    --writes 100K,1M]
Needs the extras pipeline and bench, some Java, and a run's data directory: `make audit` leaves one.
The run's event files are copied until there are as many events as asked for. Each copy is a cluster
of its own: its nodes and groups get other names, everything else stays, so kinds and sizes are real
and what held in the run holds in each copy. Measured for each size, each once, in order, in seconds
by the clock of a machine that does nothing else:

- bronze, silver, gold: each step as the command runs it; bronze in events/s too.
- audit NAME: each audit, as its verdict tells. Audits that look into the nodes' logs find none.
- both: four questions in one SQL text for Spark over silver's Parquet and for DuckDB over Parquet
  of its own making (`lines to Parquet`, beside bronze and silver together). The answers are
  compared. Spark reads its Parquet from the disk each time, DuckDB likewise.
- commit log: MB/s through the data source, usual columns, CRCs compared.
- one long boot: bronze, silver, each gold table and each audit over the events of one master that
  never stops. A run that is multiplied has more nodes and groups, not longer lives, so what grows
  with a boot's length shows only here. The run's boot with the most writes says all that it said up
  to its first write, then its writes, syncs, slaves' reports and answers over and over, later and
  further each time, until there are as many writes as `--writes` names.

A size of 0 leaves out what it is the size of.

`growth` is how many times longer the largest took than the smallest, over how many times more
events it had: 1 is linear, below 1 is a start-up cost that is spread, above 1 is what to look at.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import attrs
import duckdb
from bench_kit import arguments, bytes_of, list_of, make_log, show_versions
from bench_pipeline_boot import event_files, make_long_boot
from bench_pipeline_sources import read_in_spark

from actors.pipeline import layers, silver, steps
from actors.pipeline.gold.tables import TABLES
from actors.pipeline.locations import Location
from actors.pipeline.session import Profile, open_session
from actors.pipeline.sources.log_source import register

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

QUESTIONS = {
    "kinds": "SELECT kind, count(*) AS n FROM events GROUP BY kind",
    "leaders": "SELECT split_part(path, '/', 3) AS g, term, count(DISTINCT node) AS n FROM events "
    "WHERE kind = 'RoleChanged' AND role = 'LEADER' GROUP BY 1, 2",
    "holes": "SELECT node, boot, max(seq) - min(seq) + 1 - count(DISTINCT seq) AS n FROM events "
    "GROUP BY node, boot",
    "silences": "SELECT node, max(gap) AS n FROM (SELECT node, ts_us - lag(ts_us) OVER "
    "(PARTITION BY node, boot ORDER BY seq) AS gap FROM events) AS told GROUP BY node",
}
"""One text for both; a question about each of: all rows, few rows, distinct keys, order."""
_DUCK_COLUMNS = {
    "node": "VARCHAR",
    "boot": "BIGINT",
    "seq": "BIGINT",
    "path": "VARCHAR",
    "incarnation": "BIGINT",
    "ts_us": "BIGINT",
    "kind": "VARCHAR",
    "role": "VARCHAR",
    "term": "BIGINT",
}
_LEVEL = 1
"""As the nodes compress."""


@attrs.define
class Figures:
    """Seconds by what was done, for one number of events."""

    events: int
    size_bytes: int
    seconds: dict[str, float] = attrs.field(factory=dict)

    def time(self, what: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        found = work()
        self.seconds[what] = time.perf_counter() - began
        return found


# ---- the run, multiplied ----


def names_of(data: Path) -> list[str]:
    """The nodes and their groups: what a copy gives other names."""
    nodes = [each.parents[1].name for each in data.glob("*/events/v=1")]
    groups = {each.name for each in data.glob("*/groups/*")}
    return sorted({*nodes, *groups})


def multiply(data: Path, target: Path, events: int) -> tuple[int, int]:
    """Copy after copy until there are so many events; returns (events, bytes) that there are."""
    files = [
        (file.relative_to(data), gzip.decompress(file.read_bytes())) for file in event_files(data)
    ]
    if not files:
        raise SystemExit(f"{data}: no event logs; make audit leaves some, --data names others")
    words = re.compile(
        rb"(?<=[\"/])(" + b"|".join(re.escape(n.encode()) for n in names_of(data)) + rb")(?=[\"/-])"
    )
    count = size = number = 0
    while count < events:
        for path, content in files:
            lines = content.count(b"\n")
            renamed = words.sub(rb"\g<1>_%d" % number, content)
            packed = gzip.compress(renamed, _LEVEL)
            node, events_name, *rest = path.parts
            folder = [f"{each}_{number}" if each == f"node={node}" else each for each in rest]
            new = target.joinpath(f"{node}_{number}", events_name, *folder)
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(packed)
            count, size = count + lines, size + len(packed)
        number += 1
    return count, size


# ---- Spark ----


def measure_spark(spark: SparkSession, data: Path, out: Path, figures: Figures) -> dict[str, Any]:
    """Every step, every audit, every question; returns the answers."""
    source, tables = Location(str(data)), Location(str(out))
    figures.time("bronze", lambda: steps.run_bronze(spark, source, tables, silent))
    figures.time("silver", lambda: steps.run_silver(spark, tables, silent))
    figures.time("gold", lambda: steps.run_gold(spark, tables, silent))
    for verdict in steps.run_audit(spark, source, tables, silent).audits:
        figures.seconds[f"audit {verdict.name}"] = verdict.seconds
    layer = layers.current(tables / "silver") / "events"
    layers.read(spark, layer, silver.SCHEMA).createOrReplaceTempView("events")
    answers = {}
    for name, sql in QUESTIONS.items():
        rows = figures.time(f"both {name}: Spark", lambda sql=sql: spark.sql(sql).collect())
        answers[name] = sorted(map(tuple, rows))
    return answers


def measure_long_boot(spark: SparkSession, data: Path, writes: int, scratch: Path) -> Figures:
    """One master that never stops; each gold table alone, for one of them may be what grows."""
    folder = scratch / f"boot-{writes}"
    count, size = make_long_boot(data, folder / "data", writes)
    print(f"one long boot: {writes:,} writes, {count:,} events", flush=True)
    figures = Figures(count, size)
    source, tables = Location(str(folder / "data")), Location(str(folder / "tables"))
    figures.time("bronze", lambda: steps.run_bronze(spark, source, tables, silent))
    figures.time("silver", lambda: steps.run_silver(spark, tables, silent))
    events = layers.read(spark, layers.current(tables / "silver") / "events", silver.SCHEMA)
    for name, make in TABLES.items():
        work_out = make(events).write.format("noop").mode("overwrite").save
        figures.time(f"gold {name}", work_out)
    for verdict in steps.run_audit(spark, source, tables, silent).audits:
        figures.seconds[f"audit {verdict.name}"] = verdict.seconds
    shutil.rmtree(folder)
    return figures


def silent(line: str) -> None:
    """Nobody reads it here."""


def measure_commit_log(spark: SparkSession, folder: Path, size: int, record_bytes: int) -> float:
    """MB/s, the second time: the first one is Java's warm-up."""
    (folder / "commitlog").mkdir(parents=True)
    made = make_log(folder / "commitlog", size, record_bytes)
    for _ in range(2):
        began = time.perf_counter()
        read_in_spark(spark, folder, {})
        took = time.perf_counter() - began
    shutil.rmtree(folder)
    return made / took / 1e6


# ---- DuckDB ----


def measure_duckdb(data: Path, out: Path, figures: Figures) -> dict[str, Any]:
    """Lines -> Parquet, then every question over that; returns the answers."""
    out.mkdir()
    with duckdb.connect() as db:
        db.execute("SET preserve_insertion_order = false")
        pattern, parquet = str(data / "*/events/v=1/*/*/*.jsonl.gz"), str(out / "events.parquet")
        lines = f"read_json('{pattern}', format = 'newline_delimited', columns = {_DUCK_COLUMNS})"
        pack = f"COPY (SELECT * FROM {lines}) TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)"
        figures.time("lines to Parquet: DuckDB", lambda: db.execute(pack))
        db.execute(f"CREATE VIEW events AS SELECT * FROM '{parquet}'")
        answers = {}
        for name, sql in QUESTIONS.items():
            rows = figures.time(f"both {name}: DuckDB", lambda sql=sql: db.execute(sql).fetchall())
            answers[name] = sorted(rows)
    return answers


# ---- all of it ----


def table(sizes: list[Figures], title: str = "seconds") -> Iterator[str]:
    first, last = sizes[0], sizes[-1]
    yield (f"{title:36}" + "".join(f"{each.events / 1e6:>10.2f} M" for each in sizes) + "  growth")
    for what in first.seconds:
        took = [each.seconds[what] for each in sizes]
        growth = took[-1] / max(took[0], 1e-9) * first.events / last.events
        shown = f"{growth:8.2f}" if len(sizes) > 1 else ""
        yield f"{what:36}" + "".join(f"{each:12.2f}" for each in took) + shown
    rates = [each.events / each.seconds["bronze"] / 1e3 for each in sizes]
    yield f"{'bronze, k events/s':36}" + "".join(f"{each:12.0f}" for each in rates)
    yield f"{'gzipped bytes per event':36}" + "".join(
        f"{e.size_bytes / e.events:12.1f}" for e in sizes
    )


def measure(spark: SparkSession, data: Path, events: int, scratch: Path) -> Figures:
    """One size. The answers of both engines are the same, or it is a bug."""
    copies = scratch / f"events-{events}"
    count, size = multiply(data, copies, events)
    print(f"{count:,} events, {size / 1e6:,.0f} MB gzipped", flush=True)
    figures = Figures(count, size)
    spark_says = measure_spark(spark, copies, scratch / f"tables-{events}", figures)
    duckdb_says = measure_duckdb(copies, scratch / f"duckdb-{events}", figures)
    for name in QUESTIONS:
        if spark_says[name] != duckdb_says[name]:
            raise SystemExit(f"{name}: the answers differ")
    for folder in (f"events-{events}", f"tables-{events}", f"duckdb-{events}"):
        shutil.rmtree(scratch / folder)
    return figures


def main() -> None:
    parser = arguments(__doc__)
    root = Path(__file__).resolve().parents[2]
    parser.add_argument("--data", type=Path, default=root / "var" / "audit" / "data")
    parser.add_argument("--events", type=list_of(bytes_of), default=[2_000_000, 20_000_000])
    parser.add_argument("--bytes", type=bytes_of, default=bytes_of("512MB"))
    parser.add_argument("--record", type=bytes_of, default=256)
    parser.add_argument("--writes", type=list_of(bytes_of), default=[100_000, 1_000_000])
    given = parser.parse_args()
    show_versions()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        scratch = Path(name)
        spark = open_session(Profile.LOCAL, scratch=scratch / "spark")
        try:
            measure_all(spark, given, scratch)
        finally:
            spark.stop()  # before its folder goes


def measure_all(spark: SparkSession, given: argparse.Namespace, scratch: Path) -> None:
    """Every size of each; 0 leaves out what it is the size of."""
    register(spark)
    events = [each for each in sorted(given.events) if each]
    if sizes := [measure(spark, given.data, each, scratch) for each in events]:
        print("\n".join(table(sizes)), flush=True)
    if given.bytes:
        speed = measure_commit_log(spark, scratch / "log", given.bytes, given.record)
        print(f"commit log, records of {given.record:,} B: {speed:,.0f} MB/s", flush=True)
    writes = [each for each in sorted(given.writes) if each]
    if boots := [measure_long_boot(spark, given.data, each, scratch) for each in writes]:
        print("\n".join(table(boots, "one long boot: seconds")))


if __name__ == "__main__":
    main()
