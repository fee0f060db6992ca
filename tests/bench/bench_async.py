"""ASYNC, `copies = 1`: what slaves cost the master, and how far behind they are.

    python tests/bench/bench_async.py                        # some ten minutes
    python tests/bench/bench_async.py --seconds 5 --durability written

One producer inside the master's process, bodies of 256 B, with no slave, one, two and four; with
one that was stopped by SIGSTOP after it had connected, one that runs a tenth of the time, and one
that begins with nothing and copies an old log meanwhile. Each has a cluster of its own, which is
idle while the others have their turn. `cpu_us` is the processor time that the master's process
spends for one append, `kernel_us` what of that is sending and writing: where the rate falls and
that does not rise, it waits for a core that a slave has. Then, with one slave, the delay from a
record's write on the master to its write on the slave, for a task that appends one by one and for
16 of them.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from bench_kit import (
    NODES,
    Figures,
    Node,
    arguments,
    bytes_of,
    cluster_file,
    list_of,
    make_log,
    percentiles_ms,
    settle,
    show_versions,
    workplace,
)
from interop_processes import Process, Processes, wait_for

RECORD_BYTES = 256
WARM_UP_S = 0.2
OLD_RECORD_BYTES = 16 << 10
CASES = {
    "no slave": 0,
    "1 slave": 1,
    "2 slaves": 2,
    "4 slaves": 4,
    "1 stopped": 1,
    "1 slow": 1,
    "1 from zero": 1,
}
RUNS_S, STOPS_S = 0.02, 0.18
"""In turns, of a slow slave."""
BEGIN_TIMEOUT_S = 60.0
GOAL = "at least 0.8"
Stamps = Sequence[tuple[int, float]]


@contextlib.contextmanager
def slowed(process: Process) -> Iterator[None]:
    """Inside the block it runs a tenth of the time."""
    over = threading.Event()

    def alternate() -> None:
        while not over.is_set():
            process.pause()
            over.wait(STOPS_S)
            process.resume()
            over.wait(RUNS_S)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@attrs.define
class Places:
    """Every case with its cluster, whose nodes run."""

    processes: Processes
    masters: dict[str, Node] = attrs.field(factory=dict)
    slaves: dict[str, list[Node]] = attrs.field(factory=dict)

    def add(self, name: str, cluster: Path, old_bytes: int) -> None:
        nodes = NODES[: CASES[name] + 1]
        if name == "1 from zero":
            master = Node.start(self.processes, cluster, nodes[0])
            master.kill()
            shutil.rmtree(master.store)
            make_log(master.store / "commitlog", old_bytes, OLD_RECORD_BYTES)
        found = [Node.start(self.processes, cluster, node) for node in nodes]
        self.masters[name], *self.slaves[name] = found

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """In the block the case is what its name says."""
        if name == "1 slow":
            with slowed(self.slaves[name][0].process):
                yield
        elif name == "1 from zero":
            with self.emptied(name):
                yield
        else:
            yield

    @contextlib.contextmanager
    def emptied(self, name: str) -> Iterator[None]:
        """The slave has nothing, and has just begun to copy."""
        (slave,) = self.slaves[name]
        slave.kill()
        shutil.rmtree(slave.store.parents[1])
        slave = Node.start(self.processes, slave.cluster, slave.name)
        self.slaves[name] = [slave]
        log = slave.store / "commitlog"
        wait_for(
            lambda: log.is_dir() and any(log.iterdir()), "it begins", timeout_s=BEGIN_TIMEOUT_S
        )
        slave.process.pause()
        settle()
        slave.process.resume()
        yield
        left = self.masters[name].ask("offsets")["written"] - slave.ask("offsets")["written"]
        print(f"    {name}: {left / 1e6:.0f} MB are left to copy", flush=True)


def rates(title: str, places: Places, given: argparse.Namespace) -> None:
    figures = Figures(title, ("k_per_s", "p50_ms", "p99_ms", "cpu_us", "kernel_us"))
    for _ in range(given.rounds):
        for name, master in places.masters.items():
            settle()
            with places.turn(name):
                figures.add(
                    name, **master.ask("producer", seconds=given.seconds, size=RECORD_BYTES)
                )
    others = list(CASES)[1:]
    figures.show(
        [(name, "no slave", "k_per_s", GOAL) for name in others]
        + [(name, "no slave", "cpu_us", "") for name in others]
    )


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
    parser.add_argument(
        "--old-bytes", type=bytes_of, default=3_000_000_000, help="what is copied from zero"
    )
    given = parser.parse_args()
    show_versions()
    for how in given.durability:
        with workplace(given.folder) as (folder, processes):
            places = Places(processes)
            for number, (name, count) in enumerate(CASES.items()):
                group = {"durability": f'"{how}"', "copies": 1}
                place = folder / str(number)
                cluster = cluster_file(place, given.host, count, group, number=number)
                places.add(name, cluster, given.old_bytes)
            for master in places.masters.values():  # which opens when it has heard its slaves
                master.ask("producer", seconds=WARM_UP_S, size=RECORD_BYTES)
            places.slaves["1 stopped"][0].process.pause()
            rates(f"appends, copies = 1, {how}, one producer", places, given)
            figures = Figures(f"delay to the slave, {how}", ("p50_ms", "p99_ms"))
            for _ in range(given.rounds):
                for tasks in (1, 16):
                    master, (slave,) = places.masters["1 slave"], places.slaves["1 slave"]
                    figures.add(f"{tasks} tasks", **delay(master, slave, tasks, given.seconds))
            figures.show()


if __name__ == "__main__":
    main()
