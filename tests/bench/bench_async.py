"""ASYNC, `copies = 1`: what slaves cost the master, and how far behind they are.

    python tests/bench/bench_async.py                        # a few minutes
    python tests/bench/bench_async.py --seconds 5 --durability written

One producer inside the master's process, bodies of 256 B, with no slave, one, two, and one that was
stopped by SIGSTOP after it had connected. Each has a cluster of its own, which is idle while the
others have their turn. Then, with one slave, the delay from a record's write on the master to its
write on the slave, for a task that appends one by one and for 16 of them.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from bench_kit import (
    NODES,
    Figures,
    Node,
    arguments,
    cluster_file,
    list_of,
    percentiles_ms,
    settle,
    show_versions,
    workplace,
)

RECORD_BYTES = 256
WARM_UP_S = 0.2
CASES = {"no slave": 0, "1 slave": 1, "2 slaves": 2, "1 stopped": 1}
GOAL = "at least 0.9"
Stamps = Sequence[tuple[int, float]]


def rates(title: str, masters: dict[str, Node], rounds: int, seconds: float) -> None:
    figures = Figures(title, ("k_per_s", "p50_ms", "p99_ms"))
    for _ in range(rounds):
        for name, master in masters.items():
            settle()
            figures.add(name, **master.ask("producer", seconds=seconds, size=RECORD_BYTES))
    figures.show([(name, "no slave", "k_per_s", GOAL) for name in list(CASES)[1:]])


def delays_s(written: Stamps, stored: Stamps) -> list[float]:
    """For each write on the master, how much later the slave had it."""
    ends = [end for end, _ in stored]
    found = []
    for end, at_s in written:
        index = bisect.bisect_left(ends, end)
        if index < len(ends):
            found.append(stored[index][1] - at_s)
    return found


def delay(master: Node, slave: Node, tasks: int, seconds: float) -> dict[str, float]:
    for node in (master, slave):
        node.ask("stamp")
    master.ask("tasks", count=tasks, batch=1, seconds=seconds, size=RECORD_BYTES)
    return percentiles_ms(delays_s(master.ask("stamps"), slave.ask("stamps")))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--durability", type=list_of(str), default=["synced", "written"])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    given = parser.parse_args()
    show_versions()
    for how in given.durability:
        with workplace(given.folder) as (folder, processes):
            masters: dict[str, Node] = {}
            slaves: dict[str, list[Node]] = {}
            for number, (name, count) in enumerate(CASES.items()):
                group = {"durability": f'"{how}"', "copies": 1}
                place = folder / str(number)
                cluster = cluster_file(place, given.host, count, group, number=number)
                masters[name], *slaves[name] = (
                    Node.start(processes, cluster, node) for node in NODES[: count + 1]
                )
            for master in masters.values():  # which opens when it has heard its slaves
                master.ask("producer", seconds=WARM_UP_S, size=RECORD_BYTES)
            slaves["1 stopped"][0].process.pause()
            title = f"appends, copies = 1, {how}, one producer"
            rates(title, masters, given.rounds, given.seconds)
            figures = Figures(f"delay to the slave, {how}", ("p50_ms", "p99_ms"))
            for _ in range(given.rounds):
                for tasks in (1, 16):
                    master, (slave,) = masters["1 slave"], slaves["1 slave"]
                    figures.add(f"{tasks} tasks", **delay(master, slave, tasks, given.seconds))
            figures.show()


if __name__ == "__main__":
    main()
