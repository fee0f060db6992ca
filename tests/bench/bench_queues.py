"""What consume queues cost, shown growing with their number.

    python tests/bench/bench_queues.py                          # 100 to 50,000 queues, some minutes
    python tests/bench/bench_queues.py --queues 100,1000

A master without slaves gets one record for each of so many new topics (`per_s`: topics that were
acknowledged in a second; `dispatched_s`: until all can be consumed, from the first append), then
one more for each of the same ones. It stops, starts, is killed under a load, starts, and starts
once more on what a broker that stopped in order leaves (without our own small files); `check` and
`backup` go over it when it has stopped. `turn_ms` is the longest turn of its loop in that time, and
`busy_ms` the most processor time that one took, which says what is ours of it on a busy machine;
`anon_MB` is what the process has allocated.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from bench_kit import (
    Figures,
    Node,
    arguments,
    bytes_of,
    cluster_file,
    list_of,
    settle,
    show_versions,
    workplace,
)
from interop_processes import Processes

BATCH = 500
"""Records of one append, each of another topic."""
TURN_MS_GOAL = 50
PER_S_GOAL = 2000
STOPPED_S_GOAL = 10
KILLED_S_GOAL = 30
OURS = ("dispatched", "synced")
"""Small files of a store that a broker of another make has not."""
COLUMNS = (
    "per_s", "dispatched_s", "ready_s", "stop_s", "tool_s", "turn_ms", "busy_ms", "anon_MB",
)  # fmt: skip


def appended(node: Node, figures: Figures, row: str, count: int, size: int) -> None:
    """A record for each topic, and what that took, as a row."""
    node.ask("turns")
    began_s = time.monotonic()
    found = node.ask("topics", count=count, batch=BATCH, size=size)
    dispatched_s = node.ask("dispatched", end=found["end"]) - began_s
    told(node, figures, row, per_s=found["per_s"], dispatched_s=dispatched_s)


def told(node: Node, figures: Figures, row: str, **found: float) -> None:
    turn_ms, busy_ms = (1e3 * each for each in node.ask("turns"))
    memory_mb = node.memory_mb()["anon_MB"]
    figures.add(row, **found, turn_ms=turn_ms, busy_ms=busy_ms, anon_MB=memory_mb)


def started(processes: Processes, cluster: Path, figures: Figures, row: str) -> Node:
    """A node that has dispatched its log."""
    settle()
    began_s = time.monotonic()
    node = Node.start(processes, cluster, "n0", "--turns")
    ready_s = time.monotonic() - began_s
    end = node.ask("offsets")["written"]
    dispatched_s = node.ask("dispatched", end=end) - began_s
    told(node, figures, row, ready_s=ready_s, dispatched_s=dispatched_s)
    return node


def stopped(node: Node, figures: Figures, row: str) -> None:
    began_s = time.monotonic()
    node.stop()
    turn_ms, busy_ms = (1e3 * each for each in node.answer())
    figures.add(row, stop_s=time.monotonic() - began_s, turn_ms=turn_ms, busy_ms=busy_ms)


def tool(node: Node, figures: Figures, name: str, *words: str) -> None:
    """One of `actors.storage`, over a node that has stopped."""
    folder = node.store.parents[1]
    began_s = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "actors.storage", name, folder, *words],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    figures.add(name, tool_s=time.monotonic() - began_s)


def measure(given: argparse.Namespace, count: int) -> None:
    figures = Figures(f"{count} queues, {given.durability}", COLUMNS)
    group = {"durability": f'"{given.durability}"', "copies": 1}
    with workplace(given.folder) as (folder, processes):
        cluster = cluster_file(folder, given.host, 0, group)
        node = started(processes, cluster, figures, "an empty store")
        appended(node, figures, "new topics", count, given.size)
        appended(node, figures, "known topics", count, given.size)
        stopped(node, figures, "stop")
        node = started(processes, cluster, figures, "start after a stop")
        node.ask("topics", count=count, batch=BATCH, size=given.size)
        node.kill()
        node = started(processes, cluster, figures, "start after a kill")
        stopped(node, figures, "stop")
        tool(node, figures, "check")
        tool(node, figures, "backup", str(folder / "copy"))
        for name in OURS:
            (node.store / name).unlink()
        started(processes, cluster, figures, "start on a broker's store").stop()
    turn, ends = f"below {TURN_MS_GOAL}", "dispatched_s"
    figures.show(
        floors=[
            ("new topics", "per_s", f"at least {PER_S_GOAL}"),
            ("start after a stop", ends, f"below {STOPPED_S_GOAL}"),
            ("start after a kill", ends, f"below {KILLED_S_GOAL}"),
            *((row, "turn_ms", turn) for row in figures.rows),
        ]
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--queues", type=list_of(int), default=[100, 1000, 10_000, 50_000])
    parser.add_argument("--size", type=bytes_of, default=100, help="of each record's body")
    parser.add_argument("--durability", default="synced")
    given = parser.parse_args()
    show_versions()
    for count in given.queues:
        measure(given, count)


if __name__ == "__main__":
    main()
