"""Appends a second and how long each takes: ours beside a pair of RocketMQ brokers.

    python tests/bench/bench_appends.py                          # ours alone, a few minutes
    python tests/bench/bench_appends.py --java --seconds 5

Two copies, bodies of 256 B. `N tasks`: N callers that each append one record and wait for its
answer; `16 x 32`: 16 callers with batches of 32; `producer`: one task that sends record by record
through an appender. `ours` runs the callers inside the master's process, `ours, client` in a third
process over the API socket, `Java` as threads of RocketMQ's producer in a third process.

`synced`: our master and slave sync before each answer; Java's SYNC_MASTER with SYNC_FLUSH and
inSyncReplicas=2, whose slave answers before it syncs. `written`: nobody syncs before an answer.

`bare` is roundtrip.c: one TCP round trip, the writes and the syncs of one append, in C.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from bench_java import TOPIC, JavaPair
from bench_kit import (
    Figures,
    Node,
    arguments,
    cluster_file,
    compiled,
    list_of,
    settle,
    show_versions,
    workplace,
)
from interop_processes import Processes

RECORD_BYTES = 256
STORED_BYTES = 350
"""What one such record takes in the log."""
ROUND_TRIPS = 3000
SHAPES = {"1": (1, 1), "16": (16, 1), "128": (128, 1), "1024": (1024, 1), "16x32": (16, 32)}
JAVA_SETTINGS = {
    "synced": {"brokerRole": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH"},
    "written": {"brokerRole": "SYNC_MASTER", "flushDiskType": "ASYNC_FLUSH"},
}
Run = Callable[[str], dict[str, float]]


def ours(processes: Processes, folder: Path, host: str, how: str, seconds: float) -> dict[str, Run]:
    """Starts master, slave and client; gives what runs one shape."""
    group = {"durability": f'"{how}"', "copies": 2}
    cluster = cluster_file(folder / f"ours-{how}", host, 1, group)
    master, _ = (Node.start(processes, cluster, name) for name in ("n0", "n1"))
    client = Node.client_of(processes, master)

    def on(where: Node) -> Run:
        def run(shape: str) -> dict[str, float]:
            if shape == "producer":
                found: dict[str, float] = where.ask("producer", seconds=seconds, size=RECORD_BYTES)
            else:
                count, batch = SHAPES[shape]
                found = where.ask(
                    "tasks", count=count, batch=batch, seconds=seconds, size=RECORD_BYTES
                )
            return found

        return run

    return {"ours": on(master), "ours, client": on(client)}


def java(processes: Processes, folder: Path, how: str, seconds: float) -> dict[str, Run]:
    settings = {**JAVA_SETTINGS[how], "totalReplicas": 2, "inSyncReplicas": 2}
    pair = JavaPair.make(processes, folder / f"java-{how}", f"load-{how}")
    pair.master.settings.update(settings)
    pair.start_master()
    pair.start_slave()
    driver = pair.load(folder / f"java-{how}-client")
    driver.run("tasks", TOPIC, 16, 1, 5.0, RECORD_BYTES)  # Java gets faster with time

    def run(shape: str) -> dict[str, float]:
        count, batch = SHAPES[shape]
        (answer,) = driver.run("tasks", TOPIC, count, batch, seconds, RECORD_BYTES)
        return answer

    return {"Java": run}


def bare(program: Path, folder: Path, how: str) -> dict[str, float]:
    words = [str(word) for word in (program, folder, ROUND_TRIPS, STORED_BYTES, how)]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    p50_ms, p99_ms = map(float, done.stdout.split())
    return {"p50_ms": p50_ms, "p99_ms": p99_ms}


def measure(runs: dict[str, Run], shapes: list[str], rounds: int, how: str, bare_cost: Run) -> None:
    for shape in shapes:
        what = "one producer" if shape == "producer" else f"{shape} tasks"
        figures = Figures(f"appends, {how}, {what}", ("k_per_s", "p50_ms", "p99_ms", "refused"))
        for _ in range(rounds):
            for name, run in runs.items():
                if name == "Java" and shape == "producer":
                    continue
                settle()
                figures.add(name, **run(shape))
            if shape == "1":
                figures.add("bare", **bare_cost(how))
        figures.show(
            [
                ("ours", "Java", "k_per_s", "at least 3 at 16, 128 and 16x32"),
                ("ours, client", "Java", "k_per_s", "at least 3 at 16, 128 and 16x32"),
                ("ours", "bare", "p50_ms", "at most 2"),
            ]
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--shapes", type=list_of(str), default=[*SHAPES, "producer"])
    parser.add_argument("--durability", type=list_of(str), default=["synced", "written"])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--java", action="store_true", help="with a pair of RocketMQ brokers")
    given = parser.parse_args()
    show_versions()
    for how in given.durability:
        with workplace(given.folder) as (folder, processes):
            program = compiled("roundtrip", folder)
            runs = ours(processes, folder, given.host, how, given.seconds)
            if given.java:
                runs |= java(processes, folder, how, given.seconds)
            measure(
                runs,
                given.shapes,
                given.rounds,
                how,
                lambda how, folder=folder, program=program: bare(program, folder, how),
            )


if __name__ == "__main__":
    main()
