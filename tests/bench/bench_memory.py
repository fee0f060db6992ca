"""Memory and start-up time with a long log.

    python tests/bench/bench_memory.py                       # 1 GB, a minute
    python tests/bench/bench_memory.py --bytes 10GB --records 1KiB

The master starts on a log of valid records (ready_s; dispatched_s is when its derived files reach
the log's end, which they do not at the first start), then a slave starts with nothing and copies
it. `anon` is what a process has allocated, `pss` and `rss` count pages of files that it maps too;
each is the highest of what was seen every 20 ms. The second start of the master finds all derived.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench_kit import (
    Figures,
    Node,
    arguments,
    bytes_of,
    cluster_file,
    list_of,
    master_with_log,
    show_versions,
    workplace,
)
from interop_processes import Processes

LOOK_S = 0.02
GOAL_MB = 150


@contextmanager
def highest(node: Node) -> Iterator[dict[str, float]]:
    """The highest of each of `memory_mb` within the block."""
    found = node.memory_mb()
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            for name, value in node.memory_mb().items():
                found[name] = max(found[name], value)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def start(
    processes: Processes, cluster: Path, name: str, end: int, figures: Figures, row: str
) -> Node:
    """A node that has dispatched its log up to `end`; how it got there is a row of `figures`."""
    began_s = time.monotonic()
    node = Node.start(processes, cluster, name)
    ready_s = time.monotonic() - began_s
    with highest(node) as found:
        dispatched_s = node.ask("dispatched", end=end) - began_s
    figures.add(row, ready_s=ready_s, dispatched_s=dispatched_s, **found)
    return node


def measure(given: argparse.Namespace, size: int, record: int) -> None:
    title = f"{size / 1e6:.0f} MB of records of {record} B, {given.durability}"
    figures = Figures(title, ("ready_s", "dispatched_s", "anon_MB", "pss_MB", "rss_MB"))
    with workplace(given.folder) as (folder, processes):
        _, end = master_with_log(folder, processes, given.host, size, record)
        group = {"durability": f'"{given.durability}"', "copies": 1}
        begin = partial(start, processes, cluster_file(folder, given.host, 1, group))
        begin("n0", end, figures, "master, first start").kill()
        begin("n0", end, figures, "master, after a kill").stop()
        master = begin("n0", end, figures, "master, after a stop")
        with highest(master) as found:
            begin("n1", end, figures, "slave that copies all")
        figures.add("master that sends all", **found)
    figures.show()
    print(f"wanted: anon_MB below {GOAL_MB}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--bytes", type=list_of(bytes_of), default=[1_000_000_000])
    parser.add_argument("--records", type=list_of(bytes_of), default=[1024])
    parser.add_argument("--durability", default="synced")
    given = parser.parse_args()
    show_versions()
    for size in given.bytes:
        for record in given.records:
            measure(given, size, record)


if __name__ == "__main__":
    main()
