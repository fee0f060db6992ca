"""Commit logs and ledgers read by Spark: MB/s, and what it costs of the processor.

Run: python tests/bench/bench_pipeline_sources.py [--bytes 512MB --records 256,1K,16K]
Needs the extra pipeline and some Java. For each size of record a log is written, then read through
`format("rocketmq_commitlog")` into a sink that keeps nothing:

- usual: the columns that one gets without asking, each CRC compared; no crc: the same without.
- all: every column but `record` and `record_crc`.
- body: only offset and body, CRC compared. A reader that wants few columns has to say so.
- compare: offset and CRC of each whole record, which is how replicas are compared.
- alone: usual, without Spark, in this process.

MB/s is by the clock of a machine that does nothing else; `cpu s/GB` is what all processes of the
run took together, Java's too, and hardly changes on a busy machine: two idle cores read 2000 / it
MB/s. Each is the best of its rounds, the first being Java's warm-up.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_kit import arguments, bytes_of, list_of, make_log, show_versions

from actors.pipeline.session import Profile, open_session
from actors.pipeline.sources.formats import COMMIT_LOG
from actors.pipeline.sources.log_files import logs_at
from actors.pipeline.sources.log_source import register
from actors.pipeline.sources.message_chunk import MESSAGE_COLUMNS
from actors.pipeline.sources.options import read_options
from actors.pipeline.sources.plan import batch_parts
from actors.pipeline.sources.rows import batches
from actors.pipeline.sources.stretches import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = {
    "usual": {},
    "no crc": {"crc": "false"},
    "all": {"columns": ",".join(n for n in MESSAGE_COLUMNS if not n.startswith("record"))},
    "body": {"columns": "offset,body"},
    "compare": {"columns": "offset,record_crc"},
}
_TICKS = os.sysconf("SC_CLK_TCK")


def ticks_below() -> dict[int, int]:
    """Ticks of processor that this process and each one below it have had so far."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    found, todo = {}, [os.getpid()]
    while todo:
        pid = todo.pop()
        found[pid] = ticks.get(pid, 0)
        todo += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_since(before: dict[int, int]) -> float:
    """Seconds of processor since then. What ended in between is left out: workers live longer."""
    return sum(now - before.get(pid, 0) for pid, now in ticks_below().items()) / _TICKS


def read_in_spark(spark: SparkSession, folder: Path, options: dict[str, str]) -> None:
    frame = spark.read.format("rocketmq_commitlog").options(**options).load(str(folder))
    frame.write.format("noop").mode("overwrite").save()


def read_alone(folder: Path) -> None:
    form = COMMIT_LOG
    options = read_options({"path": str(folder)}, tuple(form.columns), form.default, True)
    (log,) = logs_at(options.paths, form.inner)
    reading = Reading(form, options.crc, options.record_bytes_max)
    for _ in batches(form, options, batch_parts(log, options, reading)):
        pass


def measure(name: str, size: int, rounds: int, work: Callable[[], None]) -> None:
    best_s = best_cpu_s = float("inf")
    for _ in range(rounds):
        began, before = time.perf_counter(), ticks_below()
        work()
        best_s = min(best_s, time.perf_counter() - began)
        best_cpu_s = min(best_cpu_s, cpu_since(before))
    figures = f"{size / best_s / 1e6:8.0f} MB/s {best_cpu_s / size * 1e9:8.2f} cpu s/GB"
    print(f"{name:24}{figures} {2000 * size / best_cpu_s / 1e9:8.0f} MB/s on two cores", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--bytes", type=bytes_of, default=bytes_of("512MB"))
    parser.add_argument("--records", type=list_of(bytes_of), default=[256, 1024, 16384])
    parser.add_argument("--cases", type=list_of(str), default=[*CASES, "alone"])
    given = parser.parse_args()
    show_versions()
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        spark = open_session(Profile.LOCAL, scratch=Path(scratch))
        register(spark)
        for record_bytes in given.records:
            root = Path(scratch) / f"r{record_bytes}"
            (root / "commitlog").mkdir(parents=True)
            size = make_log(root / "commitlog", given.bytes, record_bytes)
            for case in given.cases:

                def work(case: str = case, root: Path = root) -> None:
                    if case == "alone":
                        read_alone(root)
                    else:
                        read_in_spark(spark, root, CASES[case])

                measure(f"{record_bytes} B, {case}", size, given.rounds, work)
            shutil.rmtree(root)
        spark.stop()


if __name__ == "__main__":
    main()
